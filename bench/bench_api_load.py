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
from pathlib import Path
from typing import Any

from bench.api_asking import LISTENERS, Answers, Door, ask
from bench.api_storm import write_jobs
from bench.harness import Report, Table, Target

JOBS = 500
PER_SECOND = 200
FACTOR = 1.5
LEAD_SECONDS = 20
"""Time to start, and for the asking to get going: what is measured is the middle of it."""
START_SECONDS = 120.0
STORES = {"SQLite": "sqlite:///{folder}/.evertick/ledger.db", "files": "files:///{folder}/ledger"}

THREAD = {"SQLite": "", "files": ", the scheduler's share included"}


def run(*, quick: bool) -> Report:
    seconds, rounds = (6, 1) if quick else (20, 3)
    tables, targets = [], []
    figures: dict[str, float] = {}
    for store in STORES:
        table, met, told = _compare(store, seconds, rounds)
        tables.append(table)
        targets += met
        figures |= told
    return Report("api_load", tuple(tables), tuple(targets), figures)


def _compare(store: str, seconds: int, rounds: int) -> tuple[Table, list[Target], dict[str, float]]:
    alone, asked, answers = [], [], []
    for _ in range(rounds):
        alone.append(_storm(store, seconds, with_api=False)[0])
        found, told = _storm(store, seconds, with_api=True)
        asked.append(found)
        assert told is not None
        answers.append(told)
    without, with_api = (statistics.median(one["p99_ms"] for one in some) for some in (alone, asked))
    rate = statistics.median(one.per_second for one in answers)
    slow = statistics.median(one.p99_ms() for one in answers)
    cpu_ms = statistics.median(one.cpu_seconds / max(one.count, 1) for one in answers) * 1_000
    failed = [text for one in answers for text in one.failed]
    table = Table(
        f"{JOBS:,} jobs due every second for {seconds} s on {store}, with and without questions to the API",
        ("storm", "due", "fired", "p50 ms", "p99 ms", "CPU s"),
        (_row("alone", alone), _row(f"with {PER_SECOND} requests per s", asked)),
        (
            f"answered {rate:.0f} questions per second, p99 {slow:.0f} ms, {len(failed)} failed {failed[:1]}",
            f"the process that answered used {cpu_ms:.1f} ms of a processor for each question{THREAD[store]}",
            f"medians by question, ms: {_by_kind(answers)}",
            f"{LISTENERS} pages listened, and heard {sum(one.heard for one in answers) / rounds / 1e6:.1f} MB a round",
            f"medians of {rounds} rounds in turns; scheduler, API and asker share {os.cpu_count()} cores",
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


def _storm(store: str, seconds: int, *, with_api: bool) -> tuple[dict[str, Any], Answers | None]:
    """A storm in a process of its own; what it measured, and what became of the questions."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_jobs(folder, JOBS)
        url = STORES[store].format(folder=folder)
        first = int(time.time()) + LEAD_SECONDS
        command = [sys.executable, "-m", "bench.api_storm", place, url, str(first), str(seconds), str(int(with_api))]
        told = None
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as storm:
            try:
                if with_api:
                    told = ask(_door(folder, storm), PER_SECOND, JOBS, lambda: time.time() > first + seconds)
                out, _ = storm.communicate(timeout=seconds * 10 + 300)
            finally:
                storm.kill()
    if storm.returncode:
        raise RuntimeError("the storm failed")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found, told


def _door(folder: Path, storm: subprocess.Popen[bytes]) -> Door:
    """The server, once it is there."""
    place, token = folder / ".evertick" / "server.json", folder / ".evertick" / "token"
    give_up_at = time.monotonic() + START_SECONDS
    while not (place.exists() and token.exists()):
        if storm.poll() is not None or time.monotonic() > give_up_at:
            raise RuntimeError("the server did not come up")
        time.sleep(0.05)
    told = json.loads(place.read_text())
    return Door(told["url"], token.read_text().strip(), told["pid"])
