"""How long one next fire time takes, beside croniter, cronsim and APScheduler."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

from bench.expressions import APRIL, TWENTY, ZONES
from bench.harness import Report, Table, Target, Work, in_words, race, times
from evertick.planning.cron import Cron

OTHERS = ("croniter", "cronsim", "APScheduler")
OURS, OURS_INTEGER = "evertick, datetimes", "evertick, integers"
AT_LEAST = {OURS: 20.0, OURS_INTEGER: 40.0}

Finder: TypeAlias = Callable[[], Sequence[Any]]
"""Finds fire times, as datetimes or seconds, expression by expression."""
Ready: TypeAlias = Callable[[], Finder]
"""Parses what can be parsed ahead, as a scheduler would, and hands back the finder."""


def run(*, quick: bool) -> Report:
    steps, rounds = (3, 1) if quick else (60, 9)
    rows, targets = [], []
    figures: dict[str, float] = {}
    for zone in ZONES:
        for manner, contenders in (
            ("one after another", _walking(zone, steps)),
            ("from anywhere", _jumping(zone, steps)),
        ):
            _agree(contenders, manner)
            taken = race({name: _counting(name, ready) for name, ready in contenders.items()}, rounds)
            others = [taken[name] for name in OTHERS]
            rows += [
                (f"{zone}, {manner}: {name}", in_words(spent), "" if name in OTHERS else times(others, spent))
                for name, spent in taken.items()
            ]
            figures |= {f"{zone}, {manner}, {name}: ns": spent for name, spent in taken.items()}
            if manner == "one after another":
                targets += [
                    Target(f"{zone}, {name}, against the fastest", min(others) / taken[name], limit, "x", True)
                    for name, limit in AT_LEAST.items()
                ]
    table = Table(
        f"One next fire: {len(TWENTY)} expressions, {steps} fires of each, median of {rounds} rounds",
        ("contender", "per fire", "fastest other / ours"),
        tuple(rows),
        (
            "one after another: each contender in the use it is fastest in, parsed before the clock starts",
            "from anywhere: unrelated moments of 2026; cronsim has to parse for each, the others do not",
            "all contenders gave the same fire times before they were timed",
        ),
    )
    return Report("cron_next", (table,), tuple(targets), figures)


def _walking(zone_name: str, steps: int) -> dict[str, Ready]:
    """Fire after fire, each from the one before."""
    zone = ZoneInfo(zone_name)
    start = APRIL.astimezone(zone)
    start_second = int(start.timestamp())

    def with_croniter() -> Finder:
        walks = [croniter(text, start, ret_type=datetime) for text in TWENTY]
        return lambda: [walk.get_next() for walk in walks for _ in range(steps)]

    def with_cronsim() -> Finder:
        walks = [CronSim(text, start) for text in TWENTY]
        return lambda: [next(walk) for walk in walks for _ in range(steps)]

    def with_apscheduler() -> Finder:
        triggers = [CronTrigger.from_crontab(text, timezone=zone) for text in TWENTY]

        def find() -> list[datetime]:
            found = []
            for trigger in triggers:
                moment = trigger.get_next_fire_time(None, start)
                found.append(moment)
                for _ in range(steps - 1):
                    moment = trigger.get_next_fire_time(moment, moment)
                    found.append(moment)
            return found

        return find

    def with_datetimes() -> Finder:
        crons = [Cron.parse(text, zone_name) for text in TWENTY]

        def find() -> list[datetime]:
            found = []
            for cron in crons:
                moment: datetime | None = start
                for _ in range(steps):
                    assert moment is not None
                    moment = cron.next_after(moment)
                    found.append(moment)
            return [moment for moment in found if moment is not None]

        return find

    def with_integers() -> Finder:
        crons = [Cron.parse(text, zone_name) for text in TWENTY]

        def find() -> list[int]:
            found = []
            for cron in crons:
                second: int | None = start_second
                for _ in range(steps):
                    assert second is not None
                    second = cron.next_second(second)
                    found.append(second)
            return [second for second in found if second is not None]

        return find

    return {
        "croniter": with_croniter,
        "cronsim": with_cronsim,
        "APScheduler": with_apscheduler,
        OURS: with_datetimes,
        OURS_INTEGER: with_integers,
    }


def _jumping(zone_name: str, count: int) -> dict[str, Ready]:
    """From unrelated moments: the memory of the last answer does not help, neither ours nor theirs."""
    zone = ZoneInfo(zone_name)
    dice = random.Random(zone_name)
    moments = [APRIL.astimezone(zone) + timedelta(seconds=dice.randrange(200 * 86_400)) for _ in range(count)]
    just_after = [moment + timedelta(microseconds=1) for moment in moments]
    seconds = [int(moment.timestamp()) for moment in moments]

    def with_croniter() -> Finder:
        walks = [croniter(text, moments[0], ret_type=datetime) for text in TWENTY]
        return lambda: [walk.get_next(start_time=moment) for walk in walks for moment in moments]

    def with_cronsim() -> Finder:
        return lambda: [next(CronSim(text, moment)) for text in TWENTY for moment in moments]

    def with_apscheduler() -> Finder:
        # Without a fire before it, its answer may be the moment itself.
        triggers = [CronTrigger.from_crontab(text, timezone=zone) for text in TWENTY]
        return lambda: [trigger.get_next_fire_time(None, moment) for trigger in triggers for moment in just_after]

    def with_datetimes() -> Finder:
        crons = [Cron.parse(text, zone_name) for text in TWENTY]
        return lambda: [cron.next_after(moment) for cron in crons for moment in moments]

    def with_integers() -> Finder:
        crons = [Cron.parse(text, zone_name) for text in TWENTY]
        return lambda: [cron.next_second(second) for cron in crons for second in seconds]

    return {
        "croniter": with_croniter,
        "cronsim": with_cronsim,
        "APScheduler": with_apscheduler,
        OURS: with_datetimes,
        OURS_INTEGER: with_integers,
    }


def _counting(name: str, ready: Ready) -> Callable[[], Work]:
    # Ours does the same again and again, so that its turn is about as long as the others': on a shared machine a
    # very short turn is either interrupted or not, and neither is its share of the load.
    repeats = 1 if name in OTHERS else 25

    def make_ready() -> Work:
        find = ready()
        return lambda: sum(len(find()) for _ in range(repeats))

    return make_ready


def _agree(contenders: dict[str, Ready], manner: str) -> None:
    """Contenders that compute different things are not compared."""
    expected = list(contenders[OURS_INTEGER]()())
    steps = len(expected) // len(TWENTY)
    for name in (*OTHERS, OURS):
        found = [int(moment.timestamp()) for moment in contenders[name]()()]
        for place, (theirs, ours) in enumerate(zip(found, expected, strict=True)):
            if theirs != ours:
                text = TWENTY[place // steps]
                raise AssertionError(f"{manner}: {name} says {theirs} for {text!r}, not {ours}")
