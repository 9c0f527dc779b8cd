"""Which missed times of a schedule are still worth running."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.instant import DAY, HOUR, MINUTE, from_text
from evertick.model.policy import Missed
from evertick.planning.catchup import REASON_NOT_KEPT, keep_missed, replay_from
from evertick.planning.schedules import Every

NINE = from_text("2026-03-02T09:00:00Z")
TEN, ELEVEN, NOON = (NINE + hours * HOUR for hours in (1, 2, 3))
HOURLY = (Every(HOUR),)


@pytest.mark.parametrize(
    ("window_us", "start"),
    [
        pytest.param(None, NINE, id="without a window, the watermark"),
        pytest.param(DAY, NINE, id="a window that reaches further back than the watermark"),
        pytest.param(HOUR, ELEVEN, id="a window that does not"),
    ],
)
def test_how_far_back_a_replay_goes_at_noon(window_us, start):
    assert replay_from(NOON, NINE, window_us) == start


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        pytest.param(Missed.NONE, [], id="none keeps nothing"),
        pytest.param(Missed.FIRST, [TEN], id="first keeps the oldest"),
        pytest.param(Missed.LATEST, [NOON], id="latest keeps the newest"),
        pytest.param(Missed.ALL, [TEN, ELEVEN, NOON], id="all keeps each, oldest first"),
    ],
)
def test_three_missed_hours(keep, kept):
    assert keep_missed(keep, (), HOURLY, NINE, NOON, 1_000) == kept


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        pytest.param(Missed.NONE, [], id="none"),
        pytest.param(Missed.FIRST, [NINE], id="the first is the one entered ahead"),
        pytest.param(Missed.LATEST, [TEN], id="the latest is the newest of both"),
        pytest.param(Missed.ALL, [NINE, TEN], id="all are both"),
    ],
)
def test_an_occurrence_entered_ahead_is_missed_together_with_those_after_it(keep, kept):
    assert keep_missed(keep, (NINE,), HOURLY, NINE, TEN, 1_000) == kept


@pytest.mark.parametrize("keep", [Missed.LATEST, Missed.ALL, Missed.FIRST])
def test_with_nothing_new_the_one_entered_ahead_is_kept(keep):
    assert keep_missed(keep, (NINE,), HOURLY, NINE, NINE + MINUTE, 1_000) == [NINE]


@pytest.mark.parametrize(
    ("backlog_max", "kept"),
    [
        pytest.param(1, [NOON], id="one: the newest"),
        pytest.param(3, [TEN, ELEVEN, NOON], id="exactly the new ones"),
        pytest.param(4, [NINE, TEN, ELEVEN, NOON], id="room for the one entered ahead"),
    ],
)
def test_beyond_the_cap_the_newest_are_kept(backlog_max, kept):
    assert keep_missed(Missed.ALL, (NINE,), HOURLY, NINE, NOON, backlog_max) == kept


@given(st.sampled_from(Missed), st.integers(0, 50), st.integers(0, 5), st.integers(1, 20))
def test_what_is_kept_was_missed_is_in_order_and_within_the_cap(keep, fresh, planned, backlog_max):
    ahead = tuple(NINE - hours * HOUR for hours in reversed(range(planned)))
    kept = keep_missed(keep, ahead, HOURLY, NINE, NINE + fresh * HOUR, backlog_max)
    missed = {*ahead, *(NINE + hours * HOUR for hours in range(1, fresh + 1))}
    assert kept == sorted(set(kept) & missed)
    assert len(kept) == min(len(missed), {Missed.NONE: 0, Missed.ALL: backlog_max}.get(keep, 1))


def test_every_choice_has_a_reason_for_what_it_does_not_keep():
    assert set(REASON_NOT_KEPT) == set(Missed)
