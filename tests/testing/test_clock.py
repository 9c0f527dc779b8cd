"""Whether simulated time does what it is set to do, and nothing else."""

from __future__ import annotations

from typing import Any

from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.testing import SimulatedClock, Timeline


def test_a_clock_shows_true_time_until_it_is_set():
    timeline = Timeline(HOUR)
    clock = SimulatedClock(timeline)
    timeline.run_until(2 * HOUR)
    assert (clock.now(), clock.monotonic_us(), clock.ahead_us) == (2 * HOUR, 2 * HOUR, 0)


def test_a_jump_moves_the_wall_clock_only():
    clock = SimulatedClock(Timeline(HOUR))
    clock.jump(-5 * MINUTE)
    assert (clock.now(), clock.monotonic_us()) == (HOUR - 5 * MINUTE, HOUR)


def test_a_suspended_machine_misses_the_stretch_on_its_monotonic_clock_only():
    timeline = Timeline(HOUR)
    clock = SimulatedClock(timeline)
    clock.sleep(MINUTE)
    timeline.run_until(HOUR + MINUTE)
    assert (clock.now(), clock.boottime_us(), clock.monotonic_us()) == (HOUR + MINUTE, HOUR + MINUTE, HOUR)


def test_drift_grows_with_time_and_stays_when_it_settles():
    timeline = Timeline(0)
    clock = SimulatedClock(timeline, drift_ppm=1_000)
    timeline.run_until(1_000 * SECOND)
    assert clock.now() == 1_001 * SECOND
    clock.settle()
    timeline.run_until(2_000 * SECOND)
    assert clock.ahead_us == SECOND


def test_events_happen_in_order_of_time_and_then_of_being_put_down():
    timeline = Timeline(0)
    seen: list[Any] = []
    for name, at in (("c", 3), ("a", 1), ("b", 3), ("too late", 9)):
        timeline.at(at, seen.append, name)
    timeline.run_until(5)
    assert (seen, timeline.now, timeline.happened) == (["a", "c", "b"], 5, 3)


def test_an_event_put_down_for_the_past_happens_now():
    timeline, seen = Timeline(10), []
    timeline.at(1, lambda: seen.append(timeline.now))
    timeline.run_until(10)
    assert seen == [10]


def test_what_an_event_puts_down_happens_in_the_same_run():
    timeline = Timeline(0)
    seen: list[Any] = []

    def first() -> None:
        timeline.after(2, seen.append, "second")

    timeline.after(1, first)
    timeline.run_until(3)
    assert seen == ["second"]
