"""Failed, lost and refused attempts: what the loop does next."""

from __future__ import annotations

import pytest

from evertick.loop.messages import LaunchRefused, RunFinished, RunHeartbeat, RunLost, RunStarted
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, LOST, SUCCEEDED, TIMED_OUT
from evertick.model.policy import OnExecutorLost
from evertick.model.run import Change, RunKey
from evertick.model.schedule import EverySpec
from tests.loop.harness import FOREVER, SKIP, WAIT, Act, at, clock_of, job, retries, world
from tests.present import present

MINUTELY = EverySpec(MINUTE)
NINE = RunKey("a", at("09:00"))
FAILS = Act(state=FAILED)


def starts(here):
    return [clock_of(when) for when, _ in here.launches]


# --- retries


def test_retries_wait_one_delay_more_each_time_and_keep_the_scheduled_time():
    here = world(job(retry=retries(3)))
    here.act("a", FAILS)
    here.run_until("09:10")
    assert starts(here) == ["09:00", "09:01:01", "09:03:02", "09:06:03"]
    assert here.started() == ["09:00"] * 4
    assert [launch.attempt for _, launch in here.launches] == [1, 2, 3, 4]
    assert here.ledger() == ["09:00 failed"]


def test_a_retry_that_succeeds_ends_the_run_well():
    here = world(job(retry=retries(3)))
    here.act("a", FAILS, Act())
    here.run_until("09:05")
    assert here.ledger() == ["09:00 succeeded"]
    assert here.line("09:00").attempt == 2


@pytest.mark.parametrize("end", [FAILED, LOST])
def test_the_next_attempt_starts_only_when_the_ledger_has_the_end_of_the_one_before(end):
    """A restart asks about one attempt: of a second, which the ledger has not heard of, it would not know."""
    here = world(job(retry=retries(1, SECOND)))
    here.act("a", Act(state=end), FOREVER)
    here.run_until("09:00")
    here.is_ledger_away = True
    here.run_until("09:00:30")
    assert [launch.attempt for _, launch in here.launches] == [1]
    here.is_ledger_away = False
    here.write()
    here.run_for(SECOND)
    assert [launch.attempt for _, launch in here.launches] == [1, 2]


@pytest.mark.parametrize("state", [FAILED, TIMED_OUT])
def test_without_retries_the_first_failure_is_the_end(state):
    here = world(job())
    here.act("a", Act(state=state))
    here.run_until("09:05")
    assert [row.state for row in here.rows()] == [state]


def test_a_cancelled_run_is_not_retried():
    here = world(job(retry=retries(3)))
    here.act("a", Act(state=CANCELLED))
    here.run_until("09:05")
    assert here.ledger() == ["09:00 cancelled"]
    assert here.started() == ["09:00"]


@pytest.mark.parametrize(
    ("down_us", "second"),
    [
        pytest.param(10 * SECOND, "09:01:01", id="back before the retry is due"),
        pytest.param(5 * MINUTE, "09:05:11", id="back after it was due"),
    ],
)
def test_a_retry_survives_a_restart(down_us, second):
    here = world(job(retry=retries(3)))
    here.act("a", FAILS, Act())
    here.run_until("09:00:11")
    here.restart(after=down_us)
    here.run_until("09:10")
    assert starts(here) == ["09:00", second]
    assert here.ledger()[0] == "09:00 succeeded"


def test_the_number_of_tries_survives_a_restart():
    here = world(job(retry=retries(1)))
    here.act("a", FAILS)
    here.run_until("09:00:11")
    here.restart(after=SECOND)
    here.run_until("09:10")
    assert here.started() == ["09:00", "09:00"]
    assert here.ledger() == ["09:00 failed"]


def test_a_run_between_two_attempts_occupies_its_job():
    here = world(job("a", MINUTELY, overlap=SKIP, retry=retries(1, delay_us=90 * SECOND)))
    here.act("a", FAILS, Act())
    here.run_until("08:32:10")
    assert here.ledger() == ["08:31 retrying", "08:32 skipped overlap"]


# --- an executor that refuses


def test_a_refused_launch_is_tried_again_ever_later_and_never_lost():
    here = world(job())
    here.act("a", *[Act(refused=True)] * 5, Act())
    here.run_until("09:05")
    assert starts(here) == ["09:00", "09:00:01", "09:00:03", "09:00:07", "09:00:15", "09:00:31"]
    assert here.ledger() == ["09:00 succeeded"]
    assert here.line("09:00").attempt == 1, "a refusal is not an attempt"


def test_the_wait_after_a_refusal_is_at_most_a_minute():
    here = world(job("a", EverySpec(24 * HOUR)), start="23:59")
    here.act("a", Act(refused=True))
    here.run_until("1d00:20")
    waits = [later - earlier for (earlier, _), (later, _) in zip(here.launches, here.launches[1:], strict=False)]
    assert waits == sorted(waits)
    assert waits[-1] == MINUTE


def test_a_refused_launch_survives_a_restart():
    here = world(job())
    here.act("a", Act(refused=True))
    here.run_until("09:00:20")
    here.act("a", Act())
    here.restart(after=10 * SECOND)
    here.run_until("09:02")
    assert here.ledger() == ["09:00 succeeded"]


def test_a_refused_run_keeps_its_place_before_those_behind_it():
    here = world(job("a", EverySpec(10 * SECOND), overlap=WAIT))
    here.act("a", *[Act(refused=True)] * 4, Act())
    here.run_until("08:31:30")
    assert here.ledger()[:3] == ["08:30:10 succeeded", "08:30:20 succeeded", "08:30:30 succeeded"]
    finished = [row.finished_at for row in here.rows() if row.finished_at]
    assert finished == sorted(finished)


# --- an executor that is lost


def test_a_run_whose_lease_runs_out_is_tried_again():
    here = world(job())
    here.act("a", Act(lasts_us=None, lease_us=30 * SECOND), Act())
    here.run_until("09:05")
    assert starts(here) == ["09:00", "09:00:30"]
    assert here.ledger() == ["09:00 succeeded"]
    assert here.events("run.lost") == ["run.lost"]


def test_at_most_once_a_lost_run_is_lost():
    here = world(job(on_executor_lost=OnExecutorLost.FAIL, retry=retries(3)))
    here.act("a", Act(lasts_us=None, lease_us=30 * SECOND))
    here.run_until("09:05")
    assert here.started() == ["09:00"]
    assert here.ledger() == ["09:00 lost"]


def test_heartbeats_keep_a_lease():
    here = world(job())
    here.act("a", Act(lasts_us=5 * MINUTE, lease_us=30 * SECOND, beat_us=10 * SECOND))
    here.run_until("09:10")
    assert here.ledger() == ["09:00 succeeded"]
    assert here.events("run.lost") == []


def test_a_lease_is_lost_after_the_last_heartbeat_and_not_before():
    here = world(job(on_executor_lost=OnExecutorLost.FAIL))
    here.act("a", Act(lasts_us=None, lease_us=30 * SECOND))
    here.run_until("09:00:20")
    here.say(RunHeartbeat(NINE, 1))
    here.run_until("09:00:49")
    assert here.ledger() == ["09:00 running"]
    here.run_until("09:00:50")
    assert here.ledger() == ["09:00 lost"]


def test_heartbeats_that_waited_through_a_stall_count():
    here = world(job())
    here.act("a", Act(lasts_us=2 * MINUTE, lease_us=30 * SECOND, beat_us=10 * SECOND))
    here.run_until("09:00:15")
    here.stall(MINUTE)
    here.run_until("09:05")
    assert here.events("run.lost") == []
    assert here.started() == ["09:00"]


def test_a_run_that_takes_its_executor_down_each_time_is_not_tried_forever():
    here = world(job())
    here.act("a", Act(lasts_us=None, lease_us=10 * SECOND))
    here.run_until("09:10")
    assert len(here.started()) == 3
    assert here.ledger() == ["09:00 lost"]


def test_a_lost_attempt_does_not_use_up_a_retry():
    here = world(job(retry=retries(1)))
    here.act("a", Act(lasts_us=None, lease_us=10 * SECOND), FAILS, Act())
    here.run_until("09:10")
    assert len(here.started()) == 3
    assert here.ledger() == ["09:00 succeeded"]


def test_a_run_that_takes_the_whole_machine_down_each_time_is_not_tried_forever():
    here = world(job())
    here.act("a", FOREVER)
    here.run_until("09:00:10")
    for _ in range(5):
        here.executor.attempts.clear()  # nothing of it is left when the machine is back
        here.restart(after=MINUTE)
        here.run_for(10 * SECOND)
    assert len(here.started()) == 3
    assert here.ledger() == ["09:00 lost"]


def test_a_lost_attempt_does_not_use_up_a_retry_although_the_scheduler_was_restarted():
    here = world(job(retry=retries(1)))
    here.act("a", Act(lasts_us=None, lease_us=10 * SECOND), Act(lasts_us=MINUTE, state=FAILED), Act())
    here.run_until("09:00:20")
    here.restart()
    here.run_until("09:10")
    assert len(here.started()) == 3
    assert here.ledger() == ["09:00 succeeded"]


def test_after_a_restart_an_unknown_attempt_is_lost_and_retried():
    here = world(job())
    here.act("a", FOREVER, Act())
    here.run_until("09:00:10")
    here.executor.knows_nothing = True
    here.restart(after=SECOND)
    here.run_for(10 * SECOND)
    assert here.ledger() == ["09:00 succeeded"]
    assert here.line("09:00").attempt == 2


@pytest.mark.parametrize(
    ("lasts_us", "ended"),
    [
        pytest.param(MINUTE, "09:01", id="still going: it is adopted"),
        pytest.param(12 * SECOND, "09:00:12", id="ended meanwhile: its end is heard"),
    ],
)
def test_a_run_outlives_the_scheduler(lasts_us, ended):
    here = world(job())
    here.act("a", Act(lasts_us=lasts_us))
    here.run_until("09:00:10")
    here.restart(after=20 * SECOND)
    here.run_until("09:02")
    assert here.started() == ["09:00"]
    assert here.ledger() == ["09:00 succeeded"]
    assert clock_of(present(here.line("09:00").started_at)) == "09:00"


# --- reports that come too late


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(RunFinished(NINE, 1, at("09:00:20"), FAILED), id="a second end"),
        pytest.param(RunStarted(NINE, 1, at("09:00:20")), id="a start after the end"),
        pytest.param(RunLost(NINE, 1), id="lost after the end"),
        pytest.param(RunFinished(NINE, 2, at("09:00:20"), FAILED), id="an attempt that never was"),
        pytest.param(
            RunFinished(RunKey("nobody", at("09:00")), 1, at("09:00:20"), FAILED), id="a job that is not there"
        ),
    ],
)
def test_a_report_that_comes_too_late_changes_nothing(report):
    here = world(job())
    here.run_until("09:00:10")
    here.say(report)
    assert here.ledger() == ["09:00 succeeded"]
    assert here.state.statistics.refused_reports == 1
    assert here.events("run.report_refused") == ["run.report_refused"]


def test_the_end_of_a_lost_attempt_does_not_end_the_one_that_took_its_place():
    here = world(job())
    here.act("a", Act(lasts_us=None, lease_us=10 * SECOND), FOREVER)
    here.run_until("09:00:15")
    here.say(RunFinished(NINE, 1, here.now, SUCCEEDED))
    assert here.ledger() == ["09:00 running"]
    assert here.line("09:00").attempt == 2


def test_the_ledger_refuses_to_overwrite_an_end():
    here = world(job())
    here.run_until("09:00:10")
    assert here.store.record([Change(NINE, FAILED, here.now, fence=1 << 40)]) == {NINE}
    assert here.ledger() == ["09:00 succeeded"]


def test_an_ended_run_is_remembered_until_the_ledger_has_its_end():
    here = world(job())
    here.run_until("08:59:59")
    here.is_ledger_away = True
    here.run_until("09:00:25")
    assert list(here.state.unwritten_ends) == [NINE]
    here.is_ledger_away = False
    here.write()
    here.turn()
    assert here.ledger() == ["09:00 succeeded"]
    assert not here.state.unwritten_ends


def test_a_fence_grows_with_each_attempt_and_each_owner():
    here = world(job(retry=retries(5, delay_us=SECOND)))
    here.act("a", FAILS)
    here.run_until("09:00:05")
    here.restart()
    here.run_until("09:01")
    fences = [launch.fence for _, launch in here.launches]
    assert fences == sorted(set(fences))
    assert len(fences) == 6


def test_the_same_attempt_launched_by_a_later_owner_has_a_greater_fence():
    here = world(job())
    here.run_until("08:59:58")
    here.stall(2 * SECOND)
    here.turn()
    here.executor.attempts.clear()  # decided and written, and it never reached the executor
    here.executor.forget_what_is_coming()
    here.restart(after=SECOND)
    here.run_for(5 * SECOND)
    (_, first), (_, second) = here.launches
    assert (first.attempt, second.attempt) == (1, 1)
    assert second.fence > first.fence


def test_a_refusal_that_comes_after_the_start_is_old_news():
    here = world(job())
    here.act("a", FOREVER)
    here.run_until("09:00:01")
    here.say(LaunchRefused(RunKey("a", at("09:00")), 1, "full"))
    here.run_for(5 * SECOND)
    assert here.ledger() == ["09:00 running"]
    assert len(here.launches) == 1
