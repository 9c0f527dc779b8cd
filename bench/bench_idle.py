"""What a scheduler with nothing to do costs: CPU of all its processes against the number of job files, and memory.

Beside it what the number of files must not slow down: a start with a warm cache, and the notice of an edit. The memory
of very many jobs is measured without files, as a program has them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from bench.harness import Point, Report, Table, Target
from bench.published import DAGU, DAGU_IDLE_FILES, DAGU_IDLE_PERCENT, DAGU_NOTE
from evertick.definitions.watch import SETTLE_SECONDS as SETTLE_EDIT_SECONDS
from evertick.long_lived import tune_collector

SIZES, QUICK_SIZES = (100, 1_000, 2_000, 10_000), (5, 10)
SETTLE_SECONDS, QUICK_SETTLE_SECONDS = 6.0, 0.5
"""The first scan, the cache of definitions and the first entries are no idle time."""
MANY_SETTLE_SECONDS = 3.0
SETTLE_NOTE_SECONDS = SETTLE_EDIT_SECONDS
SECONDS, QUICK_SECONDS = 60.0, 0.5
"""One scan of the folder is due in a minute."""
PATIENCE_SECONDS = 300.0
LIMIT_PERCENT = {10_000: 0.2}
LIMIT_SECONDS = {2_000: 0.5}
"""CPU of two minutes."""
EDITS, EDIT_LIMIT_SECONDS = 5, 1.0
STARTS, START_LIMIT_SECONDS = 3, 2.0
MANY_JOBS, QUICK_MANY_JOBS, MANY_LIMIT_MB = 100_000, 100, 250.0
READY, CHANGED = b"Ctrl-C to stop", b"  changed "


def run(*, quick: bool) -> Report:
    sizes = QUICK_SIZES if quick else SIZES
    settle, seconds = (QUICK_SETTLE_SECONDS, QUICK_SECONDS) if quick else (SETTLE_SECONDS, SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        # All at once: they are idle, so none is in the way of another.
        servers = [_Server(Path(folder) / str(size), size) for size in sizes]
        try:
            for server in servers:
                server.wait_until_ready()
            time.sleep(settle)
            before = [server.cpu_seconds() for server in servers]
            time.sleep(seconds)
            used = [server.cpu_seconds() - start for server, start in zip(servers, before, strict=True)]
            memory = [server.rss_mb() for server in servers]
            noticed = [servers[-1].edit(number) for number in range(1 if quick else EDITS)]
        finally:
            for server in servers:
                server.close()
        starts = [servers[-1].start_again() for _ in range(1 if quick else STARTS)]
    many = QUICK_MANY_JOBS if quick else MANY_JOBS
    many_mb = _memory_of(many)
    percent = {size: cpu / seconds * 100 for size, cpu in zip(sizes, used, strict=True)}
    table = Table(
        f"Idle for {seconds:g} s: the scheduler, the API and the page, jobs that are due once a year",
        ("job files", "percent of a core", "memory MB"),
        tuple((f"{size:,}", f"{percent[size]:.2f}", f"{rss:,.0f}") for size, rss in zip(sizes, memory, strict=True)),
        (f"{DAGU}: {DAGU_IDLE_PERCENT:.2f} percent with {DAGU_IDLE_FILES:,} files", DAGU_NOTE),
    )
    most = sizes[-1]
    also = Table(
        f"Beside it, with {most:,} job files",
        ("what", "best", "worst"),
        (
            ("start with a warm cache until ready", f"{min(starts):.2f} s", f"{max(starts):.2f} s"),
            ("from the write of a file until the edit is in use", f"{min(noticed):.2f} s", f"{max(noticed):.2f} s"),
            (f"memory of a program with {many:,} idle jobs", f"{many_mb:,.0f} MB", ""),
        ),
        (f"{SETTLE_NOTE_SECONDS:g} s of an edit are the wait for the rest of the file",),
    )
    points = [
        Point("Evertick", size, {"percent": percent[size], "rss_mb": rss})
        for size, rss in zip(sizes, memory, strict=True)
    ]
    points.append(Point(DAGU, DAGU_IDLE_FILES, {"percent": DAGU_IDLE_PERCENT}))
    targets = (
        *(
            Target(f"idle with {size:,} job files", percent[size], limit, "percent of a core")
            for size, limit in LIMIT_PERCENT.items()
            if size in percent
        ),
        *(
            Target(f"idle for two minutes with {size:,} job files", percent[size] / 100 * 120, limit, "s of CPU")
            for size, limit in LIMIT_SECONDS.items()
            if size in percent
        ),
        Target(f"an edit of one of {most:,} files is in use (worst)", max(noticed), EDIT_LIMIT_SECONDS, "s"),
        Target(f"{most:,} files ready from a warm cache (best)", min(starts), START_LIMIT_SECONDS, "s"),
        Target(f"memory of {many:,} idle jobs", many_mb, MANY_LIMIT_MB, "MB"),
    )
    figures = {f"{size} files: percent": percent[size] for size in sizes}
    figures |= {"edit s": max(noticed), "start s": min(starts), f"{many} jobs: MB": many_mb}
    return Report("idle", (table, also), targets, figures, tuple(points))


def _memory_of(jobs: int) -> float:
    """Of a process of its own, in which a node has this many jobs and nothing is due."""
    command = [sys.executable, "-m", "bench.bench_idle", str(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _hold_jobs(count: int) -> None:
    from bench.serving import Node
    from evertick.model.job import Job
    from evertick.model.schedule import CronSpec

    specs = [CronSpec(f"{number % 60} {number // 60} 1 1 *", "UTC") for number in range(1_440)]
    node = Node([Job(f"job-{number:06}", schedules=(specs[number % len(specs)],)) for number in range(count)])
    try:
        time.sleep(QUICK_SETTLE_SECONDS if count == QUICK_MANY_JOBS else MANY_SETTLE_SECONDS)
        tune_collector()
        print(psutil.Process().memory_info().rss / 1e6)
    finally:
        node.close()


class _Server:
    def __init__(self, folder: Path, files: int) -> None:
        folder.mkdir()
        for number in range(files):
            minute, hour = number % 60, number // 60 % 24
            (folder / f"job-{number:05}.yaml").write_text(f'schedule: "{minute} {hour} 1 1 *"\ncommand: [/bin/true]\n')
        self._folder = folder
        self._log = folder.parent / f"{files}.log"
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("EVERTICK_")}
        environ = {**own, "EVERTICK_TIMEZONE": "UTC", "XDG_CACHE_HOME": str(self._folder)}
        words = [sys.executable, "-m", "evertick", "serve", str(self._folder), "--port", "0"]
        with self._log.open("wb") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, env=environ)

    def start_again(self) -> float:
        """Seconds until it is ready; it is closed again."""
        began = time.perf_counter()
        self._process = self._start()
        try:
            self.wait_until_ready()
            return time.perf_counter() - began
        finally:
            self.close()

    def edit(self, number: int) -> float:
        """Seconds from the write of a job file until the scheduler says that it uses it."""
        file = self._folder / f"job-{number:05}.yaml"
        seen, began = self._log.read_bytes().count(CHANGED), time.perf_counter()
        file.write_text(file.read_text() + "\n# edited\n" + f"description: edit {number}\n")
        while self._log.read_bytes().count(CHANGED) == seen:
            if time.perf_counter() - began > PATIENCE_SECONDS:
                raise RuntimeError(f"an edit of {file} was not noticed")
            time.sleep(0.01)
        return time.perf_counter() - began

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while READY not in self._log.read_bytes():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the scheduler did not start:\n{self._log.read_text()[-2_000:]}")
            time.sleep(0.01)

    def _processes(self) -> list[psutil.Process]:
        root = psutil.Process(self._process.pid)
        return [root, *root.children(recursive=True)]

    def cpu_seconds(self) -> float:
        return sum(sum(one.cpu_times()[:4]) for one in self._processes())

    def rss_mb(self) -> float:
        return sum(one.memory_info().rss for one in self._processes()) / 1e6

    def close(self) -> None:
        with suppress(psutil.Error):
            left = self._processes()[1:]
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
            for one in left:
                with suppress(psutil.NoSuchProcess):
                    one.kill()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


if __name__ == "__main__":
    _hold_jobs(int(sys.argv[1]))
