"""How a figure is taken: contenders in turns, the median of several rounds, and what is printed of it."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

Work: TypeAlias = Callable[[], int]
"""Does something and says how many operations it was."""
WHOLE_MINUTES: Final = 15


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        shown = [
            "  ".join(
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        rule = "-" * max(len(line) for line in shown)
        return "\n".join([self.title, rule, shown[0], rule, *shown[1:], *(f"  * {note}" for note in self.notes)])


@dataclass(frozen=True, slots=True)
class Target:
    """A goal: a figure, and the least or the most that it may be."""

    what: str
    measured: float
    limit: float
    unit: str
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def __str__(self) -> str:
        verdict = "met   " if self.is_met else "MISSED"
        bound = "at least" if self.at_least else "at most"
        return f"{verdict}  {self.what}: {self.measured:,.1f} {self.unit} ({bound} {self.limit:,g} {self.unit})"


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure of several rounds of which less is better."""

    best: float
    median: float
    worst: float

    @classmethod
    def of(cls, rounds: Sequence[Mapping[str, float]], name: str) -> Spread:
        found = sorted(one[name] for one in rounds)
        return cls(found[0], statistics.median(found), found[-1])

    def __format__(self, spec: str) -> str:
        return " / ".join(format(figure, spec) for figure in (self.best, self.median, self.worst))


@dataclass(frozen=True, slots=True)
class Point:
    """Figures of one contender at one size, for a plot."""

    contender: str
    size: float
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Report:
    name: str
    tables: tuple[Table, ...]
    targets: tuple[Target, ...]
    figures: Mapping[str, float] = field(default_factory=dict)
    points: tuple[Point, ...] = ()

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self.tables), "\n".join(map(str, self.targets))])

    def as_json(self) -> dict[str, Any]:
        targets = [{**asdict(target), "is_met": target.is_met} for target in self.targets]
        return {
            "name": self.name,
            "figures": dict(self.figures),
            "targets": targets,
            "tables": [asdict(table) for table in self.tables],
            "points": [asdict(point) for point in self.points],
        }


def whole(seconds: float) -> Target:
    """The goal of all benchmarks together."""
    return Target("all benchmarks, one after another", seconds / 60, WHOLE_MINUTES, "minutes")


def goals(targets: Sequence[Target]) -> Table:
    """All goals, those that are missed first."""
    missed = sum(not target.is_met for target in targets)
    rows = [
        (
            "met" if target.is_met else "MISSED",
            target.what,
            f"{target.measured:,.1f} {target.unit}",
            f"{'at least' if target.at_least else 'at most'} {target.limit:,g} {target.unit}",
        )
        for target in sorted(targets, key=lambda target: target.is_met)
    ]
    title = f"Goals: {len(targets) - missed} of {len(targets)} met"
    return Table(title, ("", "goal", "measured", "limit"), tuple(rows))


def race(contenders: Mapping[str, Callable[[], Work]], rounds: int) -> dict[str, float]:
    """Nanoseconds per operation of each contender, which makes ready, untimed, and hands back its work.

    They take turns, so that a busy moment of the machine falls on all of them; the first round only warms up.
    """
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, make_ready in contenders.items():
            spent, operations = timed(make_ready())
            if turn:
                taken[name].append(spent / operations)
    return {name: statistics.median(figures) for name, figures in taken.items()}


def timed(work: Work) -> tuple[int, int]:
    """Nanoseconds of CPU one piece of work took, and what it returned; the collector runs before, not during.

    All of it is arithmetic in this thread: its own time says what it costs, and what else the machine does meanwhile
    is not counted. Where work waits for a disk or for others, benchmarks take the time on the wall themselves.
    """
    gc.collect()
    gc.disable()
    try:
        began = time.thread_time_ns()
        operations = work()
        return time.thread_time_ns() - began, operations
    finally:
        gc.enable()


def in_words(nanoseconds: float) -> str:
    """With three digits and the unit that suits them."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}" if nanoseconds < 1e12 else f"{nanoseconds / size:,.0f} {unit}"
    return f"{nanoseconds:.3g} ns"


def times(figures: Sequence[float], ours: float) -> str:
    """How many times as long as ours the fastest of the others took."""
    return f"{min(figures) / ours:.1f}x"
