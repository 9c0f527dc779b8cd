"""Whether the methods of a scheduler inside a program do what they document."""

from __future__ import annotations

import asyncio
import logging
import pydoc
import threading
from collections import defaultdict
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from evertick import (
    Conflict,
    DefinitionError,
    InvalidArgument,
    NotFound,
    RunContext,
    Schedule,
    Scheduler,
    SchedulerLockError,
    SettingsError,
)
from evertick.dispatch.facts import Answered
from evertick.library import async_operations
from evertick.library.events import CommitNews
from evertick.library.ledger import Ledger
from tests.library.programs import LIMIT_SECONDS, eventually, run

NIGHT = "30 2 * * *"


@pytest.fixture
def scheduler(tmp_path):
    return Scheduler(store=f"sqlite:///{tmp_path}/ledger.db")


# --- life


def test_a_scheduler_runs_between_start_and_stop_and_reports_its_status(scheduler):
    said = []
    scheduler.on("scheduler:status", lambda event: said.append(event.status))

    async def main():
        assert (scheduler.is_running, scheduler.status) == (False, "stopped")
        await scheduler.start()
        assert (scheduler.is_running, scheduler.status) == (True, "running")
        with pytest.raises(Conflict, match="already started"):
            await scheduler.start()
        await scheduler.stop()
        await scheduler.stop()
        assert not scheduler.is_running
        await scheduler.start()
        await scheduler.stop()

    run(main)
    assert said == ["starting", "running", "stopping", "stopped"] * 2


def test_defining_one_opens_nothing_and_starts_no_thread(tmp_path):
    before = set(threading.enumerate())
    scheduler = Scheduler(tmp_path / "jobs", store=f"sqlite:///{tmp_path}/ledger.db")
    scheduler.job(cron=NIGHT)(print_nothing)
    assert set(threading.enumerate()) == before
    assert list(tmp_path.iterdir()) == []


def test_a_second_one_on_the_same_ledger_is_locked_out(tmp_path):
    async def main():
        first, second = (Scheduler(store=f"sqlite:///{tmp_path}/ledger.db") for _ in range(2))
        async with first:
            with pytest.raises(SchedulerLockError, match="is held by process"):
                await second.start()
            assert not second.is_running
        async with second:
            assert second.is_running

    run(main)


def test_a_scheduler_that_is_locked_out_has_not_opened_the_ledger(tmp_path, monkeypatch):
    """A child of the process that has it must not use SQLite: a fork may have copied a mutex that is held."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    first, second = Scheduler(store=url), Scheduler(store=url)
    opened: list[str] = []
    first.start_in_background()
    try:
        monkeypatch.setattr("evertick.library.scheduler.open_store", opened.append)
        with pytest.raises(SchedulerLockError):
            second.start_in_background()
        assert opened == []
    finally:
        monkeypatch.undo()
        first.stop_in_background()


def test_concurrent_starts_count_once_and_so_do_stops(scheduler):
    async def main():
        begun = await asyncio.gather(*(scheduler.start() for _ in range(4)), return_exceptions=True)
        assert sorted(type(one).__name__ for one in begun) == ["Conflict", "Conflict", "Conflict", "NoneType"]
        assert scheduler.is_running
        assert await asyncio.gather(*(scheduler.stop() for _ in range(4))) == [None] * 4

    run(main)


@pytest.mark.parametrize("leaving", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_function_that_wants_to_leave_fails_and_the_program_stays(scheduler, leaving):
    @scheduler.job()
    def in_a_thread() -> None:
        raise leaving

    @scheduler.job()
    async def on_the_loop() -> None:
        raise leaving

    async def main():
        async with scheduler:
            for job in ("in-a-thread", "on-the-loop"):
                ended = await scheduler.trigger_now(job)
                assert (ended.state, type(leaving).__name__ in ended.detail) == ("failed", True)

    run(main)


def test_a_standby_takes_over_when_the_owner_stops(tmp_path):
    async def main():
        url = f"sqlite:///{tmp_path}/ledger.db"
        first, second = Scheduler(store=url), Scheduler(store=url, standby=True)
        for one in (first, second):
            one.job()(print_nothing)
        async with first, second:
            assert (second.is_running, second.status) == (False, "standby")
            assert (await second.trigger_now("print-nothing")).is_success  # the owner carries it out
            await first.stop()
            await eventually(lambda: second.is_running, "the standby to take over")
            assert (await second.trigger_now("print-nothing")).is_success

    run(main)


def test_a_start_that_fails_leaves_nothing_behind(tmp_path):
    async def main():
        (tmp_path / "ledger.db").write_bytes(b"this is no database, whatever its name says" * 100)
        scheduler = Scheduler(store=f"sqlite:///{tmp_path}/ledger.db")
        for _ in range(2):  # the second time is not locked out by the first
            with pytest.raises(Exception, match="ledger"):
                await scheduler.start()
        assert not (tmp_path / "ledger.db.lock").exists()

    run(main)


def test_a_store_that_is_not_a_url_and_a_missing_folder_are_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"sqlite:///evertick\.db"):
        Scheduler(store="evertick.db")

    async def main():
        with pytest.raises(NotFound, match="cannot be read"):
            await Scheduler(tmp_path / "nowhere").start()

    run(main)


def test_a_ledger_in_memory_is_announced_loudly_and_kept_while_the_program_lives(caplog):
    scheduler = Scheduler()
    scheduler.job()(print_nothing)

    async def main():
        async with scheduler:
            ended = await scheduler.trigger_now("print-nothing")
        async with scheduler:
            assert (await scheduler.get_run(ended.run)).is_success

    with caplog.at_level(logging.WARNING, "evertick.library"):
        run(main)
    assert "each run every job" in caplog.text


def test_without_an_event_loop_it_works_in_the_background(tmp_path):
    ran = threading.Event()
    with Scheduler(store=f"sqlite:///{tmp_path}/ledger.db") as scheduler:

        @scheduler.job(every="200ms")
        async def tick():
            await asyncio.sleep(0)
            ran.set()

        assert scheduler.is_running
        assert ran.wait(LIMIT_SECONDS)
    assert not scheduler.is_running


# --- jobs


def print_nothing() -> None:
    """Nothing at all.

    And not more.
    """


def test_a_function_stays_what_it_is_and_becomes_a_job(scheduler):
    decorated = scheduler.job(cron=NIGHT, timezone="Europe/Berlin", name="Nightly report", tags=["a"])(print_nothing)
    assert decorated is print_nothing

    async def main():
        async with scheduler:
            (found,) = await scheduler.list_schedules()
            again = await scheduler.get_schedule("nightly-report")
            assert again is not None
            for one in fields(Schedule):
                assert one.name == "watermark" or getattr(again, one.name) == getattr(found, one.name)
            assert await scheduler.get_schedule("nightly-repart") is None
        return found

    found = run(main)
    assert (found.job, found.name, found.description, found.tags) == (
        "nightly-report",
        "Nightly report",
        "Nothing at all.",
        ("a",),
    )
    assert (found.status, found.timezone, found.schedules) == ("idle", "Europe/Berlin", (f"{NIGHT} (Europe/Berlin)",))
    assert found.file.startswith(__file__)
    assert found.next_at > datetime.now(UTC)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"cron": "61 * * * *"}, "minute", id="a cron expression that cannot be"),
        pytest.param({"every": "soon"}, "is not a duration", id="an interval that is none"),
        pytest.param({"at": "tomorrow"}, "is not a date and time", id="a time that is none"),
        pytest.param({"cron": NIGHT, "timezone": "Europe/Berln"}, "Europe/Berlin", id="a zone that is almost one"),
        pytest.param({"overlap": "sometimes"}, "overlap", id="an overlap rule that is none"),
        pytest.param({"retries": -1}, "maxRetries", id="less than no retries"),
        pytest.param({"misfire": "DO_NOTHING", "catchup_window": "1d"}, "window", id="two rules that contradict"),
        pytest.param({"name": "+++"}, "gives no job id", id="a name without a letter"),
    ],
)
def test_what_a_job_file_refuses_is_refused_with_its_place_in_the_code(scheduler, options, words):
    with pytest.raises(DefinitionError, match=words) as told:
        scheduler.job(**options)(print_nothing)
    assert told.value.file == __file__
    assert told.value.line == print_nothing.__code__.co_firstlineno


def test_a_parameter_that_must_be_given_and_a_schedule_do_not_go_together(scheduler):
    def export(region: str) -> None: ...

    with pytest.raises(DefinitionError, match="the schedule does not set the parameter 'region'"):
        scheduler.job(every="1h")(export)
    scheduler.job()(export)


def test_two_functions_of_one_id_are_refused(scheduler):
    scheduler.job()(print_nothing)
    with pytest.raises(DefinitionError, match="'print-nothing' is defined in"):
        scheduler.job(name="print-nothing")(lambda: None)


def test_a_function_and_a_file_of_one_id_are_refused(tmp_path):
    (tmp_path / "report.yaml").write_text("command: 'true'\n")
    scheduler = Scheduler(tmp_path)
    scheduler.job(name="report")(print_nothing)

    async def main():
        with pytest.raises(DefinitionError, match=r"report\.yaml"):
            await scheduler.start()

    run(main)


class Mailer:
    """Sends what it was made with."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, to: str = "ops", times: int = 1) -> str:
        return f"{to}: {self.text * times}"


class AsyncMailer:
    def __init__(self, text: str) -> None:
        self.text = text

    async def __call__(self, context: RunContext) -> str:
        return f"{context.job_id}: {self.text}"


def mail(text: str, to: str = "nobody", times: int = 1) -> str:
    return f"{to}: {text * times}"


async def mail_later(context: RunContext, text: str) -> str:
    return f"{context.job_id}: {text}"


@pytest.mark.parametrize(
    ("call", "job", "params", "said"),
    [
        pytest.param(partial(mail, "hi"), "mail", {}, "nobody: hi", id="a partial"),
        pytest.param(partial(mail, "hi", to="ops"), "mail", {"times": 2}, "ops: hihi", id="a partial with keywords"),
        pytest.param(partial(partial(mail, "hi"), to="a"), "mail", {"to": "b"}, "b: hi", id="a partial of one"),
        pytest.param(partial(mail_later, text="hi"), "mail-later", {}, "mail-later: hi", id="a partial of a coroutine"),
        pytest.param(Mailer("hi"), "mailer", {"times": 2}, "ops: hihi", id="an object"),
        pytest.param(AsyncMailer("hi"), "asyncmailer", {}, "asyncmailer: hi", id="an object with an async call"),
        pytest.param(Mailer("hi").__call__, "call", {}, "ops: hi", id="a bound method"),
    ],
)
def test_whatever_can_be_called_can_be_a_job(scheduler, call, job, params, said):
    scheduler.job()(call)
    scheduler.job()(call)  # a module that is read again says it again

    async def main():
        async with scheduler:
            ended = await scheduler.trigger_now(job, params)
            assert (ended.state, ended.detail) == ("succeeded", said)

    run(main)


@pytest.mark.parametrize("call", [partial(Mailer("hi")), Mailer("hi")], ids=["a partial", "an object"])
def test_what_no_other_process_can_find_is_refused_there(scheduler, call):
    with pytest.raises(DefinitionError, match="cannot be found from another process"):
        scheduler.job(isolation="process")(call)


def test_two_partials_of_one_function_need_names(scheduler):
    scheduler.job()(partial(mail, "hi"))
    with pytest.raises(DefinitionError, match="'mail' is defined in"):
        scheduler.job()(partial(mail, "ho"))
    scheduler.job(name="ho")(partial(mail, "ho"))


def test_a_builtin_that_does_not_tell_its_parameters_is_refused(scheduler):
    with pytest.raises(DefinitionError, match="cannot be read"):
        scheduler.job()(dict)


def test_a_job_may_be_defined_while_it_runs(scheduler):
    async def main():
        async with scheduler:
            stream = scheduler.events("schedule:changed")
            scheduler.job(every="1h")(print_nothing)
            event = await anext(stream)
            assert (event.job, event.change) == ("print-nothing", "added")
            assert [fire.job for fire in await scheduler.get_upcoming(1)] == ["print-nothing"]

    run(main)


def test_triggering_answers_how_the_run_ended(scheduler):
    @scheduler.job()
    def add(one: int, other: int = 2) -> int:
        return one + other

    @scheduler.job()
    async def fail(context: RunContext) -> None:
        raise OSError(f"attempt {context.attempt}")

    async def main():
        async with scheduler:
            added = await scheduler.trigger_now("add", {"one": 40})
            assert (added.state, added.detail, added.trigger, added.is_success) == ("succeeded", "42", "manual", True)
            failed = await scheduler.trigger_now("fail")
            assert failed.state == "failed"
            assert failed.detail.startswith("OSError: attempt 1 (")
            with pytest.raises(NotFound, match="Did you mean 'add'"):
                await scheduler.trigger_now("ad")
            with pytest.raises(InvalidArgument, match="not a whole number"):
                await scheduler.trigger_now("add", {"one": "many"})
            with pytest.raises(InvalidArgument, match="has no default"):
                await scheduler.trigger_now("add")

    run(main)


def test_a_run_continues_when_its_caller_stops_waiting(scheduler):
    may_end = threading.Event()

    @scheduler.job(overlap="parallel(2)")
    def long() -> None:
        assert may_end.wait(LIMIT_SECONDS)

    async def main():
        async with scheduler:
            asked = await scheduler.trigger_now("long", wait=False)
            assert asked.state == "planned"
            with pytest.raises(TimeoutError, match="It continues"):
                await scheduler.trigger_now("long", timeout=0.0)
            may_end.set()
            await eventually(lambda: ended(asked.run), "the run to end")

    async def ended(run_id):
        found = await scheduler.get_history("long", states=["succeeded"])
        return [one for one in found if one.run == run_id]

    run(main)


def test_a_call_that_waits_for_a_pause_is_woken_by_its_answer(scheduler, monkeypatch):
    for pause in ("POLL_FIRST_SECONDS", "POLL_MAX_SECONDS"):
        monkeypatch.setattr(async_operations, pause, 10 * LIMIT_SECONDS)
    has_looked: defaultdict[str, threading.Event] = defaultdict(threading.Event)
    look, tell = Ledger.answer, CommitNews.publish

    def looked(ledger, request):
        if has_looked[request].is_set():
            return look(ledger, request)
        has_looked[request].set()  # the first look finds nothing, so the call waits
        return None

    def told(news, fact):
        for request in fact.requests if isinstance(fact, Answered) else ():
            assert has_looked[request].wait(LIMIT_SECONDS)
        tell(news, fact)

    monkeypatch.setattr(Ledger, "answer", looked)
    monkeypatch.setattr(CommitNews, "publish", told)

    @scheduler.job()
    def work() -> None: ...

    async def main():
        async with scheduler:
            await asyncio.wait_for(scheduler.pause("work"), LIMIT_SECONDS)
            await asyncio.wait_for(scheduler.resume("work"), LIMIT_SECONDS)

    run(main)


def test_a_call_that_waits_for_a_run_is_woken_by_its_end(scheduler, monkeypatch):
    for pause in ("POLL_FIRST_SECONDS", "POLL_MAX_SECONDS"):
        monkeypatch.setattr(async_operations, pause, 10 * LIMIT_SECONDS)
    may_end = threading.Event()
    look = Ledger.ended_run

    def looked(ledger, run_id):
        found = look(ledger, run_id)
        may_end.set()  # only now: the first look must find nothing
        return found

    monkeypatch.setattr(Ledger, "ended_run", looked)

    @scheduler.job()
    def work() -> None:
        assert may_end.wait(LIMIT_SECONDS)

    async def main():
        async with scheduler:
            ended = await asyncio.wait_for(scheduler.trigger_now("work"), LIMIT_SECONDS)
            assert ended.state == "succeeded"

    run(main)


def test_a_run_is_cancelled_by_its_id_and_all_of_a_job_by_its_name(scheduler):
    @scheduler.job(overlap="parallel(3)")
    async def forever() -> None:
        await asyncio.sleep(600)

    async def main():
        async with scheduler:
            asked = [await scheduler.trigger_now("forever", wait=False) for _ in range(3)]

            async def all_run():
                running = await scheduler.get_history("forever", states=["running"])
                return len(running) == (await scheduler.get_schedule("forever")).active == 3

            await eventually(all_run, "three runs")
            assert await scheduler.cancel(asked[1].run) == [asked[1].run]
            assert sorted(await scheduler.cancel("forever")) == sorted([asked[0].run, asked[2].run])
            assert {(await scheduler.get_run(one.run)).state for one in asked} == {"cancelled"}

    run(main)


def test_a_request_without_a_scheduler_is_refused_unless_it_may_wait_in_the_ledger(scheduler):
    scheduler.job()(print_nothing)

    async def main():
        for asking in (scheduler.trigger_now("print-nothing"), scheduler.pause("print-nothing")):
            with pytest.raises(Conflict, match="no scheduler is running"):
                await asking
        asked = await scheduler.trigger_now("print-nothing", wait=False)
        async with scheduler:
            await eventually(lambda: ended(asked.run), "the run that was asked for before")

    async def ended(run_id):
        return [one for one in await scheduler.get_history("print-nothing") if one.run == run_id and one.is_success]

    run(main)


def test_a_paused_job_is_not_planned_until_it_is_resumed(scheduler):
    scheduler.job(every="1h")(print_nothing)

    async def main():
        async with scheduler:
            await scheduler.pause("print-nothing", "the disk is full")
            found = await scheduler.get_schedule("print-nothing")
            assert (found.status, found.pause_note, found.next_at) == ("paused", "the disk is full", None)
            assert await scheduler.get_upcoming(1) == []
            await scheduler.resume("print-nothing", catchup="none")
            assert (await scheduler.get_schedule("print-nothing")).status == "idle"

    run(main)


def test_a_stretch_of_the_past_is_run_and_explained(scheduler):
    scheduler.job(cron=NIGHT, timezone="UTC")(print_nothing)
    start = datetime(2026, 3, 1, tzinfo=UTC)

    async def main():
        async with scheduler:
            preview = await scheduler.backfill("print-nothing", start, start + timedelta(days=3), preview=True)
            assert (preview.request, preview.chosen, preview.total, preview.run_ids) == (None, 3, 3, ())
            made = await scheduler.backfill("print-nothing", start, start + timedelta(days=3), wait=True)
            runs = [await scheduler.get_run(run) for run in made.run_ids]
            assert [(one.state, one.trigger, one.is_success) for one in runs] == [("succeeded", "backfill", True)] * 3
            again = await scheduler.backfill("print-nothing", start, start + timedelta(days=3))
            assert (again.request, again.chosen, again.total) == (None, 0, 3)
            answer = await scheduler.why("print-nothing", runs[0].scheduled_for)
            assert (answer.outcome, answer.run.trigger) == ("succeeded", "backfill")
            assert str(answer).startswith("print-nothing  2026-03-01 02:30 UTC   succeeded")

    run(main)


def test_the_ledger_holds_every_occurrence_and_the_history_shows_them(scheduler):
    scheduler.job(every="200ms")(print_nothing)

    async def main():
        async with scheduler:
            await eventually(lambda: enough(), "five runs")
        report = await scheduler.verify()
        assert report.is_sound
        assert report.runs >= 5

    async def enough():
        found = await scheduler.get_history("print-nothing", states=["succeeded"], triggers=["scheduler"])
        assert found == sorted(found, key=lambda one: one.scheduled_for, reverse=True)
        return len(found) >= 5

    run(main)


def test_jobs_of_files_and_of_code_are_run_by_one_scheduler(tmp_path):
    (tmp_path / "hello.yaml").write_text("command: echo hello\n")
    (tmp_path / "broken.yaml").write_text("comand: echo hello\n")
    scheduler = Scheduler(tmp_path)
    scheduler.job()(print_nothing)

    async def main():
        async with scheduler:
            assert [one.job for one in await scheduler.list_schedules()] == ["hello", "print-nothing"]
            assert (await scheduler.trigger_now("hello")).exit_code == 0
            assert (await scheduler.trigger_now("print-nothing")).is_success
            (tmp_path / "print-nothing.yaml").write_text("command: 'false'\n")
            (tmp_path / "later.yaml").write_text("command: 'true'\n")
            await eventually(lambda: scheduler.get_schedule("later"), "the new file to be seen")
            assert (await scheduler.trigger_now("print-nothing")).is_success  # the code's, not the file's

    run(main)


def test_the_decorator_is_in_the_help_of_the_class():
    told = pydoc.render_doc(Scheduler, renderer=pydoc.plaintext)  # type: ignore[attr-defined]  # typeshed leaves it out
    assert "job(self, *, cron" in told
    assert "Make a function a job" in told
