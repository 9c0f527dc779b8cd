"""Which occurrences run on which days: each schedule method against a reading one occurrence at a time."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evertick.model.calendar import Calendar, CalendarRule, Shift, day_of_date
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, from_datetime, to_datetime
from evertick.model.job import Job
from evertick.model.ledger import JobRecord, ScheduleLine
from evertick.model.lifecycle import PLANNED, RUNNING, SKIPPED, SkipReason, Trigger
from evertick.model.policy import Missed, Policy
from evertick.model.run import LedgerRow, RunKey
from evertick.model.schedule import AtSpec, CalendarSpec, CronSpec, EverySpec, specs_from_text, specs_to_text
from evertick.planning.calendar import CalendarSchedule, DayRule
from evertick.planning.planner import JobView, Plan, plan
from evertick.planning.schedules import compile_occurrences, compile_schedule, exclusion_of
from evertick.planning.verify import verify_ledger

BERLIN = "Europe/Berlin"
CHRISTMAS = Calendar(
    "de-BE",
    days=tuple(day_of_date(date(2026, 12, day)) for day in (25, 26)),
    labels=("Christmas Day", "Second Day of Christmas"),
)
WEEKENDS = Calendar("weekends", weekdays=(5, 6))
NINE = CronSpec("0 9 * * *", BERLIN)


def at(text: str, zone: str = BERLIN) -> int:
    return from_datetime(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)))


def days(spec: CalendarSpec, start: str, end: str) -> list[str]:
    found = compile_schedule(spec).between(at(start), at(end))
    return [f"{to_datetime(one).astimezone(ZoneInfo(spec.timezone)):%d %H:%M}" for one in found]


def spec_of(shift: Shift | None = None, *, schedule=NINE, zone: str = BERLIN) -> CalendarSpec:
    return CalendarSpec(schedule, CalendarRule((CHRISTMAS, WEEKENDS), (), shift), zone)


@pytest.mark.parametrize(
    ("shift", "expected"),
    [
        pytest.param(None, ["24 09:00", "28 09:00"], id="the days are left out"),
        pytest.param(Shift.NEXT, ["24 09:00", "28 09:00"], id="moved onto a real occurrence it is one"),
        pytest.param(Shift.PREVIOUS, ["24 09:00", "28 09:00"], id="the same before"),
    ],
)
def test_a_daily_job_over_christmas(shift, expected):
    assert days(spec_of(shift), "2026-12-24", "2026-12-29") == expected


@pytest.mark.parametrize(("shift", "expected"), [(Shift.NEXT, ["28 09:00"]), (Shift.PREVIOUS, ["24 09:00"])])
def test_a_job_of_one_day_moves_to_the_nearest_day_that_is_left(shift, expected):
    assert days(spec_of(shift, schedule=CronSpec("0 9 26 * *", BERLIN)), "2026-12-20", "2026-12-31") == expected


def test_the_zone_of_the_job_decides_which_day_it_is():
    # 23:30 in UTC on the 24th is the 25th in Berlin.
    late = CronSpec("30 23 * * *", "UTC")
    assert exclusion_of((spec_of(schedule=late),), at("2026-12-24T23:30", "UTC")) is not None
    assert exclusion_of((spec_of(schedule=late, zone="UTC"),), at("2026-12-24T23:30", "UTC")) is None


def test_a_moved_time_that_the_clock_skips_runs_at_the_first_instant_after():
    sunday = Calendar("sat", days=(day_of_date(date(2026, 3, 28)),))
    spec = CalendarSpec(CronSpec("30 2 28 3 *", BERLIN), CalendarRule((sunday,), (), Shift.NEXT), BERLIN)
    assert days(spec, "2026-03-27", "2026-03-31") == ["29 03:00"]


def test_an_exclusion_names_the_day_and_the_calendar():
    assert str(exclusion_of((spec_of(),), at("2026-12-25T09:00"))) == "Christmas Day is in the calendar de-BE"
    only = CalendarSpec(NINE, CalendarRule((), (WEEKENDS,)), BERLIN)
    assert str(exclusion_of((only,), at("2026-12-25T09:00"))) == "Friday is not in the calendar weekends"


def test_a_single_instant_keeps_its_day():
    assert exclusion_of((spec_of(), AtSpec(at("2026-12-25T09:00"))), at("2026-12-25T09:00")) is None


def test_a_calendar_whose_dates_are_over_leaves_nothing():
    only = CalendarSpec(NINE, CalendarRule((), (CHRISTMAS,)), BERLIN)
    assert compile_schedule(only).next_after(at("2026-12-27")) is None


def test_the_ledger_reads_back_the_same_days():
    specs = (spec_of(Shift.NEXT), CalendarSpec(EverySpec(HOUR), CalendarRule((), (CHRISTMAS,)), "UTC"))
    assert specs_from_text(specs_to_text(specs)) == specs


@pytest.mark.parametrize("shift", Shift)
def test_a_calendar_without_days_is_not_searched_back_to_1970(monkeypatch, shift):
    asked: list[int] = []
    monkeypatch.setattr(DayRule, "excludes", lambda _, day: asked.append(day) or True)
    rule = DayRule(CalendarRule(only=(Calendar("empty"),), shift=shift))
    assert rule.target(day_of_date(date(2026, 1, 1))) is None
    assert len(asked) == 7


zones = st.sampled_from(["UTC", BERLIN, "America/Sao_Paulo", "Pacific/Apia", "Asia/Beirut", "Africa/Cairo"])
first_days = st.sampled_from([day_of_date(date(year, 1, 1)) for year in (2011, 2017, 2026)])


@st.composite
def calendars(draw, first):
    weekdays = tuple(sorted(draw(st.sets(st.integers(0, 6), max_size=2))))
    listed = tuple(sorted(draw(st.sets(st.integers(first - 10, first + 200), max_size=20))))
    return Calendar(draw(st.sampled_from("ab")), weekdays, listed)


@settings(max_examples=20, deadline=None)
@given(st.data(), first_days, zones, zones)
def test_every_way_to_ask_gives_the_same_occurrences(data, first, zone, own_zone):
    base = data.draw(
        st.sampled_from(["0 9 * * *", "30 0,12 * * *", "15 23 1 * *", "0 0 * * MON"]).map(
            lambda text: CronSpec(text, own_zone)
        )
        | st.just(EverySpec(7 * HOUR + 1_500_000))
    )
    skip, only = (tuple(data.draw(st.lists(calendars(first), max_size=1))) for _ in range(2))
    rule = CalendarRule(skip, only, data.draw(st.none() | st.sampled_from(Shift)))
    schedule = compile_schedule(CalendarSpec(base, rule, zone))
    assert isinstance(schedule, CalendarSchedule)
    start = first * DAY + data.draw(st.integers(0, 150 * 86_400)) * SECOND
    end = start + data.draw(st.integers(0, 30 * 86_400)) * SECOND
    runs, excluded = set(), set()
    for one in compile_schedule(base).between(start - 370 * DAY, end + 370 * DAY):
        why = schedule.excluded.exclusion(one)
        if why is None:
            runs.add(one)
        else:
            excluded.add(one)
            runs |= set() if why.moved_to is None else {why.moved_to}
    for engine, wanted in ((schedule, runs), (schedule.excluded, excluded)):
        expected = sorted(one for one in wanted if start < one <= end)
        assert engine.between(start, end) == expected
        assert engine.count(start, end) == len(expected)
        assert _walk(engine.next_after, start, lambda one: one <= end) == expected
        assert _walk(engine.previous_before, end + 1, lambda one: one > start)[::-1] == expected


def _walk(step, cursor, is_inside):
    found = []
    while (following := step(cursor)) is not None and is_inside(following):
        found.append(following)
        cursor = following
    return found


# --- the planner


def minutely(**policy) -> Job:
    return Job("a", schedules=(spec_of(schedule=EverySpec(MINUTE)),), policy=Policy(**policy), timezone=BERLIN)


def told(result: Plan) -> list[tuple[str, int]]:
    return [(str(entry.reason or entry.trigger), entry.occurrences) for entry in result.entries]


def test_the_excluded_days_of_a_downtime_are_one_gap_and_catch_up_runs_only_the_others():
    view = JobView(minutely(missed=Missed.ALL), at("2026-12-24T23:56:30"))
    result = plan(view, at("2026-12-28T00:02:30"), 0)
    gap = next(entry for entry in result.entries if entry.reason is SkipReason.CALENDAR)
    assert told(result) == [("catchup", 1)] * 3 + [("calendar", 3 * 1_440)] + [("catchup", 1)] * 2 + [("scheduler", 1)]
    assert gap.detail == "Christmas Day to Sunday is in the calendar de-BE"
    assert (gap.key.scheduled_for, gap.through) == (at("2026-12-25"), at("2026-12-27T23:59"))


def test_missed_gaps_end_where_excluded_days_begin():
    result = plan(JobView(minutely(), at("2026-12-24T23:00")), at("2026-12-28T01:00:30"), 0)
    assert told(result) == [("missed", 59), ("calendar", 3 * 1_440), ("missed", 60), ("scheduler", 1)]


def test_on_an_excluded_day_the_occurrence_is_entered_ahead_and_skipped_when_it_is_late():
    job = minutely()
    ahead = plan(JobView(job, at("2026-12-25T10:00:30")), at("2026-12-25T10:00:58"), 5 * SECOND)
    assert [(entry.state, entry.trigger) for entry in ahead.entries] == [(PLANNED, Trigger.SCHEDULER)]
    due = at("2026-12-25T10:01")
    late = plan(JobView(job, due, planned=(due,)), at("2026-12-25T10:05:30"), 0)
    assert [(change.state, change.reason) for change in late.changes] == [(SKIPPED, SkipReason.CALENDAR)]


@pytest.mark.parametrize("shift", [None, *Shift])
def test_a_plan_and_verify_agree_about_every_day(shift):
    job = Job("a", schedules=(spec_of(shift, schedule=CronSpec("0 9 * * *", BERLIN)),))
    start, end = at("2026-12-01"), at("2027-01-15T09:00:20")
    result = plan(JobView(job, start), end, 0)
    rows = [
        LedgerRow(
            entry.key, entry.state, entry.trigger, entry.decided_at, "n", reason=entry.reason,
            through=entry.through, occurrences=entry.occurrences,
        )
        for entry in result.entries
    ]  # fmt: skip
    lines = [ScheduleLine("a", start, specs_to_text(job.schedules))]
    report = verify_ledger(lines, [JobRecord("a", result.watermark, held=True)], {}, rows)
    assert report.is_sound
    assert report.occurrences == sum(one.count(start, result.watermark) for one in compile_occurrences(job.schedules))


def test_verify_finds_a_run_on_an_excluded_day():
    due = at("2026-12-25T09:00")
    row = LedgerRow(RunKey("a", due), RUNNING, Trigger.SCHEDULER, due, "n", attempt=1)
    lines = [ScheduleLine("a", due - DAY, specs_to_text((spec_of(),)))]
    report = verify_ledger(lines, [JobRecord("a", due, held=True)], {}, [row])
    assert report.strays == (row.key,)
