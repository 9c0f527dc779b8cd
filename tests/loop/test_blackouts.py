"""Promises about blackouts: nothing is planned in them, and at their end the rules of a pause decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop.job_state import Hold
from evertick.loop.messages import BlackoutsSeen, PauseJob, ResumeJob
from evertick.model.blackout import (
    AddedBlackout,
    Blackout,
    blackout_at,
    blackout_text,
    read_blackouts,
    split_stretch,
)
from evertick.model.facts import read_facts
from evertick.model.instant import MINUTE, SECOND
from evertick.model.ledger import ScheduleLine
from evertick.model.schedule import AtSpec, EverySpec, specs_to_text
from evertick.planning.verify import verify_ledger
from evertick.store import Batch
from tests.loop.harness import at, catching_up, job, world

MINUTELY = EverySpec(MINUTE)
DARK = Blackout(at("08:32"), at("08:35"), "Database upgrade")
ALL = catching_up("all")


def dark(name="a", *schedules, blackouts=(DARK,), **known):
    return replace(job(name, *(schedules or (MINUTELY,)), **known), blackouts=blackouts)


def is_sound(here) -> bool:
    contents = here.store.contents()
    return verify_ledger(contents.schedules, contents.jobs, contents.floors, contents.rows).is_sound


def skipped(*minutes: str) -> list[str]:
    return [f"{minute} skipped paused" for minute in minutes]


def test_nothing_starts_from_the_first_instant_on_and_the_end_is_not_part_of_it():
    here = world(dark(), job("b", MINUTELY))
    here.run_until("08:33:30")
    assert here.started("a") == ["08:31"]
    assert here.state.jobs["a"].hold is Hold.BLACKOUT
    here.run_until("08:36:10")
    assert here.ledger("a") == [
        "08:31 succeeded",
        *skipped("08:32", "08:33", "08:34"),
        "08:35 succeeded",
        "08:36 succeeded",
    ]
    assert len(here.started("b")) == 6
    row = here.rows("a")[1]
    assert "Database upgrade" in row.detail
    facts = read_facts(row.facts)
    assert (facts.held_since, facts.held_until) == (DARK.start, DARK.end)
    assert is_sound(here)


def test_a_blackout_is_caught_up_as_after_a_pause():
    here = world(dark(**ALL))
    here.run_until("08:36:10")
    caught_up = [f"08:3{minute} succeeded catchup" for minute in (2, 3, 4)]
    assert here.ledger() == ["08:31 succeeded", *caught_up, "08:35 succeeded", "08:36 succeeded"]
    assert is_sound(here)


def test_a_one_off_runs_at_the_end():
    here = world(dark("a", AtSpec(at("08:33"))))
    here.run_until("08:34:50")
    assert here.started() == []
    here.run_until("08:35:10")
    assert here.ledger() == ["08:33 succeeded catchup"]


def test_a_manual_run_is_not_held():
    here = world(dark())
    here.run_until("08:33:30")
    here.trigger("a")
    here.run_for(SECOND)
    assert here.ledger()[-1] == "08:33:30 succeeded manual"


@pytest.mark.parametrize("missed", [{}, ALL], ids=["without catch-up", "with catch-up"])
@pytest.mark.parametrize("until", ["08:31:58", "08:32:00", "08:33:10"])
def test_a_restart_before_or_inside_changes_nothing(missed, until):
    plain, restarted = world(dark(**missed)), world(dark(**missed))
    restarted.run_until(until)
    restarted.restart(after=5 * SECOND)
    for here in (plain, restarted):
        here.run_until("08:36:10")
    assert restarted.ledger() == plain.ledger()
    assert is_sound(restarted)


def test_a_downtime_around_it_tells_the_blackout_from_the_downtime():
    here = world(dark(), start="08:30")
    here.run_until("08:30:30")
    here.restart(after=7 * MINUTE)
    here.run_for(40 * SECOND)
    missed = [f"{minute} skipped missed" for minute in ("08:31", "08:35", "08:36", "08:37")]
    assert sorted(here.ledger())[:6] == sorted([*missed[:3], *skipped("08:32", "08:33", "08:34")])
    assert is_sound(here)


def test_a_loop_that_stalls_into_it_still_runs_what_was_due_before_it():
    here = world(dark())
    here.run_until("08:30:50")
    here.stall(90 * SECOND)
    here.run_until("08:36:10")
    assert here.ledger()[0].startswith("08:31 ")
    assert here.ledger()[1:4] == skipped("08:32", "08:33", "08:34")
    assert is_sound(here)


def test_a_pause_inside_outlasts_it_and_a_resume_inside_waits_for_its_end():
    here = world(dark())
    here.run_until("08:32:30")
    here.say(PauseJob("p", "a"))
    here.run_until("08:36:30")
    assert here.state.jobs["a"].hold is Hold.PAUSED
    assert here.started() == ["08:31"]
    here = world(dark())
    here.say(PauseJob("p", "a"))
    here.run_until("08:33:30")
    here.say(ResumeJob("r", "a"))
    here.run_until("08:34:30")
    assert here.started() == []
    here.run_until("08:35:10")
    assert here.started() == ["08:35"]
    assert is_sound(here)


def test_an_edit_can_end_a_blackout_and_begin_one():
    here = world(dark())
    here.run_until("08:33:30")
    here.define(dark(blackouts=()))
    here.run_until("08:34:10")
    assert here.started() == ["08:31", "08:34"]
    here.define(dark(blackouts=(Blackout(at("08:30"), at("08:37")),)))
    here.run_until("08:37:10")
    assert here.started() == ["08:31", "08:34", "08:37"]
    assert is_sound(here)


def test_two_that_overlap_are_one():
    later = Blackout(at("08:34"), at("08:37"), "Network")
    here = world(dark(blackouts=(DARK, later)))
    here.run_until("08:37:10")
    assert here.started() == ["08:31", "08:37"]
    assert len(here.rows("a")) == 7
    assert is_sound(here)


def test_a_stretch_is_split_at_the_bounds():
    first, second = Blackout(10, 20), Blackout(15, 30)
    assert list(split_stretch((first, second), 0, 40)) == [
        (0, 9, None),
        (9, 19, first),
        (19, 29, second),
        (29, 40, None),
    ]
    assert list(split_stretch((first,), 12, 15)) == [(12, 15, first)]
    assert list(split_stretch((), 5, 5)) == []
    assert blackout_at((first, second), 16) == second


# --- added and removed at run time

ADDED = AddedBlackout(
    "b1", at("08:32"), at("08:35"), "Database upgrade", jobs=("a",), added_at=at("08:31"), added_by="ann"
)


def see(here, *blackouts: AddedBlackout) -> None:
    here.say(BlackoutsSeen(blackouts))


def removed(blackout: AddedBlackout, when: str) -> AddedBlackout:
    left = blackout.ended(at(when))
    assert left is not None
    return left


@pytest.mark.parametrize("missed", [{}, ALL], ids=["without catch-up", "with catch-up"])
@pytest.mark.parametrize("seen_at", ["08:30:30", "08:31:57", "08:31:59.999"])
def test_a_blackout_added_ahead_does_what_one_of_the_settings_does(missed, seen_at):
    declared, added = world(dark(**missed), job("b", MINUTELY)), world(job("a", MINUTELY, **missed), job("b", MINUTELY))
    added.run_until(seen_at)
    see(added, ADDED)
    for here in (declared, added):
        here.run_until("08:36:10")
    for name in ("a", "b"):
        assert added.ledger(name) == declared.ledger(name)
    assert is_sound(added)


def test_a_blackout_added_for_the_future_writes_nothing():
    here = world(job("a", MINUTELY))
    here.run_until("08:31:10")
    see(here, ADDED)
    assert [effect for effect in here.turns[-1][2] if type(effect).__name__ == "Commit"] == []


def test_a_blackout_that_begins_now_leaves_what_was_decided_and_holds_the_rest():
    here = world(job("a", MINUTELY))
    here.run_until("08:32:30")
    see(here, ADDED)
    assert here.state.jobs["a"].hold is Hold.BLACKOUT
    here.run_until("08:36:10")
    assert here.ledger() == [
        "08:31 succeeded",
        "08:32 succeeded",
        *skipped("08:33", "08:34"),
        "08:35 succeeded",
        "08:36 succeeded",
    ]
    assert is_sound(here)


@pytest.mark.parametrize(
    ("missed", "inside"),
    [({}, skipped("08:32", "08:33")), (ALL, ["08:32 succeeded catchup", "08:33 succeeded catchup"])],
    ids=["without catch-up", "with catch-up"],
)
def test_a_blackout_that_is_removed_while_it_lasts_ends_then(missed, inside):
    here = world(job("a", MINUTELY, **missed))
    see(here, ADDED)
    here.run_until("08:33:30")
    see(here, removed(ADDED, "08:33:29"))
    here.run_until("08:35:10")
    assert here.ledger() == ["08:31 succeeded", *inside, "08:34 succeeded", "08:35 succeeded"]
    assert is_sound(here)
    if not missed:
        assert read_facts(here.rows("a")[1].facts).held_until == at("08:33:29")


def test_an_occurrence_between_the_removal_and_its_takeover_is_on_time():
    here = world(job("a", MINUTELY))
    see(here, ADDED)
    here.run_until("08:33:02")
    see(here, removed(ADDED, "08:32:59"))
    here.run_until("08:33:30")
    assert here.ledger() == ["08:31 succeeded", *skipped("08:32"), "08:33 succeeded"]
    assert is_sound(here)


def test_a_blackout_that_is_removed_before_it_begins_never_was():
    here = world(job("a", MINUTELY))
    see(here, ADDED)
    here.run_until("08:31:58")
    assert ADDED.ended(here.now) is None
    see(here)
    here.run_until("08:33:10")
    assert here.started() == ["08:31", "08:32", "08:33"]
    assert [row.facts for row in here.rows("a")] == [here.rows("a")[0].facts] * 3
    assert is_sound(here)


@pytest.mark.parametrize("until", ["08:31:58", "08:33:10"])
def test_a_restart_inside_one_finds_it_in_the_ledger(until):
    here = world(job("a", MINUTELY))
    see(here, ADDED)
    here.run_until(until)
    here.restart(after=5 * SECOND, told=[BlackoutsSeen((ADDED,))])
    here.run_until("08:36:10")
    succeeded = ["08:35 succeeded", "08:36 succeeded"]
    assert here.ledger() == ["08:31 succeeded", *skipped("08:32", "08:33", "08:34"), *succeeded]
    assert is_sound(here)


@pytest.mark.parametrize("missed", [{}, ALL], ids=["without catch-up", "with catch-up"])
def test_a_blackout_added_just_before_a_crash_holds_what_was_entered_ahead(missed):
    here = world(job("a", MINUTELY, **missed))
    here.run_until("08:31:58")
    here.restart(after=30 * SECOND, told=[BlackoutsSeen((ADDED,))])
    here.run_until("08:36:10")
    inside = skipped("08:32", "08:33", "08:34") if not missed else [f"08:3{n} succeeded catchup" for n in "234"]
    assert sorted(here.ledger()) == sorted(["08:31 succeeded", *inside, "08:35 succeeded", "08:36 succeeded"])
    assert is_sound(here)


def test_a_blackout_removed_during_a_downtime_still_says_why_nothing_ran():
    here = world(job("a", MINUTELY))
    see(here, ADDED)
    here.run_until("08:32:30")
    here.restart(after=3 * MINUTE, told=[BlackoutsSeen((removed(ADDED, "08:33:30"),))])
    here.run_until("08:36:10")
    skips = [*skipped("08:32", "08:33"), "08:34 skipped missed"]
    assert sorted(here.ledger())[:4] == sorted(["08:31 succeeded", *skips])
    assert is_sound(here)


def test_a_blackout_concerns_jobs_by_id_by_tag_or_all_and_those_that_come_later():
    tagged = replace(job("tagged", MINUTELY), tags=("db",))
    here = world(job("a", MINUTELY), tagged)
    see(here, replace(ADDED, jobs=(), tags=("db",)))
    here.run_until("08:32:30")
    here.define(replace(job("late", MINUTELY), tags=("db", "x")))
    assert [name for name, one in sorted(here.state.jobs.items()) if one.hold is Hold.BLACKOUT] == ["late", "tagged"]
    see(here, replace(ADDED, jobs=(), is_for_all=True))
    assert all(one.hold is Hold.BLACKOUT for one in here.state.jobs.values())


def test_a_paused_job_stays_paused_and_an_edit_inside_one_is_held():
    here = world(job("a", MINUTELY), job("b", MINUTELY))
    here.say(PauseJob("p", "a"))
    see(here, replace(ADDED, jobs=("a", "b")))
    here.run_until("08:32:30")
    here.define(job("b", EverySpec(30 * SECOND)))
    here.run_until("08:34:50")
    assert (here.state.jobs["a"].hold, here.state.jobs["b"].hold) == (Hold.PAUSED, Hold.BLACKOUT)
    assert here.started("b") == ["08:31"]
    here.run_until("08:35:10")
    assert here.started("b") == ["08:31", "08:35"]
    assert is_sound(here)


def test_the_ledger_keeps_every_field_and_ignores_those_of_a_later_version():
    every = AddedBlackout("b2", 1, 5, "größe", ("a",), ("t",), added_at=3, added_by="ann")
    later = blackout_text(every).replace("{", '{"later": 1, ', 1)
    assert read_blackouts([later, blackout_text(ADDED)]) == (every, ADDED)


def test_what_an_earlier_schedule_decided_under_a_clock_ahead_outlives_a_blackout():
    """The job was edited while the clock was ahead: the new schedule would not plan what the old one has entered."""
    here = world(job("a", MINUTELY))
    here.run_until("08:31:58")
    here.crash()
    (record,) = here.store.load().jobs
    edited = job("a", AtSpec(at("09:00")))
    line = ScheduleLine("a", at("08:32:30"), specs_to_text(edited.schedules))
    changed = record._replace(watermark=at("08:32:30"), since=at("08:32:30"), fingerprint=edited.fingerprint)
    here.store.commit(Batch(by="other", jobs=[changed], schedules=[line]))
    here.restart(after=30 * SECOND, jobs=[edited], told=[BlackoutsSeen((ADDED,))])
    here.run_until("08:36:10")
    assert "08:32 succeeded" in here.ledger()
    assert is_sound(here)
