"""How changes of the clock affect schedules: the six rules, zone by zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from evertick.planning.cron import Cron


def fires(text: str, zone: str, start: str, end: str) -> list[str]:
    """Fires between two local times (before and after the change), each with its offset."""
    first, last = (datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)) for day in (start, end))
    found = Cron.parse(text, zone).between(first, last)
    return [at.strftime("%d %H:%M%z")[:-2] for at in found]


def case(text, zone, start, end, expected, words):
    return pytest.param(text, zone, start, end, expected.split(", ") if expected else [], id=words)


SPRING = ("Europe/Berlin", "2026-03-29T00:00", "2026-03-29T05:00")
AUTUMN = ("Europe/Berlin", "2026-10-25T00:00", "2026-10-25T05:00")
NY_SPRING = ("America/New_York", "2026-03-08T00:00", "2026-03-08T05:00")
NY_AUTUMN = ("America/New_York", "2026-11-01T00:00", "2026-11-01T05:00")

RULES = [
    case("0 */1 * * *", *SPRING, "29 01:00+01, 29 03:00+02, 29 04:00+02, 29 05:00+02",
         "rule 2: wildcard, nothing in skipped time"),
    case("*/30 2 * * *", *SPRING, "", "rule 2: wildcard minutes in a skipped hour"),
    case("*/30 2 * * *", *AUTUMN, "25 02:00+02, 25 02:30+02, 25 02:00+01, 25 02:30+01",
         "rule 2: wildcard, both passes"),
    case("@hourly", *NY_AUTUMN, "01 01:00-04, 01 01:00-05, 01 02:00-05, 01 03:00-05, 01 04:00-05, 01 05:00-05",
         "rule 2: hourly is wildcard"),
    case("30 2 * * *", *SPRING, "29 03:00+02", "rule 3: a skipped time is made up at the change"),
    case("30 2 * * *", *NY_SPRING, "08 03:00-04", "rule 3: in New York"),
    case("0-59/10 2 * * *", *SPRING, "29 03:00+02", "rule 3: several skipped times are made up once"),
    case("0,30 2,3 * * *", *SPRING, "29 03:00+02, 29 03:30+02", "rule 3: merged with a real time there"),
    case("0 0-23 * * *", *SPRING, "29 01:00+01, 29 03:00+02, 29 04:00+02, 29 05:00+02",
         "rule 3: every hour written out"),
    case("59 1,2 * * *", *SPRING, "29 01:59+01, 29 03:00+02", "rule 3: the last minute before"),
    case("30 2 * * *", *AUTUMN, "25 02:30+02", "rule 4: the first pass only"),
    case("0 0-5 * * *", *AUTUMN, "25 01:00+02, 25 02:00+02, 25 03:00+01, 25 04:00+01, 25 05:00+01",
         "rule 4: the hour after comes once"),
    case("30 1 * * *", *NY_AUTUMN, "01 01:30-04", "rule 4: in New York"),
    case("59 59 2 * * *", *AUTUMN, "25 02:59+02", "rule 4: the last second of the first pass"),
    case("0 0 3 * * *", *AUTUMN, "25 03:00+01", "rule 4: the first second after the second pass"),
    case("*/30 30 2 * * *", *AUTUMN, "25 02:30+02, 25 02:30+02, 25 02:30+01, 25 02:30+01",
         "rule 1: a wildcard second makes a wildcard job"),
    case("30 2 * * SUN", *SPRING, "29 03:00+02", "rule 6: the weekday asked for"),
    case("30 2 * * MON", *SPRING, "", "rule 6: not another weekday"),
]  # fmt: skip

ZONES = [
    case("15 2 * * *", "Australia/Lord_Howe", "2026-10-04T01:00", "2026-10-04T04:00", "04 02:30+11",
         "Lord Howe skips half an hour"),
    case("45 1 * * *", "Australia/Lord_Howe", "2026-04-05T00:00", "2026-04-05T04:00", "05 01:45+11",
         "Lord Howe repeats half an hour"),
    case("*/15 1 * * *", "Australia/Lord_Howe", "2026-04-05T00:59", "2026-04-05T04:00",
         "05 01:00+11, 05 01:15+11, 05 01:30+11, 05 01:45+11, 05 01:30+10, 05 01:45+10",
         "Lord Howe repeats half of a wildcard's hour"),
    case("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00", "2012-01-01T00:00", "29 12:00-10, 31 12:00+14",
         "rule 5: the day Samoa left out is not made up"),
    case("0 */12 * * *", "Pacific/Apia", "2011-12-29T06:00", "2012-01-01T00:00",
         "29 12:00-10, 31 00:00+14, 31 12:00+14, 01 00:00+14", "rule 5: Samoa, wildcard"),
    case("0 0 * * *", "Pacific/Kwajalein", "1993-08-20T01:00", "1993-08-23T01:00", "22 00:00+12, 23 00:00+12",
         "rule 5: the day Kwajalein left out"),
    case("30 20 * * *", "Antarctica/Casey", "2020-10-03T00:00", "2020-10-05T00:00", "03 20:30+08, 04 20:30+11",
         "rule 5: three hours forward at Casey are a correction"),
    case("30 0 * * *", "Antarctica/Casey", "2020-10-03T12:00", "2020-10-04T12:00", "",
         "rule 5: and 00:30 that day is not made up"),
    case("0 23 * * *", "Antarctica/Casey", "2010-03-04T12:00", "2010-03-05T23:30", "04 23:00+11, 05 23:00+08",
         "rule 4: three hours back at Casey are still daylight saving"),
    case("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", "2018-11-05T12:00", "04 01:00-02, 05 00:00-02",
         "midnight is skipped in Sao Paulo"),
    case("30 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00", "2018-02-18T12:00", "17 23:30-02",
         "the hour before midnight is repeated in Sao Paulo"),
    case("30 0 1-31 * *", "Asia/Beirut", "2026-03-28T12:00", "2026-03-29T12:00", "29 01:00+03",
         "midnight is skipped in Beirut"),
    case("0 0 * * *", "America/Havana", "2026-03-07T12:00", "2026-03-08T12:00", "08 01:00-04",
         "midnight is skipped in Havana"),
    case("30 0 * * *", "America/Havana", "2026-10-31T12:00", "2026-11-01T12:00", "01 00:30-04",
         "the hour after midnight is repeated in Havana"),
    case("30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00", "2026-02-15T12:00", "15 02:30+01",
         "Casablanca goes back for Ramadan"),
    case("30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00", "2026-03-22T12:00", "22 03:00+01",
         "and forward after it"),
    case("0 1,2 * * *", "Antarctica/Troll", "2026-03-28T12:00", "2026-03-29T12:00", "29 03:00+02",
         "Troll skips two hours"),
    case("0 1,2 * * *", "Antarctica/Troll", "2026-10-24T12:00", "2026-10-25T12:00", "25 01:00+02, 25 02:00+02",
         "Troll repeats two hours"),
    case("0 0 31 12 *", "Asia/Dhaka", "2009-12-30T00:00", "2010-01-02T00:00", "31 00:00+07",
         "Dhaka goes back from the last midnight of 2009"),
    case("30 23 31 12 *", "Asia/Dhaka", "2009-12-30T00:00", "2010-01-02T00:00", "31 23:30+07",
         "and 23:30 of that day runs in its first pass"),
    case("30 23 19 6 *", "Asia/Dhaka", "2009-06-19T00:00", "2009-06-21T00:00", "20 00:00+07",
         "rule 6: 23:30 of the 19th, skipped across midnight, runs at 00:00 of the 20th"),
    case("30 23 20 6 *", "Asia/Dhaka", "2009-06-19T00:00", "2009-06-20T12:00", "",
         "rule 6: 23:30 of the 20th is not asked for on the 19th"),
    case("0 9 * * *", "Africa/Monrovia", "1971-12-31T00:00", "1972-01-08T00:00",
         ", ".join([f"{day} 09:00-0044" for day in ("31", "01", "02", "03", "04", "05", "06")] + ["07 09:00+00"]),
         "Monrovia was 44 minutes and 30 seconds behind"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "zone", "start", "end", "expected"), RULES)
def test_rule(text, zone, start, end, expected):
    assert fires(text, zone, start, end) == expected


@pytest.mark.parametrize(("text", "zone", "start", "end", "expected"), ZONES)
def test_zone(text, zone, start, end, expected):
    assert fires(text, zone, start, end) == expected


def test_a_time_skipped_by_a_change_of_part_of_a_minute_is_made_up_at_the_change():
    # Monrovia went from -00:44:30 to +00:00 at local midnight: 00:00:00 became 00:44:30.
    cron = Cron.parse("0 0 7 1 *", "Africa/Monrovia")
    found = cron.next_after(datetime(1972, 1, 1, tzinfo=UTC))
    assert found is not None
    assert found.isoformat() == "1972-01-07T00:44:30+00:00"


def test_the_second_pass_has_its_fold_set():
    cron = Cron.parse("*/30 2 * * *", "Europe/Berlin")
    found = cron.between(datetime(2026, 10, 24, 23, tzinfo=UTC), datetime(2026, 10, 25, 2, tzinfo=UTC))
    assert [(at.strftime("%H:%M"), at.fold) for at in found] == [
        ("02:00", 0),
        ("02:30", 0),
        ("02:00", 1),
        ("02:30", 1),
    ]


def test_a_search_that_begins_in_the_second_pass_does_not_go_back():
    cron = Cron.parse("30 2 * * *", "Europe/Berlin")
    second_pass = datetime(2026, 10, 25, 2, 15, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    found = cron.next_after(second_pass)
    assert found is not None
    assert found.isoformat() == "2026-10-26T02:30:00+01:00"


class TestNotes:
    YEAR = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))

    @pytest.mark.parametrize(
        ("text", "zone", "notes"),
        [
            pytest.param(
                "30 2 * * *",
                "Europe/Berlin",
                [
                    ("2026-03-29T03:00:00+02:00",
                     "02:30 on 2026-03-29 runs at 03:00: clocks go forward from 02:00 to 03:00."),
                    ("2026-10-25T02:00:00+01:00",
                     "02:30 on 2026-10-25 runs the first time only: clocks go back from 03:00 to 02:00."),
                ],
                id="moved, and once instead of twice",
            ),
            pytest.param(
                "0,30 2,3 * * *",
                "Europe/Berlin",
                [
                    ("2026-03-29T03:00:00+02:00",
                     "2 times from 02:00 to 02:30 on 2026-03-29 are merged into the run at 03:00: "
                     "clocks go forward from 02:00 to 03:00."),
                    ("2026-10-25T02:00:00+01:00",
                     "2 times from 02:00 to 02:30 on 2026-10-25 run the first time only: "
                     "clocks go back from 03:00 to 02:00."),
                ],
                id="merged",
            ),
            pytest.param(
                "*/20 2 * * *",
                "Europe/Berlin",
                [
                    ("2026-03-29T03:00:00+02:00",
                     "3 times from 02:00 to 02:40 on 2026-03-29 are skipped: clocks go forward from 02:00 to 03:00."),
                    ("2026-10-25T02:00:00+01:00",
                     "3 times from 02:00 to 02:40 on 2026-10-25 run twice: clocks go back from 03:00 to 02:00."),
                ],
                id="skipped and doubled",
            ),
            pytest.param(
                "10-12 0 * 3 *",
                "America/Havana",
                [
                    ("2026-03-08T01:00:00-04:00",
                     "3 times from 00:10 to 00:12 on 2026-03-08 run once, at 01:00: "
                     "clocks go forward from 00:00 to 01:00."),
                ],
                id="collapsed",
            ),
            pytest.param("0 9 * * *", "Europe/Berlin", [], id="untouched"),
            pytest.param("30 2 * * MON", "Europe/Berlin", [], id="another day"),
            pytest.param("30 2 * * *", "UTC", [], id="no changes"),
        ],
    )  # fmt: skip
    def test_a_year_of_notes(self, text, zone, notes):
        found = Cron.parse(text, zone).dst_notes(*self.YEAR)
        assert [(note.at.isoformat(), note.text) for note in found] == notes

    def test_a_correction_says_its_dates(self):
        cron = Cron.parse("0 12 * * *", "Pacific/Apia")
        (note,) = cron.dst_notes(datetime(2011, 12, 1, tzinfo=UTC), datetime(2012, 1, 1, tzinfo=UTC))
        assert note.text == (
            "12:00 on 2011-12-30 is skipped: clocks go forward from 00:00 to 2011-12-31 00:00."
        )  # fmt: skip

    def test_a_note_belongs_to_the_window_that_holds_its_change(self):
        cron = Cron.parse("30 2 * * *", "Europe/Berlin")
        change = datetime(2026, 3, 29, 1, tzinfo=UTC)
        before = datetime(2026, 3, 28, tzinfo=UTC)
        after = datetime(2026, 3, 30, tzinfo=UTC)
        assert len(cron.dst_notes(before, change)) == 1
        assert cron.dst_notes(change, after) == []
