"""Every operation of `evertick.Client`, against a real served scheduler."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from evertick import AccessDenied, Client, Conflict, InvalidArgument, NotFound
from evertick.model.lifecycle import JobStatus, RunState, Trigger
from evertick.model.policy import Missed
from evertick.operations.protocol import Operations, RunQuery
from evertick.operations.results.bulk import BulkAction
from evertick.operations.results.requests import RequestAnswer
from tests.cli.serving import Scheduler

pytestmark = pytest.mark.slow

_: type[Operations] = Client

FILES = {
    "build.yaml": (
        "description: Two steps\ntags: [nightly]\nschedule: '0 3 * * *'\ntimezone: Europe/Berlin\n"
        "steps:\n  - {name: one, command: echo 'first ä'}\n  - {name: two, command: exit 3, depends: [one]}\n"
    ),
    "echo.yaml": "params: {WORD: {default: hello, enum: [hello, hi]}}\ncommand: echo $WORD\n",
    "hourly.yaml": "schedule: '0 * * * *'\ncatchupWindow: 6h\noverlapPolicy: all\ncommand: 'true'\n",
    "sleeper.yaml": "command: exec sleep 600\n",
}
TOMORROW = datetime.now(UTC) + timedelta(days=1)
LONG_AGO = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 2, tzinfo=UTC))
WAIT = 30.0


class Served:
    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.url = scheduler.server_url
        self.token_file = scheduler.folder / ".evertick" / "token"
        self.client = Client(self.url, token_file=self.token_file)
        self.failed = self.run_of("build")
        self.good = self.run_of("echo")

    def run_of(self, job: str) -> str:
        run = self.client.trigger(job, wait_seconds=WAIT).run
        assert run is not None
        self.scheduler.wait_until(lambda: self.client.run(run).finished_at is not None)
        return run


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("jobs")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    scheduler = Scheduler(folder, has_server=True)
    try:
        found = Served(scheduler)
        yield found
        found.client.close()
    finally:
        scheduler.stop()


@pytest.fixture
def client(served) -> Client:
    found: Client = served.client
    return found


def test_the_client_has_every_operation_with_the_same_parameters():
    verbs = [name for name in vars(Operations) if not name.startswith("_")]
    assert len(verbs) > 30
    for verb in verbs:
        wanted = inspect.signature(getattr(Operations, verb)).parameters
        found = inspect.signature(getattr(Client, verb)).parameters
        assert [(one.name, one.kind, one.annotation) for one in found.values()] == [
            (one.name, one.kind, one.annotation) for one in wanted.values()
        ], verb


def test_jobs(client):
    page = client.list_jobs(limit=3)
    assert ([job.job for job in page.items], page.total) == (["build", "echo", "hourly"], 4)
    assert [job.job for job in client.list_jobs(limit=3, after=page.next).items] == ["sleeper"]
    (found,) = client.list_jobs("two", ["nightly"], [JobStatus.ERROR], with_gone=True, recent=5).items
    assert (found.status, [point.state for point in found.recent or ()]) == (JobStatus.ERROR, [RunState.FAILED])
    job = client.job("build")
    assert (job.timezone, job.next_at is not None and job.next_at.tzinfo) == ("Europe/Berlin", UTC)
    assert job.definition is not None
    assert [step.name for step in job.definition.steps] == ["one", "two"]
    assert ("missed", "all") in [(rule.name, rule.value) for rule in client.explain("hourly")]
    assert [node.id for node in client.graph("build").nodes] == ["one", "two"]
    assert [point.state for point in client.durations("build", 5).items] == [RunState.FAILED]
    assert client.catchup("hourly", Missed.LATEST).kept == 0


def test_runs(served, client):
    query = RunQuery("build", states=[RunState.FAILED], triggers=[Trigger.MANUAL], since=LONG_AGO[0], until=TOMORROW)
    assert [run.run for run in client.list_runs(query, limit=1).items] == [served.failed]
    assert [run.run for run in client.list_runs(after=served.good, limit=1).items] == [served.failed]
    run = client.run(served.failed)
    assert (run.state, run.exit_code, [step.state for step in run.steps]) == (
        RunState.FAILED,
        3,
        ["succeeded", "failed"],
    )
    assert client.run_definition(served.failed, 1).is_current
    assert client.gaps("build", since=LONG_AGO[0], until=TOMORROW).items == ()
    assert client.why(served.failed).outcome == "failed"
    assert client.why("build").job == "build"
    assert client.why("build", LONG_AGO[0]).outcome in ("unknown", "no occurrence")


def test_logs(served, client):
    assert [(log.attempt, log.step) for log in client.list_logs(served.failed)] == [(1, "one")]
    assert client.read_log(served.failed, 1, "one", lines=True).text == "first ä\n"
    data, offset, is_complete = client.log_bytes(served.failed, 1, "one", 0, 6)
    assert (data, offset, is_complete) == (b"first ", 6, False)
    assert client.log_bytes(served.failed, 1, "one", offset) == ("ä\n".encode(), 9, False)
    assert client.log_bytes(served.failed, 1, "one", 9) == (b"", 9, True)
    assert [hit.line for hit in client.search_log(served.failed, 1, "one", "FIRST").items] == [1]
    assert [time.offset for time in client.log_times(served.failed, 1, "one")] == [0]
    assert client.log_bytes(served.failed, 1, "*").data.decode().split("\t")[1:] == ["one", "first ä\n"]


def test_many_at_once(client):
    found = client.bulk(BulkAction.PAUSE, ["build", "echo", "nobody"], preview=True)
    assert [(item.job, item.obstacle) for item in found.items] == [
        ("build", None),
        ("echo", None),
        ("nobody", "unknown"),
    ]


def test_time(client):
    assert client.overview().jobs.total == 4
    assert [item.kind for item in client.attention().items] == ["failing"]
    start = datetime.now(UTC) - timedelta(hours=1)
    lanes = client.timeline(start, TOMORROW, limit=2, search="u", tags=["nightly"], statuses=[JobStatus.ERROR]).lanes
    assert [lane.job for lane in lanes] == ["build"]
    assert {fire.job for fire in client.upcoming(5, TOMORROW).items} <= {"build", "hourly"}
    assert sorted(fire.job for fire in client.upcoming(5, once=True).items) == ["build", "hourly"]
    assert len(client.job_upcoming("build", 2).items) == 2
    assert {fire.job for fire in client.plan(TOMORROW, ["hourly"], 3).items} == {"hourly"}
    assert sum(minute.count for minute in client.load(TOMORROW).minutes) >= 24
    assert len(client.cron("0 9 * * MON", "Europe/Berlin", 3, LONG_AGO[0], "x").next) == 3
    assert client.calendar(start=date(2026, 3, 1), end=date(2026, 3, 2)).job is None
    assert client.calendar("build", zone="UTC").job == "build"


def test_blackouts(client):
    reason = "Database upgrade"
    preview = client.add_blackout("tomorrow", "+3d", ["hourly"], ["nightly"], reason=reason, preview=True)
    assert preview.is_preview
    assert {one.job for one in preview.affected} == {"build", "hourly"}
    assert client.blackouts().items == ()
    added = client.add_blackout(TOMORROW, TOMORROW + timedelta(hours=2), ["hourly"], reason=reason, request_id="dark-1")
    again = client.add_blackout(TOMORROW, TOMORROW + timedelta(hours=2), ["hourly"], reason=reason, request_id="dark-1")
    assert again.blackout == added.blackout
    assert (added.jobs, added.occurrences, added.affected[0].job) == (1, 2, "hourly")
    (known,) = client.blackouts().items
    assert (known.id, known.state, known.reason, known.origin) == (added.blackout.id, "planned", reason, "added")
    assert known.added_by
    inside = [fire for fire in client.job_upcoming("hourly", 40).items if fire.reason is not None]
    assert len(inside) == 2
    assert all(reason in fire.detail for fire in inside)
    assert client.remove_blackout(known.id, preview=True).is_preview
    assert client.remove_blackout(known.id).occurrences == 2
    assert client.blackouts(over=True).items == ()
    with pytest.raises(NotFound, match="unknown blackout"):
        client.remove_blackout(known.id)


def test_the_system(client):
    status = client.status()
    assert (status.is_scheduler_running, (status.status or {})["node"]) == (True, "a1")
    assert [one.executor for one in client.executors().items] == ["local@a1"]
    assert client.queues().is_scheduler_running
    assert [node.node for node in client.nodes().items] == ["a1"]
    with pytest.raises(Conflict):
        client.forget_node("a1")
    assert client.verify().is_sound


def test_commands(served, client):
    asked = client.trigger("echo", {"WORD": "hi"}, Trigger.API, wait_seconds=WAIT)
    assert (asked.is_answered, client.run(asked.run or "").params) == (True, {"WORD": "hi"})
    again = client.retry(served.failed, from_failed=True, wait_seconds=WAIT)
    assert client.run(again.run or "").resumed_from == served.failed
    sleeper = client.trigger("sleeper", wait_seconds=WAIT).run
    assert sleeper is not None
    assert client.cancel(sleeper, wait_seconds=WAIT).answer == RequestAnswer(cancelled=(sleeper,))
    assert client.cancel("sleeper", wait_seconds=WAIT).answer == RequestAnswer(cancelled=())
    assert client.pause("hourly", "a move", wait_seconds=WAIT).is_answered
    assert client.job("hourly").pause_note == "a move"
    assert client.resume("hourly", Missed.NONE, wait_seconds=WAIT).answer == RequestAnswer(is_resumed=True)


def test_a_backfill(client):
    preview = client.backfill("hourly", *LONG_AGO, only_missing=False, preview=True)
    assert (preview.request, preview.chosen, len(preview.candidates or ())) == (None, 2, 2)
    asked = client.backfill("hourly", *LONG_AGO, False, "parallel(2)", 0.0, wait_seconds=WAIT)
    assert asked.request is not None
    progress = client.backfill_progress("hourly", asked.request)
    assert (progress.total, progress.first) == (2, LONG_AGO[0])
    assert asked.request in [one.request for one in client.backfills("hourly", 5)]
    assert client.cancel_backfill("hourly", asked.request, wait_seconds=WAIT).is_answered


def test_the_same_request_twice_runs_once(client):
    first = client.trigger("echo", request_id="deploy-7", wait_seconds=WAIT)
    second = client.trigger("echo", request_id="deploy-7", wait_seconds=WAIT)
    assert first.run == second.run
    assert client.answer(first.request, WAIT).run == first.run
    assert client.trigger("echo", wait_seconds=WAIT).run != first.run


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        pytest.param(lambda client: client.job("biuld"), NotFound, "Did you mean 'build'?", id="an unknown job"),
        pytest.param(lambda client: client.job(".."), InvalidArgument, "valid name", id="a name that is a path"),
        pytest.param(lambda client: client.why("build", "noon"), InvalidArgument, "noon", id="a time that is none"),
        pytest.param(
            lambda client: client.trigger("echo", {"WORD": "bye"}), InvalidArgument, "hello, hi", id="a bad parameter"
        ),
    ],
)
def test_a_refusal_is_the_error_of_a_local_ledger(client, call, kind, words):
    with pytest.raises(kind, match=words):
        call(client)


def test_an_error_keeps_its_fields(client):
    with pytest.raises(NotFound) as raised:
        client.job("biuld")
    assert raised.value.suggestions == ("build",)
    assert str(raised.value).count("Did you mean") == 1


def test_a_token_that_is_not_known_is_denied(served):
    with Client(served.url, "evt_wrong") as stranger, pytest.raises(AccessDenied):
        stranger.nodes()


def test_url_and_token_come_from_the_environment(served, monkeypatch):
    monkeypatch.setenv("EVERTICK_SERVER", served.url)
    monkeypatch.setenv("EVERTICK_TOKEN", served.token_file.read_text().strip())
    with Client() as client:
        assert client.url == served.url
        assert client.nodes().is_scheduler_running


def test_threads_take_turns_on_one_connection(client):
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(client.list_jobs().total)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [4] * 8
