"""Whether the simulator can fail: it notices each broken rule within a few seeds, and names it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any
from unittest import mock

import pytest

from evertick.dispatch.runs_lease import RunsLease
from evertick.executors.fleet import task
from evertick.executors.fleet.assignments import Assignments
from evertick.executors.fleet.membership import Membership
from evertick.model.instant import MINUTE, SECOND
from evertick.store import Batch
from evertick.testing import Faults, Outcome, scenario, simulate
from evertick.testing.keepers import SimulatedKeeper
from evertick.testing.members import SimulatedMember
from tests.share import share
from tests.simulator import broken

SEEDS = 40
CALM = Faults(failure=0.0)
ROUGH = Faults(crash_per_call=0.1, down_max_us=3 * MINUTE)
AWAY = Faults(outages_per_hour=6.0, latency_max_us=2 * SECOND, lost_reply=0.05, requests_per_hour=20.0)
AGAIN = Faults(failure=0.0, redelivery=0.3, latency_max_us=2 * SECOND, requests_per_hour=20.0)
FAILING = Faults(failure=0.5)
MEMBERS = Faults(failure=0.0, member_outages_per_hour=12.0)
FAILING_MEMBERS = Faults(failure=0.4, member_outages_per_hour=12.0)
HELD_UP = Faults(failure=0.0, member_outages_per_hour=90.0, stalls_per_hour=40.0, partitions_per_hour=20.0)
CUT_OFF = Faults(failure=0.1, partitions_per_hour=12.0, stalls_per_hour=3.0)
MOVING = Faults(stalls_per_hour=6.0, crashes_per_hour=2.0, leaves_per_hour=4.0, late_report=0.3)


def failures(faults: Faults, first: int = 0, seeds: int = SEEDS, **options: Any) -> Iterator[Outcome]:
    """Worlds that failed; `first` is a seed near one that shows it, for those that few worlds show."""
    options = {"hours": 1.0, **options}
    outcomes = (simulate(seed, faults=faults, **options) for seed in range(first, first + seeds))
    return (outcome for outcome in outcomes if not outcome.is_ok)


BROKEN = [
    pytest.param({"store": broken.DropsAnEntry}, CALM, "is not in the ledger", id="a store that drops an entry"),
    pytest.param(
        {"store": broken.HasNoUniqueKey, "nodes": 3, "first": 6}, MOVING, "was decided twice", id="no unique key"
    ),
    pytest.param({"store": broken.ForgetsHalfACommit}, ROUGH, "the watermark is at", id="a commit by halves"),
    pytest.param(
        {"store": broken.OverwritesTheEnded, "nodes": 3}, MOVING, "had ended as", id="the ended is overwritten"
    ),
    pytest.param({"store": broken.IgnoresFences, "nodes": 3}, MOVING, "with the fence", id="fences are ignored"),
    pytest.param(
        {"decide": broken.moves_the_watermark_first}, CALM, "the watermark is at", id="the watermark goes first"
    ),
    pytest.param(
        {"decide": broken.launches_before_the_commit}, CALM, "before it was in the ledger", id="launched early"
    ),
    pytest.param({"decide": broken.forgets_a_launch}, CALM, "the loop has lost it", id="a launch is forgotten"),
    pytest.param({"decide": broken.forgets_what_became_of_runs}, CALM, "minutes after", id="an end is forgotten"),
    pytest.param({"decide": broken.takes_requests_again}, AGAIN, "the loop has lost it", id="a request is taken again"),
    pytest.param(
        {"decide": broken.launches_without_a_lease, "nodes": 3, "first": 6},
        AWAY,
        "after its lease had run out",
        id="launched without a lease",
    ),
    pytest.param(
        {"decide": broken.forgets_what_waits_for_a_lease, "nodes": 2, "first": 3},
        AWAY,
        "the loop has lost it",
        id="a lease that is renewed wakes nobody",
    ),
    pytest.param({"decide": broken.never_plans, "first": 9}, CALM, "the watermark of", id="nothing is planned"),
    pytest.param(
        {"decide": broken.never_looks_at_the_clock},
        Faults(jumps_per_hour=6.0),
        "nobody noticed",
        id="a jump is not seen",
    ),
    pytest.param(
        {"decide": broken.never_answers}, Faults(requests_per_hour=20.0), "has no answer", id="people get no answer"
    ),
    pytest.param(
        {"decide": broken.forgets_deadlines, "first": 204}, FAILING, "is not settled", id="a deadline is forgotten"
    ),
    pytest.param(
        {"decide": broken.settles_deadlines_in_memory, "first": 16},
        Faults(failure=0.5, crashes_per_hour=6.0),
        "reports the missed deadline",
        id="a deadline is reported twice",
    ),
    pytest.param({"decide": broken.starts_without_jitter}, CALM, "before its jitter ended", id="jitter delays nothing"),
    pytest.param(
        {"decide": broken.counts_jitter_as_lateness}, CALM, "within its jitter", id="a delayed start is missed"
    ),
    pytest.param({"decide": broken.never_sleeps}, CALM, "the loop spins", id="the loop spins"),
    pytest.param(
        {"decide": broken.tries_the_lost_again}, Faults(death=0.3), "runs at most once", id="at most once becomes twice"
    ),
    pytest.param(
        {"decide": broken.tries_the_lost_again, "jobs": 8},
        Faults(failure=0.0, member_outages_per_hour=12.0),
        "runs at most once, and nobody knows",
        id="at most once becomes twice on the fleet",
    ),
    pytest.param(
        {"decide": broken.repeats_every_shard, "jobs": 8},
        Faults(failure=0.4),
        "had succeeded and were started again",
        id="a shard is done twice",
    ),
    pytest.param(
        {"store": broken.IgnoresPriorities, "nodes": 3, "jobs": 8, "first": 19},
        CALM,
        "of a higher priority waits",
        id="priorities hold on one node only",
    ),
    pytest.param(
        {"decide": broken.passes_over_jobs_of_others, "nodes": 3, "first": 24},
        FAILING,
        "the last run that it requires",
        id="what other nodes own is not required",
    ),
    pytest.param(
        {"decide": broken.judges_requirements_only_when_due, "nodes": 1, "first": 20},
        FAILING,
        "the last run that it requires",
        id="what waits is not judged",
    ),
    pytest.param(
        {"decide": broken.loses_runs_for_ever}, CALM, "minutes after the last fault", id="nobody audits the loop"
    ),
    pytest.param(
        {"decide": broken.never_tells_steps}, CALM, "minutes after the last fault", id="a step waits for ever"
    ),
    pytest.param(
        {"decide": broken.tells_steps_that_all_is_well}, FAILING, "its step was told", id="a step is told a lie"
    ),
    pytest.param(
        {"decide": broken.forgets_where_it_put_them},
        Faults(failure=0.5),
        "is for the fleet, and was launched on",
        id="nobody chose a member",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "faults", "said"), BROKEN)
def test_a_broken_rule_is_noticed_by_its_name(mutant, faults, said):
    assert any(re.search(said, str(outcome.failure)) for outcome in islice(failures(faults, **mutant), 10))


GOING = Faults(crashes_per_hour=3.0, leaves_per_hour=3.0, partitions_per_hour=3.0, failure=0.0)
TWO_COPIES = "began beside|are running"
CUT_OFF = replace(GOING, crashes_per_hour=6.0, partitions_per_hour=12.0)


def nothing(*_: object, **__: Any) -> bool:
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "verb", "faults", "first", "said"),
    [
        pytest.param(SimulatedKeeper, "enforce", GOING, 0, TWO_COPIES, id="a keeper goes on without its lease"),
        pytest.param(SimulatedKeeper, "accept", CUT_OFF, 120, TWO_COPIES, id="what the ledger does not know goes on"),
        pytest.param(RunsLease, "leave", GOING, 0, "stopped in order and may be back", id="a stop without a word"),
    ],
)
def test_runs_that_are_not_kept_to_their_lease_are_noticed(owner, verb, faults, first, said):
    with mock.patch.object(owner, verb, nothing):
        assert any(re.search(said, str(outcome.failure)) for outcome in islice(failures(faults, first, nodes=3), 10))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "verb", "instead", "first"),
    [
        pytest.param(SimulatedMember, "_enforce", nothing, 45, id="a keeper goes on without an acknowledged card"),
        pytest.param(Assignments, "_refused", broken.takes_the_first_refusal, 30, id="an order that was said twice"),
        pytest.param(Membership, "is_given_up", broken.gives_up_the_silent, 3, id="silence is taken for the end"),
    ],
)
def test_members_that_freeze_and_are_cut_off_never_run_two_copies_unnoticed(owner, verb, instead, first):
    with mock.patch.object(owner, verb, instead):
        found = failures(MEMBERS, first, jobs=8)
        assert any(re.search("began on .* beside|are running", str(outcome.failure)) for outcome in islice(found, 10))


@pytest.mark.slow
def test_a_lost_shard_that_a_failed_one_hides_is_noticed():
    """A broadcast that runs at most once is then tried again, with the shard whose end is unknown."""
    with mock.patch.object(task, "merge_ends", broken.hides_lost_shards):
        found = failures(FAILING_MEMBERS, 624, 12, jobs=12)
        assert any(re.search("at most once, and nobody knows", str(outcome.failure)) for outcome in found)


@pytest.mark.slow
def test_orders_that_may_start_however_late_they_arrive_are_noticed():
    """One that was held up on its way starts on its member when the run is another node's."""
    with (
        mock.patch.object(Assignments, "_limits", broken.sets_no_limits),
        mock.patch.object(SimulatedMember, "_answer", broken.forgets_who_asked),
        # Few worlds show it; with calendars, blackouts and jitter, fewer runs are there to be held up.
        mock.patch.object(scenario, "draw_calendar", lambda _random, drawn, _start: drawn),
        mock.patch.object(scenario, "draw_blackouts", return_value=()),
        mock.patch.object(scenario, "draw_jitters", return_value={}),
    ):
        found = failures(HELD_UP, 3, 3, nodes=3, jobs=16)
        assert any(re.search("at most once, and nobody knows", str(outcome.failure)) for outcome in found)


def test_a_job_that_runs_after_a_success_that_the_ledger_refused_is_noticed():
    """Of a node that was cut off, and ended a run that the next owner has skipped or started again."""
    with mock.patch.object(Batch, "requests_without", broken.submits_all):
        found = failures(CUT_OFF, 284, 3, nodes=3, hours=None)
        assert any("runs after the end of" in str(outcome.failure) for outcome in found)


@pytest.mark.slow
def test_the_audit_takes_up_what_the_loop_has_lost():
    outcomes = [simulate(seed, faults=CALM, hours=1.0, decide=broken.loses_runs_and_finds_them) for seed in range(10)]
    assert [outcome.failure for outcome in outcomes] == [None] * 10


def test_runs_that_nodes_hold_and_others_do_not_count_are_noticed():
    said = "began beside|are running"
    outcomes = failures(GOING, nodes=3, decide=broken.overlooks_what_others_hold)
    assert any(re.search(said, str(outcome.failure)) for outcome in islice(outcomes, 10))


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults", [pytest.param(CALM, id="in calm"), pytest.param(Faults(failure=0.5, death=0.2), id="with failing runs")]
)
def test_the_unbroken_ones_pass_where_the_broken_are_caught(faults):
    assert [outcome.failure for outcome in failures(faults, nodes=1, seeds=share(16, SEEDS))] == []
