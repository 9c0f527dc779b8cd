"""What the plots of the documentation show, read from the recorded results; `bench.plots` draws it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.results import read_results

Series = Mapping[str, Sequence[tuple[float, float]]]
"""Points (x, y) by the name of their line; of bars x does not matter."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One system of axes."""

    y_label: str
    series: Series
    x_label: str = ""
    is_bars: bool = False
    is_log: bool = False
    marks: Mapping[str, Sequence[float]] | None = None
    """Instants on the x axis, by what happened then."""


@dataclass(frozen=True, slots=True)
class Figure:
    title: str
    panels: tuple[Panel, ...]

    def digest(self) -> str:
        """Of all that is shown: a drawing carries it, so that a test can compare it with the results."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


def figures() -> dict[str, Figure]:
    """Each plot whose results were recorded, by the name of its file in docs/images/bench."""
    found = {name: make() for name, make in FIGURES.items()}
    return {name: figure for name, figure in found.items() if figure is not None}


def recorded(name: str) -> Any:
    """The only row of a recorded result; None if there is none."""
    results = read_results(name)
    return None if results is None else results.rows[0]


def _points(name: str) -> list[Mapping[str, Any]]:
    row = recorded(f"bench/{name}")
    return [] if row is None else row["points"]


def _lines(points: Sequence[Mapping[str, Any]], *keys: str, suffixes: Sequence[str] = ("",)) -> Series:
    found: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        for key, suffix in zip(keys, suffixes, strict=True):
            if key in point["figures"]:
                found.setdefault(f"{point['contender']}{suffix}", []).append((point["size"], point["figures"][key]))
    return {name: sorted(line) for name, line in found.items()}


def _lateness() -> Figure | None:
    points = _points("storm")
    late = _lines(points, "p50_ms", "p99_ms", suffixes=(", p50", ", p99"))
    label = "start minus due time, ms"
    panel = Panel(label, late, "occurrences due per second, durable", is_log=True)
    return Figure("Lateness against the rate", (panel,)) if points else None


def _throughput() -> Figure | None:
    points, x = _points("storm"), "jobs, each due every second"
    fired = Panel("fired per second", _lines(points, "fired_per_s"), x, is_log=True)
    memory = Panel("memory, MB", _lines(points, "rss_mb"), x)
    return Figure("Throughput and memory against the number of jobs", (fired, memory)) if points else None


def _bars(name: str, title: str, *shown: tuple[str, str]) -> Figure | None:
    points = _points(name)
    panels = [Panel(label, _lines(points, key), is_bars=True) for key, label in shown]
    return Figure(title, tuple(panels)) if points else None


def _idle() -> Figure | None:
    points = _points("idle")
    panel = Panel("percent of a core", _lines(points, "percent"), "job files, none of them due")
    return Figure("CPU of an idle scheduler against the number of files", (panel,)) if points else None


def _soak() -> Figure | None:
    row = recorded("soak")
    if row is None:
        return None
    samples = [(one["second"] / 60, one) for one in row["samples"]]
    late = {
        name: [(at, one["late_ms"][name] / 1_000) for at, one in samples if "late_ms" in one] for name in ("p50", "p99")
    }
    names = sorted({name for _, one in samples for name in one["mib"]})
    memory = {name: [(at, one["mib"][name]) for at, one in samples if name in one["mib"]] for name in names}
    kills: dict[str, list[float]] = {}
    for second, process in row["kills"]:
        kills.setdefault(f"{process} killed", []).append(second / 60)
    return Figure(
        f"Soak: {row['jobs']:,} jobs for {row['seconds'] / 60:.0f} minutes",
        (
            Panel("start minus due time, s", late, is_log=True, marks=kills),
            Panel("memory, MiB", memory),
            Panel("load of the machine", {"load": [(at, one["load"]) for at, one in samples]}, "minutes"),
        ),
    )


FIGURES: Mapping[str, Callable[[], Figure | None]] = {
    "lateness": _lateness,
    "throughput": _throughput,
    "peers": lambda: _bars(
        "peers",
        "200 processes due at the same instant",
        ("p50_ms", "start minus due time, p50, ms"),
        ("cpu_s", "CPU, s"),
        ("rss_mb", "memory, MB"),
    ),
    "idle": _idle,
    "runs": lambda: _bars("runs", "Processes started and seen through", ("per_s", "processes per second")),
    "fleet": lambda: _bars(
        "fleet", "From submit to start on a member", ("p50_ms", "p50, milliseconds"), ("p99_ms", "p99, milliseconds")
    ),
    "soak": _soak,
}
