"""The account of a soak: every due time beside the ledger and the jobs' own records, lateness, and memory."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from evertick.model.attempts import read_attempts
from evertick.model.instant import SECOND, to_text
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.run import LedgerRow
from tests.processes import proof
from tests.soak.soak import Sample, Soak, attempts_in, job_name, phases

GROWTH_MIB, GROWTH = 3.0, 0.03
"""Memory is flat if it grows by less than the larger of the two, over about four minutes of thirty."""


def account_for(soak: Soak, first: int, last: int) -> dict[str, Any]:
    """Raises if anything is lost; `first` and `last` are the seconds, since the epoch, between which jobs were due."""
    report = proof.verified(soak.store_url)
    rows = {row.key.run_id: row for row in proof.rows_of(soak.store_url)}
    due = due_runs(soak, first, last)
    began, ended = attempts_in(soak.began), attempts_in(soak.ended)
    finished = {run for run, _ in ended}
    states = Counter(rows[run].state if run in rows else "missing" for run in due)
    retried = [run for run in due if run in rows and rows[run].attempt > 1]
    found: dict[str, Any] = {
        "jobs": soak.plan.jobs,
        "seconds": round(soak.plan.seconds),
        "due": len(due),
        "states": dict(sorted(states.items())),
        "retried": len(retried),
        "attempts": len(began),
        "lost": sorted(set(due) - finished)[:10],
        "started_twice": [f"{run} attempt {attempt}" for (run, attempt), times in began.items() if times > 1][:10],
        "unknown": sorted({run for run, _ in began} - rows.keys())[:10],
        "verified": report.occurrences,
        "answers": dict(sorted(soak.answers.items())),
        "answer_ms": percentiles([one * 1_000 for one in soak.seconds_of_answers]),
        "late_ms": percentiles([late for run in due if (late := late_ms(rows.get(run))) is not None]),
        "load": [round(one, 1) for one in spread([one.load for one in soak.samples])],
        "kills": [[one.second, one.process] for one in soak.kills],
        "memory": growth(soak.samples, soak.plan.seconds * soak.plan.storm),
        "samples": samples(soak, rows, first),
    }
    assert found["lost"] == [], found
    assert found["started_twice"] == [], found
    assert found["unknown"] == [], found
    assert states == {SUCCEEDED: len(due)}, found
    assert not [status for status in soak.answers if status.startswith("5") and status != "503"], found
    return found


def due_runs(soak: Soak, first: int, last: int) -> list[str]:
    """The runs that the schedules ask for, calculated without Evertick."""
    plan = soak.plan
    due = [set(phases(number, plan.period)) for number in range(plan.jobs)]
    return [
        f"{job_name(number)}@{to_text(second * SECOND)}"
        for second in range(first, last)
        for number in range(plan.jobs)
        if second % 60 in due[number]
    ]


def late_ms(row: LedgerRow | None) -> float | None:
    """How late the first attempt of a run started."""
    if row is None:
        return None
    starts = [one.started_at for one in read_attempts(row.earlier) if one.started_at] + [row.started_at]
    start = min((one for one in starts if one is not None), default=None)
    return None if start is None else (start - row.key.scheduled_for) / 1_000


def percentiles(some: Sequence[float]) -> dict[str, float]:
    ranked = sorted(some) or [0.0]
    return {name: round(ranked[len(ranked) * share // 100], 1) for name, share in (("p50", 50), ("p99", 99))} | {
        "max": round(ranked[-1], 1)
    }


def spread(some: Sequence[float]) -> tuple[float, float, float]:
    return (min(some), statistics.median(some), max(some)) if some else (0.0, 0.0, 0.0)


def samples(soak: Soak, rows: dict[str, LedgerRow], first: int) -> list[dict[str, Any]]:
    """Memory and load as they were sampled, and the lateness of what was due in the time up to each sample."""
    late: defaultdict[int, list[float]] = defaultdict(list)
    width = soak.plan.sample_each
    for row in rows.values():
        if (found := late_ms(row)) is not None:
            late[int((row.key.scheduled_for / SECOND - first) // width)].append(found)
    return [
        {"second": one.second, "load": one.load, "mib": one.mib}
        | ({"late_ms": percentiles(late[place])} if (place := int(one.second // width)) in late else {})
        for one in soak.samples
    ]


def growth(found: Sequence[Sample], since: float) -> dict[str, dict[str, float]]:
    """By process, the median memory of the first and of the last third of the time when all is full and without kills.

    What a process keeps within a limit is not growth: the scheduler's feed has its 10,000 events after three and a half
    minutes, so the first third after the last kill does not count.
    """
    calm = [one for one in found if one.second > since]
    calm = calm[len(calm) // 3 :]
    third = max(len(calm) // 3, 1)
    medians: dict[str, dict[str, float]] = {}
    for name in sorted({name for one in calm for name in one.mib}):
        ends = [[one.mib[name] for one in some if name in one.mib] for some in (calm[:third], calm[-third:])]
        if all(ends):
            first, last = (round(statistics.median(end), 1) for end in ends)
            medians[name] = {"first_mib": first, "last_mib": last}
    return medians


def growth_limit_mib(first_mib: float) -> float:
    """What a process may grow by after the last kill and count as flat."""
    return max(GROWTH_MIB, GROWTH * first_mib)


def is_flat(memory: dict[str, dict[str, float]]) -> bool:
    return all(one["last_mib"] - one["first_mib"] <= growth_limit_mib(one["first_mib"]) for one in memory.values())
