"""How late processes start when a hundred are due at once, and what a thousand slow jobs do to a fast one."""

from __future__ import annotations

import statistics
import subprocess
import threading
import time

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from bench.harness import Report, Table, Target
from bench.serving import Node
from evertick.loop.messages import TriggerJob
from evertick.model.instant import MILLISECOND, SECOND
from evertick.model.job import Job
from evertick.model.policy import Overlap, OverlapKind, Policy
from evertick.model.schedule import EverySpec
from evertick.model.work import Command, Condition, ConditionKind, Step, Work

PROGRAM = "/bin/true"
JOBS, QUICK_JOBS = 100, 5
EVERY_SECONDS, QUICK_EVERY_SECONDS = 5, 1
HANG_SECONDS, QUICK_HANG_SECONDS = 3, 1
WORK = Work((Step("main", Command((PROGRAM,))),))
LIMIT_MS = 1_000.0
"""A start within the second it was due in."""


def evertick_late(jobs: int, every_seconds: int, ticks: int) -> list[float]:
    """Milliseconds from the due time to the start, of all jobs at each of so many instants."""
    schedule = (EverySpec(every_seconds * SECOND),)
    # On a machine that is busy with other things a run may outlast the period; that is late, and no failure.
    policy = Policy(overlap=Overlap(OverlapKind.PARALLEL, 1_000))
    node = Node([Job(f"job-{number}", schedules=schedule, work=WORK, policy=policy) for number in range(jobs)])
    try:
        # One more: the first starts the keeper, which happens once.
        node.wait(lambda: len(node.late_us) == jobs and min(map(len, node.late_us.values())) > ticks)
        return [late / MILLISECOND for each in node.late_us.values() for late in each[1 : ticks + 1]]
    finally:
        node.close()


def apscheduler_late(jobs: int, every_seconds: int, ticks: int) -> list[float]:
    """The same of APScheduler 3 with a thread for each job."""
    late: list[list[float]] = [[] for _ in range(jobs)]
    changed = threading.Condition()

    def start(number: int) -> None:
        process = subprocess.Popen([PROGRAM])
        now = time.time()
        process.wait()
        with changed:
            late[number].append(now % every_seconds * 1_000)
            changed.notify_all()

    scheduler = BackgroundScheduler(executors={"default": ThreadPoolExecutor(jobs)})
    for number in range(jobs):
        scheduler.add_job(start, "cron", second=f"*/{every_seconds}", args=(number,), misfire_grace_time=60)
    scheduler.start()
    try:
        with changed:
            changed.wait_for(lambda: min(map(len, late)) > ticks)
        return [one for each in late for one in each[1 : ticks + 1]]
    finally:
        scheduler.shutdown()


def beside_slow(slow: int, rounds: int, seconds: int) -> tuple[float, float]:
    """Median milliseconds until a fast job starts: alone, and while so many jobs hang in their conditions."""
    hangs = Condition(ConditionKind.COMMAND, f"sleep {seconds}")
    policy = Policy(overlap=Overlap(OverlapKind.PARALLEL, 1_000))
    fast = Job("fast", work=WORK, policy=policy)
    jobs = [Job(f"slow-{number}", work=Work(WORK.steps, preconditions=(hangs,))) for number in range(slow)]
    node = Node([fast, *jobs])
    try:

        def once(number: int) -> float:
            node.say(TriggerJob(f"fast-{number}", "fast", time.time_ns() // 1_000))
            node.wait(lambda: len(node.late_us.get("fast", ())) > number)
            return node.late_us["fast"][number] / MILLISECOND

        once(0)
        alone = [once(number) for number in range(1, rounds + 1)]
        for job in jobs:
            node.say(TriggerJob(f"ask-{job.id}", job.id, time.time_ns() // 1_000))
        beside = [once(number) for number in range(rounds + 1, 2 * rounds + 1)]
        node.wait(lambda: node.ended == slow + 2 * rounds + 1)
        return statistics.median(alone), statistics.median(beside)
    finally:
        node.close()


def _p(values: list[float], share: float) -> float:
    return sorted(values)[max(0, int(len(values) * share) - 1)]


def run(*, quick: bool) -> Report:
    ticks, slow, rounds = (1, 5, 1) if quick else (10, 1_000, 10)
    load = (QUICK_JOBS, QUICK_EVERY_SECONDS, ticks) if quick else (JOBS, EVERY_SECONDS, ticks)
    taken = {"evertick": evertick_late(*load), "APScheduler 3": apscheduler_late(*load)}
    alone, beside = beside_slow(slow, rounds, QUICK_HANG_SECONDS if quick else HANG_SECONDS)
    late = Table(
        f"{load[0]} processes due in the same second, {ticks} times: start minus due time",
        ("contender", "p50 ms", "p99 ms", "max ms"),
        tuple(
            (name, f"{_p(all_, 0.5):,.0f}", f"{_p(all_, 0.99):,.0f}", f"{max(all_):,.0f}")
            for name, all_ in taken.items()
        ),
        (
            "evertick has entered each run in a SQLite ledger before it starts; APScheduler keeps its jobs in memory",
            "Debian's cron is not here: it knows minutes only, and starts its jobs at the beginning of one",
        ),
    )
    lanes = Table(
        f"A fast job beside {slow:,} jobs that hang in their conditions: from asking to its start",
        ("", "median ms"),
        (("alone", f"{alone:,.0f}"), ("beside them", f"{beside:,.0f}")),
    )
    targets = (
        Target("p99 of the start", _p(taken["evertick"], 0.99), LIMIT_MS, "ms"),
        Target("a fast job beside slow ones", beside, LIMIT_MS, "ms"),
    )
    figures = {
        **{f"{name} p99 ms": _p(all_, 0.99) for name, all_ in taken.items()},
        **{f"{name} p50 ms": _p(all_, 0.5) for name, all_ in taken.items()},
        "fast alone ms": alone,
        "fast beside slow ms": beside,
    }
    return Report("lateness", (late, lanes), targets, figures)
