"""Fleets as processes that a test can start, freeze, kill and start again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from evertick.errors import ExecutorUnavailable
from evertick.executors.fleet.admin import list_members
from evertick.executors.fleet.executor import FleetExecutor
from evertick.executors.fleet.settings import Certificates, fleet_at
from evertick.executors.keeper.procfs import is_alive, stat_of
from evertick.executors.logs import Logs
from evertick.model.instant import SECOND
from evertick.model.report import Report
from evertick.model.run import RunKey
from evertick.settings.parts import FleetSettings
from tests.cli.invoke import completed
from tests.executors.contract import Reports
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 180.0
SHORT_US = 10 * SECOND
"""A lease that a test waits for; wherever a lease must not run out, it is longer than any machine is slow."""
LONG_US = 300 * SECOND

T = TypeVar("T")


def wait_for(look: Callable[[], T | bool | None], what: str) -> T:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
    return found  # type: ignore[return-value]


class Process:
    """A command of ours with its children."""

    def __init__(self, *words: str, log: Path, env: Mapping[str, str] | None = None) -> None:
        self._log = log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "evertick", *words],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdout=self._log,
            stderr=self._log,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def child(self) -> int:
        """The process that it supervises, once it is there."""
        return wait_for(lambda: next(iter(children_of(self.pid)), None), f"a child of {self.pid}")

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Until it ends by itself."""
        code = self.process.wait(PATIENCE_SECONDS)
        self._log.close()
        return code

    def kill(self) -> None:
        """Everything of it at once, as when a machine loses its power."""
        family = [self.pid, *children_of(self.pid)]
        for pid in family:
            kill(pid)
        self.process.wait(PATIENCE_SECONDS)
        self._log.close()


class LocalFleet:
    """One fleet: Dask's scheduler and some members, with all that they leave behind in one folder."""

    def __init__(self, folder: Path, *, is_secure: bool = False) -> None:
        self.folder = folder
        self.port = free_port()
        self._is_secure = is_secure
        self._hub = folder / "hub"
        self.url = f"{'tls' if is_secure else 'tcp'}://127.0.0.1:{self.port}"
        self.scheduler: Process | None = None
        self.members: dict[str, Process] = {}
        self._executors: list[FleetExecutor] = []

    def start(self) -> None:
        how = ("--join-port", str(free_port())) if self._is_secure else ("--insecure",)
        words = ("fleet", "start", "--url", self.url, "--folder", str(self._hub), *how)
        self.scheduler = Process(*words, log=self.folder / "scheduler.log")

    def join(
        self,
        name: str,
        *more: str,
        url: str | None = None,
        lease_us: int = LONG_US,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        lease = () if "--lease" in more else ("--lease", str(lease_us / SECOND))
        words = ("fleet", "join", url or self.url, "--name", name, "--folder", str(self.folder / name), *lease, *more)
        how = ("--token", self.token()) if self._is_secure else ("--insecure",)
        member = Process(*words, *how, log=self.folder / f"{name}.log", env=env)
        self.members[name] = member
        return member

    def open(
        self,
        reports: Callable[[Report], None],
        *names: str,
        node: str = "node",
        url: str | None = None,
        lease_us: int = LONG_US,
    ) -> FleetExecutor:
        """An executor that sees these members."""
        settings = fleet_at(url or self.url, self.certificates, FleetSettings(lease_us=lease_us, silence_us=2 * SECOND))
        executor = FleetExecutor(self.folder / node, settings)
        executor.open(reports)
        self._executors.append(executor)
        self.wait_until_ready(executor, *names)
        return executor

    @property
    def certificates(self) -> Certificates | None:
        """Those of a scheduler, where there are any."""
        return Certificates.in_folder(self.scheduler_certs) if self._is_secure else None

    @property
    def scheduler_certs(self) -> Path:
        return self._hub / "scheduler"

    def token(self, *more: str) -> str:
        """An invitation, once the hub has made its authority."""
        wait_for(lambda: (self.scheduler_certs / "cert.pem").exists(), "the hub's certificates")
        made = completed("fleet", "token", "--folder", str(self._hub), "-o", "name", *more)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def wait_until_ready(self, executor: FleetExecutor, *names: str) -> None:
        wait_for(lambda: set(names) <= {one.name for one in executor.members() if one.is_healthy}, f"{names}")

    def wait_for_all(self) -> None:
        """Until whoever asks the fleet is told of everyone who was to join."""
        settings = fleet_at(self.url, self.certificates)

        def have_all_joined() -> bool:
            try:
                return {one.name for one in list_members(settings)} == set(self.members)
            except ExecutorUnavailable:
                return False  # the hub takes longer to start than a question is asked for

        wait_for(have_all_joined, "all to join")

    def logs(self, node: str = "node") -> Logs:
        return Logs(self.folder / node)

    def log_of(self, key: RunKey, step: str = "main", attempt: int = 1, node: str = "node") -> bytes:
        """A log, once it is whole on this side."""
        chunk = wait_for(
            lambda: (found := self.logs(node).read_log(key, attempt, step)).is_complete and found, f"the log of {key}"
        )
        return chunk.data

    def keeper_of(self, name: str) -> int:
        found = keepers(self.folder / name)
        assert len(found) == 1, found
        return found[0]

    def close(self) -> None:
        for executor in self._executors:
            executor.close()
        for process in (*self.members.values(), self.scheduler):
            if process is not None:
                process.kill()
        for pid in keepers(self.folder):
            end_family(pid)


def keepers(folder: Path) -> list[int]:
    """The keepers of all members under a folder."""
    mark = os.fsencode(folder) + b"/"
    found = []
    for name in os.listdir("/proc"):
        try:
            words = Path("/proc", name, "cmdline").read_bytes().split(b"\0") if name.isdigit() else []
        except OSError:
            continue
        if b"evertick.executors.keeper" in words and any(mark in word + b"/" for word in words):
            found.append(int(name))
    # A process of a job that is about to begin has the words of its keeper.
    parents = {pid: stat.parent for pid in found if (stat := stat_of(pid)) is not None}
    return [pid for pid, parent in parents.items() if parent not in parents]


def children_of(pid: int) -> list[int]:
    """The processes that a command keeps going, and what their main threads started; not keepers, nor their runs."""
    direct = [child for file in Path(f"/proc/{pid}/task").glob("*/children") for child in _read_children(file)]
    return direct + [one for child in direct for one in _descendants_of(child)]


def _descendants_of(pid: int) -> list[int]:
    direct = _read_children(Path(f"/proc/{pid}/task/{pid}/children"))
    return direct + [one for child in direct for one in _descendants_of(child)]


def _read_children(file: Path) -> list[int]:
    try:
        return [int(word) for word in file.read_text().split()]
    except OSError:
        return []


def end_family(pid: int) -> None:
    for one in (*children_of(pid), pid):
        kill(one)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    wait_for(lambda: not is_alive(pid), f"process {pid} to be gone")


class Heard(Reports):
    """Reports about attempts; what is said of members is left out."""

    def __call__(self, report: Report) -> None:
        if hasattr(report, "key"):
            super().__call__(report)
