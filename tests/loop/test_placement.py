"""Where runs of the fleet go, what they do when no member can take them, and the overlap rule by member."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from evertick.loop.effects import Reconcile
from evertick.loop.messages import AttemptSeen, LeaseRenewed, MembersSeen, RunLost
from evertick.model.instant import MINUTE, SECOND
from evertick.model.job import Job
from evertick.model.ledger import bucket_of
from evertick.model.lifecycle import FAILED, RUNNING, SUCCEEDED
from evertick.model.member import Member
from evertick.model.policy import OnExecutorLost, Overlap, OverlapKind, Scope
from evertick.model.report import RunFinished, SubRunWanted
from evertick.model.routing import Routing, Strategy
from evertick.model.schedule import EverySpec
from evertick.model.work import Step, SubJob, Work
from tests.loop.harness import FOREVER, Act, World, at, job, retries, world

MINUTELY = EverySpec(MINUTE)
ABC = ("ex-a", "ex-b", "ex-c")


def on_fleet(strategy: Strategy = Strategy.ROUND, labels=(), **known):
    return replace(job("a", MINUTELY, **known), routing=Routing("fleet", strategy, labels))


def by_member(kind: OverlapKind, limit: int = 1) -> Overlap:
    return Overlap(kind, limit, Scope.EXECUTOR)


def fleet(*jobs, members: tuple[str, ...] = ABC) -> World:
    here = world(*jobs)
    here.executor.name = ""  # the placement stands
    here.say(seen(*members))
    return here


def seen(*names: str, **known) -> MembersSeen:
    return MembersSeen("fleet", [Member(name, is_healthy=True, running=0, **known) for name in names])


def places(here: World) -> list[str]:
    return [launch.executor.removeprefix("fleet:") for _, launch in here.launches]


def test_runs_go_round_the_members_and_the_ledger_knows_where():
    here = fleet(on_fleet())
    here.run_until("08:34:30")
    assert places(here) == ["ex-b", "ex-c", "ex-a", "ex-b"]
    assert [row.executor for row in here.rows()] == ["fleet:ex-b", "fleet:ex-c", "fleet:ex-a", "fleet:ex-b"]


def six() -> list:
    return [replace(job(f"job-{number}", MINUTELY), routing=Routing("fleet")) for number in range(6)]


def places_by_minute(here: World) -> list[Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for _, launch in here.launches:
        found.setdefault(launch.key.scheduled_for, Counter())[launch.executor.removeprefix("fleet:")] += 1
    return [found[minute] for minute in sorted(found)]


def test_jobs_that_are_due_together_are_spread_over_the_members():
    here = fleet(*six())
    here.run_until("08:34:30")
    assert places_by_minute(here) == [dict.fromkeys(ABC, 2)] * 4


@pytest.mark.parametrize("names", [("ex-a", "ex-b"), ABC])
def test_jobs_that_an_outage_sent_to_one_member_are_spread_again(names):
    here = fleet(*six(), members=names[:1])
    here.run_until("08:32:30")
    assert places_by_minute(here) == [{"ex-a": 6}] * 2
    here.say(seen(*names))
    here.run_until("08:36:30")
    assert places_by_minute(here)[-2:] == [dict.fromkeys(names, 6 // len(names))] * 2


def test_the_least_loaded_member_has_the_most_free_slots_with_what_was_put_there_since():
    here = fleet(on_fleet(Strategy.LEAST_LOADED, overlap=Overlap(OverlapKind.PARALLEL, 9)))
    here.act("a", FOREVER)
    here.say(
        MembersSeen("fleet", [Member(name, True, 0, slots=slots) for name, slots in zip(ABC, (1, 3, 2), strict=True)])
    )
    here.run_until("08:36:30")
    assert places(here) == ["ex-b", "ex-b", "ex-c", "ex-b", "ex-a", "ex-c"]


@pytest.mark.parametrize("strategy", [Strategy.ROUND, Strategy.LRU, Strategy.LFU])
def test_after_a_restart_the_rotation_continues(strategy):
    here = fleet(on_fleet(strategy))
    here.run_until("08:32:30")
    assert places(here) == ["ex-b", "ex-c"]
    here.restart()
    here.say(seen(*ABC))
    here.run_until("08:34:30")
    assert places(here) == ["ex-b", "ex-c", "ex-a", "ex-b"]


def test_a_job_without_a_routing_stays_on_this_machine():
    here = fleet(job("a", MINUTELY))
    here.run_until("08:31:30")
    assert places(here) == ["local@node"]


def test_a_run_that_no_member_can_take_waits_with_its_reason():
    here = fleet(on_fleet(labels=(("gpu", "true"),)))
    here.run_until("08:31:30")
    assert here.launches == []
    assert here.ledger() == ["08:31 waiting"]
    assert here.line("08:31").detail == "no-executor: of 3 members: none has gpu=true"
    here.say(seen("ex-g", labels=(("gpu", "true"),)))
    assert places(here) == ["ex-g"]
    assert here.line("08:31").detail == "it waited for an executor: of 3 members: none has gpu=true"
    assert here.forgotten() == []


def test_a_run_that_waited_for_a_member_over_a_restart_does_not_keep_that_wait():
    here = fleet(on_fleet(), members=())
    here.run_until("08:31:30")
    here.restart()
    here.say(seen("ex-a"))
    here.run_for(10 * SECOND)
    assert here.ledger() == ["08:31 succeeded"]
    assert "no-executor" not in here.line("08:31").detail


def test_an_unplaced_run_waits_only_as_long_as_its_window():
    here = fleet(on_fleet(max_delay_us=30 * SECOND), members=())
    here.run_until("08:31:29")
    assert here.ledger() == ["08:31 waiting"]
    here.run_until("08:31:31")
    assert here.ledger() == ["08:31 skipped no-executor"]
    assert "no member of the fleet is connected" in here.line("08:31").detail


def test_an_unplaced_run_is_saturated_where_every_member_was_full_until_then():
    here = fleet(on_fleet(overlap=Overlap(OverlapKind.PARALLEL, 9), max_delay_us=30 * SECOND))
    here.act("a", FOREVER)
    here.say(seen("ex-a", slots=1))
    here.run_until("08:32:31")
    assert here.ledger() == ["08:31 running", "08:32 skipped saturated"]
    assert "of 1 member: 1 full" in here.line("08:32").detail


def test_runs_that_wait_for_a_member_start_in_order_when_one_joins():
    here = fleet(on_fleet(overlap=Overlap(OverlapKind.WAIT)), members=())
    here.run_until("08:33:30")
    here.say(seen("ex-a"))
    here.run_for(10 * SECOND)
    assert here.started() == ["08:31", "08:32", "08:33"]


def test_runs_get_only_the_room_that_a_member_has():
    wanting = Routing("fleet", Strategy.FIRST, resources=(("cpu", 2_000),))
    jobs = [replace(job(f"job-{number}", EverySpec(60 * MINUTE)), routing=wanting) for number in range(4)]
    here = fleet(*jobs, members=())
    for one in jobs:
        here.act(one.id, FOREVER)
    offering = [Member(name, True, 0, offers=(("cpu", cpu),)) for name, cpu in (("ex-a", 4_500), ("ex-b", 3_000))]
    here.say(MembersSeen("fleet", offering))
    here.run_until("09:00:30")
    assert places(here) == ["ex-a", "ex-a", "ex-b"]
    assert here.line("09:00", "job-3").detail == "no-executor: of 2 members: 2 without room for cpu=2"
    here.finish("job-0")
    here.say(MembersSeen("fleet", offering))
    assert places(here)[3:] == ["ex-a"]


def test_room_that_attempts_of_other_nodes_use_is_not_given_away():
    here = fleet(replace(on_fleet(Strategy.FIRST), routing=Routing("fleet", Strategy.FIRST, resources=(("gpus", 1),))))
    taken = Member("ex-a", True, 1, offers=(("gpus", 1),), used=(("gpus", 1),))
    here.say(MembersSeen("fleet", [taken]))
    here.run_until("08:31:30")
    assert here.launches == []
    here.say(MembersSeen("fleet", [taken._replace(running=0, used=())]))
    assert places(here) == ["ex-a"]


def test_a_member_that_is_full_is_passed_over_and_all_full_is_waited_for():
    here = fleet(on_fleet(overlap=Overlap(OverlapKind.PARALLEL, 9)))
    here.act("a", FOREVER)
    here.say(seen("ex-a", "ex-b", slots=1))
    here.run_until("08:33:30")
    assert places(here) == ["ex-a", "ex-b"]
    assert here.line("08:33").detail == "no-executor: of 2 members: 2 full"
    here.finish("a")
    assert here.started()[-1] == "08:33"


@pytest.mark.parametrize(
    ("priority", "first"),
    [
        pytest.param(0, "z", id="the one that has waited longest"),
        pytest.param(1, "a", id="the one of higher priority"),
    ],
)
def test_a_place_that_is_free_goes_to(priority, first):
    routing = Routing("fleet", Strategy.FIRST)
    late = replace(job("a", EverySpec(2 * MINUTE)), routing=routing, priority=priority)
    early = replace(job("z", MINUTELY), routing=routing)
    here = fleet(late, early, members=())
    for name in ("a", "z"):
        here.act(name, FOREVER)
    here.run_until("08:32:30")
    assert here.launches == []
    here.say(seen("ex-a", slots=1))
    assert [launch.key.job_id for _, launch in here.launches] == [first]


def test_a_place_goes_round_the_jobs_that_wait_for_it_whatever_they_do_with_older_runs():
    routing = Routing("fleet", Strategy.FIRST)
    patient = replace(job("a", MINUTELY, overlap=Overlap(OverlapKind.WAIT)), routing=routing)
    restless = replace(job("z", MINUTELY, overlap=Overlap(OverlapKind.REPLACE)), routing=routing)
    here = fleet(patient, restless, members=())
    for name in ("a", "z"):
        here.act(name, FOREVER)
    here.run_until("08:35:30")
    here.say(seen("ex-a", slots=1))
    here.say(MembersSeen("fleet", [Member("ex-a", is_healthy=True, running=1, slots=1)]))
    here.finish("a")
    here.say(seen("ex-a", slots=1))
    assert [launch.key.job_id for _, launch in here.launches][:2] == ["a", "z"]


def test_a_next_attempt_has_its_turn_among_those_that_wait_for_a_place():
    routing = Routing("fleet", Strategy.FIRST)
    failing = replace(job("a", MINUTELY, retry=retries(1)), routing=routing)
    waiting = replace(job("b", MINUTELY), routing=routing, priority=-1)
    here = fleet(failing, members=("ex-a",))
    here.act("a", Act(state=FAILED), FOREVER)
    here.run_until("08:31:01")
    here.say(seen())
    here.define(failing, waiting)
    here.run_until("08:32:30")
    here.say(seen("ex-a", slots=1))
    assert [(launch.key.job_id, launch.attempt) for _, launch in here.launches] == [("a", 1), ("a", 2)]


def test_a_lost_run_goes_to_another_member():
    here = fleet(on_fleet(Strategy.FAILOVER))
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    (_, launch), *_ = here.launches
    here.say(seen("ex-b", "ex-c"), RunLost(launch.key, 1, "it is away"))
    here.run_for(SECOND)
    assert places(here) == ["ex-a", "ex-b"]


def test_a_failed_run_of_failover_is_tried_on_the_next_member():
    here = fleet(on_fleet(Strategy.FAILOVER, retry=retries(2, SECOND), overlap=Overlap(OverlapKind.WAIT)))
    here.act("a", Act(state=FAILED))
    here.run_until("08:31:30")
    assert places(here) == ["ex-a", "ex-b", "ex-c"]


def test_a_member_that_refuses_is_not_the_end():
    here = fleet(on_fleet(Strategy.FAILOVER))
    here.act("a", Act(refused=True), Act())
    here.run_until("08:31:10")
    assert places(here) == ["ex-a", "ex-b"]
    assert here.ledger() == ["08:31 succeeded"]


def test_an_attempt_that_was_given_up_is_ended_when_its_member_is_back():
    here = fleet(on_fleet())
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    key = here.launches[0][1].key
    here.say(AttemptSeen(key, 1))
    assert here.stops == []
    here.say(RunLost(key, 1, "it is away"))
    here.run_for(SECOND)
    here.say(AttemptSeen(key, 1), AttemptSeen(key, 2))
    assert [(stop.key, stop.attempt) for _, stop in here.stops] == [(key, 1)]


def test_an_attempt_of_a_run_that_has_ended_is_ended_too():
    here = fleet(on_fleet(on_executor_lost=OnExecutorLost.FAIL))
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    key = here.launches[0][1].key
    here.say(RunLost(key, 1, "it is away"))
    here.restart()
    here.say(AttemptSeen(key, 1))
    assert [(stop.key, stop.attempt) for _, stop in here.stops] == [(key, 1)]


def test_after_a_restart_the_member_that_has_it_is_asked():
    here = fleet(on_fleet())
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    here.restart()
    asked = [effect for _, _, effects in here.turns for effect in effects if isinstance(effect, Reconcile)]
    assert [[one.executor for one in effect.runs] for effect in asked] == [["fleet:ex-b"]]


def test_a_run_that_was_about_to_be_launched_is_asked_for_everywhere():
    here = fleet(on_fleet())
    here.run_until("08:30:58")
    here.is_ledger_away = True
    here.run_until("08:31:01")
    assert places(here) == ["ex-b"]
    here.is_ledger_away = False
    here.wake()
    asked = [effect for _, _, effects in here.turns for effect in effects if isinstance(effect, Reconcile)]
    assert [[one.executor for one in effect.runs] for effect in asked] == [["fleet"]]


def test_losing_a_bucket_does_not_end_what_runs_on_the_fleet():
    here = fleet(on_fleet())
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    bucket = here.state.jobs["a"].bucket
    here.steal(bucket)
    here.run_until("08:32:10")
    assert bucket not in here.state.epochs
    assert here.stops == []


class TestMemberByMember:
    def test_a_job_may_run_once_on_each_member(self):
        here = fleet(on_fleet(overlap=by_member(OverlapKind.SKIP)))
        here.act("a", FOREVER)
        here.run_until("08:34:30")
        assert sorted(places(here)) == list(ABC)
        assert here.ledger()[-1] == "08:34 skipped overlap"

    def test_a_run_waits_for_its_own_member_only(self):
        here = fleet(on_fleet(overlap=by_member(OverlapKind.WAIT)), members=("ex-a", "ex-b"))
        here.act("a", FOREVER, Act(lasts_us=150 * SECOND), Act())
        here.run_until("08:35:30")
        assert here.ledger()[2:] == ["08:33 waiting", "08:34 succeeded", "08:35 succeeded"]
        assert places(here) == ["ex-a", "ex-b", "ex-b", "ex-b"]

    def test_covering_ends_only_the_run_on_the_same_member(self):
        here = fleet(on_fleet(overlap=by_member(OverlapKind.REPLACE)), members=("ex-a", "ex-b"))
        here.act("a", FOREVER)
        here.run_until("08:33:30")
        assert [stop.key.scheduled_for for _, stop in here.stops] == [here.line("08:31").key.scheduled_for]
        assert here.ledger() == ["08:31 cancelled", "08:32 running", "08:33 running"]
        assert places(here) == ["ex-a", "ex-b", "ex-a"]

    def test_the_limit_of_a_member_applies_to_each_member(self):
        here = fleet(on_fleet(Strategy.FIRST, overlap=by_member(OverlapKind.PARALLEL, 2)), members=("ex-a", "ex-b"))
        here.act("a", FOREVER)
        here.run_until("08:33:30")
        assert here.ledger() == ["08:31 running", "08:32 running", "08:33 waiting"]

    def test_a_retry_is_judged_on_its_member(self):
        here = fleet(on_fleet(overlap=by_member(OverlapKind.SKIP), retry=retries(1, SECOND)), members=("ex-a", "ex-b"))
        here.act("a", FOREVER, Act(state=FAILED), Act())
        here.run_until("08:32:30")
        assert places(here)[:2] == ["ex-a", "ex-b"]


def test_cluster_wide_a_second_run_is_skipped_wherever_it_would_go():
    here = fleet(on_fleet())
    here.act("a", FOREVER)
    here.run_until("08:32:30")
    assert here.ledger() == ["08:31 running", "08:32 skipped overlap"]


class TestBroadcast:
    def test_a_broadcast_goes_to_all_members_at_once(self):
        here = fleet(on_fleet(Strategy.SHARDING_BROADCAST))
        here.run_until("08:31:30")
        assert places(here) == ["*ex-a,ex-b,ex-c"]
        assert here.ledger() == ["08:31 succeeded"]

    def test_only_the_shards_that_failed_are_tried_again(self):
        here = fleet(on_fleet(Strategy.SHARDING_BROADCAST, retry=retries(1, SECOND)))
        here.act("a", FOREVER, Act())
        here.run_until("08:31:10")
        key = here.launches[0][1].key
        done = "fleet:*ex-a+,ex-b,ex-c+"
        here.say(RunFinished(key, 1, here.now, FAILED, 1, "1 of 3 shards failed", executor=done))
        here.run_until("08:31:30")
        assert places(here) == ["*ex-a,ex-b,ex-c", "*ex-a+,ex-b,ex-c+"]
        assert here.ledger() == ["08:31 succeeded"]

    def test_a_restart_between_two_attempts_forgets_no_shard(self):
        here = fleet(on_fleet(Strategy.SHARDING_BROADCAST, retry=retries(1, MINUTE)))
        here.act("a", FOREVER, Act())
        here.run_until("08:31:10")
        key = here.launches[0][1].key
        here.say(RunFinished(key, 1, here.now, FAILED, 1, executor="fleet:*ex-a+,ex-b,ex-c+"))
        here.restart()
        here.say(seen("ex-a", "ex-c"))
        here.run_until("08:32:30")
        assert places(here)[1] == "*ex-a+,ex-c,ex-c+"

    def test_shards_reported_to_a_node_after_it_lost_the_job_are_not_repeated(self):
        """Their members may be away when the next owner asks."""
        here = fleet(on_fleet(Strategy.SHARDING_BROADCAST))
        here.act("a", FOREVER, Act())
        here.run_until("08:31:10")
        key, bucket = here.launches[0][1].key, bucket_of("a")
        here.say(here.lost(bucket, is_fenced=True))
        here.say(RunLost(key, 1, "1 of 3 shards is lost", executor="fleet:*ex-a+,ex-b,ex-c+"))
        here.executor.attempts.clear()  # the members are away
        here.restart(told=[LeaseRenewed(at("10:00"))])
        here.say(seen(*ABC))
        here.run_for(MINUTE)
        assert places(here)[1] == "*ex-a+,ex-b,ex-c+"

    def test_when_it_is_refused_the_members_are_counted_anew(self):
        here = fleet(on_fleet(Strategy.SHARDING_BROADCAST))
        here.act("a", Act(refused=True), Act())
        here.run_until("08:31:00")
        here.say(seen("ex-a"))
        here.run_for(5 * SECOND)
        assert places(here) == ["*ex-a,ex-b,ex-c", "*ex-a"]

    def test_member_by_member_the_busy_ones_are_left_out(self):
        here = fleet(on_fleet(Strategy.SHARDING_BROADCAST, overlap=by_member(OverlapKind.SKIP)), members=("ex-a",))
        here.act("a", FOREVER)
        here.run_until("08:31:30")
        here.say(seen(*ABC))
        here.run_until("08:33:30")
        assert places(here) == ["*ex-a", "*,ex-b,ex-c"]
        assert here.ledger()[-1] == "08:33 skipped overlap"


def test_at_most_once_holds_on_the_fleet():
    here = fleet(on_fleet(on_executor_lost=OnExecutorLost.FAIL))
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    here.say(RunLost(here.launches[0][1].key, 1, "it is away"))
    here.run_for(SECOND)
    assert here.ledger() == ["08:31 lost"]
    assert places(here) == ["ex-b"]


class TestARunThatWaitsForOthers:
    """It lends its slot: if parents held every slot, the runs that they wait for could never start."""

    PARENTS = ("p1", "p2", "p3")

    def parents(self, members: tuple[Member, ...]) -> World:
        """A parent runs on every slot, and each wants a run of a job of its own."""
        away = Routing("fleet")
        calls = {name: Work((Step("call", SubJob(f"{name}-child")),)) for name in self.PARENTS}
        jobs = [replace(job(name, MINUTELY), routing=away, work=work) for name, work in calls.items()]
        here = world(*jobs, *(Job(f"{name}-child", routing=away) for name in self.PARENTS))
        here.executor.name = ""
        for name in self.PARENTS:
            here.act(name, FOREVER)
        here.say(MembersSeen("fleet", members))
        here.run_until("08:31:10")
        return here

    def wanted(self, here: World, parent: str) -> SubRunWanted:
        (row,) = [row for row in here.rows(parent) if row.state is RUNNING]
        return SubRunWanted(row.key, 1, "call", 1, f"{parent}-child", "", is_from_member=True)

    def test_a_single_slot_is_enough_for_a_parent_and_its_run(self):
        here = self.parents((Member("ex-a", True, 0, slots=1),))
        (parent,) = [name for name in self.PARENTS if here.started(name)]
        here.say(self.wanted(here, parent))
        assert here.started(f"{parent}-child") == ["08:31"]
        here.run_for(5 * SECOND)
        assert [row.state for row in here.rows(f"{parent}-child")] == [SUCCEEDED]

    def test_parents_on_all_slots_do_not_keep_their_runs_from_starting(self):
        slots = tuple(Member(name, True, 0, slots=1) for name in ABC)
        here = self.parents(slots)
        assert all(here.started(parent) for parent in self.PARENTS)
        here.say(*(self.wanted(here, parent) for parent in self.PARENTS))
        assert [here.started(f"{parent}-child") for parent in self.PARENTS] == [["08:31"]] * 3

    def test_the_waiting_attempts_that_a_member_reports_count(self):
        here = self.parents((Member("ex-a", True, 0, slots=1),))
        (parent,) = [name for name in self.PARENTS if here.started(name)]
        here.say(MembersSeen("fleet", (Member("ex-a", True, 1, slots=1),)))
        here.say(self.wanted(here, parent))
        assert here.started(f"{parent}-child") == []
        here.say(MembersSeen("fleet", (Member("ex-a", True, 1, slots=1, waiting=1),)))
        assert here.started(f"{parent}-child") == ["08:31"]

    def test_a_parent_has_its_slot_again_when_it_no_longer_waits(self):
        here = self.parents((Member("ex-a", True, 0, slots=1),))
        (parent,) = [name for name in self.PARENTS if here.started(name)]
        here.say(self.wanted(here, parent))
        here.run_for(5 * SECOND)
        assert len(here.told) == 1
        here.run_for(2 * MINUTE)
        assert [name for name in self.PARENTS if here.started(name)] == [parent]
