"""Which texts are cron expressions, what they mean, and the errors of the others."""

from __future__ import annotations

import pickle
import random
import string
from itertools import pairwise

import pytest

from evertick.errors import CronError
from evertick.planning.cron import Cron
from evertick.planning.cron_grammar import LENGTH_MAX, read_expression
from tests.planning.cron_oracles import WEEKDAYS, SlowCron, plain_numbers, random_expression
from tests.present import present

EVERY = tuple(range(60))


@pytest.mark.parametrize(
    ("field", "numbers"),
    [
        pytest.param("*", EVERY, id="a star is everything"),
        pytest.param("5", (5,), id="a number"),
        pytest.param("05", (5,), id="a padded number"),
        pytest.param("1,3,2,3", (1, 2, 3), id="a list, in any order, with repeats"),
        pytest.param("10-13", (10, 11, 12, 13), id="a range"),
        pytest.param("7-7", (7,), id="a range of one"),
        pytest.param("*/20", (0, 20, 40), id="a step"),
        pytest.param("10-30/10", (10, 20, 30), id="a step in a range"),
        pytest.param("5/15", (5, 20, 35, 50), id="a step from a number goes to the end"),
        pytest.param("*/90", (0,), id="a step larger than the range is its first value"),
        pytest.param("50-59/9999", (50,), id="the largest step"),
        pytest.param("*,5", EVERY, id="a star in a list"),
        pytest.param("0-10/5,58", (0, 5, 10, 58), id="a list of everything"),
    ],
)
def test_a_minute_field_means(field, numbers):
    assert read_expression(f"{field} * * * *").minutes == numbers


@pytest.mark.parametrize(
    ("weekday", "days"),
    [
        pytest.param("0", "SUN", id="0 is Sunday"),
        pytest.param("7", "SUN", id="7 is Sunday"),
        pytest.param("FRI-SUN", "SUN FRI SAT", id="Sunday ends a range as 7"),
        pytest.param("fri-sun", "SUN FRI SAT", id="names in any case"),
        pytest.param("MON-SUN", "SUN MON TUE WED THU FRI SAT", id="Monday to Sunday"),
        pytest.param("SUN-TUE", "SUN MON TUE", id="Sunday begins a range as 0"),
        pytest.param("SUN-SUN", "SUN", id="Sunday to Sunday is one day"),
        pytest.param("0-7", "SUN MON TUE WED THU FRI SAT", id="0-7"),
        pytest.param("5-7", "SUN FRI SAT", id="5-7"),
        pytest.param("6-7/2", "SAT", id="a step may leave Sunday out"),
        pytest.param("5/2", "FRI", id="a step from a number ends at Saturday"),
        pytest.param("1/2", "MON WED FRI", id="every second day from Monday"),
        pytest.param("7/2", "SUN", id="nothing comes after 7"),
        pytest.param("Mon,wEd", "MON WED", id="a list of names"),
    ],
)
def test_a_weekday_field_means(weekday, days):
    mask = read_expression(f"0 0 * * {weekday}").days.weekdays
    assert " ".join(name for bit, name in enumerate(WEEKDAYS) if mask >> bit & 1) == days


@pytest.mark.parametrize(
    ("alias", "text"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@HOURLY", "0 * * * *"),
        ("  @Daily\t", "0 0 * * *"),
    ],
)
def test_an_alias_is_its_expression(alias, text):
    named, written = read_expression(alias), read_expression(text)
    assert named._replace(text="") == written._replace(text="")
    assert named.text == alias.strip().lower()


@pytest.mark.parametrize(
    ("text", "wildcard"),
    [
        ("* * * * *", True),
        ("*/2 0 * * *", True),
        ("0 */2 * * *", True),
        ("@hourly", True),
        ("* 0 0 * * *", True),
        ("*/10 30 4 * * *", True),
        ("0-59 0-23 * * *", False),
        ("0 0-23 * * *", False),
        ("0 9 * * *", False),
        ("0 0 9 * * *", False),
        ("30 0 9 * * *", False),
        ("0,* 9 * * *", False),
        ("H H * * *", False),
        ("@daily", False),
        ("0 9 */2 * *", False),
    ],
)
def test_a_wildcard_job_is_one_whose_second_minute_or_hour_begins_with_a_star(text, wildcard):
    assert Cron.parse(text, name="job").is_wildcard is wildcard


def test_six_fields_with_second_zero_equal_the_five():
    assert read_expression("0 30 9 * * MON")._replace(text="") == read_expression("30 9 * * MON")._replace(text="")


def test_spaces_and_tabs_around_and_between_fields_do_not_matter():
    assert Cron.parse("  0\t9  * *\t 1-5 ") == Cron.parse("0 9 * * 1-5")


def test_a_zone_prefix_goes_before_the_zone_given():
    cron = Cron.parse("CRON_TZ=Asia/Tokyo 0 9 * * *", "Europe/Berlin")
    assert (cron.text, cron.timezone) == ("0 9 * * *", "Asia/Tokyo")
    assert cron == Cron.parse("0 9 * * *", "Asia/Tokyo")
    assert Cron.parse("CRON_TZ=UTC @daily", "no such zone").timezone == "UTC"


def test_equality_is_that_of_text_and_zone_and_of_the_name_only_where_it_counts():
    assert Cron.parse("0 9 * * mon", name="a") == Cron.parse("0 9 * * MON", name="b")
    assert hash(Cron.parse("0 9 * * mon", name="a")) == hash(Cron.parse("0 9 * * MON", name="b"))
    assert Cron.parse("0 9 * * *") != Cron.parse("0 9 * * *", "Europe/Berlin")
    assert Cron.parse("H 9 * * *", name="a") != Cron.parse("H 9 * * *", name="b")


def test_a_cron_survives_pickling():
    cron = Cron.parse("H 9 * * FRIL", "Europe/Berlin", "report")
    cron.next_second(0)
    again = pickle.loads(pickle.dumps(cron))
    assert again == cron
    assert again.next_second(1_700_000_000) == cron.next_second(1_700_000_000)


class TestHash:
    def test_the_same_name_always_gives_the_same_times(self):
        # Written out: a change of the hash would move every job of every user.
        values = read_expression("H H H H H", "report")
        assert (values.minutes, values.hours, values.days.month_days, values.days.months, values.days.weekdays) == (
            (48,),
            (18,),
            1 << 15,
            1 << 12,
            1 << 0,
        )

    def test_names_spread_over_the_whole_field_and_fields_are_independent(self):
        chosen = [read_expression("H H H * *", f"job-{n}") for n in range(3000)]
        assert {e.minutes for e in chosen} == {(m,) for m in range(60)}
        assert {e.hours for e in chosen} == {(h,) for h in range(24)}
        assert {e.days.month_days for e in chosen} == {1 << d for d in range(1, 29)}
        assert len({(e.minutes, e.hours) for e in chosen}) > 1000

    @pytest.mark.parametrize("name", ["a", "nightly backup", "ü", "\udc80", "x" * 500])
    def test_a_step_keeps_its_distance_and_a_range_its_bounds(self, name):
        minutes = read_expression("H/15 * * * *", name).minutes
        assert len(minutes) == 4
        assert {b - a for a, b in pairwise(minutes)} == {15}
        (minute,) = read_expression("H(30-39) * * * *", name).minutes
        assert 30 <= minute <= 39
        tens = read_expression("H(0-29)/10 * * * *", name).minutes
        assert len(tens) == 3
        assert max(tens) < 30
        assert read_expression("H(5-7)/30 * * * *", name).minutes[0] in (5, 6, 7)
        assert len(read_expression("H,H(1-1) * * * *", name).minutes) in (1, 2)


REFUSED = [
    ("", "empty", "five fields"),
    ("   ", "empty", "five fields"),
    ("* * * *", "4 fields", "minute hour day-of-month month day-of-week"),
    ("*", "1 field.", "five"),
    ("0 0 0 1 1 * 2026", "year", "Leave the year out"),
    ("0 9 * * * 2026", "year", "Leave the year out"),
    ("0 9 31 12 2026", "year", "at: "),
    ("1 2 3 4 5 6 7 8", "8 fields", "five"),
    ("60 * * * *", "minute 60 is out of range", "0-59"),
    ("* 24 * * *", "hour 24 is out of range", "0-23"),
    ("* * 0 * *", "day-of-month 0 is out of range", "1-31"),
    ("* * 32 * *", "day-of-month 32 is out of range", "1-31"),
    ("* * * 13 *", "month 13 is out of range", "1-12 or JAN-DEC"),
    ("* * * 0 *", "month 0 is out of range", "1-12"),
    ("* * * * 8", "day-of-week 8 is out of range", "0 and 7 are Sunday"),
    ("60 * * * * *", "second 60 is out of range", "0-59"),
    ("0 22-2 * * *", "hour range 22-2 goes backwards", "22-23,0-2"),
    ("0 22-2/2 * * *", "goes backwards", "22,0,2"),
    ("0 0 * NOV-MAR *", "month range NOV-MAR goes backwards", "NOV-DEC,JAN-MAR"),
    ("0 0 * 11-3/2 *", "goes backwards", "11,1,3"),
    ("0 0 * * 5-1", "day-of-week range 5-1 goes backwards", "5-6,0-1"),
    ("0 0 * * SAT-MON", "goes backwards", "SAT,SUN-MON"),
    ("0 0 * * 5-0", "goes backwards", "5-7"),
    ("0 0 * * 7-2", "goes backwards", "0-2"),
    ("59-0 * * * *", "goes backwards", "59,0"),
    ("*/0 * * * *", "step 0", "1 or more"),
    ("*/ * * * *", "not a number", "*/15"),
    ("*/-5 * * * *", "not a number", "*/15"),
    ("*/1.5 * * * *", "not a number", "*/15"),
    ("*/10000 * * * *", "not a number", "*/15"),
    ("+5 * * * *", "has a sign", "0-59"),
    ("-5 * * * *", "has a sign", "0-59"),
    ("5- * * * *", "incomplete", "0-59"),
    ("007 * * * *", "leading zeros", "Write 7."),
    ("00005 * * * *", "four digits", "0-59"),
    ("5,,6 * * * *", "empty place", "commas"),
    (",5 * * * *", "empty place", "commas"),
    ("5, * * * *", "empty place", "commas"),
    ("1-5-7 * * * *", "not known", "0-59"),
    ("*5 * * * *", "not known", "0-59"),
    ("** * * * *", "not known", "0-59"),
    ("*-5 * * * *", "not known", "0-59"),
    ("0 0 * * MOM", "'MOM'", "Did you mean 'MON'?"),
    ("0 0 * * MONDAY", "'MONDAY'", "Did you mean 'MON'?"),
    ("0 0 * JUNE *", "'JUNE'", "Did you mean 'JUN'?"),
    ("0 0 * MON *", "MON in the month field is a day-of-week", "in the day-of-week field"),
    ("JAN * * * *", "JAN in the minute field is a month", "in the month field"),
    ("? * * * *", "? has no meaning in the minute field", "Write *"),
    ("0 0 ?/2 * *", "not known", "1-31"),
    ("* * * * L", "L alone", "SATL"),
    ("0 0 L-3 * *", "'L-3'", "L for the last day"),
    ("0 L * * *", "L has no meaning in the hour field", "day-of-month"),
    ("0 0 * * 1-5L", "L takes one day", "1L,2L"),
    ("0 0 * * 5#6", "at most five", "1-5"),
    ("0 0 * * 5#0", "at most five", "1-5"),
    ("0 0 * * 5#", "at most five", "1-5"),
    ("0 0 * * #1", "incomplete", "0-7"),
    ("0 0 * * 5#L", "not known", "5L"),
    ("0 0 * * 1-5#2", "# takes one day", "1#2,2#2"),
    ("0 0 W * *", "not a day and W", "15W"),
    ("0 0 1-5W * *", "not a day and W", "15W"),
    ("0 0 32W * *", "out of range", "1-31"),
    ("0~30 * * * *", "random range", "H(0-30)"),
    ("~ * * * *", "random range", "H(0-59)"),
    ("@every 5m", "interval", "every: 5m"),
    ("@reboot", "@reboot has no time", "systemd unit"),
    ("@dayly", "'@dayly'", "Did you mean '@daily'?"),
    ("@fortnight", "'@fortnight'", "@midnight"),
    ("@daily 5", "nothing may follow @daily", "alone"),
    ("@", "'@'", "@yearly"),
    ("0 9 * * *\n0 10 * * *", "more than one line", "list"),
    ("0 9 * * *\n", "more than one line", "list"),
    ("0 9\r\n* * *", "more than one line", "list"),
    ("0\xa09 * * *", "no-break space", "plain space"),
    ("0 9 * *\u2009*", "thin space", "plain space"),
    ("0 9 * * \uff11", "fullwidth digit one", "letters, digits"),
    ("0 9 * * FRı", "dotless i", "letters, digits"),
    ("0 9 * * ²", "superscript two", "letters, digits"),
    ("0 9 * * \x00", "character U+0000", "letters, digits"),
    ("H * * * *", "needs the job's name", "Give the job a name"),
    ("H(30-10) * * * *", "goes backwards", "30-59,0-10"),
    ("H(5) * * * *", "no range", "H(0-59)"),
    ("H-5 * * * *", "not known", "H(0-29)"),
    ("H() * * * *", "no range", "H(0-59)"),
    ("H/0 * * * *", "step 0", "1 or more"),
    ("TZ=UTC 0 9 * * *", "not a field", "CRON_TZ="),
    ("cron_tz=UTC 0 9 * * *", "not a field", "CRON_TZ="),
    ("CRON_TZ= 0 9 * * *", "names no zone", "CRON_TZ=Europe/Berlin"),
    ("CRON_TZ=UTC", "empty", "five fields"),
    ("CRON_TZ=Europe/Berln 0 9 * * *", "'Europe/Berln' is not known", "Did you mean 'Europe/Berlin'?"),
    ("CRON_TZ=berlin 0 9 * * *", "'berlin' is not known", "Did you mean 'Europe/Berlin'?"),
    ("CRON_TZ=America 0 9 * * *", "'America' is not known", "IANA"),
    ("CRON_TZ=../etc/passwd 0 9 * * *", "is not known", "IANA"),
    ("CRON_TZ=right/UTC 0 9 * * *", "is not known", "UTC"),
    ("0 0 30 2 *", "can never fire", "Check the day-of-month"),
    ("0 0 31 4,6,9,11 *", "can never fire", "Check the day-of-month"),
    ("0 0 30 2 ?", "can never fire", "Check the day-of-month"),
    ("0 0 30 2 */2", "can never fire", "Check the day-of-month"),
    ("0 0 30W 2 *", "can never fire", "Check the day-of-month"),
    ("5 " * 600, "characters long", "at most"),
]


@pytest.mark.parametrize(("text", "reason", "hint"), [pytest.param(*row, id=repr(row[0])[:30]) for row in REFUSED])
def test_an_error_says_why_and_what_to_write_instead(text, reason, hint):
    name = "" if "needs the job's name" in reason else "job"
    with pytest.raises(CronError) as caught:
        Cron.parse(text, name=name)
    assert reason in caught.value.reason
    assert hint in (caught.value.hint or "")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0 0 30 2 1,2", id="either field will do, so Mondays in February"),
        pytest.param("0 0 31 4 MON#5", id="the fifth Monday of an April that has one"),
        pytest.param("0 0 29 2 *", id="leap years"),
        pytest.param("0 0 29 2 */7", id="a leap day that is a Sunday"),
        pytest.param("0 0 */31 2 *", id="the first of February"),
        pytest.param("0 0 L 2 *", id="the last of February"),
        pytest.param("0 0 * 2 MON#5", id="five Mondays in February"),
    ],
)
def test_a_rare_expression_is_accepted_and_fires(text):
    cron = Cron.parse(text)
    assert cron.next_second(0) is not None
    assert cron.previous_second(present(cron.next_second(10**9))) is not None


def test_an_unknown_zone_argument_names_its_field():
    with pytest.raises(CronError) as caught:
        Cron.parse("0 9 * * *", "Europe/Berln")
    assert caught.value.field == "timezone"


def test_the_longest_text_is_read():
    text = ",".join(str(n) for n in range(60)) + " * * * *"
    assert read_expression(text + " " * (LENGTH_MAX - len(text))).minutes == EVERY


def test_random_fields_equal_those_of_the_slow_reader():
    rng = random.Random(6)
    for _ in range(300):
        text = random_expression(rng)
        expression = read_expression(text)
        slow = SlowCron(text)
        assert set(expression.minutes) == slow.minutes
        assert set(expression.hours) == slow.hours
        assert expression.is_wildcard == slow.is_wildcard
        assert {n for n in range(13) if expression.days.months >> n & 1} == slow.months
        assert plain_numbers("*", 0, 59) == set(EVERY)


VALID = ["*/5 * * * *", "0 9 * * MON-FRI", "0 0 L,LW,15W * ?", "30 18 ? * FRIL,5#3", "CRON_TZ=Asia/Tokyo 0 9 1 JAN *",
         "@daily", "H H(0-7) * * *", "*/10 0-30/5 1,2,3 * * *", "@every 5m", "0 22-2 * * *"]  # fmt: skip
LETTERS = string.printable + "*/-,#?LWH@=~ \xa0é²١\u2028\U0001f600\ud800" + "0123456789" * 3


def mutated(rng: random.Random, text: str) -> str:
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(text) + 1)
        cut = rng.choice((0, 0, 1, 1, 2))
        text = text[:at] + rng.choice(("", rng.choice(LETTERS), rng.choice(LETTERS))) + text[at + cut :]
    return text


@pytest.mark.slow
def test_any_text_at_all_is_a_schedule_that_fires_or_a_cron_error():
    rng = random.Random(20261116)
    accepted = untold = 0
    for round_ in range(100_000):
        if round_ % 4:
            text = mutated(rng, rng.choice(VALID))
        else:
            text = "".join(rng.choices(LETTERS, k=rng.randrange(30)))
        try:
            cron = Cron.parse(text, name="job")
        except CronError as error:
            untold += not error.reason
            continue
        accepted += 1
        found = cron.next_second(1_700_000_000)
        assert found is not None
        assert cron.seconds_between(found - 1, found) == [found]
    assert accepted > 5_000
    assert untold == 0
