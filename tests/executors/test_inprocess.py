"""Whether functions of this process keep the contract of executors, and how each of them can be ended."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evertick.errors import DefinitionError
from evertick.executor import AttemptId
from evertick.executors.attempt_journal import FileAttemptJournal
from evertick.executors.context import RunContext, StopRequested
from evertick.executors.function import describe, error_text, result_text
from evertick.executors.function_run import FunctionLogs
from evertick.executors.inprocess import InProcessExecutor
from evertick.executors.logs import Logs
from evertick.loop.effects import Launch
from evertick.model.instant import SECOND
from evertick.model.job import Job
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED, TIMED_OUT
from evertick.model.loss import LossReason
from evertick.model.report import LaunchRefused, RunFinished, RunLost, RunStarted, RunUnknown
from evertick.model.run import RunKey
from evertick.model.work import Work
from evertick.planning.run_dates import RunDates
from tests.executors.contract import KEY, ExecutorContract, Reports, launch_of
from tests.executors.local_runs import until

LIMIT_SECONDS = 180


# --- functions that a process of its own can find


def quick() -> str:
    return "done"


def prints_its_pid(path: str, seconds: float = 0.0) -> int:
    Path(path).write_text(f"{os.getpid()}\n")
    time.sleep(seconds)
    return os.getpid()


def leaves_a_grandchild(path: str) -> None:
    import subprocess

    child = subprocess.Popen(["sleep", "600"])
    Path(path).write_text(f"{child.pid}\n")
    time.sleep(600)


def ignores_the_polite_end(path: str) -> None:
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(path).write_text(f"{os.getpid()}\n")
    time.sleep(600)


def dies() -> None:
    os._exit(7)


def raises() -> None:
    raise ValueError("no such table")


# ---


@pytest.fixture
def reports():
    return Reports()


@pytest.fixture
def opened(reports):
    made = []

    def open_with(call, isolation=None, **known):
        function = describe(call, isolation)
        executor = InProcessExecutor(lambda _job_id: function, grace_seconds=1, **known)
        executor.open(reports)
        made.append(executor)
        return executor

    yield open_with
    for executor in made:
        executor.close()


def timed(seconds: float, params: str = ""):
    order = launch_of()
    job = Job(KEY.job_id, work=Work(timeout_us=int(seconds * SECOND)))
    return order._replace(job=job, params=params)


class TestAThreadKeepsTheContract(ExecutorContract):
    @pytest.fixture
    def executor(self, opened):
        return opened(quick)


@pytest.mark.slow
class TestAProcessKeepsTheContract(ExecutorContract):
    @pytest.fixture
    def executor(self, opened):
        return opened(quick, "process")


class TestALoopKeepsTheContract(ExecutorContract):
    @pytest.fixture
    def executor(self, opened):
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()

        async def soon():
            await asyncio.sleep(0)

        yield opened(soon, home=lambda: loop)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_results_and_exceptions_of_a_function_are_reported(opened, reports):
    opened(quick).launch(launch_of())
    assert reports.end_of(KEY).detail == "done"
    reports.clear()
    opened(raises).launch(launch_of())
    end = reports.end_of(KEY)
    assert end.state is FAILED
    assert end.detail.startswith(f"ValueError: no such table ({__file__}:")


def test_the_context_says_what_the_run_is(opened, reports):
    seen = []

    def keeps(context: RunContext, region: str, count: int = 1, exact: bool = False) -> None:
        seen.append((context, region, count, exact))

    executor = opened(keeps)
    executor.launch(launch_of(attempt=2)._replace(params='{"region": "eu", "count": "7", "exact": "true"}'))
    reports.end_of(KEY)
    ((context, region, count, exact),) = seen
    assert (region, count, exact) == ("eu", 7, True)
    assert (context.run_id, context.attempt, context.trigger) == (KEY.run_id, 2, "scheduler")
    assert context.scheduled_for.isoformat() == "2026-03-02T09:00:00+00:00"


def test_a_thread_is_asked_to_end_and_is_cancelled_when_it_does(opened, reports):
    begun = threading.Event()

    def waits(context: RunContext) -> None:
        begun.set()
        context.wait(LIMIT_SECONDS)
        context.checkpoint()

    executor = opened(waits)
    executor.launch(launch_of())
    assert begun.wait(LIMIT_SECONDS)
    executor.stop(KEY, 1, "replaced")
    assert (reports.end_of(KEY).state, reports.end_of(KEY).detail) == (CANCELLED, "replaced")


def test_a_thread_that_ignores_a_stop_continues_to_its_own_end(opened, reports):
    begun, may_go = threading.Event(), threading.Event()

    def deaf() -> str:
        begun.set()
        assert may_go.wait(LIMIT_SECONDS)
        return "all of it"

    executor = opened(deaf)
    executor.launch(launch_of())
    assert begun.wait(LIMIT_SECONDS)
    executor.stop(KEY, 1, "cancelled")
    assert not any(isinstance(one, RunFinished) for one in reports)
    may_go.set()
    assert reports.end_of(KEY).state is SUCCEEDED


def test_a_thread_that_takes_too_long_is_timed_out_when_it_ends(opened, reports):
    def waits(context: RunContext) -> None:
        context.wait(LIMIT_SECONDS)

    opened(waits).launch(timed(0.05))
    assert (reports.end_of(KEY).state, reports.end_of(KEY).detail) == (TIMED_OUT, "it took longer than 0.05 s")


def test_a_coroutine_in_a_thread_of_its_own_is_ended_at_its_await(opened, reports):
    begun = threading.Event()

    async def waits() -> None:
        begun.set()
        await asyncio.sleep(600)

    executor = opened(waits, "thread")
    executor.launch(launch_of())
    assert begun.wait(LIMIT_SECONDS)
    executor.stop(KEY, 1, "cancelled")
    assert reports.end_of(KEY).state is CANCELLED


@pytest.mark.parametrize("how", ["stopped", "timed out"])
def test_a_coroutine_on_the_home_loop_ends_only_after_its_last_words(opened, reports, how):
    said = []

    async def slow_to_leave() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.01)
            said.append("bye")

    async def main() -> None:
        executor = opened(slow_to_leave, home=asyncio.get_running_loop)
        loop = asyncio.get_running_loop()
        executor._home = lambda: loop
        if how == "stopped":
            executor.launch(launch_of())
            await asyncio.sleep(0.01)
            executor.stop(KEY, 1, "cancelled")
        else:
            executor.launch(timed(0.01))
        end = await asyncio.to_thread(reports.end_of, KEY)
        assert said == ["bye"]
        assert end.state is (CANCELLED if how == "stopped" else TIMED_OUT)

    asyncio.run(main())


def test_a_coroutine_whose_loop_ends_is_lost_and_not_failed(opened, reports):
    async def long() -> None:
        await asyncio.sleep(600)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        opened(long, home=lambda: loop).launch(launch_of())
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert [one for one in reports if isinstance(one, RunLost)] == [RunLost(KEY, 1, "its event loop ended")]


def test_a_coroutine_without_a_loop_is_refused(opened, reports):
    async def never() -> None: ...

    opened(never).launch(launch_of())
    assert [type(one) for one in reports] == [LaunchRefused]


def test_a_job_that_has_no_function_here_is_refused(reports):
    executor = InProcessExecutor(lambda _job_id: None)
    executor.open(reports)
    executor.launch(launch_of())
    assert [type(one) for one in reports] == [LaunchRefused]


def test_more_than_there_is_room_for_wait_their_turn_and_can_be_withdrawn(opened, reports):
    may_go = threading.Event()

    def waits() -> None:
        assert may_go.wait(LIMIT_SECONDS)

    executor = opened(waits, running_max=1)
    keys = [RunKey("report", KEY.scheduled_for + number) for number in range(3)]
    for key in keys:
        executor.launch(launch_of(key))
    assert [one.key for one in reports if isinstance(one, RunStarted)] == keys[:1]
    executor.stop(keys[1], 1, "cancelled")
    assert reports.end_of(keys[1]).state is CANCELLED
    may_go.set()
    assert [reports.end_of(key).state for key in (keys[0], keys[2])] == [SUCCEEDED, SUCCEEDED]
    assert [one.key for one in reports if isinstance(one, RunStarted)] == [keys[0], keys[2]]


def test_an_abandoned_attempt_is_lost_so_that_it_is_retried(opened, reports):
    begun = threading.Event()

    def waits(context: RunContext) -> None:
        begun.set()
        context.wait(LIMIT_SECONDS)
        context.checkpoint()

    executor = opened(waits)
    executor.launch(launch_of())
    assert begun.wait(LIMIT_SECONDS)
    assert executor.abandon(LIMIT_SECONDS)
    assert [one.detail for one in reports if isinstance(one, RunLost)] == ["the scheduler stopped"]


@pytest.mark.slow
class TestAProcess:
    def test_a_process_function_runs_in_another_process_and_hands_its_result_back(self, opened, reports, tmp_path):
        opened(prints_its_pid, "process").launch(timed(60, f'{{"path": "{tmp_path}/pid"}}'))
        end = reports.end_of(KEY)
        assert (end.state, end.exit_code) == (SUCCEEDED, 0)
        assert end.detail == (tmp_path / "pid").read_text().strip() != str(os.getpid())

    def test_a_process_function_is_killed_with_all_it_has_started(self, opened, reports, tmp_path):
        executor = opened(leaves_a_grandchild, "process")
        executor.launch(launch_of()._replace(params=f'{{"path": "{tmp_path}/pid"}}'))
        grandchild = int(_written(tmp_path / "pid"))
        executor.stop(KEY, 1, "cancelled")
        assert reports.end_of(KEY).state is CANCELLED
        until(lambda: not _is_alive(grandchild), "the grandchild to be gone")

    def test_a_process_that_ignores_sigterm_is_killed(self, opened, reports, tmp_path):
        executor = opened(ignores_the_polite_end, "process")
        executor.launch(launch_of()._replace(params=f'{{"path": "{tmp_path}/pid"}}'))
        child = int(_written(tmp_path / "pid"))
        executor.stop(KEY, 1, "cancelled")
        assert reports.end_of(KEY).state is CANCELLED
        assert not _is_alive(child)

    def test_a_timeout_really_ends_it(self, opened, reports, tmp_path):
        executor = opened(prints_its_pid, "process")
        executor.launch(timed(1, f'{{"path": "{tmp_path}/pid", "seconds": "600"}}'))
        assert reports.end_of(KEY).state is TIMED_OUT

    def test_a_process_that_dies_without_a_word_has_failed(self, opened, reports):
        opened(dies, "process").launch(launch_of())
        end = reports.end_of(KEY)
        assert (end.state, end.exit_code) == (FAILED, 7)
        assert "exit code 7" in end.detail

    def test_an_error_is_reported_as_from_a_thread(self, opened, reports):
        opened(raises, "process").launch(launch_of())
        assert reports.end_of(KEY).detail.startswith("ValueError: no such table (")


def prints_much(lines: int) -> str:
    for number in range(lines):
        sys.stdout.write(f"line {number} of many, so that no pipe could hold them all\n")
    return "said"


def logs_in_a_process(context: RunContext) -> None:
    context.log.info("from %s", "elsewhere")
    sys.stdout.write("printed\n")


class TestLogs:
    @pytest.fixture
    def said(self, tmp_path):
        def read(attempt=1):
            return Logs(tmp_path).read_log(KEY, attempt, "report").data.decode()

        return read

    def test_logs_and_exceptions_of_a_function_are_kept_with_its_run(self, opened, reports, tmp_path, said):
        def talks(context: RunContext) -> None:
            context.log.debug("too small")
            context.log.info("counted %d rows", 3)
            try:
                raises()
            except ValueError:
                context.log.exception("again")
            raise RuntimeError("over")

        opened(talks, logs=FunctionLogs(tmp_path)).launch(launch_of())
        reports.end_of(KEY)
        assert "INFO counted 3 rows\n" in said()
        assert "ERROR again\nTraceback" in said()
        assert said().endswith("RuntimeError: over\n")
        assert "too small" not in said()

    def test_a_function_without_output_has_no_log(self, opened, reports, tmp_path):
        opened(quick, logs=FunctionLogs(tmp_path)).launch(launch_of())
        reports.end_of(KEY)
        assert Logs(tmp_path).list_logs(KEY) == []

    @pytest.mark.slow
    def test_what_a_process_prints_and_logs_is_kept_too(self, opened, reports, tmp_path, said):
        opened(logs_in_a_process, "process", logs=FunctionLogs(tmp_path)).launch(launch_of())
        reports.end_of(KEY)
        assert "INFO from elsewhere\n" in said()
        assert "printed\n" in said()

    @pytest.mark.slow
    def test_a_process_that_prints_without_end_is_not_held_up(self, opened, reports, tmp_path):
        executor = opened(prints_much, "process", logs=FunctionLogs(tmp_path))
        executor.launch(launch_of()._replace(params='{"lines": "20000"}'))
        assert reports.end_of(KEY).detail == "said"
        log = Logs(tmp_path).list_logs(KEY)
        assert [(one.attempt, one.step, one.is_complete) for one in log] == [(1, "report", True)]
        assert log[0].size > 1_000_000

    def test_a_log_that_cannot_be_written_costs_the_log_and_not_the_run(self, opened, reports, tmp_path):
        (tmp_path / "logs").write_text("a file where the folder should be")

        def talks(context: RunContext) -> None:
            context.log.info("hello")

        opened(talks, logs=FunctionLogs(tmp_path)).launch(launch_of())
        assert reports.end_of(KEY).state is SUCCEEDED


def id_of(launch: Launch) -> AttemptId:
    return AttemptId(launch.key, launch.attempt)


class TestJournal:
    def test_the_next_process_knows_which_attempts_started_and_ended(self, tmp_path):
        before = FileAttemptJournal(tmp_path / "journal")
        before.open()
        begun, ended, never = (launch_of(attempt=attempt) for attempt in (1, 2, 3))
        before.started(id_of(begun))
        before.started(id_of(ended))
        before.ended(id_of(ended), 5, "succeeded", "all of it")
        before.close()
        reports = Reports()
        executor = InProcessExecutor(lambda _job_id: None, journal=FileAttemptJournal(tmp_path / "journal"))
        executor.open(reports)
        executor.reconcile([(KEY, 1), (KEY, 2), (KEY, 3)])
        executor.close()
        assert list(reports) == [
            RunLost(KEY, 1, "its process has ended", reason=LossReason.PROCESS_GONE),
            RunFinished(KEY, 2, 5, SUCCEEDED, None, "all of it"),
            RunUnknown(KEY, never.attempt),
        ]

    def test_after_a_reboot_an_unrecorded_attempt_may_have_started(self, tmp_path):
        (tmp_path / "journal").write_text('{"boot": "another"}\n')
        journal = FileAttemptJournal(tmp_path / "journal")
        journal.open()
        assert journal.find(id_of(launch_of())) is not None
        journal.close()

    def test_the_boot_is_on_disk_before_a_function_can_be_called(self, tmp_path, monkeypatch):
        synced = list[Path]()
        monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink()))
        journal = FileAttemptJournal(tmp_path / "journal")
        journal.open()
        assert synced == [tmp_path / "journal", tmp_path]
        journal.close()

    @pytest.mark.parametrize("garbage", ["\n", "{", "[1]\n[2", "\x00\xff", '{"boot": 1}\n["a", "b"]\n'])
    def test_a_damaged_file_counts_as_incomplete_and_never_raises(self, tmp_path, garbage):
        (tmp_path / "journal").write_text(garbage)
        journal = FileAttemptJournal(tmp_path / "journal")
        journal.open()
        journal.started(id_of(launch_of()))
        journal.close()
        again = FileAttemptJournal(tmp_path / "journal")
        again.open()
        assert again.find(id_of(launch_of())) is not None
        again.close()

    def test_an_attempt_whose_start_cannot_be_journalled_is_refused(self, reports):
        class Full(FileAttemptJournal):
            def started(self, _attempt_id):
                raise OSError(28, "No space left on device")

        executor = InProcessExecutor(lambda _job_id: describe(quick), journal=Full(Path("unused")))
        executor._report = reports
        executor.launch(launch_of())
        assert [type(one) for one in reports] == [LaunchRefused]
        assert "No space left" in next(iter(reports)).detail


class TestDescribing:
    @pytest.mark.parametrize(
        ("call", "isolation", "words"),
        [
            pytest.param(quick, "loop", "is not async", id="a plain function on the event loop"),
            pytest.param(quick, "fiber", "Write one of: thread, loop, process", id="an isolation that is not there"),
            pytest.param(lambda: None, "process", "cannot be found", id="a lambda in another process"),
            pytest.param(lambda _data, /: None, None, "positional only", id="a parameter nobody can name"),
        ],
    )
    def test_what_could_never_be_called_is_refused(self, call, isolation, words):
        with pytest.raises(DefinitionError, match=words):
            describe(call, isolation)

    def test_a_parameter_that_no_run_can_bring_is_refused_unless_it_has_a_default(self):
        def needs(data: list[int]) -> None: ...

        def copes(data: list[int] | None = None) -> None: ...

        with pytest.raises(DefinitionError, match="'data'"):
            describe(needs)
        assert describe(copes).params == ()

    def test_the_context_is_found_by_its_annotation_whatever_the_name(self):
        def one(what: RunContext) -> None: ...

        assert describe(one).context_name == "what"

    @pytest.mark.parametrize(
        ("result", "text"),
        [
            pytest.param(None, "", id="nothing"),
            pytest.param("words", "words", id="a text as it is"),
            pytest.param({"a": [1, 2]}, '{"a": [1, 2]}', id="data as JSON"),
            pytest.param({1, 2}, '"{1, 2}"', id="the rest as it shows itself"),
            pytest.param("\ud800\0", "\\ud800\\0", id="what no database takes is spelled out"),
        ],
    )
    def test_a_result_in_the_ledger(self, result, text):
        assert result_text(result) == text

    def test_a_result_that_is_endless_is_clipped(self):
        assert len(result_text("x" * 10_000)) == 2_000

    def test_an_error_whose_text_raises(self):
        class Rude(Exception):
            def __str__(self):
                raise RuntimeError

        assert error_text(Rude()) == "Rude: (its message cannot be read)"


def dates() -> RunDates:
    due = KEY.scheduled_for
    return RunDates(KEY.job_id, "Europe/Berlin", due, due - SECOND, due + SECOND, due - 2 * SECOND)


def test_a_stop_is_asked_for_by_checking(opened):
    context = replace(RunContext.of(KEY, 1, "manual", {}, dates(), 0))
    context.checkpoint()
    context._stop.set()
    assert context.is_stopping
    with pytest.raises(StopRequested, match="was asked to stop"):
        context.checkpoint()


def test_a_context_travels_to_another_process_as_it_is():
    context = RunContext.of(KEY, 3, "backfill", {"a": "b"}, dates(), 9)
    assert RunContext.from_plain(context.to_plain()) == context


def _written(path: Path) -> str:
    until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path} to be written")
    return path.read_text().strip()


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
