"""Do the executors for tests keep the contract, and does the one on disk keep its memory?"""

from __future__ import annotations

import subprocess
import sys

import pytest
from bench.instant_executor import InstantExecutor

from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED
from evertick.model.report import RunFinished, RunLost, RunStarted, RunUnknown
from evertick.model.run import RunKey
from tests.disk_executor import Act, DiskExecutor, Launched, launches_in
from tests.executors.contract import KEY, NINE, ExecutorContract, Reports, launch_of

LONG_US = 3_600_000_000


class HandClock:
    """A clock that stands where it was put."""

    def __init__(self) -> None:
        self.instant = NINE

    def now(self) -> int:
        return self.instant

    def monotonic_us(self) -> int:
        return self.instant


@pytest.fixture
def reports():
    return Reports()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "attempts"


@pytest.fixture
def opened(path, reports):
    """Opens executors on the one file; each takes the place of the one before, as after a crash."""
    made = []

    def open_next(**known):
        made.append(DiskExecutor(path, **known))
        made[-1].open(reports)
        return made[-1]

    yield open_next
    for executor in made:
        executor.close()


class TestInstantExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self, reports):
        executor = InstantExecutor()
        executor.open(reports)
        yield executor
        executor.close()


class TestDiskExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self, opened):
        return opened()


class TestDiskExecutorWhoseRunsTakeTime(ExecutorContract):
    @pytest.fixture
    def executor(self, opened):
        return opened(act=lambda _key, _attempt: Act(takes_us=2_000))


def long(_key, _attempt):
    return Act(takes_us=LONG_US)


def test_a_launch_is_on_disk_with_its_fence_before_it_is_reported(path, opened):
    seen = []
    executor = opened()
    executor.open(lambda report: seen.append((type(report), launches_in(path))))
    executor.launch(launch_of(fence=7))
    kind, launched = seen[0]
    assert kind is RunStarted
    assert [(one.run_id, one.attempt, one.fence) for one in launched] == [(KEY.run_id, 1, 7)]


def test_a_known_attempt_is_never_started_again(path, opened, reports):
    opened().launch(launch_of())
    opened().launch(launch_of())
    opened().launch(launch_of(attempt=2))
    assert [one.attempt for one in launches_in(path)] == [1, 2]
    assert [one.attempt for one in reports if isinstance(one, RunFinished)] == [1, 1, 2]


@pytest.mark.parametrize(
    ("act", "survives", "expected"),
    [
        pytest.param(Act(), False, RunFinished, id="one that had ended is told as ended"),
        pytest.param(Act(takes_us=LONG_US), False, RunLost, id="one that had not is lost with its process"),
        pytest.param(Act(takes_us=LONG_US), True, RunStarted, id="or goes on where runs survive their scheduler"),
    ],
)
def test_after_a_crash(opened, reports, act, survives, expected):
    opened(act=lambda _key, _attempt: act, runs_survive=survives).launch(launch_of())
    reports.clear()
    opened(act=lambda _key, _attempt: act, runs_survive=survives).reconcile([(KEY, 1), (KEY, 2)])
    assert [type(one) for one in reports] == [expected, RunUnknown]


def test_the_outcome_is_remembered(opened, reports):
    opened(act=lambda _key, attempt: Act(state=FAILED if attempt == 1 else SUCCEEDED)).launch(launch_of())
    reports.clear()
    opened().reconcile([(KEY, 1)])
    assert [(one.state, one.exit_code) for one in reports] == [(FAILED, 1)]


def test_a_surviving_run_ends_when_it_would_have_without_the_crash(opened, reports):
    clock = HandClock()
    opened(act=long, runs_survive=True, clock=clock).launch(launch_of())
    clock.instant += LONG_US // 2
    second = opened(act=long, runs_survive=True, clock=clock)
    second.reconcile([(KEY, 1)])
    assert second.next_at() == NINE + LONG_US
    clock.instant += LONG_US
    second.advance()
    assert (reports.end_of(KEY).at, reports.end_of(KEY).state) == (NINE + LONG_US, SUCCEEDED)
    assert second.next_at() is None


def test_a_run_that_is_stopped_ends_as_cancelled_once(opened, reports):
    clock = HandClock()
    executor = opened(act=long, clock=clock)
    executor.launch(launch_of())
    assert executor.members()[0].running == 1
    executor.stop(KEY, 1, "replaced")
    executor.stop(KEY, 1, "replaced")
    clock.instant += 2 * LONG_US
    executor.advance()
    ends = [one for one in reports if isinstance(one, RunFinished)]
    assert [(one.state, one.detail) for one in ends] == [(CANCELLED, "replaced")]


def test_half_a_line_is_forgotten_and_does_not_spoil_the_next(path, opened, reports):
    opened().launch(launch_of())
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"event": "started", "run": "rep')
    opened().launch(launch_of(attempt=2))
    assert path.read_bytes().startswith(whole)
    assert [one.attempt for one in launches_in(path)] == [1, 2]


def test_a_full_disk_refuses_a_launch_and_leaves_no_trace_of_it(tmp_path):
    program = f"""
import resource
from pathlib import Path
from tests.disk_executor import DiskExecutor, launches_in
from tests.executors.contract import launch_of
path = Path({str(tmp_path / "attempts")!r})
executor = DiskExecutor(path)
executor.open(lambda report: None)
resource.setrlimit(resource.RLIMIT_FSIZE, (50, resource.RLIM_INFINITY))
try:
    executor.launch(launch_of())
except OSError as error:
    print(error.strerror, path.stat().st_size)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
executor.launch(launch_of())
print(len(launches_in(path)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["No space left on device 0", "1"]


def test_the_lines_can_be_read_back(path, opened):
    clock = HandClock()
    opened(clock=clock).launch(launch_of(RunKey("a", NINE, "request-1"), 3, 9))
    assert launches_in(path) == [Launched(f"a@{KEY.run_id.partition('@')[2]}~request-1", 3, 9, NINE)]
