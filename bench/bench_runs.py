"""How many runs a second this machine starts and sees through, and how late a run starts when many are due at once."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

from bench.harness import Report, Table, Target
from evertick.executors.local import LocalExecutor
from evertick.loop.effects import Launch
from evertick.model.instant import MILLISECOND, SECOND
from evertick.model.job import Job
from evertick.model.lifecycle import SUCCEEDED, Trigger
from evertick.model.report import LaunchRefused, RunFinished, RunStarted
from evertick.model.report import Report as RunReport
from evertick.model.run import RunKey
from evertick.model.work import Command, Step, Work

PROGRAM = "/bin/true"
SILENT = Job("silent", work=Work((Step("main", Command((PROGRAM,))),)))
PRINTING = Job("printing", work=Work((Step("main", Command(("/bin/echo", "hello"))),)))
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
AT_ONCE = 100
SHARE_LIMIT = 60.0
"""Percent of what the same machine does in a bare loop, in the same minute."""


class Bench:
    """An executor on a folder of its own, and what it has reported."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="evertick-bench-"))
        self.executor = LocalExecutor(self.folder)
        self.late_us: list[int] = []
        self._launched_at: dict[RunKey, int] = {}
        self._number = 0
        self._missing = 0
        self._trouble: RunReport | None = None
        self._changed = threading.Condition()
        self.executor.open(self._heard)

    def _heard(self, report: RunReport) -> None:
        if isinstance(report, RunStarted):
            self.late_us.append(report.at - self._launched_at[report.key])
        elif isinstance(report, RunFinished):
            self._missing -= 1
            if not self._missing or report.state is not SUCCEEDED:
                self._wake(None if report.state is SUCCEEDED else report)
        elif isinstance(report, LaunchRefused):
            self._wake(report)

    def _wake(self, trouble: RunReport | None) -> None:
        with self._changed:
            self._trouble = self._trouble or trouble
            self._changed.notify_all()

    def run(self, job: Job, runs: int) -> float:
        """Seconds until all of them have been launched, ended, noted in the journal and reported."""
        self._missing = runs
        self.late_us.clear()
        began = time.perf_counter()
        for _ in range(runs):
            self._number += 1
            key = RunKey(job.id, self._number * SECOND)
            self._launched_at[key] = time.time_ns() // 1_000
            self.executor.launch(Launch(key, 1, 1, job, Trigger.SCHEDULER, "", None))
        with self._changed:
            self._changed.wait_for(lambda: not self._missing or self._trouble)
        if self._trouble is not None:
            raise AssertionError(f"what fails is not worth timing: {self._trouble}")
        return time.perf_counter() - began

    def memory_bytes(self) -> int:
        """What the keeper has, and has ever had."""
        for name in os.listdir("/proc"):
            try:
                words = Path("/proc", name, "cmdline").read_text() if name.isdigit() else ""
                if str(self.folder) in words and "evertick.executors.keeper" in words:
                    rows = Path("/proc", name, "status").read_text().splitlines()
                    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("VmHWM"))
            except OSError:
                continue
        return 0

    def close(self) -> None:
        self.executor.dismiss_keepers()
        self.executor.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def bare(runs: int) -> float:
    """Seconds for a loop that starts a process, waits for it, and does nothing else."""
    began = time.perf_counter()
    for _ in range(runs):
        pid = os.posix_spawn(PROGRAM, [PROGRAM], ENVIRONMENT, setsid=True)
        os.waitpid(pid, 0)
    return time.perf_counter() - began


def run(*, quick: bool) -> Report:
    rounds, runs = (3, 500) if quick else (7, 2_000)
    bench = Bench()
    try:
        began = time.perf_counter()
        bench.run(SILENT, 1)
        first_ms = (time.perf_counter() - began) * 1_000
        # In turns, so that a busy moment of the machine falls on both.
        taken: dict[str, list[float]] = {"bare": [], "silent": [], "printing": []}
        p99: list[float] = []
        for _ in range(rounds):
            taken["bare"].append(runs / bare(runs))
            taken["silent"].append(runs / bench.run(SILENT, runs))
            taken["printing"].append(runs / bench.run(PRINTING, runs))
            bench.run(SILENT, AT_ONCE)
            p99.append(sorted(bench.late_us)[int(AT_ONCE * 0.99) - 1] / MILLISECOND)
        memory = bench.memory_bytes()
    finally:
        bench.close()
    rate = {name: statistics.median(rates) for name, rates in taken.items()}
    share = statistics.median(
        silent / plain * 100 for silent, plain in zip(taken["silent"], taken["bare"], strict=True)
    )
    late_ms = statistics.median(p99)
    figures = {
        "bare runs/s": rate["bare"],
        "silent runs/s": rate["silent"],
        "printing runs/s": rate["printing"],
        "share percent": share,
        "late p99 ms": late_ms,
        "first run ms": first_ms,
        "keeper MB": memory / 1e6,
    }
    table = Table(
        f"Runs of {PROGRAM}, {runs:,} at a time, median of {rounds} rounds",
        ("contender", "runs/s", "of the bare loop"),
        (
            ("bare loop: posix_spawn, waitpid", f"{rate['bare']:,.0f}", ""),
            ("evertick: launch to report, in the journal", f"{rate['silent']:,.0f}", f"{share:.0f} %"),
            ("evertick: the same, with a line of output", f"{rate['printing']:,.0f}", ""),
        ),
        (
            f"start after launch, p99 of {AT_ONCE} launched at once: {late_ms:.0f} ms, median of {rounds} rounds",
            f"first run, a keeper being started for it: {first_ms:.0f} ms; memory of the keeper: {memory / 1e6:.0f} MB",
        ),
    )
    targets = (Target("runs per second, of the bare loop", share, SHARE_LIMIT, "percent", at_least=True),)
    return Report("runs", (table,), targets, figures)
