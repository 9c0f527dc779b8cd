"""What a million registered schedules cost: to load, to keep, to leave alone, and to fire."""

from __future__ import annotations

import statistics
import tracemalloc
from collections.abc import Callable, Sequence

from bench.expressions import MONDAY_NINE, TWENTY, distinct
from bench.harness import Report, Table, Target, in_words, timed
from evertick.model.instant import DAY, HOUR, MINUTE, from_datetime
from evertick.model.schedule import AtSpec, CronSpec, ScheduleSpec
from evertick.planning.occurrences import OccurrenceIndex
from evertick.planning.schedules import compile_schedule

NINE = from_datetime(MONDAY_NINE)
TICKS, QUICK_TICKS = 2_000, 50
TURNS = 5
TRACED_SHARE = 10
"""Tracing allocations makes loading several times slower, so memory is measured on this fraction of the jobs."""
LOAD_MAX_SECONDS = (3.0, 3.0, 1.0)
GROWTH_MAX = 2.0
"""A tick with nothing due: the largest index against the smallest, with room for a busy machine."""


def run(*, quick: bool) -> Report:
    sizes = (100, 200, 400) if quick else (10_000, 100_000, 1_000_000)
    most = sizes[-1]
    few = most // 10
    loads = (
        (f"{most:,} jobs on {len(TWENTY)} expressions", _shared(most)),
        (f"{most:,} jobs, each at an instant of its own", _one_offs(most)),
        (f"{few:,} jobs, each with an expression of its own", [CronSpec(text, "UTC") for text in distinct(few)]),
    )
    figures: dict[str, float] = {}
    rows = []
    for label, specs in loads:
        figures |= {f"{label}: {what}": figure for what, figure in _load(specs).items()}
        rows.append(
            (
                label,
                in_words(figures[f"{label}: load ns"]),
                in_words(figures[f"{label}: load ns"] / len(specs)),
                in_words(figures[f"{label}: ask each ns"]),
                f"{figures[f'{label}: bytes']:,.0f}",
            )
        )
    loading = Table(
        "Loading: every first next-fire is known afterwards",
        ("index", "load", "per job", "or ask each by itself", "bytes per job"),
        tuple(rows),
        ("bytes: what Python allocated for the index and its engines of a tenth of them, without ids and definitions",),
    )
    ticks, growth = _ticks(sizes, QUICK_TICKS if quick else TICKS, figures)
    fires = _fires(most, figures)
    targets = [
        Target(f"a tick with nothing due, {most:,} against {sizes[0]:,} ({kind})", grown, GROWTH_MAX, "x")
        for kind, grown in growth.items()
    ]
    targets += [
        Target(f"load {label}", figures[f"{label}: load ns"] / 1e9, limit, "s of CPU")
        for (label, _), limit in zip(loads, LOAD_MAX_SECONDS, strict=True)
    ]
    return Report("million", (loading, ticks, fires), tuple(targets), figures)


def _shared(count: int) -> list[ScheduleSpec]:
    return [CronSpec(TWENTY[number % len(TWENTY)], "UTC", f"job-{number}") for number in range(count)]


def _one_offs(count: int) -> list[ScheduleSpec]:
    # A prime stride, so that they do not come in the order of time.
    return [AtSpec(NINE + DAY + number * 7_919 % count * 1_000) for number in range(count)]


def _filled(specs: Sequence[ScheduleSpec], job_ids: Sequence[str]) -> OccurrenceIndex:
    index = OccurrenceIndex(NINE)
    for job_id, spec in zip(job_ids, specs, strict=True):
        index.add(job_id, (spec,))
    return index


def _load(specs: Sequence[ScheduleSpec]) -> dict[str, float]:
    job_ids = [f"job-{number}" for number in range(len(specs))]
    kept: list[OccurrenceIndex] = []
    load_ns, _ = timed(lambda: kept.append(_filled(specs, job_ids)) or len(kept[0]))  # type: ignore[func-returns-value]
    ask_ns, asked = timed(lambda: sum(compile_schedule(spec).next_after(NINE) is not None for spec in specs))
    if asked != len(specs) or kept[0].next_at() is None:
        raise AssertionError("a schedule without a next fire is not worth timing")
    kept.clear()
    some = max(len(specs) // TRACED_SHARE, 1)
    tracemalloc.start()
    try:
        index = _filled(specs[:some], job_ids[:some])
        allocated, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return {"load ns": load_ns, "ask each ns": ask_ns, "bytes": allocated / len(index)}


def _ticks(sizes: Sequence[int], ticks: int, figures: dict[str, float]) -> tuple[Table, dict[str, float]]:
    """Advance by a microsecond again and again where nothing is due."""
    makers: dict[str, Callable[[int], list[ScheduleSpec]]] = {"shared": _shared, "one-offs": _one_offs}
    rows, growth = [], {}
    for kind, make in makers.items():
        indexes = {size: _filled(make(size), [f"job-{number}" for number in range(size)]) for size in sizes}
        taken: dict[int, list[float]] = {size: [] for size in sizes}
        for _ in range(TURNS):
            for size, index in indexes.items():
                spent, due = timed(lambda index=index: _idle(index, ticks))  # type: ignore[misc]
                if due:
                    raise AssertionError("something was due in a tick that should have been idle")
                taken[size].append(spent / ticks)
        medians = {size: statistics.median(spent) for size, spent in taken.items()}
        rows += [(f"{size:,} jobs, {kind}", in_words(spent)) for size, spent in medians.items()]
        figures |= {f"idle tick {kind} {size} ns": spent for size, spent in medians.items()}
        growth[kind] = medians[sizes[-1]] / medians[sizes[0]]
    return Table(f"A tick with nothing due, median of {TURNS} x {ticks:,}", ("index", "per tick"), tuple(rows)), growth


def _idle(index: OccurrenceIndex, ticks: int) -> int:
    due = 0
    for instant in range(index.horizon + 1, index.horizon + 1 + ticks):
        due += len(index.advance(instant))
    return due


def _fires(count: int, figures: dict[str, float]) -> Table:
    """What is handed out, per run: many runs in few groups, and as many groups as runs."""
    rows = []
    for label, specs, until in (
        (f"{len(TWENTY)} groups, one hour", _shared(count), NINE + HOUR),
        ("every run a group of its own", _one_offs(count), NINE + DAY + MINUTE),
    ):
        index = _filled(specs, [f"job-{number}" for number in range(count)])
        runs = 0

        def drain(index: OccurrenceIndex = index, until: int = until) -> int:
            found = 0
            while index.horizon < until:
                for _, members in index.advance(until):
                    found += len(members)
            return found

        spent, runs = timed(drain)
        if not runs:
            raise AssertionError("an empty result is not worth timing")
        rows.append((label, f"{runs:,}", in_words(spent), in_words(spent / runs)))
        figures[f"fires {label} runs"] = runs
        figures[f"fires {label} ns per run"] = spent / runs
    return Table(f"Handing out what is due, {count:,} jobs", ("index", "runs", "in all", "per run"), tuple(rows))
