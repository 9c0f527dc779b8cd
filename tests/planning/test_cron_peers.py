"""Where Evertick's fire times differ from those of cronsim and croniter, and that they differ nowhere else.

Each known difference is a predicate, named in docs/cron.md. A fire that only one side has must be one of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from croniter import CroniterBadDateError, croniter
from cronsim import CronSim

from evertick.errors import CronError
from evertick.planning.cron import Cron
from evertick.planning.zones import CORRECTION, offset_intervals
from tests.planning.cron_oracles import DAY, DISTINCT_ZONES, HOUR, random_expression

YEAR_1990 = 631_152_000
YEAR_2060 = 2_840_140_800
FIRES = 30
SOME_ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo",
              "Antarctica/Casey", "Asia/Gaza", "Asia/Kolkata", "Africa/Casablanca", "UTC"]  # fmt: skip


class Change(NamedTuple):
    at: int
    offset_before: int
    size: int

    def touches(self, fire: int) -> bool:
        """Whether the fire lies in the time that the change skips or repeats, on either side of it."""
        return abs(fire - self.at) <= abs(self.size)


class Case(NamedTuple):
    cron: Cron
    start: int
    changes: list[Change]


def changes_of(zone: str) -> list[Change]:
    return [Change(b.start, a.offset, b.offset - a.offset) for a, b in pairwise(offset_intervals(zone))]


def draw_case(rng: random.Random, zone: str) -> Case:
    """An expression all three understand, and a moment, most often a little before or after a change."""
    changes = changes_of(zone)
    near = [change.at for change in changes if YEAR_1990 < change.at < YEAR_2060]
    if near and rng.random() < 0.7:
        start = rng.choice(near) + rng.randrange(-2 * DAY, 3 * HOUR)
    else:
        start = rng.randrange(YEAR_1990, YEAR_2060)
    while True:
        try:
            return Case(Cron.parse(random_expression(rng, special_days=False), zone), start // 60 * 60, changes)
        except CronError:
            continue


def differing(case: Case, theirs: list[int]) -> set[int]:
    """The fires that only one side has, as far as both go."""
    ours: list[int] = []
    at = case.cron.next_second(case.start)
    while len(ours) < FIRES and at is not None:
        ours.append(at)
        at = case.cron.next_second(at)
    end = min(ours[-1], max(theirs))
    return {at for at in ours if at <= end} ^ {at for at in theirs if at <= end}


# -- cronsim ---------------------------------------------------------------------------------------------------


class Endless(Exception):
    """The search goes round in circles."""


class BoundedCronSim(CronSim):
    """cronsim with a limit on its search, which without one may never return."""

    TURNS_MAX = 50_000

    def __init__(self, text: str, start: datetime) -> None:
        self.turns = 0
        super().__init__(text, start)

    def advance_month(self) -> None:
        self.turns += 1
        if self.turns > self.TURNS_MAX:
            raise Endless
        super().advance_month()

    def tick(self, seconds: int = 1) -> None:
        self.turns += 1
        if self.turns > self.TURNS_MAX:
            raise Endless
        super().tick(seconds)


def cronsim_never_returns(case: Case) -> bool:
    """A wildcard job that is moved on to the next day meets a change back over midnight and is in the day before."""
    return case.cron.is_wildcard and any(
        (change.at + change.offset_before) % DAY < -change.size and case.start - 2 * DAY < change.at
        for change in case.changes
    )


def skips_midnight(change: Change) -> bool:
    to_midnight = -(change.at + change.offset_before) % DAY
    return to_midnight < change.size


def cronsim_takes_a_correction_for_daylight_saving(case: Case, fire: int) -> bool:
    return not case.cron.is_wildcard and any(
        abs(change.size) >= CORRECTION and change.touches(fire) for change in case.changes
    )


def cronsim_fires_at_a_midnight_that_is_skipped(case: Case, fire: int) -> bool:
    return case.cron.is_wildcard and any(change.touches(fire) and skips_midnight(change) for change in case.changes)


def cronsim_loses_its_place_until_midnight_after_a_change_off_the_hour(case: Case, fire: int) -> bool:
    return case.cron.is_wildcard and any(
        ((change.at + change.offset_before) % HOUR or change.size % HOUR) and -HOUR <= fire - change.at <= DAY
        for change in case.changes
    )


def cronsim_goes_back_when_started_in_the_second_pass(case: Case, fire: int) -> bool:
    return not case.cron.is_wildcard and any(
        change.at <= case.start < change.at - change.size and fire <= case.start for change in case.changes
    )


CRONSIM_DIFFERENCES: list[Callable[[Case, int], bool]] = [
    cronsim_takes_a_correction_for_daylight_saving,
    cronsim_fires_at_a_midnight_that_is_skipped,
    cronsim_loses_its_place_until_midnight_after_a_change_off_the_hour,
    cronsim_goes_back_when_started_in_the_second_pass,
]


def check_cronsim(case: Case) -> None:
    source = BoundedCronSim(case.cron.text, datetime.fromtimestamp(case.start, ZoneInfo(case.cron.timezone)))
    try:
        theirs = [int(next(source).timestamp()) for _ in range(FIRES)]
    except Endless:
        assert cronsim_never_returns(case), case
        return
    check_differences(case, theirs, CRONSIM_DIFFERENCES)


# -- croniter --------------------------------------------------------------------------------------------------


def with_either_day(text: str) -> str:
    """The same expression as croniter reads it: a stepped star in a day field still means either, not both."""
    minute, hour, month_day, month, weekday = text.split()
    if month_day != "*" and weekday != "*":
        month_day = month_day.replace("*", "1-31")
        weekday = weekday.replace("*", "0-6")
    return f"{minute} {hour} {month_day} {month} {weekday}"


def croniter_differs_around_a_change(case: Case, fire: int) -> bool:
    return any(change.touches(fire) for change in case.changes)


def croniter_gives_up_on_a_date_that_no_month_has(case: Case) -> bool:
    _, _, month_day, month, weekday = case.cron.text.split()
    return month_day == "31" and month == "FEB" and weekday != "*"


def check_croniter(case: Case) -> None:
    text = with_either_day(case.cron.text)
    case = case._replace(cron=Cron.parse(text, case.cron.timezone))
    source = croniter(text, datetime.fromtimestamp(case.start, ZoneInfo(case.cron.timezone)))
    try:
        theirs = [int(source.get_next(datetime).timestamp()) for _ in range(FIRES)]
    except CroniterBadDateError:
        assert croniter_gives_up_on_a_date_that_no_month_has(case), case
        return
    check_differences(case, theirs, [croniter_differs_around_a_change])


# -- both ------------------------------------------------------------------------------------------------------


def check_differences(case: Case, theirs: list[int], known: list[Callable[[Case, int], bool]]) -> None:
    for fire in differing(case, theirs):
        assert any(is_known(case, fire) for is_known in known), (str(case.cron), case.start, fire)


@pytest.mark.parametrize("zone", SOME_ZONES)
@pytest.mark.parametrize("check", [check_cronsim, check_croniter])
def test_fire_times_differ_only_where_documented(check, zone):
    rng = random.Random(zone)
    for _ in range(5):
        check(draw_case(rng, zone))


@pytest.mark.slow
@pytest.mark.parametrize(("check", "rounds"), [(check_cronsim, 5), (check_croniter, 2)])
def test_fire_times_differ_only_where_documented_in_every_zone(check, rounds):
    rng = random.Random(2060)
    for zone in DISTINCT_ZONES:
        for _ in range(rounds):
            check(draw_case(rng, zone))


class TestTheDifferencesAreReal:
    """Should a peer change its ways, docs/cron.md must too."""

    def test_cronsim_makes_up_the_day_that_samoa_left_out(self):
        before = datetime(2011, 12, 29, 23, tzinfo=ZoneInfo("Pacific/Apia"))
        assert next(CronSim("0 12 * * *", before)).isoformat() == "2011-12-31T00:00:00+14:00"
        ours = Cron.parse("0 12 * * *", "Pacific/Apia").next_after(before)
        assert ours is not None
        assert ours.isoformat() == "2011-12-31T12:00:00+14:00"

    def test_cronsim_never_ends_its_search_at_a_change_back_over_midnight(self):
        before = datetime(2010, 3, 4, 23, 30, tzinfo=ZoneInfo("Antarctica/Casey"))
        source = BoundedCronSim("*/15 23 */2 * *", before)
        with pytest.raises(Endless):
            next(source)
        ours = Cron.parse("*/15 23 */2 * *", "Antarctica/Casey").next_after(before)
        assert ours is not None
        assert ours.isoformat() == "2010-03-05T23:00:00+08:00"

    def test_cronsim_goes_back_in_the_second_pass(self):
        second_pass = datetime(2026, 10, 25, 2, 15, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
        theirs = next(CronSim("30 2 * * *", second_pass))
        assert theirs.timestamp() < second_pass.timestamp()

    def test_cronsim_fires_at_a_midnight_that_does_not_exist(self):
        before = datetime(2018, 10, 10, tzinfo=ZoneInfo("America/Sao_Paulo"))
        assert next(CronSim("*/15 0 4 * *", before)).isoformat() == "2018-11-04T00:00:00-03:00"
        ours = Cron.parse("*/15 0 4 * *", "America/Sao_Paulo").next_after(before)
        assert ours is not None
        assert ours.isoformat() == "2018-12-04T00:00:00-02:00"

    def test_cronsim_ends_a_stepped_week_with_sunday(self):
        friday_noon = datetime(2026, 11, 6, 12, tzinfo=ZoneInfo("UTC"))
        assert next(CronSim("0 0 * * 5/2", friday_noon)).day == 8
        ours = Cron.parse("0 0 * * 5/2").next_after(friday_noon)
        assert ours is not None
        assert ours.day == 13

    def test_croniter_runs_a_fixed_time_twice(self):
        source = croniter("30 2 * * *", datetime(2026, 10, 25, tzinfo=ZoneInfo("Europe/Berlin")))
        days = [source.get_next(datetime).day for _ in range(2)]
        assert days == [25, 25]

    def test_croniter_takes_either_day_for_a_stepped_star(self):
        start = datetime(2026, 11, 2, 12, tzinfo=ZoneInfo("UTC"))  # a Monday
        assert croniter("0 0 */2 * MON", start).get_next(datetime).day == 3
        ours = Cron.parse("0 0 */2 * MON").next_after(start)
        assert ours is not None
        assert ours.day == 9
