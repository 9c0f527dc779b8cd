"""What a scheduler with nothing to do costs: CPU of all its processes against the number of job files, and memory."""

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

SIZES, QUICK_SIZES = (100, 1_000, 2_000, 10_000), (5, 10)
SETTLE_SECONDS, QUICK_SETTLE_SECONDS = 20.0, 0.5
"""The first scan, the cache of definitions and the first entries are no idle time."""
SECONDS, QUICK_SECONDS = 60.0, 0.5
"""One scan of the folder is due in a minute."""
PATIENCE_SECONDS = 300.0
LIMIT_PERCENT = {2_000: 0.5 / 120 * 100, 10_000: 0.2}
READY = b"Ctrl-C to stop"


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
        finally:
            for server in servers:
                server.close()
    percent = {size: cpu / seconds * 100 for size, cpu in zip(sizes, used, strict=True)}
    table = Table(
        f"Idle for {seconds:g} s: the scheduler, the API and the page, jobs that are due once a year",
        ("job files", "percent of a core", "memory MB"),
        tuple((f"{size:,}", f"{percent[size]:.2f}", f"{rss:,.0f}") for size, rss in zip(sizes, memory, strict=True)),
        (f"{DAGU}: {DAGU_IDLE_PERCENT:.2f} percent with {DAGU_IDLE_FILES:,} files", DAGU_NOTE),
    )
    points = [
        Point("Evertick", size, {"percent": percent[size], "rss_mb": rss})
        for size, rss in zip(sizes, memory, strict=True)
    ]
    points.append(Point(DAGU, DAGU_IDLE_FILES, {"percent": DAGU_IDLE_PERCENT}))
    targets = tuple(
        Target(f"idle with {size:,} job files", percent[size], limit, "percent of a core")
        for size, limit in LIMIT_PERCENT.items()
        if size in percent
    )
    return Report("idle", (table,), targets, {f"{size} files: percent": percent[size] for size in sizes}, tuple(points))


class _Server:
    def __init__(self, folder: Path, files: int) -> None:
        folder.mkdir()
        for number in range(files):
            minute, hour = number % 60, number // 60 % 24
            (folder / f"job-{number:05}.yaml").write_text(f'schedule: "{minute} {hour} 1 1 *"\ncommand: [/bin/true]\n')
        own = {name: value for name, value in os.environ.items() if not name.startswith("EVERTICK_")}
        words = [sys.executable, "-m", "evertick", "serve", str(folder), "--port", "0"]
        self._log = folder.parent / f"{files}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                words, stdout=log, stderr=log, env={**own, "EVERTICK_TIMEZONE": "UTC", "XDG_CACHE_HOME": str(folder)}
            )

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while READY not in self._log.read_bytes():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the scheduler did not start:\n{self._log.read_text()[-2_000:]}")
            time.sleep(0.05)

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
