"""A ledger as large as a busy year makes it: ten thousand jobs, a million runs, written past the store for speed."""

from __future__ import annotations

import atexit
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from evertick.definitions.source import Folder
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, Instant
from evertick.model.job import Job
from evertick.model.ledger import Batch, JobRecord, ScheduleLine, bucket_of
from evertick.model.schedule import CronSpec, specs_to_text
from evertick.stores import open_store
from evertick.stores.sql.sqlite import SqliteStore

STATES = ("succeeded",) * 93 + ("failed",) * 4 + ("skipped",) * 3
LOST = 5
"""So many runs are lost, evenly spread: what is rare must be found too."""


def make_folder(jobs: int) -> Folder:
    """Jobs of many shapes; most share their schedule with others, as people's do."""
    found = {}
    for job_id, text, zone, tag in _shapes(jobs):
        found[job_id] = Job(job_id, job_id, (CronSpec(text, zone, job_id),), timezone=zone, tags=(tag,))
    return Folder(jobs=found)


def write_folder(folder: Path, jobs: int) -> Folder:
    """The same jobs as files."""
    for job_id, text, zone, tag in _shapes(jobs):
        lines = (f'schedule: "{text}"', f"timezone: {zone}", f"tags: [{tag}]", "command: [/bin/true]")
        (folder / f"{job_id}.yaml").write_text("\n".join((*lines, "")))
    return make_folder(jobs)


def _shapes(jobs: int) -> Iterator[tuple[str, str, str, str]]:
    for number in range(jobs):
        text = f"{number % 60} {number // 60 % 24} * * *" if number % 4 else f"{number % 60} * * * *"
        zone = ("UTC", "Europe/Berlin", "America/New_York")[number % 3]
        yield f"job-{number:05}", text, zone, f"team-{number % 20}"


_written: dict[tuple[int, int], Path] = {}
"""The ledgers that this process has written, by their jobs and runs: several benchmarks need the same one."""


def make_ledger(path: Path, folder: Folder, runs: int, now: Instant) -> str:
    """The URL of a ledger in which each job has its share of the runs, spread over a month up to now.

    A second one of the same size is a copy of the first, some minutes older.
    """
    size = len(folder.jobs), runs
    if size not in _written:
        written = _kept_in() / f"{len(folder.jobs)}-{runs}.db"
        _write_ledger(written, folder, runs, now)
        _written[size] = written
    shutil.copyfile(_written[size], path)
    path.chmod(0o600)
    return f"sqlite:///{path}"


@cache
def _kept_in() -> Path:
    """A folder that is removed when the process ends."""
    kept = tempfile.TemporaryDirectory(prefix="evertick-bench-")
    atexit.register(kept.cleanup)
    return Path(kept.name)


def _write_ledger(path: Path, folder: Folder, runs: int, now: Instant) -> None:
    url = f"sqlite:///{path}"
    store = open_store(url)
    jobs = list(folder.jobs.values())
    store.commit(
        Batch(
            by="bench",
            jobs=[JobRecord(job.id, now, fingerprint=job.fingerprint) for job in jobs],
            schedules=[ScheduleLine(job.id, now - 40 * DAY, specs_to_text(job.schedules)) for job in jobs],
            floors=dict.fromkeys(range(64), now),
        )
    )
    store.close()
    dice = random.Random(7)
    span = 30 * DAY
    each = runs // len(jobs)

    def lines() -> Iterator[tuple[object, ...]]:
        for slot in range(each):
            start = now - span + slot * (span // each)
            for number, job in enumerate(jobs):
                at = (start + dice.randrange(span // each)) // MINUTE * MINUTE
                is_lost = (slot * len(jobs) + number) % (runs // LOST) == runs // LOST // 2
                state = "lost" if is_lost else dice.choice(STATES)
                ran = state != "skipped"
                began = at + dice.randrange(50_000) if ran else None
                ended = began + dice.randrange(HOUR // 60) if began is not None else None
                yield (
                    *(at, job.id, "", bucket_of(job.id), state, 0, "scheduler", at - 5 * SECOND, "bench"),
                    *(None if ran else "overlap", None, 1, "", "", 1, 1, "local@bench", began, ended, None),
                    *(0 if state == "succeeded" else 1, at),
                )

    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    columns = ["scheduled_for", "job_id", "origin", "bucket", "state", "is_open", "trigger_kind", "decided_at"]
    columns += ["decided_by", "reason", "through", "occurrences", "detail", "params", "fence", "attempt", "executor"]
    columns += ["started_at", "finished_at", "retry_at", "exit_code", "changed_at"]
    marks = ", ".join("?" * len(columns))
    with connection:
        connection.executemany(f"INSERT OR IGNORE INTO evertick_runs ({', '.join(columns)}) VALUES ({marks})", lines())
    connection.close()
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    store.recount()
    store.close()
    # Otherwise a copy of the file alone would lack what is still in the log.
    assert not path.with_name(path.name + "-wal").exists()
