"""The history of a real ledger: every outcome, a downtime, and ten thousand jobs on request."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evertick.definitions.source import load_folder
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, Instant
from evertick.model.job import Job
from evertick.model.ledger import Batch, JobRecord, ScheduleLine
from evertick.model.lifecycle import (
    CANCELLED,
    FAILED,
    LAUNCHING,
    LOST,
    PLANNED,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    TIMED_OUT,
    RunState,
    SkipReason,
    Trigger,
)
from evertick.model.run import Change, Entry, RunKey
from evertick.model.schedule import CronSpec, specs_to_text
from evertick.planning.schedules import compile_all, count_of, occurrences
from evertick.store import Store

JOBS: Mapping[str, str] = {
    "backup-orders": """
        description: Copy the orders of the last six hours elsewhere
        schedule: "0 */6 * * *"
        tags: [money, ops]
        command: sleep 0.2; echo copied
    """,
    "cache-warm": """
        description: Fill the cache before anybody asks
        schedule: "*/10 * * * *"
        tags: [ops]
        command: echo warm
    """,
    "certificates": """
        description: Renew what runs out within a month
        schedule: "30 4 * * *"
        timezone: America/New_York
        tags: [ops]
        retryPolicy: {maxRetries: 1, retryDelay: 1s}
        command: test "$EVERTICK_RUN_ATTEMPT" -gt 1 && echo renewed
    """,
    "etl": """
        description: Fetch, check, enrich and publish the orders
        schedule: "*/15 * * * *"
        timezone: Europe/Berlin
        catchupWindow: 6h
        overlapPolicy: all
        tags: [data, money]
        params:
          FORMAT: {enum: [csv, json], default: csv, description: The format of the export}
          ROWS: {type: integer, default: 100, minimum: 1, maximum: 10000}
        steps:
          - name: fetch
            script: |
              for page in 1 2 3; do printf '\\033[32mINFO\\033[0m fetched page %s as %s\\n' $page "$FORMAT"; done
              printf '\\033[1;31mERROR\\033[0m a slow \\033[4mpeer\\033[0m\\n'
          - name: check
            command: echo checked "$ROWS"
            depends: fetch
          - name: enrich
            command: echo enriched
            depends: fetch
          - name: publish
            command: echo published
            depends: [check, enrich]
        handlers:
          onExit: echo over
    """,
    "heartbeat": """
        description: A sign of life, every five seconds
        schedule: {every: 5s, missedExecution: skip, retryPolicy: {maxRetries: 0}}
        tags: [ops]
        command: date -u +%H:%M:%S
    """,
    "hourly-report": """
        description: What happened in the last hour, for those who want to know
        schedule: "0 * * * *"
        timezone: Europe/Berlin
        catchupWindow: 12h
        overlapPolicy: all
        tags: [reports]
        command: echo reported
    """,
    "import-rates": """
        description: The exchange rates of the day
        schedule: "5 9-17 * * MON-FRI"
        timezone: Europe/London
        tags: [data, money]
        command: echo imported
    """,
    "mail-digest": """
        description: One mail with everything
        schedule: "0 7 * * *"
        timezone: Asia/Tokyo
        tags: [reports]
        command: echo sent
    """,
    "long-haul": """
        description: Runs until somebody ends it
        schedule: "0 0 1 1 *"
        command: for i in 1 2 3; do echo mile $i; done; exec sleep 600
    """,
    "nightly-build": """
        description: Compile, test side by side, package
        schedule: "30 2 * * *"
        timezone: Europe/Berlin
        queue: builders
        steps:
          - {name: compile, command: echo compiled}
          - {name: unit-tests, command: echo fine, depends: compile}
          - {name: browser-tests, command: echo fine, depends: compile}
          - {name: package, command: echo packaged, depends: [unit-tests, browser-tests]}
    """,
    "reindex-search": """
        description: The search index, from the beginning
        schedule: "20 */2 * * *"
        tags: [data]
        command: echo indexed
    """,
    "sync-crm": """
        description: Whoever bought something, and what
        schedule: "*/5 * * * *"
        tags: [data]
        command: echo synced
    """,
}

DOWNTIME = (26 * HOUR // 4, 17 * HOUR // 4)
"""How long ago no scheduler was there: from six and a half hours ago to four and a quarter."""
SAME = 20260302
"""The past is the same every time, as seen from now."""


def write_jobs(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "evertick.toml").write_text("[queues]\nbuilders = 2\n")
    for name, text in JOBS.items():
        lines = text.strip("\n").splitlines()
        margin = len(lines[0]) - len(lines[0].lstrip())
        (folder / f"{name}.yaml").write_text("\n".join(line[margin:] for line in lines).rstrip() + "\n")


def write_history(store: Store, folder: Path, now: Instant) -> None:
    """As much of it as makes some hundred runs a job: days of what is due often, a year of what is rare."""
    dice = random.Random(SAME)
    for job in load_folder(folder).jobs.values():
        a_day = count_of(compile_all(job.schedules), now - DAY, now)
        if a_day > 1_000:
            continue  # what is due all the time has a past within seconds
        since = now - min(360 * DAY, 1_500 * DAY // max(a_day, 1))
        lines = list(_lines_of(job, since, now, dice))
        _write(store, [entry for entry, _ in lines], [change for _, changes in lines for change in changes])


def _lines_of(job: Job, since: Instant, now: Instant, dice: random.Random) -> Iterator[tuple[Entry, list[Change]]]:
    down, up = now - DOWNTIME[0], now - DOWNTIME[1]
    missed: list[Any] = []
    every_us = DAY // max(count_of(compile_all(job.schedules), now - DAY, now), 1)
    usual_us = min(every_us // 3, dice.randint(SECOND, 40 * MINUTE))
    for at in occurrences(compile_all(job.schedules), since, now - MINUTE):
        if not down < at < up:
            yield _line(job, at, at + dice.randint(2_000, 60_000), usual_us, Trigger.SCHEDULER, dice)
        elif job.policy.catchup_window_us:
            yield _line(job, at, up + len(missed) * 2 * usual_us, usual_us, Trigger.CATCHUP, dice)
            missed.append(at)
        else:
            missed.append(at)
    if missed and not job.policy.catchup_window_us:
        gap = Entry(RunKey(job.id, missed[0]), SKIPPED, Trigger.SCHEDULER, up, SkipReason.MISSED)
        told = f"no scheduler ran when {'they were' if len(missed) > 1 else 'it was'} due"
        through = missed[-1] if len(missed) > 1 else None
        yield gap._replace(through=through, occurrences=len(missed), detail=told), []


def _line(
    job: Job, at: Instant, start: Instant, usual_us: int, trigger: Trigger, dice: random.Random
) -> tuple[Entry, list[Change]]:
    key, luck = RunKey(job.id, at), dice.random()
    entry = Entry(key, PLANNED, trigger, min(at - 5 * SECOND, start))
    if luck < 0.01:
        detail = "the run before it was still running"
        return entry._replace(state=SKIPPED, reason=SkipReason.OVERLAP, detail=detail), []
    state: RunState = SUCCEEDED
    for bad, share in ((FAILED, 0.03), (TIMED_OUT, 0.036), (LOST, 0.04), (CANCELLED, 0.045)):
        state = bad if state is SUCCEEDED and luck < share else state
    end = start + round(usual_us * dice.uniform(0.6, 1.6))
    code, detail = (1, "exit code 1") if state is FAILED else (0 if state is SUCCEEDED else None, "")
    return entry, [
        Change(key, LAUNCHING, start, fence=1, attempt=1, executor="local@here"),
        Change(key, RUNNING, start, fence=1, started_at=start),
        Change(key, state, end, fence=1, finished_at=end, exit_code=code, detail=detail),
    ]


def write_many(store: Store, now: Instant, count: int, runs_each: int) -> None:
    """Jobs that only the ledger knows, every hour one run of each."""
    specs = specs_to_text((CronSpec("0 * * * *", "UTC"),))
    hour = now // HOUR * HOUR
    for begin in range(0, count, 1_000):
        names = [f"job-{number:05}" for number in range(begin, min(begin + 1_000, count))]
        jobs = [JobRecord(name, now, fingerprint="x") for name in names]
        lines = [ScheduleLine(name, now - 30 * DAY, specs) for name in names]
        store.commit(Batch(by="a1/1#1", jobs=jobs, schedules=lines))
        keys = [RunKey(name, hour - back * HOUR) for name in names for back in range(runs_each)]
        entries = [Entry(key, PLANNED, Trigger.SCHEDULER, key.scheduled_for) for key in keys]
        ends = [
            Change(key, state, key.scheduled_for + MINUTE, 1, 1, started_at=key.scheduled_for, finished_at=at)
            for number, key in enumerate(keys)
            for at in [key.scheduled_for + MINUTE]
            for state in [FAILED if number % 97 == 0 else SUCCEEDED]
        ]
        starts = [Change(key, LAUNCHING, key.scheduled_for, 1, 1, executor="local") for key in keys]
        _write(store, entries, [*starts, *ends])


def _write(store: Store, entries: Sequence[Entry], changes: Sequence[Change]) -> None:
    for begin in range(0, len(entries), 2_000):
        store.commit(Batch(by=f"a1/1#{begin}", entries=entries[begin : begin + 2_000]))
    for begin in range(0, len(changes), 2_000):
        refused = store.record(changes[begin : begin + 2_000])
        assert not refused, f"the made-up past is not one: {sorted(refused)[:3]}"
