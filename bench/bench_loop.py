"""What the loop costs: with nothing due, and with very much due in one second, written to a real database.

Deciding is arithmetic in this thread and is measured by its CPU time; a commit waits for the disk: time on the wall.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.harness import Report, Table, Target, in_words
from evertick.loop.decide import decide
from evertick.loop.effects import Commit
from evertick.loop.messages import BatchCommitted, BucketsGained, DefinitionsResynced, Message
from evertick.loop.state import State
from evertick.model.instant import DAY, MINUTE, SECOND, from_text
from evertick.model.job import Job
from evertick.model.ledger import BUCKETS, Snapshot
from evertick.model.schedule import AtSpec, CronSpec
from evertick.settings.parts import LoopSettings
from evertick.stores import open_store

NINE = from_text("2026-03-02T09:00:00Z")
TICKS, QUICK_TICKS = 500, 20
IDLE_MAX_NS = 1e6
GROWTH_MAX = 2.0


def run(*, quick: bool) -> Report:
    sizes = (100, 200, 400) if quick else (10_000, 100_000, 1_000_000)
    ticks = QUICK_TICKS if quick else TICKS
    idle = {size: _idle_tick_ns(size, ticks) for size in sizes}
    due = 200 if quick else 100_000
    storm = _plan_and_commit(due)
    tick_table = Table(
        "One iteration of the loop with nothing due",
        ("jobs", "median", f"slowest of {ticks}"),
        tuple((f"{size:,}", in_words(median), in_words(worst)) for size, (median, worst) in idle.items()),
    )
    raw, plan_ns, commit_ns, rows = storm
    share = raw / commit_ns
    commit_table = Table(
        f"Plan and commit {rows:,} occurrences due in one second, SQLite with full sync",
        ("part", "in all", "per occurrence"),
        (
            ("decide: enter them", in_words(plan_ns), in_words(plan_ns / rows)),
            ("commit: entries, floors, epochs, in one transaction", in_words(commit_ns), in_words(commit_ns / rows)),
            ("the limit: the same rows inserted by hand", in_words(raw), in_words(raw / rows)),
        ),
        (f"the commit runs at {share:.0%} of the raw insert rate into the same table",),
    )
    job_bytes, run_bytes = _memory(20 if quick else 20_000)
    memory_table = Table(
        "Memory of the loop",
        ("one more", "bytes"),
        (("idle job", f"{job_bytes:,.0f}"), ("run that waits for its time", f"{run_bytes:,.0f}")),
        ("what Python allocated for the state of the loop, without the definition of the job",),
    )
    largest, smallest = idle[sizes[-1]][0], idle[sizes[0]][0]
    return Report(
        "loop",
        (tick_table, commit_table, memory_table),
        (
            Target(f"idle iteration with {sizes[-1]:,} jobs", largest / 1e6, IDLE_MAX_NS / 1e6, "ms"),
            Target(f"idle iteration, {sizes[-1]:,} against {sizes[0]:,} jobs", largest / smallest, GROWTH_MAX, "x"),
        ),
        {
            "idle_ns": largest,
            "plan_ns_per_occurrence": plan_ns / rows,
            "commit_ns_per_occurrence": commit_ns / rows,
            "share_of_raw_insert_rate": share,
            "bytes_per_job": job_bytes,
            "bytes_per_open_run": run_bytes,
        },
    )


def _running(jobs: list[Job], now: int) -> State:
    """A loop that owns these jobs and has nothing left to say."""
    state = State(LoopSettings(), "bench", "1", now)
    messages: list[Message] = [
        DefinitionsResynced(jobs),
        BucketsGained(dict.fromkeys(range(BUCKETS), 1), Snapshot()),
    ]
    decision = decide(state, messages, now)
    answers = [BatchCommitted(effect.number) for effect in decision.effects if isinstance(effect, Commit)]
    decide(state, answers, now)
    return state


def _idle_tick_ns(size: int, ticks: int) -> tuple[float, float]:
    specs = [CronSpec(f"{minute} {hour} * * *", "UTC") for hour in range(10, 22) for minute in range(60)]
    state = _running([Job(f"job-{number}", schedules=(specs[number % len(specs)],)) for number in range(size)], NINE)
    taken = []
    now = NINE
    for _ in range(ticks):
        now += SECOND // 10
        began = time.thread_time_ns()
        decision = decide(state, (), now)
        taken.append(time.thread_time_ns() - began)
        for effect in decision.effects:
            if isinstance(effect, Commit):  # every five seconds: how far planning has come
                assert not effect.batch.entries
                decide(state, [BatchCommitted(effect.number)], now)
    return statistics.median(taken), max(taken)


def _plan_and_commit(due: int) -> tuple[float, float, float, int]:
    at = NINE + DAY
    state = _running([Job(f"job-{number}", schedules=(AtSpec(at),)) for number in range(due)], at - MINUTE)
    with tempfile.TemporaryDirectory() as folder:
        began = time.thread_time_ns()
        decision = decide(state, (), at - 4 * SECOND)
        plan_ns = time.thread_time_ns() - began
        (batch,) = [effect.batch for effect in decision.effects if isinstance(effect, Commit)]
        assert len(batch.entries) == due, len(batch.entries)
        with closing(open_store(f"sqlite:///{folder}/ledger.db")) as store:
            leases = store.lease([f"bucket:{bucket}" for bucket in range(BUCKETS)], "bench", DAY, at)
            assert {lease.epoch for lease in leases} == {1}
            commit_ns = _timed(lambda: store.commit(batch))
            assert len(store.load().open_runs) == due
        raw_ns = _raw_insert_ns(Path(folder) / "ledger.db", Path(folder) / "raw.db")
    return raw_ns, plan_ns, commit_ns, due


def _memory(count: int) -> tuple[float, float]:
    """Bytes for each job, and for each of its runs that is entered and not yet due."""
    at = NINE + DAY
    jobs = [Job(f"job-{number}", schedules=(AtSpec(at),)) for number in range(count)]
    gc.collect()
    tracemalloc.start()
    try:
        state = _running(jobs, at - MINUTE)
        gc.collect()
        idle, _ = tracemalloc.get_traced_memory()
        _enter(state, at - 4 * SECOND)
        gc.collect()
        waiting, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return idle / count, (waiting - idle) / count


def _enter(state: State, now: int) -> None:
    for effect in decide(state, (), now).effects:
        if isinstance(effect, Commit):
            decide(state, [BatchCommitted(effect.number)], now)


def _raw_insert_ns(source: Path, target: Path) -> float:
    """The very same rows into the very same table, with nothing around it."""
    import sqlite3

    with closing(sqlite3.connect(source)) as ledger:
        ddl = [
            row[0]
            for row in ledger.execute("SELECT sql FROM sqlite_master WHERE tbl_name = 'evertick_runs' AND sql NOT NULL")
        ]
        # Without the columns that the database computes by itself: those are not inserted.
        columns = ", ".join(row[1] for row in ledger.execute("PRAGMA table_info(evertick_runs)"))
        rows = ledger.execute(f"SELECT {columns} FROM evertick_runs").fetchall()
    with closing(sqlite3.connect(target, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode=WAL")
        raw.execute("PRAGMA synchronous=FULL")
        for statement in ddl:
            raw.execute(statement)
        marks = ",".join("?" * len(rows[0]))

        def insert() -> None:
            raw.execute("BEGIN IMMEDIATE")
            raw.executemany(f"INSERT INTO evertick_runs ({columns}) VALUES ({marks})", rows)
            raw.execute("COMMIT")

        return _timed(insert)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - began
