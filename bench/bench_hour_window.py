"""How long all runs of one hour take to find, for ten thousand schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import cast

from croniter import croniter
from cronsim import CronSim

from bench.expressions import MONDAY_NINE, TWENTY, due_once_after_nine
from bench.harness import Report, Table, Target, Work, in_words, race
from evertick.model.instant import HOUR, from_datetime
from evertick.model.schedule import CronSpec
from evertick.planning.occurrences import OccurrenceIndex

JOBS, QUICK_JOBS = 10_000, 100
NINE, TEN = from_datetime(MONDAY_NINE), from_datetime(MONDAY_NINE) + HOUR
LIMITS_MS = {"shared": 5.0, "distinct": 10.0}


def run(*, quick: bool) -> Report:
    rounds, jobs = (1, QUICK_JOBS) if quick else (9, JOBS)
    rows, targets, figures = [], [], {}
    for kind, texts in (
        ("shared", [TWENTY[number % len(TWENTY)] for number in range(jobs)]),
        ("distinct", due_once_after_nine(jobs)),
    ):
        index = _index(texts)
        due = index.due_between(NINE, TEN)
        runs = sum(len(entry.members) for entry in due)
        sample = texts[:: max(jobs // (10 if quick else 400), 1)] if kind == "distinct" else list(TWENTY)
        _agree(texts, sample, index)
        taken = race(
            {
                "evertick, what is due (preview)": partial(_once, partial(index.due_between, NINE, TEN)),
                "evertick, what is due (advance)": partial(_advance, texts),
                "evertick, each run by itself": partial(_once, partial(_pairs, index)),
                "croniter": partial(_walk_all, _croniter, sample),
                "cronsim": partial(_walk_all, CronSim, sample),
            },
            rounds,
        )
        scale = jobs / len(sample)
        label = f"{jobs:,} schedules, {len(set(texts)):,} expressions"
        for name, spent in taken.items():
            if name.startswith("evertick"):
                rows.append((f"{label}: {name}", in_words(spent), f"{runs:,}", ""))
                continue
            whole = spent * scale
            ratio = f"{whole / taken['evertick, each run by itself']:,.0f}x"
            rows.append((f"{label}: {name}, scaled from {len(sample)}", in_words(whole), f"{runs:,}", ratio))
            if kind == "shared":
                rows.append((f"{label}: {name}, sharing by hand", in_words(spent), f"{runs:,}", ""))
            figures[f"{kind} {name} scaled ms"] = whole / 1e6
        for name in ("preview", "advance"):
            spent_ms = taken[f"evertick, what is due ({name})"] / 1e6
            figures[f"{kind} {name} ms"] = spent_ms
            targets.append(Target(f"{label}, {name}", spent_ms, LIMITS_MS[kind], "ms"))
        figures[f"{kind} each run ms"] = taken["evertick, each run by itself"] / 1e6
        figures[f"{kind} runs"] = runs
        figures[f"{kind} entries"] = len(due)
    table = Table(
        f"All runs of one hour, Monday 09:00 to 10:00 UTC, median of {rounds} rounds",
        ("contender", "time", "runs found", "to ours"),
        tuple(rows),
        (
            "croniter and cronsim are timed on a sample and multiplied up to all schedules; parsing is not timed",
            "sharing by hand: each expression computed once, which the caller of a library must see to",
            "to ours: against the time in which ours has named the job and instant of each run",
            "advance gives the same runs and moves on; its indexes were loaded before",
        ),
    )
    return Report("hour_window", (table,), tuple(targets), figures)


def _index(texts: Sequence[str]) -> OccurrenceIndex:
    index = OccurrenceIndex(NINE)
    for number, text in enumerate(texts):
        index.add(f"job-{number}", (CronSpec(text, "UTC", f"job-{number}"),))
    return index


def _advance(texts: Sequence[str]) -> Work:
    """On an index of its own, because it moves on."""
    return _once(partial(_index(texts).advance, TEN))


def _pairs(index: OccurrenceIndex) -> list[tuple[int, str]]:
    return [(instant, job_id) for instant, members in index.due_between(NINE, TEN) for job_id in members]


def _walk_all(start_walk: Callable[[str, datetime], Iterator[datetime]], sample: Sequence[str]) -> Work:
    """Parsed before the clock starts, as our index is loaded before."""
    walks = [start_walk(text, MONDAY_NINE) for text in sample]
    return _once(lambda: [moment for walk in walks for moment in _walk(walk)])


def _once(find: Callable[[], Sequence[object]]) -> Work:
    """One operation, whatever is found, as long as something is."""

    def work() -> int:
        if not find():
            raise AssertionError("an empty result is not worth timing")
        return 1

    return work


def _croniter(text: str, start: datetime) -> Iterator[datetime]:
    return cast("Iterator[datetime]", croniter(text, start, ret_type=datetime))


def _walk(fires: Iterator[datetime]) -> list[datetime]:
    end = MONDAY_NINE + timedelta(hours=1)
    return list(takewhile(lambda moment: moment <= end, fires))


def _agree(texts: Sequence[str], sample: Sequence[str], index: OccurrenceIndex) -> None:
    """Contenders that compute different things are not compared."""
    ours: dict[str, list[int]] = {text: [] for text in sample}
    for entry in index.due_between(NINE, TEN):
        text = texts[int(entry.members[0].removeprefix("job-"))]
        if text in ours:
            ours[text].append(entry.instant)
    for text, found in ours.items():
        for theirs in (_croniter(text, MONDAY_NINE), CronSim(text, MONDAY_NINE)):
            if [from_datetime(moment) for moment in _walk(theirs)] != found:
                raise AssertionError(f"contenders disagree about {text!r}")
