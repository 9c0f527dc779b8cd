"""Two hundred processes that are due at the same instant: how late, with how much CPU and memory, beside the peers.

All contenders are up at the same time and take turns: their jobs are due at different instants, so that each has the
machine for itself while it starts them. Celery beat and Huey know whole minutes only.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.contenders import APSCHEDULER, CELERY, EVERTICK, HUEY, Contender, Turn, missing
from bench.harness import Point, Report, Spread, Table, Target
from bench.published import DAGU, DAGU_BURST, DAGU_NOTE

JOBS, QUICK_JOBS = 200, 5
ROUNDS = 1
"""Two minutes each: Celery beat and Huey, which know whole minutes only, have one turn in it, the others four."""
TURNS = {EVERTICK: Turn(30, 10), APSCHEDULER: Turn(30, 20), CELERY: Turn(120, 0), HUEY: Turn(120, 60)}
QUICK_TURNS = {EVERTICK: Turn(4, 0), APSCHEDULER: Turn(4, 2)}
LIMIT_MS = 1_000.0
LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 120.0


def run(*, quick: bool) -> Report:
    jobs, turns, rounds = (QUICK_JOBS, QUICK_TURNS, 1) if quick else (JOBS, TURNS, ROUNDS)
    often = max(turn.period for turn in turns.values()) // turns[EVERTICK].period
    notes = [f"{name}: {why}" for name in turns if (why := missing(name))]
    with tempfile.TemporaryDirectory() as folder:
        contenders = [Contender(name, Path(folder), jobs, turn) for name, turn in turns.items() if not missing(name)]
        try:
            measured = _measure(contenders, jobs, rounds)
        finally:
            for one in contenders:
                one.close()
    table = Table(
        f"{jobs} processes due at the same instant: start minus due time",
        ("scheduler", "p50 ms", "p99 ms", "CPU s for each round", "memory MB"),
        (
            *((one.name, *_cells(measured[one.name])) for one in contenders),
            (DAGU, f"{DAGU_BURST['p50_ms']:,.0f}", "", f"{DAGU_BURST['cpu_s']:.0f}", f"{DAGU_BURST['rss_mb']:,.0f}"),
        ),
        (
            f"best / median / worst; turns of Celery beat and Huey: {rounds}, of the others: {often * rounds}",
            "CPU: of the scheduler, its workers, its broker and the processes, with the idle time between the rounds",
            "memory: the largest sum of the resident memory of all its processes",
            "Evertick has each run in a SQLite ledger before it starts; the others keep their jobs in memory or Redis",
            "Huey looks for due jobs once a minute, counted from its own start, so its lateness depends on that start",
            DAGU_NOTE,
            *notes,
        ),
    )
    points = [
        Point(name, jobs, {key: spread.median for key, spread in found.items()}) for name, found in measured.items()
    ]
    points.append(Point(DAGU, jobs, DAGU_BURST))
    own = measured[EVERTICK]
    targets = (
        Target(f"{jobs} processes at once: p99 of the start", own["p99_ms"].median, LIMIT_MS, "ms"),
        Target(f"{jobs} processes at once: p50, beside that of Dagu", own["p50_ms"].median, DAGU_BURST["p50_ms"], "ms"),
    )
    figures = {f"{name}: {key}": spread.median for name, found in measured.items() for key, spread in found.items()}
    return Report("peers", (table,), targets, figures, tuple(points))


def _cells(found: Mapping[str, Spread]) -> tuple[str, ...]:
    late = [f"{found[name]:,.0f}" for name in ("p50_ms", "p99_ms")]
    return (*late, f"{found['cpu_s'].median:.2f}", f"{found['rss_mb'].median:,.0f}")


def _measure(contenders: Sequence[Contender], jobs: int, rounds: int) -> dict[str, dict[str, Spread]]:
    """Let all of them come up, then look at whole turns of each."""
    for one in contenders:
        one.start()
    longest = max(one.turn.period for one in contenders)
    began = _wait_for_turns(contenders, jobs, longest)
    before = {one.name: one.usage() for one in contenders}
    peak = {name: used.rss_bytes for name, used in before.items()}
    # A whole number of periods of each of them, so that each has all of its turns; what is late still counts.
    end = began + rounds * longest
    while time.time() < end or any(len(_since(one, began, end)) < _due(one, jobs, began, end) for one in contenders):
        if time.time() > end + PATIENCE_SECONDS:
            break
        for one in contenders:
            one.check()
            peak[one.name] = max(peak[one.name], one.usage().rss_bytes)
        time.sleep(LOOK_SECONDS)
    found = {}
    for one in contenders:
        turns = _by_turn(one, began, end)
        if len(turns) < rounds or min(map(len, turns)) < jobs:
            raise RuntimeError(f"{one.name} did not start all of its jobs: {[len(turn) for turn in turns]}")
        late = [{"p50_ms": turn[len(turn) // 2], "p99_ms": turn[len(turn) * 99 // 100]} for turn in turns]
        cpu = (one.usage().cpu_seconds - before[one.name].cpu_seconds) / len(turns)
        found[one.name] = {
            **{name: Spread.of(late, name) for name in ("p50_ms", "p99_ms")},
            "cpu_s": Spread(cpu, cpu, cpu),
            "rss_mb": Spread(*(peak[one.name] / 1e6,) * 3),
        }
    return found


def _wait_for_turns(contenders: Sequence[Contender], jobs: int, longest: int) -> int:
    """Until a first turn has started what is started once only; then the next second that no turn is near.

    Celery and Huey start their workers before their first turn, so a warm-up turn of theirs is not needed.
    """
    shortest = min(one.turn.period for one in contenders)
    warming = [one for one in contenders if one.turn.period == shortest]
    deadline = time.monotonic() + PATIENCE_SECONDS + 2 * longest
    while any(len(one.starts) < jobs for one in warming):
        for one in contenders:
            one.check()
        if time.monotonic() > deadline:
            raise RuntimeError(f"no turn of {[one.name for one in warming if len(one.starts) < jobs]}")
        time.sleep(LOOK_SECONDS)
    return int(time.time()) + 1


def _since(one: Contender, began: int, end: int) -> list[float]:
    """The starts of what was due in between."""
    return [at for at in one.starts if began <= at - one.turn.late(at) < end]


def _due(one: Contender, jobs: int, began: int, end: int) -> int:
    return jobs * sum((second - one.turn.offset) % one.turn.period == 0 for second in range(began, end))


def _by_turn(one: Contender, began: int, end: int) -> list[list[float]]:
    """Milliseconds that the starts of each turn were late, in order."""
    turns: dict[float, list[float]] = {}
    for at in _since(one, began, end):
        late = one.turn.late(at)
        turns.setdefault(round(at - late), []).append(late * 1_000)
    return [sorted(turn) for turn in turns.values()]
