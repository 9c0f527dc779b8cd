"""Many jobs due every second, durable on SQLite, with an executor that does nothing: what fires, and how late.

Each contender runs in a process of its own on the same machine: Evertick on SQLite and on a PostgreSQL server that
waits for its disk, APScheduler 3 with its SQLite job store and with its job store in memory. They take turns for
several rounds, so that a busy moment of the machine falls on all of them.
`python -m bench.bench_storm climb` measures Evertick alone, at 5,000 to 20,000 per second.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.harness import Point, Report, Spread, Table, Target

SECONDS = 5
ROUNDS = 2
LEAD_SECONDS, QUICK_LEAD_SECONDS = 3, 1
"""Time to plan what comes first, once it is up; with many jobs more."""
LEAD_JOBS = 3_000
"""A second more for each."""
AFTER_SECONDS = 3.0
"""What is late is waited for no longer than this."""
PROBES, QUICK_PROBES = 50, 3
AIM_PER_SECOND = 20_000
AIM_P99_MS = 250.0
AIM_CPU_US = 70.0
AIM_RSS_MB = 300.0
POSTGRES_PER_SECOND = 10_000
AIM_POSTGRES_P99_MS = 500.0
EVERTICK, ON_POSTGRES = "Evertick, SQLite", "Evertick, PostgreSQL"
AP_SQLITE, AP_MEMORY = "APScheduler 3, SQLite", "APScheduler 3, memory"


def run(*, quick: bool) -> Report:
    shared, alone, most, seconds = ((5,), (), 20, 1) if quick else ((1_000,), (10_000,), AIM_PER_SECOND, SECONDS)
    cases = [(contender, size) for size in shared for contender in (EVERTICK, AP_SQLITE, AP_MEMORY)]
    on_server = most if quick else POSTGRES_PER_SECOND
    once = [(EVERTICK, size) for size in alone]
    cases += [(ON_POSTGRES, on_server), (EVERTICK, most)]
    rounds = 1 if quick else ROUNDS
    turns = once + cases * rounds
    # One after another, so that none is in another's way; a quick look only asks whether they work.
    with ThreadPoolExecutor(len(cases) if quick else 1) as pool:
        measured = list(pool.map(lambda case: _measure(case[0], case[1], seconds, quick=quick), turns))
    cases = once + cases
    found = [[one for case, one in zip(turns, measured, strict=True) if case == each] for each in cases]
    figures: dict[str, float] = {}
    rows = [_row(contender, size, one, figures) for (contender, size), one in zip(cases, found, strict=True)]
    aim, served = found[-1], found[-2]
    table = Table(
        f"Storm: N jobs, each due every second for {seconds} s, with a no-op executor; rounds in turns: {rounds}",
        ("scheduler", "due per s", "due", "not fired", "p50 ms", "p99 ms", "CPU us each", "RSS MB"),
        tuple(rows),
        (
            "best / median / worst of the rounds; not fired: the worst; 10,000 on SQLite has one round",
            "lateness: from the second a run was due to the call of the executor; 3 s for one that was not fired",
            "CPU: of the whole process while the storm lasts, without PostgreSQL's own; not measured for APScheduler",
        ),
    )
    return Report(
        "storm",
        (table,),
        (
            Target(f"{most:,} per second durable: not fired", _not_fired(aim), 0, "occurrences"),
            Target(f"{most:,} per second durable: lateness p99", Spread.of(aim, "p99_ms").median, AIM_P99_MS, "ms"),
            Target(f"{most:,} per second durable: CPU each", Spread.of(aim, "cpu_us_each").median, AIM_CPU_US, "us"),
            Target(f"{most:,} per second durable: memory", Spread.of(aim, "rss_mb").median, AIM_RSS_MB, "MB"),
            Target(f"{on_server:,} per second on PostgreSQL: not fired", _not_fired(served), 0, "occurrences"),
            Target(
                f"{on_server:,} per second on PostgreSQL: lateness p99",
                Spread.of(served, "p99_ms").median,
                AIM_POSTGRES_P99_MS,
                "ms",
            ),
        ),
        figures,
        tuple(_point(contender, size, one) for (contender, size), one in zip(cases, found, strict=True)),
    )


def _point(contender: str, size: int, rounds: list[dict[str, Any]]) -> Point:
    figures = {name: Spread.of(rounds, name).median for name in ("p50_ms", "p99_ms", "cpu_us_each", "rss_mb")}
    fired = statistics.median(one["fired"] / one["due"] for one in rounds) * size
    return Point(contender, size, {**figures, "fired_per_s": fired})


def _row(contender: str, size: int, rounds: list[dict[str, Any]], figures: dict[str, float]) -> tuple[str, ...]:
    spreads = {name: Spread.of(rounds, name) for name in ("p50_ms", "p99_ms", "cpu_us_each", "rss_mb")}
    not_fired = _not_fired(rounds)
    figures |= {f"{contender} at {size}: {name}": spread.median for name, spread in spreads.items()}
    figures[f"{contender} at {size}: not fired"] = not_fired
    late, cpu, rss = ("p50_ms", "p99_ms"), spreads["cpu_us_each"], spreads["rss_mb"]
    return (
        contender,
        f"{size:,}",
        f"{rounds[0]['due']:,}",
        f"{not_fired:,}",
        *(f"{spreads[name]:,.0f}" for name in late),
        f"{cpu:,.0f}" if cpu.best else "",
        f"{rss:,.0f}",
    )


def _not_fired(rounds: list[dict[str, Any]]) -> int:
    return max(int(one["due"] - one["fired"]) for one in rounds)


def _measure(contender: str, size: int, seconds: int, *, quick: bool = False) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "bench.bench_storm", contender, str(size), str(seconds), folder, str(int(quick))],
            capture_output=True,
            text=True,
            timeout=seconds * 10 + 900,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{contender} at {size} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- inside the process of a contender


class Shots:
    """What was fired within the measured seconds, and how late."""

    def __init__(self, seconds: int) -> None:
        self.first = self.last = math.inf
        self.seconds = seconds
        self.late: list[float] = []
        self.cpu_s = 0.0
        """Of the process, from the first second that is measured until the last shot of it."""

    def begin(self, first: float) -> None:
        """What is due from this second on is measured."""
        self.first, self.last = first, first + self.seconds - 1

    def add(self, due: float) -> None:
        if self.first <= due <= self.last:
            self.late.append(time.time() - due)

    async def wait(self, size: int) -> None:
        """Until all of them have been fired, or what is missing is later than anybody waits for."""
        while time.time() < self.first:
            await asyncio.sleep(0.05)
        began = time.process_time()
        while time.time() < self.last + 1:
            await asyncio.sleep(0.05)
        while len(self.late) < size * self.seconds and time.time() < self.last + AFTER_SECONDS:
            await asyncio.sleep(0.05)
        self.cpu_s = time.process_time() - began

    def report(self, size: int) -> dict[str, Any]:
        # What was not fired would otherwise make the rest look better: it is at least as late as the wait was long.
        late = sorted([*self.late, *[AFTER_SECONDS] * (size * self.seconds - len(self.late))])
        usage = resource.getrusage(resource.RUSAGE_SELF)
        # Not its `ru_maxrss`, which begins with what the process had that started this one.
        status = Path("/proc/self/status").read_text().splitlines()
        peak_kb = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        return {
            "due": size * self.seconds,
            "fired": len(self.late),
            "p50_ms": late[len(late) // 2] * 1_000,
            "p99_ms": late[len(late) * 99 // 100] * 1_000,
            "cpu_us_each": self.cpu_s / max(len(self.late), 1) * 1e6,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "rss_mb": peak_kb / 1_024,
        }


def _evertick(size: int, seconds: int, store: str, *, quick: bool) -> dict[str, Any]:
    from bench.instant_executor import InstantExecutor
    from evertick.executor import Attempt
    from evertick.location import Location
    from evertick.long_lived import limit_heaps, tune_collector
    from evertick.loop.messages import BucketsGained
    from evertick.model.instant import SECOND
    from evertick.model.job import Job
    from evertick.model.schedule import EverySpec
    from evertick.node import Definitions, Node
    from evertick.wiring import Executors

    limit_heaps()  # as `evertick serve` does when it starts
    lead = (QUICK_LEAD_SECONDS if quick else LEAD_SECONDS) + size // LEAD_JOBS
    shots = Shots(seconds)

    def see(seen: object) -> None:
        if isinstance(seen, BucketsGained) and shots.first == math.inf:
            shots.begin(float(int(time.time()) + 1 + lead))
            tune_collector()  # as `evertick serve` does when it has its jobs

    class Measured(InstantExecutor):
        def launch(self, attempt: Attempt) -> None:
            shots.add(attempt.key.scheduled_for / SECOND)
            super().launch(attempt)

    async def storm() -> None:
        jobs = [Job(f"job-{number}", schedules=(EverySpec(SECOND),)) for number in range(size)]
        node = Node(
            Location(store),
            Definitions(lambda: jobs),
            Executors({"local": Measured()}),
            name="bench",
            observe=see,
        )
        running = asyncio.create_task(node.run())
        await shots.wait(size)
        node.shut_down()
        await running

    asyncio.run(storm())
    found = shots.report(size)  # before the ledger is verified, which takes memory in this process too
    verified(store)
    return found


def _evertick_on_postgres(size: int, seconds: int, *, quick: bool) -> dict[str, Any]:
    from bench.durable_postgres import DurablePostgres

    with DurablePostgres() as server:
        return _evertick(size, seconds, server.fresh(), quick=quick)


def verified(url: str) -> None:
    """A figure for a ledger that lost something would be worth nothing."""
    from evertick.operations.verification import verify_store
    from evertick.stores import open_store

    store = open_store(url)
    try:
        found = verify_store(store)
    finally:
        store.close()
    if not found.is_sound:
        raise AssertionError(f"the ledger is not clean after the storm: {found}")


def _apscheduler(size: int, seconds: int, url: str | None, *, quick: bool) -> dict[str, Any]:
    from apscheduler.executors.debug import DebugExecutor
    from apscheduler.jobstores.memory import MemoryJobStore
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from apscheduler.schedulers.background import BackgroundScheduler

    shots = Shots(seconds)

    class Measured(DebugExecutor):  # type: ignore[misc]
        """The executor that does nothing, asked instead of the job: it knows the times that are due."""

        def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
            for due in run_times:
                shots.add(due.timestamp())
            self._run_job_success(job.id, [])

    store = SQLAlchemyJobStore(url=url) if url else MemoryJobStore()
    scheduler = BackgroundScheduler(
        jobstores={"default": store},
        executors={"default": Measured()},
        job_defaults={"misfire_grace_time": 3_600, "coalesce": False, "max_instances": 1_000_000},
        timezone=UTC,
    )
    scheduler.start(paused=True)
    began = time.time()
    far = datetime.fromtimestamp(began + 86_400, UTC)
    probes = QUICK_PROBES if quick else PROBES
    for number in range(probes):
        scheduler.add_job(_nothing, "interval", seconds=1, start_date=far, id=f"probe-{number}")
    # Its store adds jobs one by one: begin when they will all be there, at the speed seen with the first.
    ready = time.time() + (time.time() - began) / probes * size * 1.5 + (1 if quick else 2)
    scheduler.remove_all_jobs()
    shots.begin(float(int(ready)))
    start = datetime.fromtimestamp(shots.first, UTC)
    for number in range(size):
        scheduler.add_job(_nothing, "interval", seconds=1, start_date=start, id=f"job-{number}")
    scheduler.resume()
    time.sleep(max(shots.last + (1 if quick else AFTER_SECONDS) - time.time(), 0))
    found = shots.report(size)
    # It is behind by now and would not stop before it has caught up.
    print(json.dumps(found), flush=True)
    os._exit(0)


def _nothing() -> None:
    pass


def climb(sizes: list[int]) -> None:
    """Evertick alone, rate by rate: where it stops keeping up."""
    print(f"{'due per s':>10} {'fired of due':>13} {'p50 ms':>9} {'p99 ms':>9} {'CPU s':>6}")
    for size in sizes:
        found = _measure(EVERTICK, size, SECONDS)
        share = found["fired"] / found["due"]
        print(f"{size:>10,} {share:>13.1%} {found['p50_ms']:>9,.1f} {found['p99_ms']:>9,.1f} {found['cpu_s']:>6.1f}")


def main() -> None:
    if sys.argv[1] == "climb":
        climb([int(size) for size in sys.argv[2:]] or [5_000, 10_000, 15_000, AIM_PER_SECOND])
        return
    contender, size, seconds, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    quick = sys.argv[5] == "1"
    logging.basicConfig(level=logging.WARNING)
    match contender:
        case "Evertick, SQLite":
            found = _evertick(size, seconds, f"sqlite:///{folder}/ledger.db", quick=quick)
        case "Evertick, PostgreSQL":
            found = _evertick_on_postgres(size, seconds, quick=quick)
        case "APScheduler 3, SQLite":
            found = _apscheduler(size, seconds, f"sqlite:///{folder}/jobs.db", quick=quick)
        case _:
            found = _apscheduler(size, seconds, None, quick=quick)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
