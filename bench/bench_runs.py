"""How many runs a second this machine starts and sees through, and how late a run starts when many are due at once."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

from bench.harness import Point, Report, Table, Target
from bench.serving import Node
from evertick.executors.local import LocalExecutor
from evertick.loop.effects import Launch
from evertick.loop.messages import BackfillJob
from evertick.model.instant import MILLISECOND, SECOND
from evertick.model.job import Job
from evertick.model.lifecycle import SUCCEEDED, Trigger
from evertick.model.policy import Overlap, OverlapKind
from evertick.model.report import LaunchRefused, RunFinished, RunStarted
from evertick.model.report import Report as RunReport
from evertick.model.run import RunKey
from evertick.model.work import Command, Step, Work

PROGRAM = "/bin/true"
SILENT = Job("silent", work=Work((Step("main", Command((PROGRAM,))),)))
PRINTING = Job("printing", work=Work((Step("main", Command(("/bin/echo", "hello"))),)))
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
AT_ONCE = 100
WAITING_MAX = 1_000
"""Runs launched at once: what the lanes hold without refusing any."""
SHARE_LIMIT = 50.0
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
        keeper = keeper_of(self.folder)
        rows = (keeper / "status").read_text().splitlines() if keeper is not None else []
        return next((int(row.split()[1]) * 1024 for row in rows if row.startswith("VmHWM")), 0)

    def close(self) -> None:
        self.executor.dismiss_keepers()
        self.executor.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def keeper_of(folder: Path) -> Path | None:
    """Where the kernel tells about the keeper of a state folder."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_text()
        except OSError:
            continue
        if str(folder) in words and "evertick.executors.keeper" in words:
            return place
    return None


def cpu_seconds(keeper: Path | None) -> float:
    """Of this process and its children, and of a keeper and its: what a busy machine does not change much."""
    ours = os.times()
    taken = ours.user + ours.system + ours.children_user + ours.children_system
    if keeper is not None:
        words = (keeper / "stat").read_text().rpartition(")")[2].split()
        taken += sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
    return taken


class WholeNode:
    """All of a node: entered in a SQLite ledger, launched, ended, and that in the ledger too."""

    def __init__(self) -> None:
        self._node = Node([SILENT])
        self._number = 0

    def run(self, runs: int) -> float:
        """Seconds from asking for so many runs until the ledger has how each of them ended."""
        self._number += 1
        before = self._node.ended
        # A stretch of time of its own for each round: a run's time is its name.
        instants = [(self._number * 100_000 + number) * SECOND for number in range(runs)]
        began = time.perf_counter()
        overlap = Overlap(OverlapKind.PARALLEL, WAITING_MAX)
        self._node.say(BackfillJob(f"round-{self._number}", SILENT.id, instants, overlap))
        self._node.wait(lambda: self._node.ended == before + runs)
        return time.perf_counter() - began

    def cpu_us(self, runs: int) -> float:
        """Of all that takes part, for one run."""
        keeper = keeper_of(self._node.folder)
        before = cpu_seconds(keeper)
        self.run(runs)
        return (cpu_seconds(keeper) - before) / runs * SECOND

    def close(self) -> None:
        self._node.close()


def bare(runs: int) -> float:
    """Seconds for a loop that starts a process, waits for it, and does nothing else."""
    began = time.perf_counter()
    for _ in range(runs):
        pid = os.posix_spawn(PROGRAM, [PROGRAM], ENVIRONMENT, setsid=True)
        os.waitpid(pid, 0)
    return time.perf_counter() - began


def run(*, quick: bool) -> Report:
    rounds, runs = (1, 20) if quick else (3, 2_000)
    bench, node = Bench(), WholeNode()
    try:
        node.run(min(runs, 100))
        began = time.perf_counter()
        bench.run(SILENT, 1)
        first_ms = (time.perf_counter() - began) * 1_000
        # In turns, so that a busy moment of the machine falls on both.
        taken: dict[str, list[float]] = {"bare": [], "silent": [], "printing": [], "served": []}
        p99: list[float] = []
        for _ in range(rounds):
            taken["bare"].append(runs / bare(runs))
            taken["silent"].append(runs / bench.run(SILENT, runs))
            taken["served"].append(runs / node.run(runs))
            taken["printing"].append(runs / bench.run(PRINTING, runs))
            bench.run(SILENT, AT_ONCE)
            p99.append(sorted(bench.late_us)[int(AT_ONCE * 0.99) - 1] / MILLISECOND)
        memory = bench.memory_bytes()
        served_us, before = node.cpu_us(runs), cpu_seconds(None)
        bare(runs)
        bare_us = (cpu_seconds(None) - before) / runs * SECOND
    finally:
        bench.close()
        node.close()
    rate = {name: statistics.median(rates) for name, rates in taken.items()}
    share, served = (
        statistics.median(ours / plain * 100 for ours, plain in zip(taken[name], taken["bare"], strict=True))
        for name in ("silent", "served")
    )
    late_ms = statistics.median(p99)
    figures = {
        "bare runs/s": rate["bare"],
        "silent runs/s": rate["silent"],
        "printing runs/s": rate["printing"],
        "served runs/s": rate["served"],
        "share percent": share,
        "served percent": served,
        "bare cpu us": bare_us,
        "served cpu us": served_us,
        "late p99 ms": late_ms,
        "first run ms": first_ms,
        "keeper MB": memory / 1e6,
    }
    table = Table(
        f"Runs of {PROGRAM}, {runs:,} at a time, median of {rounds} rounds",
        ("contender", "runs/s", "of the bare loop"),
        (
            ("bare loop: posix_spawn, waitpid", f"{rate['bare']:,.0f}", ""),
            ("evertick: asked for to ended, in a SQLite ledger", f"{rate['served']:,.0f}", f"{served:.0f} %"),
            ("evertick: launch to report, in the journal", f"{rate['silent']:,.0f}", f"{share:.0f} %"),
            ("evertick: the same, with a line of output", f"{rate['printing']:,.0f}", ""),
        ),
        (
            f"start after launch, p99 of {AT_ONCE} launched at once: {late_ms:.0f} ms, median of {rounds} rounds",
            f"processor time of one run, all that takes part: {served_us:,.0f} us; in the bare loop {bare_us:,.0f} us",
            f"first run, a keeper being started for it: {first_ms:.0f} ms; memory of the keeper: {memory / 1e6:.0f} MB",
        ),
    )
    targets = (
        Target("runs per second end to end, of the bare loop", served, SHARE_LIMIT, "percent", at_least=True),
        # On a busy machine the loop has one process to be scheduled and a node has four: this stays comparable.
        Target("runs per processor second, of the bare loop", bare_us / served_us * 100, SHARE_LIMIT, "percent", True),
    )
    names = {
        "bare": "bare loop: posix_spawn, waitpid",
        "served": "Evertick: request to end, in the ledger",
        "silent": "Evertick: launch to report, in the journal",
    }
    points = tuple(Point(label, runs, {"per_s": rate[name]}) for name, label in names.items())
    return Report("runs", (table,), targets, figures, points)
