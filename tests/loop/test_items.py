"""Items of a step that run elsewhere on the fleet: runs of the same job that count for nothing but their own parent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop.messages import (
    MembersSeen,
    RunFinished,
    RunLost,
    StepsSeen,
    SubRunUnwanted,
    SubRunWanted,
)
from evertick.model.constraint import RequirePreviousSuccess
from evertick.model.facts import Parent, read_facts
from evertick.model.instant import MINUTE, SECOND
from evertick.model.job import After, Job
from evertick.model.lifecycle import CANCELLED, FAILED, LOST, RUNNING, SKIPPED, SUCCEEDED, Trigger
from evertick.model.member import Member
from evertick.model.policy import OnExecutorLost
from evertick.model.routing import Routing, Strategy
from evertick.model.run import RunKey
from evertick.model.steps import StepRecord, read_steps, steps_text
from evertick.model.subrun import sub_run_key
from evertick.model.work import Command, Each, ItemValue, Step, SubJob, Work
from evertick.store import RunFilter
from tests.loop.harness import CALM, FOREVER, HOURLY, SKIP, Act, World, at, job, retries, world

PARENT = RunKey("a", at("09:00"))
EACH = Each(tuple(map(ItemValue, "xyz")), max_parallel=2)
STEPS = (Step("all", Command(("true",)), each=EACH), Step("one", Command(("true",))))
ROUTING = Routing("fleet")
STUBBORN = Act(lasts_us=None, stop_takes_us=3 * SECOND)


def wanted(number: int = 0, step: str = "all", parent: RunKey = PARENT, attempt: int = 1) -> SubRunWanted:
    return SubRunWanted(parent, attempt, f"{step}[{number}]", 1, parent.job_id, '{"item_of": "x"}', is_from_member=True)


def key_of(number: int, attempt: int = 1) -> RunKey:
    return sub_run_key("a", PARENT, attempt, f"all[{number}]", 1)


def owner(steps=STEPS, routing=ROUTING, **known) -> Job:
    own = {name: known.pop(name) for name in ("queue", "constraints") if name in known}
    return replace(job("a", HOURLY, **known), routing=routing, work=Work(steps), **own)


def fan_out(*jobs: Job, members: tuple[Member, ...] = (), settings=CALM, **known) -> World:
    """A run of `a` is active on the fleet."""
    here = world(owner(**known), *jobs, settings=settings)
    here.executor.name = ""
    here.act("a", FOREVER)
    here.say(MembersSeen("fleet", members or tuple(Member(name, True, 0) for name in ("ex-a", "ex-b", "ex-c"))))
    here.run_until("09:00:01")
    return here


def items(here: World) -> list:
    """The rows of the items, in the order of their numbers."""
    rows = here.store.query(RunFilter(triggers=[Trigger.ITEM]), limit=1_000).rows
    return sorted(rows, key=lambda row: read_facts(row.facts).parents[0].via)


def ended(here: World, number: int, state=SUCCEEDED, attempt: int = 1, detail: str = "") -> RunFinished:
    steps = steps_text([StepRecord(f"all[{number}]", "succeeded" if state is SUCCEEDED else "failed", attempt)])
    return RunFinished(key_of(number), attempt, here.now, state, 0, detail, steps)


def test_an_item_is_a_run_of_the_same_job_that_names_its_parent():
    here = fan_out()
    here.say(wanted())
    (row,) = items(here)
    assert (row.key, row.trigger, row.state) == (key_of(0), Trigger.ITEM, RUNNING)
    assert read_facts(row.facts).parents == (Parent(PARENT.run_id, "all[0]"),)
    assert row.detail == f"for item 'all[0]' of {PARENT.run_id}"


def test_items_are_placed_one_by_one_although_their_job_allows_one_run():
    here = fan_out(overlap=SKIP)
    here.say(wanted(0), wanted(1))
    here.say(ended(here, 0))
    here.say(wanted(2))
    assert {row.executor for row in items(here)} == {"fleet:ex-a", "fleet:ex-b", "fleet:ex-c"}


def test_the_step_receives_the_record_of_its_item_and_where_it_ran():
    here = fan_out()
    here.say(wanted())
    here.say(ended(here, 0))
    (told,) = here.told
    assert (told.key, told.step, told.end.state) == (PARENT, "all[0]", SUCCEEDED)
    assert [step.name for step in read_steps(told.end.steps)] == ["all[0]"]
    assert told.end.executor == items(here)[0].executor


def test_a_repeated_request_makes_one_run_and_is_answered_again():
    here = fan_out()
    here.say(wanted(), wanted())
    here.say(ended(here, 0))
    here.restart(after=SECOND)
    here.say(wanted())
    here.run_for(10 * SECOND)
    assert len(items(here)) == 1
    assert [one.end.state for one in here.told] == [SUCCEEDED] * 2


def test_after_a_restart_items_continue_in_lanes_of_their_own():
    here = fan_out(overlap=SKIP)
    here.say(wanted(0), wanted(1))
    here.restart(after=SECOND)
    here.run_for(SECOND)
    here.say(wanted(0), wanted(1))
    here.say(ended(here, 0), ended(here, 1))
    assert [row.state for row in items(here)] == [SUCCEEDED] * 2


class TestWhatAMemberMayHave:
    @pytest.mark.parametrize(
        ("message", "steps", "routing"),
        [
            pytest.param(wanted(step="one"), STEPS, ROUTING, id="an item of a step without items"),
            pytest.param(wanted(step="other"), STEPS, ROUTING, id="an item of no step"),
            pytest.param(wanted(parent=PARENT._replace(origin="x")), STEPS, ROUTING, id="an item of no run"),
            pytest.param(
                wanted(),
                (replace(STEPS[0], each=replace(EACH, spreads=False)),),
                ROUTING,
                id="of a step that keeps them",
            ),
            pytest.param(wanted(), STEPS, Routing("fleet", Strategy.SHARDING_BROADCAST), id="of a shard"),
            pytest.param(wanted(), (replace(STEPS[0], kind=SubJob("b")),), ROUTING, id="of a step that is a job"),
            pytest.param(wanted()._replace(is_from_member=False), STEPS, ROUTING, id="asked by a local keeper"),
        ],
    )
    def test_nothing_else_is_run_and_the_keeper_runs_it_itself(self, message, steps, routing):
        here = fan_out(steps=steps, routing=routing)
        here.say(message)
        here.run_for(10 * SECOND)
        assert items(here) == []
        assert [one.end.state for one in here.told] == [SKIPPED]

    def test_no_more_at_once_than_the_step_allows(self):
        here = fan_out()
        here.say(wanted(0), wanted(1), wanted(2))
        here.run_for(10 * SECOND)
        assert len(items(here)) == 2
        here.say(ended(here, 0))
        here.run_for(10 * SECOND)
        assert len(items(here)) == 3

    def test_with_a_number_that_an_edit_has_lowered_they_do_not_wait_for_each_other(self):
        here = fan_out()
        here.say(wanted(0))
        here.say(wanted(1))
        fewer = replace(STEPS[0], each=replace(EACH, max_parallel=1))
        here.define(owner(steps=(fewer, STEPS[1])))
        here.say(ended(here, 0))
        here.say(wanted(2))  # the other one runs
        here.say(ended(here, 1))
        here.say(wanted(3))  # the one before waits
        here.run_for(MINUTE)
        assert sorted(row.state for row in items(here)) == [RUNNING, SUCCEEDED, SUCCEEDED]

    def test_an_item_has_no_items(self):
        here = fan_out()
        here.say(wanted())
        here.say(wanted(1, parent=key_of(0)))
        here.run_for(10 * SECOND)
        assert len(items(here)) == 1

    def test_an_attempt_before_the_current_one_gets_nothing(self):
        here = fan_out()
        here.say(RunLost(PARENT, 1, "gone"))
        here.run_for(SECOND)
        here.say(wanted(attempt=1))
        here.run_for(10 * SECOND)
        assert items(here) == []

    def test_a_job_that_was_edited_meanwhile_runs_its_items_itself(self):
        here = fan_out()
        here.define(owner(steps=(Step("else", Command(("true",))),)))
        here.say(wanted())
        here.run_for(10 * SECOND)
        assert items(here) == []
        assert [one.end.state for one in here.told] == [SKIPPED]


class TestWhatAnItemDoesNotCountIn:
    def test_the_overlap_rule_of_its_job(self):
        """Its parent has ended for the ledger, and it is still there."""
        here = fan_out(overlap=SKIP)
        here.say(wanted())
        here.say(RunFinished(PARENT, 1, here.now, SUCCEEDED, 0))
        here.run_until("10:00:01")
        assert [row.state for row in here.rows("a") if row.key.scheduled_for == at("10:00")] == [RUNNING]

    def test_the_outcome_of_its_job(self):
        here = fan_out(constraints=(RequirePreviousSuccess(),))
        here.say(wanted())
        here.say(ended(here, 0, FAILED))
        state = here.state.jobs["a"]
        assert (state.last_failed, state.last_success_at) == (False, None)
        here.say(wanted(1))
        here.say(ended(here, 1))
        assert here.state.jobs["a"].last_success_at is None

    def test_what_runs_after_its_job(self):
        here = fan_out(Job("b", after=After(("a",))))
        here.say(wanted())
        here.say(ended(here, 0))
        here.run_for(MINUTE)
        assert here.rows("b") == []

    def test_a_queue_of_its_job(self):
        here = fan_out(queue="narrow", settings=replace(CALM, queues=(("narrow", 1),)))
        here.say(wanted())
        assert [row.state for row in items(here)] == [RUNNING]

    def test_the_figures(self):
        here = fan_out()
        before = (
            here.state.statistics.launched,
            here.state.statistics.entered,
            here.state.statistics.request_delay.count,
        )
        here.say(wanted())
        here.say(ended(here, 0))
        after = (
            here.state.statistics.launched,
            here.state.statistics.entered,
            here.state.statistics.request_delay.count,
        )
        assert after == before
        assert not here.state.statistics.ended

    def test_the_retries_of_its_job(self):
        """The tries of the step were its own; those of the job are its parent's."""
        here = fan_out(retry=retries(3))
        here.say(wanted())
        here.say(ended(here, 0, FAILED))
        assert [row.state for row in items(here)] == [FAILED]

    def test_the_list_of_runs_and_the_last_run(self):
        here = fan_out()
        here.say(wanted())
        here.say(ended(here, 0, FAILED))
        assert [row.key for row in here.store.query(RunFilter()).rows] == [PARENT]
        assert here.store.newest(["a"]) == {}


class TestWhatEndsIt:
    def test_its_member_is_lost_and_it_runs_on_another(self):
        here = fan_out()
        here.say(wanted())
        assert len(items(here)) == 1
        here.say(RunLost(key_of(0), 1, "its member is gone"))
        here.run_for(SECOND)
        (again,) = items(here)
        assert (again.state, again.attempt) == (RUNNING, 2)
        here.say(ended(here, 0, attempt=2))
        assert [one.end.state for one in here.told] == [SUCCEEDED]

    def test_its_member_is_lost_and_its_job_runs_nothing_twice(self):
        here = fan_out(on_executor_lost=OnExecutorLost.FAIL)
        here.say(wanted())
        here.run_for(SECOND)
        here.say(RunLost(key_of(0), 1, "its member is gone"))
        here.run_for(SECOND)
        assert [row.state for row in items(here)] == [LOST]
        assert [one.end.state for one in here.told] == [LOST]

    def test_its_step_is_stopped(self):
        here = fan_out()
        here.say(wanted())
        here.say(SubRunUnwanted(PARENT, 1, "all[0]", 1, "a"))
        here.run_for(SECOND)
        assert [row.state for row in items(here)] == [CANCELLED]

    def test_its_step_is_stopped_and_waits_until_it_has_ended(self):
        """Until then its run has not ended, so that the overlap rule counts it."""
        here = fan_out()
        here.act("a", STUBBORN)
        here.say(wanted())
        here.say(SubRunUnwanted(PARENT, 1, "all[0]", 1, "a"))
        here.run_for(SECOND)
        assert ([row.state for row in items(here)], here.told) == ([RUNNING], [])
        here.run_for(MINUTE)
        assert [row.state for row in items(here)] == [CANCELLED]
        assert [(one.step, one.end.state) for one in here.told] == [("all[0]", CANCELLED)]
        assert here.state.sub_runs == {}

    def test_its_step_is_stopped_before_it_may_begin(self):
        here = fan_out()
        for number in range(3):
            here.say(wanted(number))
        here.say(SubRunUnwanted(PARENT, 1, "all[2]", 1, "a"))
        here.run_for(MINUTE)
        assert [row.state for row in items(here)] == [RUNNING, RUNNING]
        assert [(one.step, one.end.state) for one in here.told] == [("all[2]", CANCELLED)]

    def test_its_parent_is_lost_and_its_next_attempt_waits_until_it_has_ended(self):
        """The same item must not run twice at once."""
        here = fan_out()
        here.act("a", STUBBORN)
        here.say(wanted())
        here.say(RunLost(PARENT, 1, "gone"))
        here.run_for(SECOND)
        here.say(wanted(attempt=2))
        here.say(wanted(1, attempt=2))
        assert [(row.key, row.state) for row in items(here)] == [(key_of(0), RUNNING), (key_of(1, 2), RUNNING)]
        here.run_for(MINUTE)
        states = {row.key: row.state for row in items(here)}
        assert states == {key_of(0): CANCELLED, key_of(0, 2): RUNNING, key_of(1, 2): RUNNING}

    def test_its_parent_is_lost_and_the_next_attempt_asks_anew(self):
        here = fan_out()
        here.say(wanted())
        here.say(RunLost(PARENT, 1, "gone"))
        here.run_for(SECOND)
        assert [row.state for row in items(here)] == [CANCELLED]
        here.say(wanted(attempt=2))
        assert sorted(row.state for row in items(here)) == [CANCELLED, RUNNING]

    def test_an_item_ends_when_the_parent_that_its_steps_name_is_lost(self):
        here = fan_out()
        here.say(wanted())
        here.say(StepsSeen(PARENT, 1, steps_text([StepRecord("all[0]", "running", sub_run=key_of(0).run_id)])))
        here.restart(after=SECOND)
        here.run_for(SECOND)
        here.say(RunLost(PARENT, 1, "gone", steps_text([StepRecord("all[0]", "lost", sub_run=key_of(0).run_id)])))
        here.run_for(2 * SECOND)
        assert [row.state for row in items(here)] == [CANCELLED]

    def test_its_parent_is_lost_after_a_restart_before_it_could_say_that_it_had_asked(self):
        here = fan_out()
        here.say(wanted())
        here.restart(after=SECOND)
        here.run_for(SECOND)
        here.say(RunLost(PARENT, 1, "gone"))
        here.run_for(2 * SECOND)
        assert [row.state for row in items(here)] == [CANCELLED]


class TestSlotsAndResources:
    def test_parents_on_all_slots_do_not_keep_their_items_from_starting(self):
        members = tuple(Member(name, True, 0, slots=1) for name in ("ex-a", "ex-b"))
        parents = [replace(owner(), id=name) for name in ("p", "q")]
        here = world(*parents)
        here.executor.name = ""
        for one in parents:
            here.act(one.id, FOREVER)
        here.say(MembersSeen("fleet", members))
        here.run_until("09:00:01")
        for one in parents:
            here.say(wanted(parent=PARENT._replace(job_id=one.id)))
        assert [row.state for row in items(here)] == [RUNNING] * 2

    def test_an_item_waits_until_a_slot_is_free(self):
        here = fan_out(members=(Member("ex-a", True, 0, slots=1),))
        here.say(wanted(0), wanted(1))
        assert sorted(row.state for row in items(here)) == ["running", "waiting"]
        (first,) = [row for row in items(here) if row.state is RUNNING]
        here.say(ended(here, int(read_facts(first.facts).parents[0].via[4])))
        here.say(MembersSeen("fleet", (Member("ex-a", True, 1, slots=1, waiting=1),)))
        assert sorted(row.state for row in items(here)) == ["running", "succeeded"]

    def test_a_single_item_at_a_time_uses_what_its_run_has_reserved(self):
        routing = Routing("fleet", resources=(("gpus", 1_000),))
        one = Member("ex-a", True, 0, offers=(("gpus", 1_000),))
        here = fan_out(members=(one,), routing=routing)
        here.say(MembersSeen("fleet", (one._replace(running=1, used=(("gpus", 1_000),)),)))
        here.say(wanted(0), wanted(1))
        assert sorted(row.state for row in items(here)) == ["running", "waiting"]
        assert [launch.borrows for _, launch in here.launches] == [False, True]

    def test_a_member_that_would_run_the_whole_job_gets_no_item(self):
        here = fan_out(members=(Member("ex-a", True, 0, runs_items=False), Member("ex-b", True, 0)))
        here.say(wanted(0), wanted(1))
        assert {row.executor for row in items(here)} == {"fleet:ex-b"}


def test_runs_on_all_members_do_not_keep_their_items_from_a_member_without_the_job():
    """`BUSYOVER` goes to a member where the job is not active, and the runs that wait are active on all."""
    routing = Routing("fleet", Strategy.BUSYOVER)
    here = fan_out(routing=routing, members=(Member("ex-a", True, 0),))
    here.say(wanted(0), wanted(1))
    assert sorted(row.state for row in items(here)) == ["running", "waiting"]
