"""Promises about blackouts: nothing is planned in them, and at their end the rules of a pause decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop.messages import PauseJob, ResumeJob
from evertick.loop.state import Hold
from evertick.model.blackout import Blackout, blackout_at, split_stretch
from evertick.model.facts import read_facts
from evertick.model.instant import MINUTE, SECOND
from evertick.model.schedule import AtSpec, EverySpec
from evertick.planning.verify import verify_ledger
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


def test_it_is_caught_up_as_after_a_pause():
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
