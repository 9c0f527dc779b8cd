"""Laws for every schedule in every zone: the fast engine equals the slow one, and its methods agree."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evertick.errors import CronError, InvalidArgument
from evertick.planning.cron import Cron
from evertick.planning.zones import HORIZON, offset_intervals
from tests.planning.cron_oracles import DAY, DISTINCT_ZONES, HOUR, SlowCron, random_expression, slow_fires
from tests.present import present

LIVELY = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Antarctica/Troll",
          "Asia/Beirut", "America/Havana", "Africa/Casablanca", "America/St_Johns", "Asia/Gaza", "UTC"]  # fmt: skip
LAST = HORIZON - 1


def cron_of(seed: int, zone: str, *, seconds: bool = True) -> Cron:
    """A random expression that can fire."""
    rng = random.Random(seed)
    while True:
        text = random_expression(rng)
        if seconds and rng.random() < 0.2:
            text = f"{rng.choice(['*', '*/7', '5', '0,30', '10-50/20'])} {text}"
        try:
            return Cron.parse(text, zone)
        except CronError:
            continue


def moment_near_a_change(rng: random.Random, zone: str) -> int:
    """A whole minute, mostly within a day or two of a change of the zone."""
    changes = [i.start for i in offset_intervals(zone)[1:] if 3 * DAY < i.start < HORIZON - 3 * DAY]
    if changes and rng.random() < 0.9:
        return rng.choice(changes) // 60 * 60 - rng.randrange(2 * DAY) // 60 * 60
    return rng.randrange(3 * DAY, HORIZON - 5 * DAY) // 60 * 60


def is_on_whole_minutes(zone: str, near: int) -> bool:
    return not any(
        interval.start % 60 or interval.offset % 60
        for interval in offset_intervals(zone)
        if interval.start - 4 * DAY < near < interval.end + 4 * DAY
    )


def check_against_slow_walk(cron: Cron, start: int, end: int, step: int) -> None:
    expected = slow_fires(cron.text, cron.timezone, start, end, step)
    assert cron.seconds_between(start, end) == expected, cron
    assert cron.count_between(start, end) == len(expected), cron
    forward, backward = [], []
    at = cron.next_second(start)
    while at is not None and at <= end:
        forward.append(at)
        at = cron.next_second(at)
    at = cron.previous_second(end + 1)
    while at is not None and at > start:
        backward.append(at)
        at = cron.previous_second(at)
    assert forward == expected, cron
    assert backward[::-1] == expected, cron


@settings(max_examples=present(settings.default).max_examples // 2)  # each walks through two days minute by minute
@given(seed=st.integers(0, 10**9), zone=st.sampled_from(LIVELY))
def test_the_engine_is_the_slow_walk_around_changes(seed, zone):
    rng = random.Random(seed)
    start = moment_near_a_change(rng, zone)
    check_against_slow_walk(cron_of(seed, zone, seconds=False), start, start + 2 * DAY, 60)


@pytest.mark.slow
def test_the_engine_is_the_slow_walk_in_every_zone():
    rng = random.Random(1583)
    checked = 0
    for zone in DISTINCT_ZONES:
        start = moment_near_a_change(rng, zone)
        if is_on_whole_minutes(zone, start):
            cron = cron_of(rng.randrange(10**9), zone, seconds=False)
            check_against_slow_walk(cron, start, start + 2 * DAY, 60)
            checked += 1
    assert checked > 0.95 * len(DISTINCT_ZONES)


@pytest.mark.slow
def test_the_engine_is_the_slow_walk_second_by_second():
    rng = random.Random(1970)
    cases = [("Africa/Monrovia", 63593070), ("Europe/Berlin", 1774746000), ("Australia/Lord_Howe", 1775314800)]
    texts = ["*/7 * * * * *", "30 */5 * * * *", "5,6 40-50 * * * *", "0 44 0 * * *", "59 59 1 * * *",
             "0 0 0 7 1 *", "17 30 2 * * *", "10-50/20 29 1-2 * * *"]  # fmt: skip
    for zone, change in cases:
        for text in texts:
            start = change - rng.randrange(1, 3 * HOUR)
            check_against_slow_walk(Cron.parse(text, zone), start, change + rng.randrange(HOUR, 2 * HOUR), 1)


@given(
    seed=st.integers(0, 10**9),
    zone=st.sampled_from(LIVELY),
    start=st.integers(-DAY, LAST),
    length=st.integers(0, 400 * DAY),
)
def test_counting_and_going_back_agree_with_going_forward(seed, zone, start, length):
    cron = cron_of(seed, zone)
    first = cron.next_second(start)
    if first is None:
        assert cron.count_between(start, HORIZON) == 0
        return
    assert first > start
    assert first >= 0
    assert cron.count_between(start, first) == 1
    assert cron.count_between(start, first - 1) == 0
    assert cron.previous_second(first + 1) == first
    before = cron.previous_second(first)
    assert before is None or before <= start
    assert before is None or cron.next_second(before) == first
    middle, end = start + length // 3, start + length
    assert cron.count_between(start, end) == cron.count_between(start, middle) + cron.count_between(middle, end)


@given(seed=st.integers(0, 10**9), zone=st.sampled_from(LIVELY), start=st.integers(0, LAST), days=st.integers(0, 40))
def test_a_list_is_strictly_increasing_and_equals_repeated_next(seed, zone, start, days):
    cron = cron_of(seed, zone)
    end = start + (HOUR if len(cron.text.split()) == 6 else days * DAY // 10)
    listed = cron.seconds_between(start, end)
    assert all(sooner < later for sooner, later in zip([start, *listed], listed, strict=False))
    assert all(at <= end for at in listed)
    walked, at = [], cron.next_second(start)
    while at is not None and at <= end:
        walked.append(at)
        at = cron.next_second(at)
    assert walked == listed
    assert cron.count_between(start, end) == len(listed)
    moments = cron.between(datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC))
    assert [moment.timestamp() for moment in moments] == listed
    assert cron.upcoming(datetime.fromtimestamp(start, UTC), len(listed)) == moments


@given(seed=st.integers(0, 10**9), zone=st.sampled_from(LIVELY), start=st.integers(0, LAST - 10 * 366 * DAY))
def test_each_fire_matches_its_expression_unless_a_change_moved_it(seed, zone, start):
    cron = cron_of(seed, zone)
    slow = SlowCron(cron.text)
    changes = {interval.start for interval in offset_intervals(zone)}
    for moment in cron.upcoming(datetime.fromtimestamp(start, UTC), 20):
        assert slow.matches(moment.replace(tzinfo=None)) or int(moment.timestamp()) in changes


@given(seed=st.integers(0, 10**9), zone=st.sampled_from(LIVELY), data=st.data())
def test_the_order_of_questions_does_not_change_the_answers(seed, zone, data):
    cron = cron_of(seed, zone)
    base = moment_near_a_change(random.Random(seed), zone)
    for offset in data.draw(st.lists(st.integers(-3 * DAY, 3 * DAY), max_size=12)):
        fresh = Cron.parse(cron.text, zone)
        assert cron.next_second(base + offset) == fresh.next_second(base + offset)
        assert cron.seconds_between(base, base + offset) == Cron.parse(cron.text, zone).seconds_between(
            base, base + offset
        )


class TestBounds:
    def test_fires_begin_with_1970_and_end_with_2200(self):
        cron = Cron.parse("0 0 * * *")
        assert cron.next_second(-(10**12)) == 0
        assert cron.next_second(-1) == 0
        assert cron.previous_second(1) == 0
        assert cron.previous_second(0) is None
        last = cron.previous_second(10**12)
        assert last == int(datetime(2200, 12, 31, tzinfo=UTC).timestamp())
        assert cron.next_second(last) is None
        assert cron.next_second(10**12) is None

    @pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"])
    @pytest.mark.parametrize("text", ["* * * * * *", "0 0 * * *", "0 0 1 1 *"])
    def test_the_bounds_hold_for_every_method_and_zone(self, text, zone):
        cron = Cron.parse(text, zone)
        first, last = cron.next_second(-(10**12)), cron.previous_second(10**12)
        assert first is not None
        assert last is not None
        assert 0 <= first < 367 * DAY
        assert HORIZON - 367 * DAY < last < HORIZON
        assert cron.seconds_between(-(10**12), first) == [first]
        assert cron.seconds_between(last - 1, 10**12) == [last]
        assert cron.seconds_between(10**11, 10**12) == []
        assert cron.seconds_between(-(10**12), -1) == []
        assert cron.count_between(-(10**12), first) == 1
        assert cron.count_between(10**11, 10**12) == 0

    def test_every_second_of_the_whole_time_is_counted(self):
        assert Cron.parse("* * * * * *").count_between(-1, HORIZON) == HORIZON
        assert Cron.parse("* * * * * *", "America/New_York").count_between(-1, HORIZON) == HORIZON

    def test_moments_far_away_and_with_fractions(self):
        cron = Cron.parse("* * * * * *")
        assert cron.next_after(datetime(1, 1, 2, tzinfo=UTC)) == datetime(1970, 1, 1, tzinfo=UTC)
        assert cron.next_after(datetime(9999, 12, 30, tzinfo=UTC)) is None
        almost = datetime(2026, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)
        assert cron.next_after(almost) == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
        assert cron.between(almost, almost + timedelta(seconds=1)) == [datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)]
        early = datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)
        assert cron.next_after(early) == datetime(1970, 1, 1, tzinfo=UTC)

    def test_a_datetime_without_zone_is_refused(self):
        cron = Cron.parse("* * * * *")
        naive = datetime(2026, 1, 1)  # noqa: DTZ001
        for ask in (cron.next_after, lambda at: cron.upcoming(at, 1), lambda at: cron.between(at, at)):
            with pytest.raises(InvalidArgument, match="Add tzinfo"):
                ask(naive)

    def test_an_empty_or_backward_stretch_has_no_fires(self):
        cron = Cron.parse("* * * * *")
        assert cron.seconds_between(600, 600) == []
        assert cron.seconds_between(1200, 600) == []
        assert cron.count_between(1200, 600) == 0
        cron.next_second(600)
        assert cron.seconds_between(1200, 600) == []
        assert cron.upcoming(datetime(2026, 1, 1, tzinfo=UTC), 0) == []

    def test_the_rarest_day_is_found(self):
        # A leap day that is a Sunday: 28 years apart, 40 across 2100.
        cron = Cron.parse("0 0 29 2 */7", "Europe/Berlin")
        days = [at.year for at in cron.upcoming(datetime(2026, 1, 1, tzinfo=UTC), 6)]
        assert days == [2032, 2060, 2088, 2128, 2156, 2184]


def test_a_cron_cannot_be_changed():
    cron = Cron.parse("* * * * *")
    with pytest.raises(AttributeError):
        cron.text = "0 0 * * *"  # type: ignore[misc]


def test_equal_parts_are_one_table():
    one, other = Cron.parse("*/5 * * * 1-5", "UTC"), Cron.parse("*/5 * * * MON-FRI", "Asia/Tokyo")
    assert one._pattern is other._pattern
