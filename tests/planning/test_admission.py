"""What a due occurrence does: start, wait, or be skipped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.instant import HOUR, MINUTE, from_text
from evertick.model.lifecycle import Trigger
from evertick.model.policy import Overlap, OverlapKind
from evertick.planning.admission import Admission, Occupancy, admit, already_succeeded, may_leave_queue

START, WAIT, SKIP, SUPERSEDE, REPLACE = (
    Admission.START,
    Admission.WAIT,
    Admission.SKIP,
    Admission.SUPERSEDE,
    Admission.REPLACE,
)
IDLE, BUSY, QUEUED, STUCK = Occupancy(0, 0), Occupancy(1, 0), Occupancy(1, 2), Occupancy(0, 1)
overlaps = st.builds(
    lambda kind, limit: Overlap(kind, limit if kind is OverlapKind.PARALLEL else 1),
    st.sampled_from(OverlapKind),
    st.integers(1, 5),
)
occupancies = st.builds(Occupancy, st.integers(0, 8), st.integers(0, 8))


@pytest.mark.parametrize(
    ("kind", "idle", "busy", "queued", "stuck"),
    [
        pytest.param(OverlapKind.SKIP, START, SKIP, SKIP, SKIP, id="skip gives way"),
        pytest.param(OverlapKind.WAIT, START, WAIT, WAIT, WAIT, id="wait joins the end"),
        pytest.param(OverlapKind.LATEST, START, WAIT, SUPERSEDE, SUPERSEDE, id="latest lets one wait, the newest"),
        pytest.param(OverlapKind.REPLACE, START, REPLACE, REPLACE, REPLACE, id="replace ends the old"),
        pytest.param(OverlapKind.PARALLEL, START, WAIT, WAIT, WAIT, id="parallel(1) is wait"),
    ],
)
def test_a_newcomer_by_what_the_job_is_busy_with(kind, idle, busy, queued, stuck):
    overlap = Overlap(kind)
    assert [admit(overlap, one) for one in (IDLE, BUSY, QUEUED, STUCK)] == [idle, busy, queued, stuck]


@pytest.mark.parametrize(
    ("active", "waiting", "admission"),
    [
        pytest.param(2, 0, START, id="below the limit"),
        pytest.param(3, 0, WAIT, id="at the limit"),
        pytest.param(2, 1, WAIT, id="nobody overtakes one that waits"),
    ],
)
def test_parallel_three(active, waiting, admission):
    assert admit(Overlap(OverlapKind.PARALLEL, 3), Occupancy(active, waiting)) is admission


@given(overlaps, occupancies)
def test_an_idle_job_starts_and_no_rule_exceeds_its_limit(overlap, occupancy):
    admission = admit(overlap, occupancy)
    if occupancy == IDLE:
        assert admission is START
    if admission is START:
        assert occupancy.active < overlap.limit
        assert occupancy.waiting == 0


@given(overlaps, occupancies)
def test_a_limit_is_for_parallel_alone(overlap, occupancy):
    if overlap.kind is not OverlapKind.PARALLEL:
        assert admit(Overlap(overlap.kind, 5), occupancy) is admit(overlap, occupancy)
        assert may_leave_queue(Overlap(overlap.kind, 5), occupancy.active) is (occupancy.active == 0)


@given(overlaps, occupancies)
def test_a_waiting_run_may_leave_exactly_when_there_is_room(overlap, occupancy):
    assert may_leave_queue(overlap, occupancy.active) is (occupancy.active < overlap.limit)


NINE = from_text("2026-03-02T09:00:00Z")
EIGHT = NINE - HOUR


@pytest.mark.parametrize(
    ("previous_for", "last_success_at", "done"),
    [
        pytest.param(EIGHT, None, False, id="nothing ever succeeded"),
        pytest.param(EIGHT, EIGHT - MINUTE, False, id="a success before the previous occurrence"),
        pytest.param(EIGHT, EIGHT, False, id="the previous occurrence's own success"),
        pytest.param(EIGHT, EIGHT + 1, True, id="a success just after the previous occurrence"),
        pytest.param(EIGHT, NINE - MINUTE, True, id="a run by hand a minute ago"),
        pytest.param(None, NINE - MINUTE, True, id="a run by hand before the first occurrence"),
        pytest.param(None, None, False, id="the first occurrence, and nothing before it"),
    ],
)
def test_a_live_occurrence_of_nine(previous_for, last_success_at, done):
    assert already_succeeded(Trigger.SCHEDULER, previous_for, last_success_at) is done


@pytest.mark.parametrize("trigger", [one for one in Trigger if one is not Trigger.SCHEDULER])
def test_only_a_live_occurrence_is_asked(trigger):
    assert not already_succeeded(trigger, EIGHT, NINE - MINUTE)
