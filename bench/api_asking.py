"""Who asks the API in a benchmark: pages that listen, and so many questions a second, as people's pages ask them."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from bench.api_storm import PRINTING, job_name
from evertick.model.instant import HOUR, SECOND, to_text
from evertick.operations.context import now_by_the_clock

ASKERS = 8
LISTENERS = 5
COLUMN_US = 6 * SECOND


@dataclass(slots=True)
class Answers:
    """What became of the questions."""

    took: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: list[str] = field(default_factory=list)
    heard: int = 0
    """Bytes of events."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of the server while it was asked."""

    @property
    def count(self) -> int:
        return sum(map(len, self.took.values()))

    @property
    def per_second(self) -> float:
        return self.count / max(self.seconds, 0.001)

    def p99_ms(self) -> float:
        every = sorted(one for some in self.took.values() for one in some)
        return every[len(every) * 99 // 100] * 1_000 if every else 0.0


class Door:
    """A server to ask, by somebody who may look at everything."""

    def __init__(self, url: str, token: str, pid: int) -> None:
        self.pid = pid
        self.host = url.removeprefix("http://")
        self.headers = {"authorization": f"Bearer {token}"}

    def cpu_seconds(self) -> float:
        """What the server's process has used of a processor so far; on Linux."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, timeout=60)

    def ask(self, connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
        connection.request("GET", path, headers=self.headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def once(self, path: str) -> Any:
        connection = self.connect()
        try:
            status, body = self.ask(connection, path)
        finally:
            connection.close()
        if status != 200:
            raise RuntimeError(f"{path}: {status} {body[:200]!r}")
        return json.loads(body)


def questions(runs: list[str], printed: str, jobs: int) -> Iterator[tuple[str, str]]:
    """What pages request, by kind and path: a timeline ten times a second (twice for each listening page), the rest
    mostly what is shown first and refreshed; of jobs and runs another one each time."""
    numbers, ids = cycle(range(0, jobs, 7)), cycle(runs)
    log = f"/api/v1/runs/{quote(printed, safe='')}/logs/1/main"
    offsets = cycle(range(0, 100_000, 10_000))

    def timeline() -> str:
        # A quarter of an hour on a screen of 1,100 pixels, as the page asks for it: in columns of a round width.
        shown, now = HOUR // 4, now_by_the_clock()
        start = (now - shown * 122 // 100) // COLUMN_US * COLUMN_US
        cells = 2 * shown // COLUMN_US + 1
        return f"/api/v1/timeline?from={to_text(start)}&to={to_text(start + cells * COLUMN_US)}&limit=30&cells={cells}"

    kinds: dict[str, Callable[[], str]] = {
        "overview": lambda: "/api/v1/overview",
        "jobs": lambda: "/api/v1/jobs?limit=50&sparkline=20",
        "runs": lambda: "/api/v1/runs?limit=50",
        "timeline": timeline,
        "run": lambda: f"/api/v1/runs/{quote(next(ids), safe='')}",
        "log": lambda: f"{log}?offset={next(offsets)}&limit=10000",
        "job": lambda: f"/api/v1/jobs/{job_name(next(numbers))}",
        "runs of a job": lambda: f"/api/v1/runs?job={job_name(next(numbers))}&limit=20",
        "failed": lambda: "/api/v1/runs?state=failed&limit=50",
        "upcoming": lambda: "/api/v1/upcoming?limit=20",
        "metrics": lambda: "/metrics",
    }
    order = "overview runs job run log jobs timeline runs overview job failed run log runs overview upcoming"
    order += " jobs run metrics"
    for kind in cycle([*order.split(), "runs of a job"]):
        yield kind, kinds[kind]()


class Known(NamedTuple):
    """Runs to ask about, and one that has a log."""

    runs: list[str]
    printed: str


def known_runs(door: Door) -> Known:
    printed = _have_printed(door)
    return Known([one["run"] for one in door.once("/api/v1/runs?limit=200")["items"]], printed)


def ask(door: Door, known: Known, per_second: int, jobs: int, is_over: Callable[[], bool]) -> Answers:
    """So many questions a second until it is over, while some listen to what happens."""
    found, lock, wanted = Answers(), threading.Lock(), questions(known.runs, known.printed, jobs)
    began, used = time.perf_counter(), door.cpu_seconds()
    turns = cycle(range(1 << 62))

    def asking() -> None:
        # Of this thread only, on Linux: whoever asks stands for other machines.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        connection = door.connect()
        while not is_over():
            with lock:
                due, (kind, path) = began + next(turns) / per_second, next(wanted)
            time.sleep(max(due - time.perf_counter(), 0))
            asked_at = time.perf_counter()
            try:
                status, body = door.ask(connection, path)
                trouble = "" if status == 200 else f"{path}: {status} {body[:100]!r}"
            except (OSError, http.client.HTTPException) as error:
                trouble = f"{path}: {error!r}"
                connection.close()
            with lock:
                found.took[kind].append(time.perf_counter() - asked_at)
                if trouble and not is_over():
                    found.failed.append(trouble)

    def listening() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        connection = door.connect()
        try:
            connection.request("GET", "/api/v1/events", headers=door.headers)
            answer = connection.getresponse()
            while not is_over():
                piece = answer.read1(1 << 16)
                with lock:
                    found.heard += len(piece)
                if not piece:
                    return
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()

    askers = [threading.Thread(target=asking, daemon=True) for _ in range(ASKERS)]
    listeners = [threading.Thread(target=listening, daemon=True) for _ in range(LISTENERS)]
    for thread in (*listeners, *askers):
        thread.start()
    for thread in askers:
        thread.join()
    found.seconds, found.cpu_seconds = time.perf_counter() - began, door.cpu_seconds() - used
    return found


def _have_printed(door: Door) -> str:
    """A run with a log, asked for as a person would."""
    connection = door.connect()
    connection.request("POST", f"/api/v1/jobs/{PRINTING}/trigger?wait=30", headers=door.headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"the job that prints cannot be run: {answer.status} {body[:200]!r}")
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        for run in door.once(f"/api/v1/runs?job={PRINTING}")["items"]:
            if run["state"] == "succeeded":
                return str(run["run"])
        time.sleep(0.2)
    raise RuntimeError("the job that prints did not end")
