"""Which lane does a launch take, and which launch is next?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.instant import MINUTE, SECOND
from evertick.routing.lanes import Admission, Lane, Lanes
from evertick.settings.parts import LaneSettings

NINE = 1_772_442_000_000_000
SLOW_US = LaneSettings().slow_after_us


def dispatch(lanes: Lanes[Any], ticket: object, job_id: str, now: int, takes_us: int) -> None:
    assert lanes.offer(ticket, job_id, now) is Admission.NOW
    lanes.ended(ticket, now + takes_us)


@pytest.mark.parametrize(
    ("times", "takes_us", "lane"),
    [
        pytest.param(10, SLOW_US + 1, Lane.FAST, id="ten slow dispatches are forgiven"),
        pytest.param(11, SLOW_US + 1, Lane.SLOW, id="the eleventh is not"),
        pytest.param(11, SLOW_US, Lane.FAST, id="exactly the limit is not slow"),
    ],
)
def test_a_job_that_is_slow_too_often_takes_the_slow_lane(times, takes_us, lane):
    lanes: Lanes[int] = Lanes(LaneSettings())
    for ticket in range(times):
        dispatch(lanes, ticket, "job", NINE, takes_us)
    assert lanes.lane_of("job", NINE + SECOND) is lane
    assert lanes.lane_of("other", NINE + SECOND) is Lane.FAST


def test_it_is_forgotten_when_the_minute_is_over():
    lanes: Lanes[int] = Lanes(LaneSettings())
    for ticket in range(11):
        dispatch(lanes, ticket, "job", NINE, SECOND)
    assert lanes.lane_of("job", NINE + MINUTE - 1) is Lane.SLOW
    assert lanes.lane_of("job", NINE + MINUTE) is Lane.FAST


def test_unmeasured_values_do_not_count():
    lanes: Lanes[int] = Lanes(LaneSettings(forgiven=0))
    lanes.offer(1, "job", NINE)
    lanes.ended(1, NINE + SECOND, is_measured=False)
    assert lanes.lane_of("job", NINE) is Lane.FAST


def test_a_full_lane_lets_wait_and_then_refuses():
    lanes: Lanes[str] = Lanes(LaneSettings(fast=1, fast_queue=2))
    answers = [lanes.offer(ticket, "job", NINE) for ticket in "abcd"]
    assert answers == [Admission.NOW, Admission.LATER, Admission.LATER, Admission.NEVER]
    assert lanes.ended("a", NINE) == ["b"]
    assert lanes.withdraw("c")
    assert not lanes.withdraw("c")
    assert lanes.ended("b", NINE) == []
    assert lanes.ended("b", NINE) == ()
    assert not lanes.has_waiting


def test_a_thousand_slow_jobs_do_not_delay_a_fast_one():
    lanes: Lanes[tuple[str, int]] = Lanes(LaneSettings())
    slow = [f"slow-{number}" for number in range(1_000)]
    for job_id in slow:
        for number in range(11):
            lanes.offer((job_id, number), job_id, NINE)
            lanes.ended((job_id, number), NINE + SECOND)
    answers = [lanes.offer((job_id, 99), job_id, NINE) for job_id in slow]
    assert answers.count(Admission.NOW) == LaneSettings().slow
    assert lanes.offer(("fast", 0), "fast", NINE) is Admission.NOW


def test_a_thousand_jobs_not_known_to_be_slow_do_not_delay_a_fast_one():
    lanes: Lanes[str] = Lanes(LaneSettings())
    dispatch(lanes, "before", "fast", NINE, SLOW_US)
    for number in range(1_000):
        lanes.offer(f"slow-{number}", f"slow-{number}", NINE)
    answers = [lanes.offer(f"fast-{number}", "fast", NINE) for number in range(LaneSettings().reserve + 1)]
    assert answers == [Admission.NOW] * LaneSettings().reserve + [Admission.LATER]
    # And the one that has to wait goes before all of them.
    assert lanes.ended("slow-0", NINE + SECOND) == [f"fast-{LaneSettings().reserve}"]


def test_a_job_that_was_slow_once_is_no_longer_known_to_be_fast():
    lanes: Lanes[str] = Lanes(LaneSettings(fast=10))
    for takes_us in (1, SLOW_US + 1):
        dispatch(lanes, "before", "job", NINE, takes_us)
    for number in range(9):
        lanes.offer(f"slow-{number}", f"slow-{number}", NINE)
    assert lanes.offer("job", "job", NINE) is Admission.LATER


def test_those_that_turn_out_slow_give_up_their_places_in_the_fast_lane():
    lanes: Lanes[int] = Lanes(LaneSettings(fast=2, slow=1))
    for ticket in range(4):
        lanes.offer(ticket, f"job-{ticket}", NINE)
    assert lanes.overdue(NINE + SLOW_US) == []
    assert lanes.overdue(NINE + SLOW_US + 1) == [2, 3]
    assert lanes.ended(0, NINE + SECOND) == []
    assert all(lanes.is_under_way(ticket) for ticket in (1, 2, 3))


@given(
    st.sampled_from([2, 10]),
    st.lists(st.tuples(st.sampled_from(["offer", "end", "overdue", "withdraw"]), st.integers(0, 24)), max_size=60),
)
def test_every_launch_that_was_taken_has_its_turn_once(size, acts):
    lanes: Lanes[int] = Lanes(LaneSettings(fast=size, fast_queue=3, slow=1, slow_queue=2, forgiven=1))
    now = NINE
    waiting: set[Any] = set()
    begun: set[Any] = set()
    for act, number in acts:
        now += SLOW_US // 3 * (number % 4)
        turns: list[int] = []
        if act == "offer" and number not in waiting | begun:
            answer = lanes.offer(number, f"job-{number % 2}", now)
            (begun if answer is Admission.NOW else waiting).add(number) if answer is not Admission.NEVER else None
        elif act == "end":
            turns = list(lanes.ended(number, now))
            begun.discard(number)
        elif act == "overdue":
            turns = list(lanes.overdue(now))
        elif act == "withdraw":
            assert lanes.withdraw(number) == (number in waiting)
            waiting.discard(number)
        assert set(turns) <= waiting
        assert len(set(turns)) == len(turns)
        waiting -= set(turns)
        begun |= set(turns)
        assert lanes.has_waiting == bool(waiting)
    for _ in range(20):
        for number in sorted(begun):
            turns = list(lanes.ended(number, now))
            begun = (begun - {number}) | set(turns)
            waiting -= set(turns)
    assert not waiting
