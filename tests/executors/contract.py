"""What every executor must do, whatever it runs attempts on.

A suite that takes these classes provides two fixtures: `executor`, which ends every attempt well and soon, and
`reports`, the list that it was opened with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic, sleep

from evertick.loop.effects import Launch
from evertick.model.job import Job
from evertick.model.lifecycle import SUCCEEDED, Trigger
from evertick.model.report import Report, RunFinished, RunLost, RunStarted, RunUnknown
from evertick.model.run import RunKey

NINE = 1_772_442_000_000_000
KEY = RunKey("report", NINE)
PATIENCE_SECONDS = 180


def launch_of(key: RunKey = KEY, attempt: int = 1, fence: int = 65_537) -> Launch:
    return Launch(key, attempt, fence, Job(key.job_id), Trigger.SCHEDULER, "", None)


class Reports:
    """What an executor has said, from whichever thread."""

    def __init__(self) -> None:
        self._arrived = threading.Condition()
        self._all: list[Report] = []

    def __call__(self, report: Report) -> None:
        with self._arrived:
            self._all.append(report)
            self._arrived.notify_all()

    def __iter__(self):
        return iter(list(self._all))

    def clear(self) -> None:
        self._all.clear()

    def wait_until(self, is_enough: Callable[[list[Report]], bool]) -> list[Report]:
        deadline = monotonic() + PATIENCE_SECONDS
        with self._arrived:
            while not is_enough(self._all):
                assert self._arrived.wait(deadline - monotonic()), f"nothing more came after {self._all}"
            return list(self._all)

    def end_of(self, key: RunKey) -> RunFinished:
        said = self.wait_until(lambda all_: any(isinstance(one, RunFinished) and one.key == key for one in all_))
        return next(one for one in said if isinstance(one, RunFinished) and one.key == key)


class ExecutorContract:
    def test_a_launch_is_answered_by_a_start_and_an_end(self, executor, reports):
        executor.launch(launch_of())
        assert (reports.end_of(KEY).attempt, reports.end_of(KEY).state) == (1, SUCCEEDED)
        started = [one for one in reports if isinstance(one, RunStarted)]
        assert [(one.key, one.attempt) for one in started] == [(KEY, 1)]
        assert started[0].at <= reports.end_of(KEY).at

    def test_attempts_of_one_instant_are_distinguished(self, executor, reports):
        other = RunKey("report", NINE, "by-hand")
        executor.launch(launch_of())
        executor.launch(launch_of(other))
        assert reports.end_of(KEY).key != reports.end_of(other).key

    def test_a_launch_that_is_repeated_is_answered_again(self, executor, reports):
        executor.launch(launch_of())
        first = reports.end_of(KEY)
        reports.clear()
        executor.launch(launch_of())
        assert (reports.end_of(KEY).attempt, reports.end_of(KEY).state) == (first.attempt, first.state)

    def test_an_attempt_that_was_never_given_is_unknown(self, executor, reports):
        executor.reconcile([(KEY, 1), (KEY, 2)])
        said = reports.wait_until(lambda all_: len(all_) == 2)
        assert sorted(said) == [RunUnknown(KEY, 1), RunUnknown(KEY, 2)]

    def test_asking_after_an_attempt_is_always_answered(self, executor, reports):
        executor.launch(launch_of())
        reports.end_of(KEY)
        reports.clear()
        executor.reconcile([(KEY, 1)])
        (answer,) = reports.wait_until(lambda all_: len(all_) == 1)
        assert isinstance(answer, RunStarted | RunFinished | RunLost | RunUnknown)

    def test_stopping_an_unknown_run_does_not_fail(self, executor, reports):
        executor.stop(KEY, 1, "replaced")
        assert list(reports) == []

    def test_when_all_has_ended_it_names_a_member_that_is_healthy_and_idle(self, executor, reports):
        executor.launch(launch_of())
        reports.end_of(KEY)
        deadline = monotonic() + PATIENCE_SECONDS
        # A fleet still names those that are away.
        while [member.running for member in executor.members() if member.is_healthy] != [0]:
            assert monotonic() < deadline, executor.members()
            sleep(0.01)
