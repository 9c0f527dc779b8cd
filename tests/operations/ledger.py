"""A small ledger of one hourly job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evertick.definitions.parser import parse_definition
from evertick.model.instant import HOUR, SECOND, Instant, from_text
from evertick.model.job import Job
from evertick.model.ledger import Batch, JobRecord, ScheduleLine
from evertick.model.lifecycle import LAUNCHING, PLANNED, RUNNING, SUCCEEDED, RunState, Trigger
from evertick.model.run import Change, Entry, RunKey
from evertick.model.schedule import specs_to_text
from evertick.settings import Settings
from evertick.store import Store

MIDNIGHT = from_text("2026-03-02T00:00:00Z")
"""A Monday; in Berlin it is one o'clock."""
TEXT = "schedule: '0 * * * *'\ntimezone: Europe/Berlin\ncommand: x\n"


def at(hour: float) -> Instant:
    """An hour of that day, UTC."""
    return MIDNIGHT + round(hour * HOUR)


def job(text: str = TEXT, name: str = "etl") -> Job:
    parsed = parse_definition(text, f"jobs/{name}.yaml", Settings(queues=(("db", 2),)))
    assert parsed.job is not None, parsed.errors
    return replace(parsed.job, id=name)


def key(hour: float, origin: str = "", name: str = "etl") -> RunKey:
    return RunKey(name, at(hour), origin)


def entry(hour: float, **known: Any) -> Entry:
    return Entry(key(hour), PLANNED, Trigger.SCHEDULER, at(hour) - 5 * SECOND)._replace(**known)


def fill(store: Store, *entries: Entry, watermark: float, one: Job | None = None, **record: Any) -> None:
    """The job since midnight, planned up to the watermark, with these entries."""
    known = one or job()
    store.commit(
        Batch(
            by="a1/7f3c#1",
            entries=entries,
            jobs=[JobRecord(known.id, at(watermark), fingerprint=known.fingerprint)._replace(**record)],
            schedules=[ScheduleLine(known.id, MIDNIGHT - 1, specs_to_text(known.schedules))],
        )
    )


def change(store: Store, run: RunKey, state: RunState, when: Instant, **known: Any) -> None:
    assert not store.record([Change(run, state, when, fence=1)._replace(**known)])


def ran(
    store: Store, run: RunKey, start: Instant, end: Instant | None, state: RunState = SUCCEEDED, **known: Any
) -> None:
    """Carry a planned run through its life; without an end it goes on."""
    change(store, run, LAUNCHING, start, attempt=1, executor="local")
    change(store, run, RUNNING, start, started_at=start)
    if end is not None:
        change(store, run, state, end, finished_at=end, **known)
