"""Do questions to the API delay the firing of jobs? A storm alone, and the same with 200 requests per second.

A node as `evertick serve` makes one, with hundreds of job files due every second, durable. On SQLite the API is a
process beside the scheduler; on plain files, which one process only can open, a thread of it. The asker stands for
other machines, and so steps back here. Rounds with and without take turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from bench.api_asking import LISTENERS, Answers, Door, ask, known_runs
from bench.api_storm import door_of, write_jobs
from bench.harness import Report, Table, Target

JOBS, QUICK_JOBS = 500, 10
PER_SECOND = 200
FACTOR = 1.5
LEAD_SECONDS, QUICK_LEAD_SECONDS = 4, 1
"""Time for the asking to get going: what is measured is the middle of it."""
STORES = {"SQLite": "sqlite:///{folder}/.evertick/ledger.db", "files": "files:///{folder}/ledger"}

THREAD = {"SQLite": "", "files": ", the scheduler's share included"}


class Size(NamedTuple):
    jobs: int
    lead_seconds: int
    seconds: int
    rounds: int

    def rounds_on(self, store: str) -> int:
        """Few run on plain files, so one round has to be enough there."""
        return self.rounds if store == "SQLite" else 1


def run(*, quick: bool) -> Report:
    size = Size(QUICK_JOBS, QUICK_LEAD_SECONDS, 1, 1) if quick else Size(JOBS, LEAD_SECONDS, 6, 2)
    tables, targets = [], []
    figures: dict[str, float] = {}
    # One after another, so that none is in another's way; a quick look only asks whether they work.
    with ThreadPoolExecutor(len(STORES) if quick else 1) as pool:
        compared = list(pool.map(lambda store: _compare(store, size._replace(rounds=size.rounds_on(store))), STORES))
    for table, met, told in compared:
        tables.append(table)
        targets += met
        figures |= told
    return Report("api_load", tuple(tables), tuple(targets), figures)


def _compare(store: str, size: Size) -> tuple[Table, list[Target], dict[str, float]]:
    alone, asked, answers = [], [], []
    for _ in range(size.rounds):
        alone.append(_storm(store, size, with_api=False)[0])
        found, told = _storm(store, size, with_api=True)
        asked.append(found)
        assert told is not None
        answers.append(told)
    without, with_api = (statistics.median(one["p99_ms"] for one in some) for some in (alone, asked))
    rate = statistics.median(one.per_second for one in answers)
    slow = statistics.median(one.p99_ms() for one in answers)
    cpu_ms = statistics.median(one.cpu_seconds / max(one.count, 1) for one in answers) * 1_000
    heard = sum(one.heard for one in answers) / size.rounds
    failed = [text for one in answers for text in one.failed]
    table = Table(
        f"{size.jobs:,} jobs due every second for {size.seconds} s on {store}, with and without questions to the API",
        ("storm", "due", "fired", "p50 ms", "p99 ms", "CPU s"),
        (_row("alone", alone), _row(f"with {PER_SECOND} requests per s", asked)),
        (
            f"answered {rate:.0f} questions per second, p99 {slow:.0f} ms, {len(failed)} failed {failed[:1]}",
            f"the process that answered used {cpu_ms:.1f} ms of a processor for each question{THREAD[store]}",
            f"medians by question, ms: {_by_kind(answers)}",
            f"{LISTENERS} pages listened, and heard {heard / 1e6:.1f} MB a round",
            f"medians of {size.rounds} rounds in turns; scheduler, API and asker share {os.cpu_count()} cores",
        ),
    )
    targets = [
        Target(f"{store}: lateness p99 with questions, times that without", with_api / max(without, 0.1), FACTOR, "x"),
        Target(f"{store}: questions answered", rate, PER_SECOND * 0.98, "per s", at_least=True),
        Target(f"{store}: questions that failed", float(len(failed)), 0, "questions"),
    ]
    known = {
        "p99_ms alone": without,
        "p99_ms with questions": with_api,
        "questions per s": rate,
        "answers p99_ms": slow,
    }
    return table, targets, {f"{store}: {name}": value for name, value in known.items()}


def _row(name: str, found: list[dict[str, Any]]) -> tuple[str, ...]:
    due, fired = (sum(one[word] for one in found) for word in ("due", "fired"))
    middle = [statistics.median(one[word] for one in found) for word in ("p50_ms", "p99_ms", "cpu_s")]
    return (name, f"{due:,}", f"{fired:,}", *(f"{value:.1f}" for value in middle))


def _by_kind(answers: list[Answers]) -> str:
    took: dict[str, list[float]] = defaultdict(list)
    for one in answers:
        for kind, some in one.took.items():
            took[kind] += some
    return ", ".join(f"{kind} {statistics.median(some) * 1_000:.0f}" for kind, some in sorted(took.items()))


def _storm(store: str, size: Size, *, with_api: bool) -> tuple[dict[str, Any], Answers | None]:
    """A storm in a process of its own; what it measured, and what became of the questions."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_jobs(folder, size.jobs)
        url = STORES[store].format(folder=folder)
        words = (place, url, str(size.lead_seconds), str(size.seconds), str(int(with_api)))
        command = [sys.executable, "-m", "bench.api_storm", *words]
        told = None
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as storm:
            try:
                assert storm.stdin is not None
                assert storm.stdout is not None
                if not storm.stdout.readline():
                    raise RuntimeError("the storm did not come up")
                door = _door(folder) if with_api else None
                runs = None if door is None else known_runs(door)
                print("go", file=storm.stdin, flush=True)
                over_at = json.loads(storm.stdout.readline())["first"] + size.seconds
                if door is not None and runs is not None:
                    told = ask(door, runs, PER_SECOND, size.jobs, lambda: time.time() > over_at)
                out, _ = storm.communicate(timeout=size.seconds * 10 + 300)
            finally:
                storm.kill()
    if storm.returncode:
        raise RuntimeError("the storm failed")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found, told


def _door(folder: Path) -> Door:
    place, token = door_of(folder)
    told = json.loads(place.read_text())
    return Door(told["url"], token.read_text().strip(), told["pid"])
