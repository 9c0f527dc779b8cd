"""Whether the table of transitions keeps the promises that everything else relies on."""

from __future__ import annotations

import pytest

from evertick.model.lifecycle import (
    ACTIVE,
    CANCELLED,
    LAUNCHING,
    LOST,
    OPEN,
    PLANNED,
    RETRYING,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    RunState,
    SkipReason,
    beyond_exit_code,
    may_move,
)
from tests.lifecycle_picture import lifecycle_picture, transitions_drawn


def reachable_from(start: RunState) -> set[RunState]:
    seen, frontier = set(), [start]
    while frontier:
        state = frontier.pop()
        if state not in seen:
            seen.add(state)
            frontier += TRANSITIONS[state]
    return seen


def entrances(state: RunState) -> set[RunState]:
    return {old for old in RunState if may_move(old, state)}


def test_every_state_has_a_row_and_every_row_names_states():
    assert set(TRANSITIONS) == set(RunState)
    assert set().union(*TRANSITIONS.values()) <= set(RunState)


def test_every_state_can_be_reached_from_planned():
    assert reachable_from(PLANNED) == set(RunState)


def test_nothing_leads_back_to_planned():
    assert entrances(PLANNED) == set()


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_terminal_state_is_never_left(state):
    assert [new for new in RunState if may_move(state, new)] == []


def test_the_terminal_states_are_the_six_ways_a_run_can_end():
    assert {str(state) for state in TERMINAL} == {
        "succeeded",
        "failed",
        "timed_out",
        "cancelled",
        "lost",
        "skipped",
    }


@pytest.mark.parametrize("state", sorted(OPEN))
def test_an_open_state_can_still_end_and_can_be_cancelled(state):
    assert reachable_from(state) & TERMINAL
    assert may_move(state, CANCELLED)


def test_open_and_terminal_share_nothing_and_leave_nothing_out():
    assert set(RunState) == OPEN | TERMINAL
    assert not OPEN & TERMINAL


def test_the_open_states_are_those_before_a_launch_and_the_active_ones():
    assert {PLANNED, WAITING} | ACTIVE == OPEN
    assert not {PLANNED, WAITING} & ACTIVE


@pytest.mark.parametrize("state", sorted(RunState))
def test_no_state_moves_to_itself(state):
    assert not may_move(state, state)


def test_only_what_has_not_begun_to_run_can_be_skipped():
    assert entrances(SKIPPED) == {PLANNED, WAITING, LAUNCHING}


def test_a_run_is_launched_before_it_runs():
    assert entrances(RUNNING) == {LAUNCHING}


def test_a_second_attempt_passes_through_retrying():
    assert not may_move(RUNNING, LAUNCHING)
    assert may_move(RUNNING, RETRYING)
    assert may_move(RETRYING, LAUNCHING)


def test_a_refused_launch_waits_and_is_not_lost():
    assert may_move(LAUNCHING, WAITING)


def test_only_what_was_handed_to_an_executor_can_be_lost_or_succeed():
    assert entrances(LOST) == ACTIVE
    assert entrances(SUCCEEDED) == {LAUNCHING, RUNNING}


def test_the_picture_draws_every_arrow_once_and_no_other():
    drawn = list(transitions_drawn(lifecycle_picture()))
    assert set(drawn) == {(str(old), str(new)) for old, following in TRANSITIONS.items() for new in following}
    assert len(drawn) == len(set(drawn))


def test_a_skip_reason_is_written_as_words_with_hyphens():
    assert all(reason.value == reason.name.lower().replace("_", "-") for reason in SkipReason)


@pytest.mark.parametrize(
    ("detail", "code", "beyond"),
    [
        pytest.param("exit code 3", 3, "", id="only the exit code"),
        pytest.param("exit code 3", 4, "exit code 3", id="another exit code"),
        pytest.param("killed by SIGKILL", 137, "killed by SIGKILL", id="more"),
        pytest.param("the user cancelled it", None, "the user cancelled it", id="no exit code"),
        pytest.param("", 0, "", id="nothing"),
    ],
)
def test_what_a_detail_says_besides_the_exit_code(detail, code, beyond):
    assert beyond_exit_code(detail, code) == beyond
