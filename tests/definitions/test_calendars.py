"""Whether calendars are read from settings and files, and their errors name the next step."""

from __future__ import annotations

from datetime import date

import pytest

from evertick.definitions.cache import DefinitionCache
from evertick.definitions.calendars import CalendarError, find_calendar, years_of
from evertick.definitions.parser import parse_definition
from evertick.definitions.source import load_folder, warnings_at
from evertick.definitions.watch import FolderChanged, FolderWatch
from evertick.errors import SettingsError
from evertick.model.calendar import date_of_day
from evertick.model.instant import from_text
from evertick.settings import Settings

EVENTS = """BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
UID:1
DTSTART;VALUE=DATE:20260914
DTEND;VALUE=DATE:20260916
SUMMARY:Team days,
  folded
END:VEVENT
BEGIN:VEVENT
UID:2
DTSTART;TZID=America/New_York:20261001T220000
DTEND;TZID=America/New_York:20261002T000000
SUMMARY:Migration
END:VEVENT
END:VCALENDAR
"""


def settings_of(folder, text: str) -> Settings:
    (folder / "evertick.toml").write_text(f"[calendars]\n{text}\n")
    return Settings.load(folder, {})


def parsed(settings: Settings, calendar: str, schedule: str = "'0 9 * * *'"):
    return parse_definition(f"schedule: {schedule}\ncalendar: {calendar}\ncommand: 'true'\n", "a.yaml", settings)


def labels(calendar) -> dict[str, str]:
    return {str(date_of_day(day)): label for day, label in zip(calendar.days, calendar.labels, strict=True)}


def test_dates_and_ranges_with_and_without_a_name(tmp_path):
    settings = settings_of(
        tmp_path, 'a = {dates = ["2026-12-24"]}\nb = {dates = {"2026-12-30..2026-12-31" = "Closed"}}'
    )
    assert labels(find_calendar("a", settings)) == {"2026-12-24": "2026-12-24"}
    assert labels(find_calendar("b", settings)) == {"2026-12-30": "Closed", "2026-12-31": "Closed"}


def test_weekdays_may_be_a_range(tmp_path):
    settings = settings_of(tmp_path, 'work = {weekdays = "MON-FRI"}\nfree = {weekdays = "sat-sun"}')
    assert find_calendar("work", settings).weekdays == (0, 1, 2, 3, 4)
    assert find_calendar("free", settings).weekdays == (5, 6)


def test_holidays_of_a_country_a_part_of_it_and_a_market(tmp_path):
    settings = settings_of(tmp_path, 'de = {holidays = "DE"}\nbe = {holidays = "DE-BE"}\nnyse = {holidays = "XNYS"}')
    assert "2026-03-08" not in labels(find_calendar("de", settings))
    assert labels(find_calendar("be", settings))["2026-03-08"] == "Women's Day"
    assert "2026-07-03" in labels(find_calendar("nyse", settings))


def test_an_ics_file_is_found_beside_the_settings_and_read_by_the_clock_of_its_events(tmp_path):
    (tmp_path / "team.ics").write_text(EVENTS)
    found = find_calendar("team", settings_of(tmp_path, 'team = {ics = "team.ics"}'))
    assert labels(found) == {
        "2026-09-14": "Team days, folded",
        "2026-09-15": "Team days, folded",
        "2026-10-01": "Migration",
    }


def test_a_changed_ics_file_is_read_again_and_changes_the_job(tmp_path):
    (tmp_path / "team.ics").write_text(EVENTS)
    settings = settings_of(tmp_path, 'team = {ics = "team.ics"}')
    (tmp_path / "a.yaml").write_text("schedule: '0 9 * * *'\ncalendar: {skip: team}\ncommand: 'true'\n")
    cache = tmp_path / "cache"

    def load():
        folder = load_folder(tmp_path, settings, cache=cache)
        assert not folder.errors
        return folder.jobs["a"]

    before = load()
    (tmp_path / "team.ics").write_text(EVENTS.replace("20260916", "20260917"))
    after = load()
    assert before.fingerprint != after.fingerprint
    assert load() == after


def test_the_cache_gives_back_the_days(tmp_path):
    settings = settings_of(tmp_path, 'off = {dates = {"2026-12-24" = "Christmas Eve"}}')
    result = parsed(settings, "{skip: off}")
    cache = DefinitionCache(tmp_path / "cache", str(tmp_path), settings)
    cache.write({"a.yaml": (b"1", result)})
    assert cache.read()["a.yaml"][1].job == result.job


def test_the_years_that_are_resolved_change_once_in_ten_years():
    assert years_of(date(2026, 1, 1)) == years_of(date(2029, 12, 31)) == range(2010, 2040)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a = {dates = ["2026-13-01"]}', "not a date"),
        ('a = {dates = ["2026-12-31..2026-12-01"]}', "first day first"),
        ('a = {weekdays = "FUNDAY"}', "not a weekday"),
        ('a = {holidays = "Germany!"}', "no code"),
        ('a = {day = "2026-12-24"}', "unknown key 'day'"),
        ("a = {}", "does not say which days"),
    ],
)
def test_wrong_settings_are_reported(tmp_path, text, said):
    with pytest.raises(SettingsError, match=said):
        settings_of(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a = {holidays = "XX"}', "does not know 'XX'"),
        ('a = {holidays = "DE-XX"}', "Parts of DE: BB, BE"),
        ('a = {ics = "gone.ics"}', "cannot be read"),
    ],
)
def test_days_that_cannot_be_found_are_reported_at_the_job(tmp_path, text, said):
    settings = settings_of(tmp_path, text)
    with pytest.raises(CalendarError, match=said):
        find_calendar("a", settings)
    (error,) = parsed(settings, "{skip: a}").errors
    assert error.line == 2
    assert said in str(error)


def test_a_file_that_is_not_a_calendar_is_reported(tmp_path):
    (tmp_path / "x.ics").write_bytes(b"\x00\xff nonsense")
    (error,) = parsed(settings_of(tmp_path, 'a = {ics = "x.ics"}'), "{skip: a}").errors
    assert "is not an iCalendar file" in str(error)


@pytest.mark.parametrize(
    ("calendar", "schedule", "said"),
    [
        ("{skip: [compny]}", "'0 9 * * *'", "Did you mean 'company'?"),
        ("{only: [other]}", "'0 9 * * *'", "below [calendars]"),
        ("{}", "'0 9 * * *'", "names no calendar"),
        ("{skip: company, shift: later}", "'0 9 * * *'", "one of next, previous"),
        ("{skip: company, shift: next}", "'*/5 * * * *'", "due all day"),
        ("{skip: company, shift: next}", "{every: 10m}", "due all day"),
        ("company", "'0 9 * * *'", "must be a map"),
    ],
)
def test_wrong_calendars_of_a_job_are_reported(tmp_path, calendar, schedule, said):
    settings = settings_of(tmp_path, 'company = {dates = ["2026-12-24"]}')
    (error,) = parsed(settings, calendar, schedule).errors
    assert said in str(error)


def test_a_job_with_one_instant_is_warned(tmp_path):
    settings = settings_of(tmp_path, 'company = {dates = ["2026-12-24"]}')
    result = parsed(settings, "{skip: company}", "{at: '2030-12-24T09:00:00Z'}")
    assert any("does not apply to 'at'" in str(warning) for warning in result.warnings)


def test_a_job_without_a_schedule_is_warned(tmp_path):
    settings = settings_of(tmp_path, 'company = {dates = ["2026-12-24"]}')
    (warning,) = parse_definition("calendar: {skip: company}\ncommand: x\n", "a.yaml", settings).warnings
    assert "no effect without a schedule" in str(warning)


@pytest.mark.parametrize(
    ("calendar", "is_over"),
    [
        pytest.param("{skip: all}", True, id="every day"),
        pytest.param("{only: past}", True, id="days that are over"),
        pytest.param("{only: weekends, skip: weekends}", True, id="the same days"),
        pytest.param("{only: weekends, skip: past}", False, id="some days"),
        pytest.param("{only: past, shift: next}", True, id="nowhere to move to"),
    ],
)
def test_a_calendar_that_leaves_no_occurrence_is_warned_of(tmp_path, calendar, is_over):
    settings = settings_of(
        tmp_path,
        'all = {weekdays = ["MON-SUN"]}\nweekends = {weekdays = ["SAT", "SUN"]}\npast = {dates = ["2020-03-02"]}',
    )
    job = parsed(settings, calendar, "'0 9 * * *'").job
    found = warnings_at(job, from_text("2026-03-02T00:00:00Z"))
    assert ["excludes every occurrence from now on" in str(one) for one in found] == [True] * is_over


def test_a_watched_folder_takes_a_changed_file_and_keeps_the_days_of_one_that_is_broken(tmp_path):
    path = tmp_path / "team.ics"
    path.write_text(EVENTS)
    settings = settings_of(tmp_path, 'team = {ics = "team.ics"}')
    (tmp_path / "a.yaml").write_text("schedule: '0 9 * * *'\ncalendar: {skip: team}\ncommand: x\n")
    (tmp_path / "plain.yaml").write_text("command: x\n")
    watch = FolderWatch(tmp_path, settings)
    first = watch.load().jobs["a"]
    told: list[FolderChanged] = []
    watch.scan(told.append)
    assert told == []

    path.write_text(EVENTS.replace("20260916", "20260917") + "\n")
    watch.scan(told.append)
    assert (told, watch.is_settling) == ([], True)  # it may still be written
    watch.scan(told.append)
    assert [job.id for job in told[0].jobs] == ["a"]
    second = watch.snapshot().jobs["a"]
    assert second.schedules != first.schedules

    told.clear()
    path.write_bytes(b"nonsense")
    watch.scan(told.append)
    watch.scan(told.append)
    assert [("team" in str(error), change.jobs) for change in told for error in change.errors] == [(True, ())]
    assert (watch.snapshot().jobs["a"], watch.snapshot().stale) == (second, frozenset({"a"}))

    told.clear()
    path.write_text(EVENTS)
    watch.scan(told.append)
    watch.scan(told.append)
    assert [job.schedules for job in told[0].jobs] == [first.schedules]
    assert not watch.snapshot().errors
    assert not watch.is_settling
