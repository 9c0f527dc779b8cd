"""How long a fast job waits for its start beside a thousand slow ones."""

from __future__ import annotations

import statistics
import time

from bench.harness import Report, Table, Target
from bench.serving import Node
from evertick.loop.messages import TriggerJob
from evertick.model.instant import MILLISECOND
from evertick.model.job import Job
from evertick.model.policy import Overlap, OverlapKind, Policy
from evertick.model.work import Command, Condition, ConditionKind, Step, Work

PROGRAM = "/bin/true"
HANG_SECONDS, QUICK_HANG_SECONDS = 3, 1
WORK = Work((Step("main", Command((PROGRAM,))),))
LIMIT_MS = 1_000.0
"""A start within the second it was due in."""


def beside_slow(slow: int, rounds: int, seconds: int) -> tuple[float, float]:
    """Median milliseconds until a fast job starts: alone, and while `slow` jobs hang in their conditions."""
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


def run(*, quick: bool) -> Report:
    slow, rounds = (5, 1) if quick else (1_000, 10)
    alone, beside = beside_slow(slow, rounds, QUICK_HANG_SECONDS if quick else HANG_SECONDS)
    table = Table(
        f"A fast job beside {slow:,} jobs that hang in their conditions: from the request to its start",
        ("", "median ms"),
        (("alone", f"{alone:,.0f}"), ("beside them", f"{beside:,.0f}")),
        (f"medians of {rounds} requests",),
    )
    target = Target("a fast job beside slow ones", beside, LIMIT_MS, "ms")
    return Report("slow_jobs", (table,), (target,), {"fast alone ms": alone, "fast beside slow ms": beside})
