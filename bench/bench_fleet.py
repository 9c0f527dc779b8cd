"""How fast attempts start on members of a fleet, and end there when they are stopped, beside Dask's own tasks."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle, permutations
from pathlib import Path
from typing import Any

from bench.harness import Point, Report, Table, Target
from evertick.executors.fleet.executor import FleetExecutor
from evertick.executors.fleet.settings import Certificates, fleet_at
from evertick.loop.effects import Launch
from evertick.model.instant import MINUTE
from evertick.model.job import Job
from evertick.model.lifecycle import Trigger
from evertick.model.report import Report as Said
from evertick.model.report import RunFinished, RunStarted
from evertick.model.run import RunKey
from evertick.model.work import Command, Step, Work
from evertick.settings.parts import FleetSettings

MEMBERS = ("ex-a", "ex-b", "ex-c")
NINE = 1_772_442_000_000_000
PATIENCE_SECONDS = 120.0
KILL_MS = 100.0


def run(*, quick: bool) -> Report:
    pairs, attempts, kills = (6, 10, 1) if quick else (300, 1_200, 30)
    members = MEMBERS[:1] if quick else MEMBERS
    with _fleet(members) as (url, folder):
        bench = _Bench(url, folder, members)
        try:
            ours, tasks, processes = bench.latencies(pairs)
            our_rate, task_rate, process_rate = bench.rates(attempts)
            deaths, ends = bench.kills(kills)
        finally:
            bench.close()
    latency = Table(
        f"Submit to start, pinned to one of {len(members)} members, one at a time ({pairs} each, in turns)",
        ("", "p50", "p99"),
        (
            ("Evertick: a process of a job", *_shown(ours)),
            ("Dask: a task, an empty function", *_shown(tasks)),
            ("Dask: a task that starts a process", *_shown(processes)),
        ),
        ("Evertick's process is in the member's journal before it starts, and survives the worker.",),
    )
    rate = Table(
        f"Attempts a second over {len(members)} members ({attempts} at once)",
        ("", "per second"),
        (
            ("Evertick: processes, ended and reported", f"{our_rate:,.0f}"),
            ("Dask: empty functions, one submit each", f"{task_rate:,.0f}"),
            ("Dask: functions that run a process", f"{process_rate:,.0f}"),
        ),
        ("All on this machine: the members share its cores with the scheduler and with the processes.",),
    )
    ending = Table(
        f"A process on a member that is stopped ({kills} times)",
        ("", "p50", "p99"),
        (("until it is dead", *_shown(deaths)), ("until its whole family is known to be gone", *_shown(ends))),
    )
    ratio = statistics.median(ours) / statistics.median(tasks)
    return Report(
        "fleet",
        (latency, rate, ending),
        (
            Target("median of submit to start beside an empty task of Dask", ratio, 1.5, "times"),
            Target("p99 of submit to start beside an empty task of Dask", _p99(ours) / _p99(tasks), 1.5, "times"),
            Target("p99 of the death of a process that is stopped", _p99(deaths) * 1e3, KILL_MS, "ms"),
        ),
        {
            "ours_p50_ms": statistics.median(ours) * 1e3,
            "ours_p99_ms": _p99(ours) * 1e3,
            "dask_p50_ms": statistics.median(tasks) * 1e3,
            "dask_p99_ms": _p99(tasks) * 1e3,
            "dask_process_p50_ms": statistics.median(processes) * 1e3,
            "ours_per_second": our_rate,
            "dask_tasks_per_second": task_rate,
            "dask_processes_per_second": process_rate,
            "death_p50_ms": statistics.median(deaths) * 1e3,
            "death_p99_ms": _p99(deaths) * 1e3,
            "end_p50_ms": statistics.median(ends) * 1e3,
            "end_p99_ms": _p99(ends) * 1e3,
        },
        tuple(
            Point(name, len(members), {"p50_ms": statistics.median(some) * 1e3, "p99_ms": _p99(some) * 1e3})
            for name, some in (
                ("Evertick: a process of a job", ours),
                ("Dask: an empty function", tasks),
                ("Dask: a function that starts a process", processes),
            )
        ),
    )


class _Bench:
    def __init__(self, url: str, folder: Path, members: tuple[str, ...]) -> None:
        from distributed import Client, LocalCluster

        self._members = members
        self._said: dict[type, dict[RunKey, Any]] = {RunStarted: {}, RunFinished: {}}
        self._news = threading.Condition()
        self._numbers = count()
        self._folder = folder
        certificates = Certificates.in_folder(folder / "hub" / "scheduler")
        self._executor = FleetExecutor(folder / "node", fleet_at(url, certificates, FleetSettings(lease_us=MINUTE)))
        self._executor.open(self._hear)
        _until(lambda: sum(member.is_healthy for member in self._executor.members()) == len(members))
        # A cluster of its own: the fleet's takes no tasks.
        known = {"n_workers": len(members), "threads_per_worker": 1, "dashboard_address": None}
        self._cluster = LocalCluster(**known, memory_limit=0, worker_dashboard_address=None)
        self._workers = [one.worker_address for one in self._cluster.workers.values()]
        self._client = Client(self._cluster, set_as_default=False)

    def close(self) -> None:
        self._client.close()
        self._cluster.close()
        self._executor.close()

    def latencies(self, pairs: int) -> tuple[list[float], list[float], list[float]]:
        """Seconds of each contender, in turns; the first ones only warm up.

        Whoever comes behind another finds the fleet busy with tidying up after it: so each comes behind each of the
        others equally often.
        """
        ours: list[float] = []
        tasks: list[float] = []
        processes: list[float] = []
        for number, order in zip(range(pairs + 6), cycle(permutations(range(3))), strict=False):
            member = self._members[number % len(self._members)]
            for which in order:
                if which == 0:
                    ours.append(self._start_ours(member))
                elif which == 1:
                    tasks.append(self._start_task(member, _empty))
                else:
                    processes.append(self._start_task(member, _process()))
        return ours[6:], tasks[6:], processes[6:]

    def rates(self, attempts: int) -> tuple[float, float, float]:
        began = time.perf_counter()
        keys = [self._launch(self._members[number % len(self._members)], "true") for number in range(attempts)]
        self._wait(RunFinished, lambda ended: all(key in ended for key in keys))
        ours = attempts / (time.perf_counter() - began)
        return ours, self._task_rate(attempts, _empty), self._task_rate(attempts, _process())

    def kills(self, times: int) -> tuple[list[float], list[float]]:
        """Seconds until the process is dead, and until that of its family was made sure of and reported."""
        deaths, ends = [], []
        note = self._folder / "pid"
        for number in range(times + 2):
            key = self._launch(
                self._members[number % len(self._members)], "sh", "-c", f"echo $$ > {note}; exec sleep 1000"
            )
            self._wait_for(RunStarted, key)
            _until(lambda: note.exists() and note.read_text().endswith("\n"))
            watched = os.pidfd_open(int(note.read_text()))
            began = time.perf_counter()
            self._executor.stop(key, 1, "enough")
            select.select([watched], [], [])
            deaths.append(time.perf_counter() - began)
            self._wait_for(RunFinished, key)
            ends.append(time.perf_counter() - began)
            os.close(watched)
            note.unlink()
        return deaths[2:], ends[2:]

    def _start_ours(self, member: str) -> float:
        began = time.time()
        key = self._launch(member, "true")
        started = self._wait_for(RunStarted, key)
        self._wait_for(RunFinished, key)
        return float(started.at / 1e6 - began)

    def _start_task(self, member: str, work: Callable[[], float]) -> float:
        began = time.time()
        return float(self._submit(member, work).result() - began)

    def _task_rate(self, attempts: int, work: Callable[[], float]) -> float:
        began = time.perf_counter()
        futures = [self._submit(self._members[number % len(self._members)], work) for number in range(attempts)]
        self._client.gather(futures)
        return attempts / (time.perf_counter() - began)

    def _submit(self, member: str, work: Callable[[], float]) -> Any:
        key = f"task-{next(self._numbers)}"
        worker = self._workers[self._members.index(member)]
        return self._client.submit(work, key=key, workers=[worker], allow_other_workers=False, pure=False)

    def _launch(self, member: str, *argv: str) -> RunKey:
        key = RunKey("bench", NINE + next(self._numbers) * 1_000_000)
        job = _job(argv)
        self._executor.launch(Launch(key, 1, 1, job, Trigger.SCHEDULER, "", None, executor=f"fleet:{member}"))
        return key

    def _hear(self, report: Said) -> None:
        kept = self._said.get(type(report))
        if kept is not None:
            with self._news:
                kept[report.key] = report  # type: ignore[union-attr]
                self._news.notify_all()

    def _wait_for(self, kind: type, key: RunKey) -> Any:
        self._wait(kind, lambda said: key in said)
        return self._said[kind][key]

    def _wait(self, kind: type, holds: Callable[[dict[RunKey, Any]], bool]) -> None:
        with self._news:
            assert self._news.wait_for(lambda: holds(self._said[kind]), PATIENCE_SECONDS), f"no {kind.__name__} came"


_JOBS: dict[tuple[str, ...], Job] = {}


def _job(argv: tuple[str, ...]) -> Job:
    if argv not in _JOBS:
        _JOBS[argv] = Job("bench", work=Work((Step("main", Command(argv)),)))
    return _JOBS[argv]


_empty: Callable[[], float] = time.time


def _process() -> Callable[[], float]:
    # Made in here, because then it travels whole: the members do not have this file.
    def start_and_wait() -> float:
        process = subprocess.Popen(["true"])
        began = time.time()
        process.wait()
        return began

    return start_and_wait


@contextlib.contextmanager
def _fleet(members: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """A hub and its members, as people start them."""
    url = f"tls://127.0.0.1:{_free_port()}"
    with tempfile.TemporaryDirectory() as scratch, open(os.devnull, "wb") as nowhere:
        folder = Path(scratch)
        command = [sys.executable, "-m", "evertick", "fleet"]

        def start(*words: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen([*command, *words], stdout=nowhere, stderr=nowhere)

        # Over TLS, as people start it.
        hub = folder / "hub"
        started = [start("start", "--url", url, "--folder", str(hub), "--join-port", str(_free_port()))]
        _until(lambda: (hub / "scheduler" / "cert.pem").exists())
        for name in members:
            token = [*command, "token", "--folder", str(hub), "-o", "name"]
            said = subprocess.run(token, capture_output=True, text=True, check=True).stdout.strip()
            started.append(start("join", url, "--name", name, "--folder", str(folder / name), "--token", said))
        try:
            yield url, folder
        finally:
            for process in reversed(started):
                process.send_signal(signal.SIGTERM)
            for process in started:
                process.wait(60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "the fleet did not come up"
        time.sleep(0.05)


def _p99(values: list[float]) -> float:
    return sorted(values)[min(int(len(values) * 0.99), len(values) - 1)]


def _shown(seconds: list[float]) -> tuple[str, str]:
    return f"{statistics.median(seconds) * 1e3:.1f} ms", f"{_p99(seconds) * 1e3:.1f} ms"
