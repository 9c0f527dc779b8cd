"""Does `why` name what a run waits for, and afterwards what it waited for? On what the loop has written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop.messages import MembersSeen, PauseJob, ResumeJob
from evertick.model.calendar import Calendar, CalendarRule, Shift
from evertick.model.facts import WaitKind, read_facts
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND
from evertick.model.job import After, Origin
from evertick.model.ledger import RequestKind
from evertick.model.lifecycle import SkipReason
from evertick.model.member import Member
from evertick.model.policy import Missed, Overlap, OverlapKind
from evertick.model.routing import FLEET, Routing
from evertick.model.schedule import CalendarSpec, CronSpec
from evertick.operations.ledger_rows import run_summary
from evertick.operations.requests import message_of
from evertick.operations.time_text import clock_text
from evertick.operations.waits import find_waits, noted_blocker
from evertick.operations.why import explain_occurrence, result_of
from evertick.settings.parts import LoopSettings
from tests.loop.harness import FOREVER, WAIT, Act, World, at, catching_up, job, world

NINE = "2026-03-02T09:00:00Z"
MINE = f"z@{NINE}"


def sentences(here: World, job_id: str = "z", hour: str = "09:00") -> tuple[str, ...]:
    row = next(row for row in here.rows(job_id) if row.key.scheduled_for == at(hour))
    return explain_occurrence(here.store, job_id, row.key, here.jobs, here.now).sentences


@pytest.fixture
def queued() -> World:
    """Two places: two others have them, and `z` waits."""
    jobs = [replace(job(name), queue="db", priority=5 if name != "z" else 0) for name in ("a", "b", "z")]
    here = world(*jobs, settings=LoopSettings(queues=(("db", 2),)))
    here.act("a", Act(lasts_us=10 * MINUTE))
    here.act("b", FOREVER)
    here.run_until("09:01")
    return here


def test_a_full_queue_and_those_in_it_are_named(queued):
    told = sentences(queued)
    assert (
        f"waiting for a place in the queue 'db' of 2 places, held by a@{NINE} (running) and b@{NINE} (running)" in told
    )
    assert any(one.startswith("rule: queue: db, from ") for one in told)
    assert not any("overlap" in one for one in told)


def test_afterwards_too(queued):
    queued.run_until("09:11")
    assert f"waited for a place in the queue 'db' (held by a@{NINE} and b@{NINE}) from 09:00:00 on" in sentences(queued)
    assert queued.ledger("z") == ["09:00 succeeded"]


def test_programs_receive_the_same_as_fields(queued):
    (wait,) = run_summary(queued.rows("z")[0]).waits
    assert (wait.kind, wait.name, wait.limit) == ("queue", "db", 2)
    assert wait.runs == (f"a@{NINE}", f"b@{NINE}")


def test_a_blocker_of_a_waiting_run_has_fields(queued):
    row = queued.rows("z")[0]
    jobs = {**queued.jobs, "z": replace(queued.jobs["z"], origins={"queue": Origin("jobs/z.yaml", 7)})}
    (now,) = find_waits(queued.store, row, jobs).blockers
    assert (now.kind, now.name, now.limit, now.job) == (WaitKind.QUEUE, "db", 2, None)
    assert now.runs == (f"a@{NINE}", f"b@{NINE}")
    assert (now.policy, now.policy_from) == ("queue: db", "jobs/z.yaml:7")
    noted = noted_blocker(row)
    assert noted is not None
    assert (noted.kind, noted.name, noted.limit, noted.runs) == (WaitKind.QUEUE, "db", 2, now.runs)


def test_the_place_of_a_rule_is_fields(queued):
    row = queued.rows("z")[0]
    jobs = {**queued.jobs, "z": replace(queued.jobs["z"], origins={"queue": Origin("jobs/z.yaml", 7)})}
    told = result_of(explain_occurrence(queued.store, "z", row.key, jobs, queued.now))
    assert (told.policy_from, told.policy_file, told.policy_line) == ("jobs/z.yaml:7", "jobs/z.yaml", 7)


def test_the_job_before_it_and_its_state_are_named():
    here = world(job("a"), replace(job("z"), after=After(("a",))))
    here.act("a", Act(lasts_us=10 * MINUTE))
    here.run_until("09:01")
    told = sentences(here)
    assert f"waiting for 'a' to succeed; its newest run a@{NINE} is running" in told
    assert any(one.startswith("rule: after: a, from ") for one in told)
    here.run_until("09:10:01")
    requests = [one for one in here.store.claim(None, 100) if one.kind is RequestKind.CHAIN]
    here.say(*map(message_of, requests))
    here.run_for(5 * SECOND)
    told = sentences(here)
    assert "waited for 'a' to succeed from 09:00:00 on" in told
    assert f"because of a@{NINE}, which is succeeded" in told


def test_a_chained_run_names_the_run_before_it_and_its_state():
    here = world(job("a"), replace(job("z"), schedules=(), after=After(("a",))))
    here.run_until("09:00:05")
    requests = [one for one in here.store.claim(None, 100) if one.kind is RequestKind.CHAIN]
    here.say(*map(message_of, requests))
    here.run_for(5 * SECOND)
    assert f"after a@{NINE}, which is succeeded" in sentences(here)


def test_a_fleet_without_room_is_named():
    here = world(replace(job("z"), routing=Routing(FLEET)))
    here.say(MembersSeen(FLEET, [Member("ex-a", True, slots=1, running=1)]))
    here.run_until("09:01")
    told = sentences(here)
    assert any(one.startswith("waiting for a member of 'fleet' that can take it: of 1 member") for one in told), told
    here.say(MembersSeen(FLEET, [Member("ex-a", True, 0, slots=1)]))
    here.run_for(SECOND)
    assert any(one.startswith("waited for a member of 'fleet' (of 1 member") for one in sentences(here))


def test_the_run_in_its_way_is_named_by_its_id():
    here = world(job("z", overlap=WAIT))
    here.act("z", Act(lasts_us=90 * MINUTE))
    here.run_until("10:01")
    assert f"waiting for {MINE} (running)" in sentences(here, hour="10:00")
    here.run_until("10:31")
    assert f"waited for {MINE} from 10:00:00 on" in sentences(here, hour="10:00")


def test_a_caught_up_run_names_the_rule_in_the_words_and_at_the_place_it_was_written():
    kept = replace(
        job("z", **catching_up("all")),
        origins={"missed": Origin("jobs/z.yaml", 4), "overlap": Origin("jobs/z.yaml", 4)},
        written={"missed": "overlapPolicy: all", "overlap": "overlapPolicy: all"},
    )
    here = world(kept)
    here.run_until("08:45")
    here.stall(3 * HOUR)
    here.run_for(5 * SECOND)
    told = sentences(here)
    assert "rule: overlapPolicy: all, from jobs/z.yaml:4" in told
    assert any("caught up" in one for one in told)


def test_the_run_that_a_skip_met_is_a_field():
    here = world(job("z"))
    here.act("z", FOREVER)
    here.run_until("10:01")
    facts = read_facts(here.rows("z")[1].facts)
    assert (facts.other, facts.other_state) == (MINE, "running")


def test_an_occurrence_of_a_paused_job_has_the_start_of_the_pause_as_a_field():
    here = world(job("z"))
    here.run_until("08:45")
    here.say(PauseJob("p", "z"))
    here.run_until("09:30")
    here.say(ResumeJob("r", "z", Missed.NONE))
    here.run_for(MINUTE)
    held_since = read_facts(here.line("09:00", "z").facts).held_since
    assert at("08:30") <= held_since <= at("08:46")
    assert f"the job had been paused since {clock_text(held_since, 'UTC', exact=True)}" in sentences(here)[0]


def test_an_occurrence_after_a_success_has_the_time_of_that_success_as_a_field():
    here = world(job("z", skip_if_successful=True))
    here.run_until("08:45")
    here.trigger("z")
    here.run_until("09:01")
    success_for = read_facts(here.line("09:00", "z").facts).success_for
    assert here.line("09:00", "z").reason == "already-succeeded"
    assert success_for == at("08:45")
    assert "a run has already succeeded for 08:45:00" in sentences(here)[0]


def test_a_run_that_was_replaced_names_the_run_that_replaced_it():
    here = world(job("z", overlap=Overlap(OverlapKind.REPLACE)))
    here.act("z", FOREVER, FOREVER)
    here.run_until("10:01")
    assert run_summary(here.line("09:00", "z")).other_run == "z@2026-03-02T10:00:00Z"
    assert "replaced by the run of 10:00" in sentences(here)


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        pytest.param(None, "it will not run: Founders' Day is in the calendar company", id="skipped"),
        pytest.param(
            Shift.NEXT,
            "it will not run: Founders' Day is in the calendar company; it runs at 2026-03-04 09:00 instead",
            id="moved",
        ),
    ],
)
def test_a_coming_occurrence_on_an_excluded_day_will_not_run(shift, words):
    tomorrow = at("1d00:00") // DAY
    rule = CalendarRule((Calendar("company", days=(tomorrow,), labels=("Founders' Day",)),), (), shift)
    here = world(job("z", CalendarSpec(CronSpec("0 9 * * *", "UTC"), rule, "UTC")))
    found = explain_occurrence(here.store, "z", "2026-03-03T09:00", here.jobs, here.now)
    assert (found.outcome, found.reason) == ("excluded", SkipReason.CALENDAR)
    assert found.sentences == (words,)
