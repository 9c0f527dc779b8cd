"""The tables of APScheduler's arguments and their counterparts: each line has a case here that runs it."""

from __future__ import annotations

import inspect
import logging
import re
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from evertick import DefinitionError, Scheduler, Settings
from evertick.model.job import Job
from evertick.model.policy import Missed, OverlapKind
from tests.library.programs import LIMIT_SECONDS

PAGE = Path(__file__).parents[2] / "docs/migrating/apscheduler.md"
CALENDARS = {"season": {"dates": ["2027-03-01..2027-10-31"]}, "mondays": {"weekdays": ["MON"]}}
CALLS: list[tuple[object, ...]] = []


def work(*args: object, **kwargs: object) -> None:
    CALLS.append((*args, kwargs))


async def answer() -> None:
    """A coroutine."""


@pytest.fixture
def scheduler(tmp_path):
    settings = Settings.load(tmp_path, {}, {"timezone": "Asia/Tokyo", "jobs.grace": "2m", "calendars": CALENDARS})
    return Scheduler(store=f"sqlite:///{tmp_path}/ledger.db", settings=settings, max_running=3)


def job(scheduler: Scheduler, **options: Any) -> Job:
    added = scheduler.add(work, **options)
    return scheduler.jobs[added]


def due(scheduler: Scheduler, **options: Any) -> datetime:
    found = scheduler.next_run_time(scheduler.add(work, **options))
    assert found is not None
    return found


def func(scheduler):
    assert scheduler.add(work) == scheduler.add(f"{__name__}:work") == "work"


def arguments(scheduler):
    CALLS.clear()
    scheduler.add(partial(work, "eu", 3, fast=True))
    with scheduler:
        scheduler.wait(scheduler.trigger_now("work", timeout=LIMIT_SECONDS))
    assert CALLS == [("eu", 3, {"fast": True})]


def next_run_time(scheduler):
    assert not job(scheduler, enabled=False, every="1d", name="later").enabled
    with scheduler:
        scheduler.add(work, every="1d")
        run = scheduler.run_now("work")
        scheduler.wait(scheduler.trigger_now("work", timeout=LIMIT_SECONDS))
        assert run in [one.run for one in scheduler.wait(scheduler.get_history("work"))]


def coalesce(scheduler):
    assert job(scheduler, missed="latest", catchup_window="7d").policy.missed is Missed.LATEST
    every = job(scheduler, missed="all", catchup_window="7d", overlap="wait", name="each")
    assert (every.policy.missed, every.policy.overlap.kind) == (Missed.ALL, OverlapKind.WAIT)


def max_instances(scheduler):
    assert job(scheduler).policy.overlap.kind is OverlapKind.SKIP
    three = job(scheduler, overlap="parallel(3)", name="three").policy.overlap
    assert (three.kind, three.limit) == (OverlapKind.PARALLEL, 3)


def jobstore(scheduler):
    with scheduler:
        scheduler.add(work, name="kept")
        scheduler.add(work, name="quick", persist=False)
    with scheduler:
        assert "kept" in scheduler.jobs
        assert "quick" in scheduler.jobs  # the same program
    url = scheduler._location.store_url
    with Scheduler(store=url) as other:
        assert list(other.jobs) == ["kept"]


def executor(scheduler):
    for isolation in ("thread", "process"):
        scheduler.add(work, name=isolation, isolation=isolation)
    scheduler.add(answer, isolation="loop")
    assert job(scheduler, name="far", executor="fleet", isolation=None).routing.executor == "fleet"


def replace_existing(scheduler):
    scheduler.add(work, every="1h")
    scheduler.add(work, every="1h")
    with pytest.raises(DefinitionError, match="another definition"):
        scheduler.add(work, every="2h")
    assert str(job(scheduler, every="2h", replace_existing=True).schedules[0]) == "every 7200s"


def cron_year(scheduler):
    with pytest.raises(DefinitionError):
        scheduler.add(work, cron="0 9 1 1 * 2027")
    times = [at(year, 1, 1, 9) for year in (2090, 2091)]
    assert due(scheduler, at=times, name="years").year == 2090


def cron_fields(scheduler):
    assert due(scheduler, cron="30 2 L 2 *").strftime("%m %H:%M") == "02 02:30"
    assert due(scheduler, cron="30 2 L 2 *", name="last").day in (28, 29)


def cron_week(scheduler):
    assert due(scheduler, cron="0 9 * * *", calendar={"only": ["season"]}, name="weeks") >= at(2027, 3, 1, 9)


def day_of_week(scheduler):
    assert due(scheduler, cron="0 9 * * MON-FRI").weekday() < 5
    second = due(scheduler, cron="0 9 * * MON#2", name="second")
    assert (second.weekday(), 8 <= second.day <= 14) == (0, True)
    last = due(scheduler, cron="0 9 * * FRIL", name="last")
    assert (last.weekday(), (last + timedelta(days=7)).month != last.month) == (4, True)


def season(scheduler, **schedule):
    assert at(2027, 3, 1) <= due(scheduler, calendar={"only": ["season"]}, **schedule) < at(2027, 3, 2)


def at(year: int, month: int, day: int, hour: int = 0) -> datetime:
    return datetime(year, month, day, hour, tzinfo=ZoneInfo("Asia/Tokyo"))


def delayed(scheduler, **schedule):
    with pytest.raises(DefinitionError, match="two occurrences can be"):
        job(scheduler, jitter="1d", **schedule)
    assert job(scheduler, jitter="30s", **schedule).policy.jitter_us == 30_000_000
    (fire,) = scheduler.wait(scheduler.get_upcoming(1))
    assert timedelta() <= fire.starts_at - fire.scheduled_for <= timedelta(seconds=30)


def spans(scheduler):
    assert str(job(scheduler, every="1d12h").schedules[0]) == "every 129600s"
    week = timedelta(weeks=1)
    assert job(scheduler, every=week, name="a").schedules == job(scheduler, every="7d", name="b").schedules


def one_zone(scheduler, **schedule):
    found = due(scheduler, timezone="Europe/Berlin", **schedule)
    assert found.tzinfo == ZoneInfo("Europe/Berlin")
    return found


def combined_or(scheduler):
    found = job(scheduler, cron=["0 9 * * *", "0 17 * * *"], every="1h", at="2090-01-01T09:00:00+01:00")
    assert len(found.schedules) == 4


def executors(scheduler):
    """No more than `max_running` at once: the fourth begins when one of the three ends."""
    ready, go = threading.Semaphore(0), threading.Event()

    def hold() -> None:
        ready.release()
        assert go.wait(LIMIT_SECONDS)

    with scheduler:
        scheduler.add(hold, overlap="parallel(4)", persist=False)
        runs = [scheduler.run_now("hold") for _ in range(4)]
        assert all(ready.acquire(timeout=LIMIT_SECONDS) for _ in range(3))
        assert not ready.acquire(blocking=False)
        go.set()
        assert ready.acquire(timeout=LIMIT_SECONDS)
    assert len(set(runs)) == 4


def logger(scheduler, caplog):
    caplog.set_level(logging.INFO, logger="evertick")
    with scheduler:
        scheduler.wait(scheduler.verify())
    assert [record for record in caplog.records if record.name.startswith("evertick")]


def daemon(scheduler):
    with scheduler:
        ours = [thread for thread in threading.enumerate() if thread.name.startswith("evertick")]
        assert ours
        assert all(thread.daemon for thread in ours)


def work_is_named(scheduler):
    found = job(scheduler, name="My report")
    assert (found.id, found.name) == ("my-report", "My report")


Case = Callable[..., object]
CASES: dict[str, dict[str, Case]] = {
    "add_job": {
        "func": func,
        "trigger, trigger_args": lambda scheduler: job(scheduler, cron="0 9 * * *"),
        "args, kwargs": arguments,
        "id": work_is_named,
        "name": work_is_named,
        "misfire_grace_time": lambda scheduler: check(job(scheduler, grace="1m").policy.grace_us == 60_000_000),
        "coalesce": coalesce,
        "max_instances": max_instances,
        "next_run_time": next_run_time,
        "jobstore": jobstore,
        "executor": executor,
        "replace_existing": replace_existing,
    },
    "cron": {
        "year": cron_year,
        "month, day, hour, minute": cron_fields,
        "week": cron_week,
        "day_of_week": day_of_week,
        "second": lambda scheduler: check(due(scheduler, cron="*/10 * * * * *").second % 10 == 0),
        "start_date, end_date": lambda scheduler: season(scheduler, cron="0 9 * * *"),
        "timezone": lambda scheduler: check(one_zone(scheduler, cron="0 9 * * *").hour == 9),
        "jitter": lambda scheduler: delayed(scheduler, cron="0 2 * * *"),
    },
    "interval": {
        "weeks, days, hours, minutes, seconds": spans,
        "start_date, end_date": lambda scheduler: season(scheduler, every="12h"),
        "timezone": lambda scheduler: one_zone(scheduler, every="1h"),
        "jitter": lambda scheduler: delayed(scheduler, every="1h"),
    },
    "date": {
        "run_date": lambda scheduler: check(
            due(scheduler, at="2090-03-01T09:00:00+01:00")
            == due(scheduler, at=datetime(2090, 3, 1, 9, tzinfo=ZoneInfo("Europe/Berlin")), name="same")
        ),
        "timezone": lambda scheduler: check(one_zone(scheduler, at="2090-03-01T09:00:00").hour == 9),
    },
    "combined": {
        "OrTrigger": combined_or,
        "AndTrigger": lambda scheduler: check(
            due(scheduler, cron="0 9 1-7 * *", calendar={"only": ["mondays"]}).weekday() == 0
        ),
    },
    "BackgroundScheduler": {
        "jobstores": lambda scheduler: check(scheduler._location.store_url.startswith("sqlite:")),
        "executors": executors,
        "job_defaults": lambda scheduler: check(job(scheduler).policy.grace_us == 120_000_000),
        "timezone": lambda scheduler: check(job(scheduler, cron="0 9 * * *").timezone == "Asia/Tokyo"),
        "logger": logger,
        "jobstore_retry_interval": lambda scheduler: check("retry" not in str(inspect.signature(type(scheduler)))),
        "daemon": daemon,
    },
}


def check(holds: bool) -> None:
    assert holds


def tables() -> dict[str, dict[str, str]]:
    """The tables of the page by the head of their first column: what each line says, by its arguments."""
    text = PAGE.read_text()
    text = text[text.index("## Each argument of `add_job`") : text.index("## What is different")]
    found: dict[str, dict[str, str]] = {}
    for part in text.split("\n\n"):
        lines = [[cell.strip() for cell in line.strip("|").split("|", 1)] for line in part.splitlines()]
        if part.startswith("|"):
            name, rows = lines[0][0].strip("`"), lines[2:]
            found[name] = {", ".join(re.findall(r"`(\w+)`", row[0])): row[1] for row in rows}
    return found


def test_each_line_of_the_page_has_a_case_and_each_case_a_line():
    assert {name: list(rows) for name, rows in tables().items()} == {name: list(rows) for name, rows in CASES.items()}
    assert all(text for rows in tables().values() for text in rows.values())


@pytest.mark.parametrize(
    ("table", "line"), [pytest.param(table, line, id=f"{table}: {line}") for table in CASES for line in CASES[table]]
)
def test_the_line_holds(scheduler, table, line, caplog):
    case = CASES[table][line]
    case(scheduler, caplog) if case is logger else case(scheduler)


@pytest.mark.parametrize(
    ("table", "call"),
    [
        ("add_job", BackgroundScheduler.add_job),
        ("cron", CronTrigger),
        ("interval", IntervalTrigger),
        ("date", DateTrigger),
    ],
)
def test_the_page_has_each_argument(table, call):
    named = {name for line in tables()[table] for name in line.split(", ")}
    assert named == set(inspect.signature(call).parameters) - {"self"}


def test_the_page_has_each_argument_of_a_scheduler():
    source = "".join(inspect.getsource(one) for one in (BaseScheduler._configure, BackgroundScheduler._configure))
    known = set(re.findall(r"config\.(?:pop|get)\(\s*\"(\w+)\"", source))
    assert set(tables()["BackgroundScheduler"]) == known | {"jobstores", "executors", "job_defaults"}
