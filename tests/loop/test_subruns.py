"""Is the run that a step requests created once, and does the step receive its outcome, whichever process dies?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop import subruns
from evertick.loop.decide import decide
from evertick.loop.effects import LookUpSubRuns
from evertick.loop.messages import (
    CancelRun,
    MembersSeen,
    Message,
    RunFinished,
    RunLost,
    StepsSeen,
    SubRunsSeen,
    SubRunUnwanted,
    SubRunWanted,
    TriggerJob,
)
from evertick.model.facts import Parent, read_facts
from evertick.model.instant import MINUTE, SECOND
from evertick.model.job import Job
from evertick.model.ledger import bucket_of
from evertick.model.lifecycle import CANCELLED, FAILED, PLANNED, RUNNING, SKIPPED, SUCCEEDED, Trigger
from evertick.model.member import Member
from evertick.model.policy import OnExecutorLost, Overlap, OverlapKind, Policy
from evertick.model.routing import FLEET, Routing
from evertick.model.run import RunKey
from evertick.model.steps import StepRecord, steps_text
from evertick.model.subrun import SubRunEnd, old_sub_run_key, sub_run_key
from evertick.model.work import Each, ItemValue, Step, SubJob, Work
from evertick.operations.requests import message_of
from tests.loop.executor import Act
from tests.loop.harness import FOREVER, World, at, job, world

PARENT = RunKey("a", at("09:00"))
WANTED = SubRunWanted(PARENT, 1, "call", 1, "b", '{"N": "1"}')
FROM_MEMBER = WANTED._replace(is_from_member=True)
CHILD = sub_run_key("b", PARENT, 1, "call", 1)
LONG = Act(lasts_us=10 * MINUTE)


def parent_runs(*, child: Act = LONG, **known) -> World:
    """A run of `a` goes on, and one of its steps is the job `b`, which has no schedule."""
    here = world(job("a", on_executor_lost=OnExecutorLost.FAIL), Job("b", **known))
    here.act("a", FOREVER)
    here.act("b", child)
    here.run_until("09:00:01")
    return here


def told(here: World) -> list[SubRunEnd]:
    return [one.end for one in here.told]


def test_the_run_is_for_the_time_of_its_parent_and_names_its_cause():
    here = parent_runs()
    here.say(WANTED)
    (row,) = here.rows("b")
    assert (row.key, row.trigger, row.params) == (CHILD, Trigger.SUBJOB, '{"N": "1"}')
    assert row.detail == f"for step 'call' of {PARENT.run_id}"
    assert here.started("b") == ["09:00"]


def test_the_run_names_its_parent_in_a_field_and_not_in_its_id():
    here = parent_runs()
    here.say(WANTED)
    (row,) = here.rows("b")
    assert read_facts(row.facts).parents == (Parent(PARENT.run_id, "call"),)
    assert len(row.key.origin) <= 16


def test_a_step_that_waits_since_the_version_before_finds_the_run_it_asked_for():
    """The keepers of the version before go on through an upgrade, and so does what they wait for."""
    old = old_sub_run_key("b", PARENT, 1, "call", 1)
    here = parent_runs()
    here.say(StepsSeen(PARENT, 1, steps_text([StepRecord("call", "running", 1, sub_run=old.run_id)])))
    here.say(WANTED)
    assert [row.key for row in here.rows("b")] == [old]


@pytest.mark.parametrize("state", [SUCCEEDED, FAILED])
def test_the_step_receives_how_the_run_ended(state):
    here = parent_runs(child=Act(state=state))
    here.say(WANTED)
    here.run_for(5 * SECOND)
    assert [(one.key, one.attempt, one.step, one.number) for one in here.told] == [(PARENT, 1, "call", 1)]
    assert [end.state for end in told(here)] == [state]


def test_the_step_receives_the_end_when_the_ledger_has_it():
    """If the node died before that, the run would be made again, and could end in another way."""
    here = parent_runs(child=FOREVER)
    here.say(WANTED)
    here.run_for(SECOND)
    here.is_ledger_away = True
    here.say(RunFinished(CHILD, 1, here.now, FAILED, 1))
    here.run_for(5 * SECOND)
    assert told(here) == []
    here.is_ledger_away = False
    here.write()
    here.run_for(SECOND)
    assert [end.state for end in told(here)] == [FAILED]


def test_what_the_steps_of_the_run_handed_on_is_reported_with_its_end():
    here = parent_runs(child=FOREVER)
    here.say(WANTED)
    whole, cut = StepRecord("x", "succeeded", output="7"), StepRecord("y", "succeeded", output="8", is_output_cut=True)
    steps = steps_text([whole, cut])
    here.say(RunFinished(CHILD, 1, here.now, SUCCEEDED, 0, "", steps))
    assert told(here) == [SubRunEnd(SUCCEEDED, "", {"x": "7"})]


def test_asking_again_makes_no_second_run():
    here = parent_runs()
    here.say(WANTED)
    here.say(WANTED)
    here.run_for(MINUTE)
    here.say(WANTED)
    assert here.started("b") == ["09:00"]


def test_asked_for_again_and_ended_in_the_turn_in_which_it_succeeds_it_has_succeeded():
    here = parent_runs(child=FOREVER)
    here.say(WANTED)
    here.run_for(SECOND)
    here.restart(after=SECOND)
    here.say(WANTED)
    asked = TriggerJob(CHILD.origin, "b", CHILD.scheduled_for, Trigger.SUBJOB)
    ended = RunFinished(CHILD, 1, here.now, SUCCEEDED, 0)
    here.say(ended, asked, CancelRun("stop", "b", CHILD, "the end of its parent"))
    here.run_for(SECOND)
    assert [end.state for end in told(here)] == [SUCCEEDED]
    assert here.ledger("b") == ["09:00 succeeded subjob"]


def test_another_try_of_the_step_is_another_run():
    here = parent_runs(child=Act(state=FAILED))
    here.say(WANTED)
    here.run_for(5 * SECOND)
    here.say(WANTED._replace(number=2))
    assert len(here.started("b")) == 2


def test_after_a_restart_the_keeper_asks_again_and_receives_the_end_of_the_run():
    here = parent_runs()
    here.say(WANTED)
    here.restart(after=SECOND)
    here.say(WANTED)
    here.run_for(11 * MINUTE)
    assert here.started("b") == ["09:00"]
    assert [end.state for end in told(here)] == [SUCCEEDED]


def test_a_run_that_ended_during_a_downtime_is_looked_up():
    here = parent_runs()
    here.say(WANTED)
    here.restart(after=20 * MINUTE)  # its end is found while starting
    here.run_for(2 * MINUTE)
    here.say(WANTED)
    here.run_for(5 * SECOND)
    assert here.started("b") == ["09:00"]
    assert [end.state for end in told(here)] == [SUCCEEDED]


def test_asked_for_just_before_a_crash_it_is_made_when_it_is_asked_for_again():
    here = parent_runs()
    here.is_ledger_away = True
    here.say(WANTED)
    here.is_ledger_away = False
    here.restart(after=SECOND)
    assert here.started("b") == []
    here.say(WANTED)
    assert here.started("b") == ["09:00"]


def test_a_run_of_another_nodes_job_is_asked_for_through_the_ledger_and_looked_up_there():
    here = parent_runs()
    here.steal(bucket_of("b"))
    here.run_for(MINUTE)  # it finds out by its next commit
    here.say(WANTED)
    (request,) = here.store.claim([bucket_of("b")], 9)
    message = message_of(request)
    assert isinstance(message, TriggerJob)
    assert (message.request_id, message.job_id, message.submitted_at) == (CHILD.origin, "b", PARENT.scheduled_for)
    assert (message.trigger, message.params) == (Trigger.SUBJOB, '{"N": "1"}')
    here.run_for(10 * SECOND)
    assert told(here) == []
    other = World([Job("b")], here.now, here.settings)
    other.store = here.store
    other.begin()
    other.say(message)
    other.run_for(5 * SECOND)
    here.run_for(5 * SECOND)
    assert [end.state for end in told(here)] == [SUCCEEDED]


def test_the_ledger_is_asked_again_only_when_it_has_answered():
    """A slow one would otherwise be asked more often than it can answer, and write nothing any more."""
    here = parent_runs()
    here.steal(bucket_of("b"))
    here.run_for(MINUTE)  # it finds out by its next commit
    told: list[list[Message]] = [[WANTED], [], [], [SubRunsSeen([])], []]
    decided = [decide(here.state, messages, here.now + minute * MINUTE) for minute, messages in enumerate(told)]
    asked = [sum(isinstance(effect, LookUpSubRuns) for effect in decision.effects) for decision in decided]
    assert asked == [1, 0, 0, 0, 1]


def test_the_overlap_rule_of_the_other_job_holds():
    here = parent_runs()
    here.trigger("b")
    here.say(WANTED)
    here.run_for(2 * SECOND)
    (end,) = told(here)
    assert (end.state, "was still" in end.detail) == (SKIPPED, True)


def test_an_unknown_job_is_an_error():
    here = parent_runs()
    here.say(WANTED._replace(job_id="nobody"))
    assert told(here) == [SubRunEnd(FAILED, "unknown job 'nobody'")]


def test_a_step_that_does_not_wait_continues_as_soon_as_the_run_is_in_the_ledger():
    here = parent_runs()
    here.say(WANTED._replace(waits=False))
    here.run_for(2 * SECOND)
    assert told(here) == [SubRunEnd(PLANNED)]
    here.finish("a")
    here.run_for(2 * SECOND)
    assert here.ledger("b") == ["09:00 running subjob"]


def test_a_step_that_is_ended_takes_its_run_with_it():
    here = parent_runs()
    here.say(WANTED)
    here.say(SubRunUnwanted(PARENT, 1, "call", 1, "b"))
    here.run_for(2 * SECOND)
    assert here.ledger("b") == ["09:00 cancelled subjob"]


@pytest.mark.parametrize("is_lost", [pytest.param(True, id="lost"), pytest.param(False, id="ended")])
def test_a_parent_that_is_gone_takes_its_run_with_it(is_lost):
    here = parent_runs()
    here.say(WANTED)
    here.say(RunLost(PARENT, 1, "gone") if is_lost else RunFinished(PARENT, 1, here.now, CANCELLED))
    here.run_for(2 * SECOND)
    assert here.ledger("b") == ["09:00 cancelled subjob"]


def test_a_parent_that_is_lost_after_a_restart_cancels_the_run_that_its_steps_name():
    here = parent_runs()
    here.say(WANTED)
    here.restart(after=SECOND)
    steps = f'[{{"name":"call","state":"lost","sub_run":"{CHILD.run_id}"}}]'
    here.say(RunLost(PARENT, 1, "its keeper was killed", steps))
    here.run_for(2 * SECOND)
    assert here.ledger("b") == ["09:00 cancelled subjob"]


class TestAMemberOfTheFleet:
    """It is believed about the runs that it was given, and about nothing else."""

    @pytest.fixture
    def here(self):
        each = Each((ItemValue("x"), ItemValue("y")), max_parallel=2)
        work = Work((Step("call", SubJob("b")), Step("many", SubJob("b"), each=each)))
        away = replace(job("a", on_executor_lost=OnExecutorLost.FAIL), routing=Routing(FLEET), work=work)
        here = world(away, Job("b"), Job("c"))
        here.executor.name = ""  # it was said where the run was put
        here.say(MembersSeen(FLEET, (Member("ex-a", True, 0),)))
        here.act("a", FOREVER)
        here.act("b", LONG)
        here.run_until("09:00:01")
        assert [row.executor for row in here.rows("a")] == ["fleet:ex-a"]
        return here

    def test_the_run_that_its_step_is_is_made(self, here):
        here.say(FROM_MEMBER)
        assert here.started("b") == ["09:00"]

    @pytest.mark.parametrize(
        "wanted",
        [
            pytest.param(FROM_MEMBER._replace(job_id="c"), id="another job"),
            pytest.param(FROM_MEMBER._replace(step="other"), id="by a step that there is not"),
            pytest.param(FROM_MEMBER._replace(step="call[0]"), id="by an item of a step without items"),
            pytest.param(FROM_MEMBER._replace(step="many"), id="by a step that has items"),
            pytest.param(FROM_MEMBER._replace(step="many[0]", job_id="c"), id="another job for an item"),
        ],
    )
    def test_a_member_cannot_have_any_other_run_made(self, here, wanted):
        here.say(wanted)
        here.run_for(5 * SECOND)
        assert here.rows("b") == here.rows("c") == []
        assert [end.state for end in told(here)] == [FAILED]

    @pytest.mark.parametrize("is_deleted", [True, False])
    def test_a_member_gains_nothing_when_its_job_is_deleted_or_runs_elsewhere_by_now(self, here, is_deleted):
        if is_deleted:
            here.delete("a")
            here.run_for(2 * MINUTE)
        else:
            here.define(job("a", on_executor_lost=OnExecutorLost.FAIL))
        here.say(FROM_MEMBER._replace(job_id="c"))
        here.run_for(5 * SECOND)
        assert here.rows("c") == []

    def test_a_step_whose_run_was_never_made_fails_when_its_job_is_gone(self, here):
        """While the file of its job may come back it waits; after that no definition can allow the run."""
        here.delete("a")
        here.restart(after=SECOND)
        here.say(FROM_MEMBER)
        here.run_for(30 * SECOND)
        assert told(here) == []
        here.run_for(2 * MINUTE)
        assert [end.state for end in told(here)] == [FAILED]
        assert here.rows("b") == []

    def test_a_node_that_has_lost_its_job_leaves_the_answer_to_the_next_owner(self, here):
        here.say(here.lost(bucket_of("a")))
        here.say(FROM_MEMBER)
        here.run_for(5 * SECOND)
        assert here.rows("b") == []
        assert told(here) == []

    def test_a_step_is_not_failed_because_the_file_of_its_job_is_away_or_was_edited(self, here):
        """The run that it waits for exists: it was allowed when it was asked for."""
        here.say(FROM_MEMBER)
        here.delete("a")
        here.restart(after=SECOND)
        here.say(FROM_MEMBER)
        here.run_for(5 * SECOND)
        assert told(here) == []
        here.define(job("a", on_executor_lost=OnExecutorLost.FAIL))
        here.say(FROM_MEMBER)
        here.run_for(5 * SECOND)
        assert told(here) == []
        here.finish("b")
        assert [end.state for end in told(here)] == [SUCCEEDED]

    def test_the_loop_does_not_go_through_all_the_runs_that_it_names(self, here, monkeypatch):
        asked = []
        monkeypatch.setattr(subruns, "_is_its_own", lambda run_id, *_: asked.append(run_id))
        steps = [StepRecord(name, "lost", sub_run="c@x") for name in ("call", "other") for _ in range(1_000)]
        here.say(RunLost(PARENT, 1, "gone", steps_text(steps)))
        assert asked == ["c@x"]

    def test_a_member_can_report_after_a_restart_which_run_it_waits_for(self, here):
        here.say(FROM_MEMBER._replace(number=3))
        here.restart(after=SECOND)
        child = sub_run_key("b", PARENT, 1, "call", 3)
        here.say(RunLost(PARENT, 1, "gone", steps_text([StepRecord("call", "lost", sub_run=child.run_id)])))
        here.run_for(2 * SECOND)
        assert here.ledger("b") == ["09:00 cancelled subjob"]

    def test_the_runs_of_the_items_of_its_step_are_made_and_ended_with_it(self, here):
        here.define(replace(Job("b"), policy=Policy(overlap=Overlap(OverlapKind.PARALLEL, 4))))
        items = [f"many[{number}]" for number in range(4)]
        for name in items[:2]:
            here.say(FROM_MEMBER._replace(step=name))
        assert here.started("b") == ["09:00", "09:00"]
        here.restart(after=SECOND)
        # It may name more items than the step has at once; only so many are looked at.
        children = [sub_run_key("b", PARENT, 1, name, 1).run_id for name in items]
        steps = [StepRecord(name, "lost", sub_run=run) for name, run in zip(items, children, strict=True)]
        here.say(RunLost(PARENT, 1, "gone", steps_text(steps)))
        here.run_for(2 * SECOND)
        assert here.ledger("b") == ["09:00 cancelled subjob"] * 2

    @pytest.mark.parametrize("named", ["c@2026-03-02T09:00:00Z~own", "nonsense", "@~", ""])
    def test_a_member_cannot_have_any_other_run_ended(self, here, named):
        here.act("c", FOREVER)
        here.trigger("c")
        (other,) = here.rows("c")
        named = other.key.run_id if named.startswith("c@") else named
        here.say(RunLost(PARENT, 1, "gone", steps_text([StepRecord("call", "lost", sub_run=named)])))
        here.run_for(5 * SECOND)
        assert [row.state for row in here.rows("c")] == [RUNNING]


def test_the_end_of_a_run_for_a_cancelled_parent_survives_a_crash():
    here = parent_runs()
    here.say(WANTED)
    here.say(SubRunUnwanted(PARENT, 1, "call", 1, "b"))
    requests = [request.id for request in here.store.requests([f"{CHILD.origin}-stop"])]
    assert requests == [f"{CHILD.origin}-stop"]


def test_the_origin_of_a_run_deep_below_others_stays_short():
    key = PARENT
    for depth in range(50):
        key = sub_run_key("b" * 64, key, 1, f"step {depth}", 1)
    assert len(key.origin) < 40
