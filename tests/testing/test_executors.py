"""Whether simulated executors keep the promises of real ones."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from evertick.loop.effects import Launch
from evertick.model.instant import HOUR, MINUTE
from evertick.model.job import Job
from evertick.model.lifecycle import CANCELLED, SUCCEEDED, Trigger
from evertick.model.policy import OnExecutorLost, Policy
from evertick.model.report import (
    AttemptQuestion,
    LaunchRefused,
    RunFinished,
    RunHeartbeat,
    RunLost,
    RunStarted,
    RunUnknown,
)
from evertick.model.run import RunKey
from evertick.testing import Faults, Timeline, Violation
from evertick.testing.executors import SimulatedExecutors
from evertick.testing.timeline import Caller

KEY = RunKey("report", 9)
A1, A2, B1 = Caller("a", 1), Caller("a", 2), Caller("b", 1)


class Hall:
    """Executors, and what each node was told."""

    def __init__(self, *, is_shared: bool = True, **faults: Any) -> None:
        self.timeline = Timeline(0)
        self.faults = Faults(**{"failure": 0.0, **faults})
        self.told: list[tuple[str, object]] = []
        self.executors = SimulatedExecutors(
            self.timeline,
            Random(3),
            lambda: self.faults,
            lambda node, report: self.told.append((node, report)),
            lambda caller, report: self.told.append((f"{caller.node}/{caller.incarnation}", report)),
            10 * MINUTE,
            is_shared=is_shared,
            is_overlap_kept=True,
        )

    def launch(
        self, caller: Caller, attempt: int = 1, fence: int = 1, *, key: RunKey = KEY, at_most_once: bool = False
    ) -> None:
        lost = OnExecutorLost.FAIL if at_most_once else OnExecutorLost.RETRY
        job = Job("report", policy=Policy(on_executor_lost=lost))
        self.executors.launch(caller, Launch(key, attempt, fence, job, Trigger.SCHEDULER, "", None))

    def wait(self, duration_us: int = HOUR) -> list[tuple[str, str]]:
        """Who was told what meanwhile, without heartbeats."""
        self.told.clear()
        self.timeline.run_until(self.timeline.now + duration_us)
        return [(node, type(said).__name__) for node, said in self.told if not isinstance(said, RunHeartbeat)]


def test_an_attempt_is_reported_when_it_starts_and_when_it_ends():
    hall = Hall()
    hall.launch(A1)
    assert hall.wait() == [("a", "RunStarted"), ("a", "RunFinished")]


def test_a_repeated_launch_starts_nothing_and_is_answered():
    hall = Hall()
    hall.launch(A1)
    hall.wait()
    hall.launch(A2)
    assert hall.wait() == [("a", "RunFinished")]
    assert hall.executors.started == 1


def test_a_fleet_is_shared_by_all_nodes():
    hall = Hall(is_shared=True)
    hall.launch(A1)
    hall.launch(B1)
    assert hall.wait().count(("b", "RunFinished")) == 1
    assert hall.executors.started == 1


def test_a_node_s_own_executor_knows_nothing_of_another_node_s_runs():
    hall = Hall(is_shared=False)
    hall.launch(A1)
    hall.wait()
    hall.executors.reconcile(B1, [AttemptQuestion(KEY, 1, "")])
    assert hall.wait() == [("b/1", "RunUnknown")]


@pytest.mark.parametrize(
    ("faults", "answer"),
    [pytest.param({}, RunFinished, id="finished"), pytest.param({"death": 1.0}, RunLost, id="lost")],
)
def test_after_a_restart_the_truth_is_reported(faults, answer):
    hall = Hall(**faults)
    hall.launch(A1)
    hall.wait()
    hall.executors.reconcile(A2, [AttemptQuestion(KEY, 1, "")])
    hall.wait()
    ((_, said),) = hall.told
    assert isinstance(said, answer)


def test_what_ended_lately_is_reported_to_the_next_process_of_the_same_machine():
    hall = Hall(is_shared=False)
    hall.launch(A1)
    hall.wait()
    hall.executors.open(B1)
    assert hall.wait() == []
    hall.executors.open(A2)
    assert hall.wait() == [("a", "RunFinished")]


def test_a_continuing_run_is_reported_as_running():
    hall = Hall()
    hall.launch(A1)
    hall.timeline.run_until(40_000)
    hall.executors.reconcile(A2, [AttemptQuestion(KEY, 1, "")])
    hall.told.clear()
    hall.timeline.run_until(90_000)
    assert [type(said) for _, said in hall.told] == [RunStarted]


def test_an_unknown_attempt_is_answered_only_to_the_asking_process():
    hall = Hall()
    hall.executors.reconcile(A2, [AttemptQuestion(KEY, 1, "")])
    assert hall.wait() == [("a/2", "RunUnknown")]


def test_a_refused_launch_starts_nothing_and_is_forgotten():
    hall = Hall(refusal=1.0)
    hall.launch(A1)
    assert hall.wait() == [("a/1", "LaunchRefused")]
    hall.executors.reconcile(A1, [AttemptQuestion(KEY, 1, "")])
    hall.wait()
    assert [said for _, said in hall.told] == [RunUnknown(KEY, 1)]


def test_an_owner_that_was_replaced_can_start_nothing():
    hall = Hall()
    hall.launch(B1, attempt=2, fence=200)
    hall.wait()
    hall.launch(A1, attempt=1, fence=100)
    hall.wait()
    assert [said for _, said in hall.told] == [LaunchRefused(KEY, 1, "a newer owner launched this run", 100)]
    assert hall.executors.started == 1


def test_a_stopped_attempt_ends_as_cancelled():
    hall = Hall()
    hall.launch(A1)
    hall.executors.stop(A1, KEY, 1)
    hall.wait()
    (end,) = [said for _, said in hall.told if isinstance(said, RunFinished)]
    assert end.state in (CANCELLED, SUCCEEDED)


def test_a_second_attempt_of_an_at_most_once_job_after_a_loss_is_a_violation():
    hall = Hall(death=1.0)
    hall.launch(A1, at_most_once=True)
    hall.wait()
    hall.launch(A1, attempt=2, at_most_once=True)
    with pytest.raises(Violation, match="runs at most once"):
        hall.wait()


def test_more_runs_at_once_than_the_overlap_rule_allows_are_a_violation():
    hall = Hall()
    hall.launch(A1)
    hall.timeline.run_until(30_000)
    hall.launch(A1, key=RunKey("report", 10))
    with pytest.raises(Violation, match=r"2 are running .*, 1 may"):
        hall.wait(30_000)
