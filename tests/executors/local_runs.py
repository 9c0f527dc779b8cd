"""Builders of local attempts, and waits for their outcomes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from evertick.executors.keeper.procfs import Snapshot, is_alive
from evertick.executors.local import LocalExecutor
from evertick.executors.logs import Logs
from evertick.loop.effects import Launch
from evertick.loop.messages import RunUnknown
from evertick.model.instant import SECOND
from evertick.model.job import Job
from evertick.model.lifecycle import Trigger
from evertick.model.report import LaunchRefused, Report, RunFinished, RunLost, RunStarted, StepsSeen
from evertick.model.run import RunKey
from evertick.model.run_variables import KEEPER
from evertick.model.steps import StepRecord, read_steps
from evertick.model.work import Command, Kind, Script, Step, Work
from evertick.settings.parts import KeeperSettings, LocalSettings
from tests.executors.contract import NINE, PATIENCE_SECONDS, Reports

SOON = LocalSettings(keeper=KeeperSettings(kill_after_us=SECOND // 4, idle_us=2 * SECOND))
"""A short grace, so that what ignores the polite end is not waited for long."""

OfAttempt = TypeVar("OfAttempt", RunStarted, RunFinished, RunLost, RunUnknown, LaunchRefused)
"""A report about one attempt."""


def sh(text: str, name: str = "main", **known) -> Step:
    return Step(name, Command((text,), is_shell=True), **known)


def argv(*words: str, name: str = "main", **known) -> Step:
    return Step(name, Command(words), **known)


def job_of(*steps: Step, id: str = "report", **known) -> Job:  # noqa: A002 - the word of the model
    return Job(id, work=Work(steps, **known))


def key_of(number: int = 0, job_id: str = "report") -> RunKey:
    return RunKey(job_id, NINE + number * SECOND)


def launch(job: Job, key: RunKey | None = None, attempt: int = 1, fence: int = 7, params: str = "") -> Launch:
    return Launch(key or RunKey(job.id, NINE), attempt, fence, job, Trigger.SCHEDULER, params, None)


class Place:
    """A state folder, and the executors opened on it one after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = Logs(folder)
        self.reports = Reports()
        self._opened: list[LocalExecutor] = []

    def open(self, settings: LocalSettings = SOON, *, lives_by_lease: bool = False, **known) -> LocalExecutor:
        executor = LocalExecutor(self.folder, settings, **known)
        if lives_by_lease:
            executor.live_by_lease()
        executor.open(self.reports)
        self._opened.append(executor)
        return executor

    def close(self) -> None:
        for executor in self._opened:
            executor.stop_all("the test is over")
        for executor in self._opened:
            executor.close()
        for pid in self.keepers():
            kill(pid)
        for pid in self.left_running():
            kill(pid)

    def left_running(self) -> list[int]:
        """Processes of attempts whose keeper is gone; a watchdog reads the process table as long as there are any."""
        identities = [path.read_text() for path in self.folder.glob("keeper-*/keeper.id")]
        marks = [frozenset({f"{KEEPER}={identity}".encode()}) for identity in identities]
        table = Snapshot()
        return [stat.pid for stat in table.alive if any(mark <= table.marks_of(stat.pid) for mark in marks)]

    def run(self, job: Job, **known) -> RunFinished:
        """Carry a job out and answer how it ended."""
        executor = self._opened[-1] if self._opened else self.open()
        order = launch(job, **known)
        executor.launch(order)
        return self.end_of(order.key, order.attempt)

    def end_of(self, key: RunKey, attempt: int = 1) -> RunFinished:
        return self._first(key, attempt, RunFinished)

    def start_of(self, key: RunKey, attempt: int = 1) -> RunStarted:
        return self._first(key, attempt, RunStarted)

    def loss_of(self, key: RunKey, attempt: int = 1) -> RunLost:
        return self._first(key, attempt, RunLost)

    def refusal_of(self, key: RunKey, attempt: int = 1) -> LaunchRefused:
        return self._first(key, attempt, LaunchRefused)

    def _first(self, key: RunKey, attempt: int, kind: type[OfAttempt]) -> OfAttempt:
        def fitting(said: Sequence[Report]) -> list[OfAttempt]:
            return [one for one in said if isinstance(one, kind) and (one.key, one.attempt) == (key, attempt)]

        return fitting(self.reports.wait_until(lambda said: bool(fitting(said))))[0]

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        """How the steps stood when it was last said."""
        said = [one.steps for one in self.reports if isinstance(one, StepsSeen | RunFinished | RunLost)]
        return read_steps(next((text for text in reversed(said) if text), ""))

    def log(self, key: RunKey | None = None, step: str = "main", attempt: int = 1) -> bytes:
        """All of a log that is complete."""
        data, offset = b"", 0
        while True:
            chunk = self.logs.read_log(key or RunKey("report", NINE), attempt, step, offset)
            data, offset = data + chunk.data, chunk.next_offset
            if chunk.is_complete or not chunk.data:
                return data

    def keepers(self) -> list[int]:
        """The keepers that were started for this folder and still run."""
        found = []
        for name in os.listdir("/proc"):
            try:
                words = Path("/proc", name, "cmdline").read_bytes().split(b"\0") if name.isdigit() else []
            except OSError:
                continue
            is_ours = any(word.startswith(os.fsencode(self.folder) + b"/keeper-") for word in words)
            if b"evertick.executors.keeper" in words and is_ours:
                found.append(int(name))
        return found

    def journal(self, number: int = 0) -> str:
        folder = self.folder / f"keeper-{number}"
        return "".join(path.read_text() for path in sorted(folder.glob("keeper*.jsonl")))


def kill(pid: int) -> None:
    """As hard as can be, and wait until it is gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    until(lambda: not is_alive(pid), f"process {pid} to be gone")


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def written(path: Path) -> str:
    """The text of a file, once it is there and ends with a line feed."""
    until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path} to be written")
    return path.read_text().strip()


def python(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Another process of the same Python."""
    import sys

    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def script(text: str, name: str = "main", **known) -> Step:
    return Step(name, Script(text), **known)


def of_kind(kind: Kind, name: str = "main", **known) -> Step:
    return Step(name, kind, **known)
