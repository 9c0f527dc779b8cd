"""Do questions to the API delay the firing of jobs? A storm alone, and the same with 200 requests per second.

The storm is that of `bench_storm`: many jobs due every second, durable on SQLite. The API is a process of its own on
the same ledger, as `evertick serve` starts it; the asker stands for other machines, and so steps back here. Rounds with
and without take turns.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.harness import Report, Table, Target

JOBS = 500
PER_SECOND = 200
ASKERS = 8
FACTOR = 1.5
QUESTIONS = (
    *("/api/v1/jobs?limit=50", "/api/v1/runs?limit=50", "/api/v1/overview", "/api/v1/jobs/job-7", "/metrics"),
    *("/api/v1/runs?job=job-3", "/api/v1/upcoming?limit=20", "/api/v1/jobs/job-5/durations", "/healthz"),
)


def run(*, quick: bool) -> Report:
    seconds, rounds = (6, 1) if quick else (20, 3)
    alone, asked, answers = [], [], []
    for _ in range(rounds):
        alone.append(_storm(seconds, with_api=False)[0])
        found, told = _storm(seconds, with_api=True)
        asked.append(found)
        answers.append(told)
    without, with_api = (statistics.median(one["p99_ms"] for one in some) for some in (alone, asked))
    rows = [_row("alone", alone), _row(f"with {PER_SECOND} requests per s", asked)]
    rate = statistics.median(one["per_second"] for one in answers)
    slow = statistics.median(one["p99_ms"] for one in answers)
    failed = sum(one["failed"] for one in answers)
    table = Table(
        f"{JOBS:,} jobs due every second for {seconds} s on SQLite, with and without questions to the API",
        ("storm", "due", "fired", "p50 ms", "p99 ms"),
        tuple(rows),
        (
            f"answered {rate:.0f} questions per second, p99 {slow:.0f} ms, {failed} failed",
            f"medians of {rounds} rounds in turns; scheduler, API and asker share {os.cpu_count()} cores",
        ),
    )
    return Report(
        "api_load",
        (table,),
        (
            Target("lateness p99 with questions, times that without", with_api / max(without, 0.1), FACTOR, "x"),
            Target("questions that failed", float(failed), 0, "questions"),
        ),
        {"p99_ms alone": without, "p99_ms with questions": with_api, "questions per s": rate, "answers p99_ms": slow},
    )


def _row(name: str, found: list[dict[str, Any]]) -> tuple[str, ...]:
    due, fired = (sum(one[word] for one in found) for word in ("due", "fired"))
    middle = [statistics.median(one[word] for one in found) for word in ("p50_ms", "p99_ms")]
    return (name, f"{due:,}", f"{fired:,}", *(f"{value:.1f}" for value in middle))


def _storm(seconds: int, *, with_api: bool) -> tuple[dict[str, Any], dict[str, float]]:
    """A storm in a process of its own; what it measured, and what became of the questions."""
    with tempfile.TemporaryDirectory() as folder:
        storm = subprocess.Popen(
            [sys.executable, "-m", "bench.bench_storm", "Evertick, SQLite", str(JOBS), str(seconds), folder],
            stdout=subprocess.PIPE,
        )
        api = _start_api(Path(folder)) if with_api else None
        try:
            told = _ask(Path(folder), seconds, storm) if api is not None else {}
            out, _ = storm.communicate(timeout=seconds * 10 + 300)
        finally:
            if api is not None:
                api.terminate()
                api.wait(30)
    if storm.returncode:
        raise RuntimeError("the storm failed")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found, told


def _start_api(folder: Path) -> subprocess.Popen[bytes]:
    while not (folder / "ledger.db").exists():
        time.sleep(0.05)
    url = f"sqlite:///{folder}/ledger.db"
    command = [sys.executable, "-m", "evertick.api", str(folder), "--port", "0", "--store", url]
    return subprocess.Popen([*command, "--state-folder", str(folder)], stderr=subprocess.DEVNULL)


def _ask(folder: Path, seconds: int, storm: subprocess.Popen[bytes]) -> dict[str, float]:
    """So many questions a second, from the moment the server is there until the storm is over."""
    place = folder / "server.json"
    while not place.exists():
        time.sleep(0.05)
    host = json.loads(place.read_text())["url"].removeprefix("http://")
    token = (folder / "token").read_text().strip()
    took: list[float] = []
    failed: list[str] = []
    began = time.perf_counter()

    def asking(number: int) -> None:
        # Of this thread only, on Linux: the storm is started by another one.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        connection = http.client.HTTPConnection(host, timeout=30)
        turn = number
        while storm.poll() is None and time.perf_counter() - began < seconds + 60:
            due = began + turn / PER_SECOND
            time.sleep(max(due - time.perf_counter(), 0))
            asked_at = time.perf_counter()
            try:
                connection.request(
                    "GET", QUESTIONS[turn % len(QUESTIONS)], headers={"authorization": f"Bearer {token}"}
                )
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    failed.append(str(answer.status))
            except OSError as error:
                failed.append(str(error))
                connection.close()
            took.append(time.perf_counter() - asked_at)
            turn += ASKERS

    threads = [threading.Thread(target=asking, args=(number,), daemon=True) for number in range(ASKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = time.perf_counter() - began
    ordered = sorted(took)
    return {
        "per_second": len(took) / spent,
        "p99_ms": ordered[len(ordered) * 99 // 100] * 1_000,
        "failed": float(len(failed)),
    }
