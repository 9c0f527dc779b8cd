"""How schedules are described in English."""

from __future__ import annotations

import random

import pytest

from evertick.errors import CronError
from evertick.planning.cron import Cron
from tests.planning.cron_oracles import random_expression

SAID = [
    ("* * * * *", "Every minute"),
    ("*/15 * * * *", "Every 15 minutes"),
    ("* * * * * *", "Every second"),
    ("*/10 * * * * *", "Every 10 seconds"),
    ("5 * * * * *", "At second 5 of every minute"),
    ("*/20 5 * * * *", "Every 20 seconds of minute 5 of every hour"),
    ("*/20 */5 * * * *", "Every 20 seconds of every 5th minute"),
    ("0 * * * *", "Every hour"),
    ("30 * * * *", "Every hour at 30 past"),
    ("5,35 * * * *", "At minutes 5 and 35 of every hour"),
    ("0 */2 * * *", "Every 2 hours"),
    ("30 */2 * * *", "Every 2 hours at 30 past"),
    ("15,45 */3 * * *", "At minutes 15 and 45 of every 3rd hour"),
    ("*/5 9 * * *", "Every 5 minutes from 09:00 to 09:55"),
    ("*/5 1,5,9 * * *", "Every 5 minutes of hours 1, 5 and 9"),
    ("0 9-17 * * 1-5", "Every hour from 09:00 to 17:00 on weekdays"),
    ("*/10 8-18 * * MON-FRI", "Every 10 minutes from 08:00 to 18:50 on weekdays"),
    ("0 9 * * *", "At 09:00 every day"),
    ("30 0 9 * * *", "At 09:00:30 every day"),
    ("0 9 * * 1-5", "At 09:00 on weekdays"),
    ("0 9,12,17 * * SAT,SUN", "At 09:00, 12:00 and 17:00 on weekends"),
    ("0 9 * * SUN,WED", "At 09:00 on Wednesdays and Sundays"),
    ("0 9 * FEB MON", "At 09:00 on Mondays in February"),
    ("0 0 * FEB *", "At 00:00 in February"),
    ("* * * 3 *", "Every minute in March"),
    ("0 0 1 * *", "On the 1st of the month at 00:00"),
    ("*/5 * 1 * *", "Every 5 minutes on the 1st of the month"),
    ("0 0 1 1 *", "On the 1st of January at 00:00"),
    ("15 3 1,15 * *", "On the 1st and the 15th of the month at 03:15"),
    ("0 9 1-7,22 * *", "On the 1st to the 7th and the 22nd of the month at 09:00"),
    ("0 9 */5 * *", "On every 5th day from the 1st to the 31st of the month at 09:00"),
    ("0 0 L * *", "On the last day of the month at 00:00"),
    ("0 0 LW 6 *", "On the last weekday of June at 00:00"),
    ("0 0 15W * *", "On the weekday nearest the 15th of the month at 00:00"),
    ("30 18 * * 5L", "On the last Friday of the month at 18:30"),
    ("0 0 * * 5#3,1L", "On the 3rd Friday and the last Monday of the month at 00:00"),
    ("0 0 13 * FRI", "On the 13th of the month or on Fridays at 00:00"),
    ("0 0 1-7 * */7", "On Sundays if the day is also the 1st to the 7th of the month at 00:00"),
    ("* * 1-31 * MON", "Every minute"),
    ("@weekly", "At 00:00 on Sundays"),
]


@pytest.mark.parametrize(("text", "english"), SAID)
def test_an_expression_is_described(text, english):
    assert Cron.parse(text).describe() == english


def test_a_zone_other_than_utc_is_named_too():
    assert Cron.parse("0 9 * * 1-5", "Europe/Berlin").describe() == "At 09:00 on weekdays, Europe/Berlin"


def test_a_hashed_time_is_described_by_its_resolved_value():
    assert Cron.parse("H H * * *", name="report").describe() == "At 18:48 every day"


def test_every_expression_has_a_description():
    rng = random.Random(40)
    for _ in range(500):
        text = random_expression(rng)
        try:
            said = Cron.parse(text).describe()
        except CronError:
            continue
        assert said[0] in "AEO"
        assert "  " not in said
        assert not said.endswith((" ", ","))
