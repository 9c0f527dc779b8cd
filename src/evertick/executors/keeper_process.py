"""The process of a keeper, seen from outside: start it, find out whether it answers, kill it."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from evertick.executors import protocol
from evertick.settings.parts import KeeperSettings

MODULE: Final = "evertick.executors.keeper"
LOCK: Final = "keeper.lock"
"""Locked by the keeper of a folder as long as it lives; the file holds its pid."""
KILL_SECONDS = 10.0
"""A killed process is gone by then, unless it hangs in the kernel."""
ANSWER_SECONDS = 5.0
PACKAGE_ROOT = str(Path(__file__).parents[2])


class KeeperProcess:
    def __init__(self, folder: Path, logs: Path, settings: KeeperSettings, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._logs = logs
        self._settings = settings
        self._environ = environ
        self._children: list[int] = []

    def start(self, timeout: float) -> bytes:
        """What it prints within that time: `ready`, or `taken` when the folder has a keeper; else nothing."""
        reader, writer = os.pipe()
        arguments = ("--folder", str(self._folder), "--logs", str(self._logs), "--settings", self._settings.to_text())
        log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-P", "-m", MODULE, *arguments],
                {**self._environ, "PYTHONPATH": PACKAGE_ROOT},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, writer, 1),
                    (os.POSIX_SPAWN_OPEN, 2, str(self._folder / "keeper.log"), log_flags, 0o600),
                ],
                setsid=True,
                setsigmask=(),
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._children.append(pid)
        try:
            return os.read(reader, 64) if _is_readable(reader, timeout) else b""
        finally:
            os.close(reader)
            self.reap()

    def reap(self) -> None:
        for pid in tuple(self._children):
            try:
                ended, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                ended = pid  # reaped elsewhere in this program
            if ended:
                self._children.remove(pid)

    def locked_by(self) -> int | None:
        """The pid of the keeper that holds the folder, if it has written it."""
        try:
            return int((self._folder / LOCK).read_text())
        except (OSError, ValueError):
            return None

    def kill(self, pid: int) -> bool:
        """Kill that process if it is this folder's keeper; whether it is gone. Its runs are not touched."""
        try:
            process = os.pidfd_open(pid)
        except OSError:
            return not Path("/proc", str(pid)).exists()
        try:
            words = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
            if os.fsencode(MODULE) not in words or os.fsencode(self._folder) not in words:
                return False
            signal.pidfd_send_signal(process, signal.SIGKILL)
            return _is_readable(process, KILL_SECONDS)
        except OSError:
            return False
        finally:
            os.close(process)
            self.reap()


class KeeperProbe(NamedTuple):
    name: str
    pid: int | None
    problem: str
    """Why it did not answer; empty: it did."""


def keeper_folders(state_folder: Path) -> list[Path]:
    """`keeper-0`, `keeper-1` and so on, also those of an earlier setting with more keepers."""
    return sorted(path for path in state_folder.glob("keeper-*") if path.name[7:].isdigit())


def probe_keepers(state_folder: Path, timeout: float = ANSWER_SECONDS) -> Iterator[KeeperProbe]:
    """Connect to each keeper that runs; a keeper that has exited because it was idle is left out."""
    for folder in keeper_folders(state_folder):
        if (folder / LOCK).exists() and is_locked(folder / LOCK):
            yield _probe(folder, timeout)


def _probe(folder: Path, timeout: float) -> KeeperProbe:
    deadline, buffer = time.monotonic() + timeout, b""
    pid: int | None = None
    try:
        with protocol.connect(folder) as sock:
            pid = protocol.peer_pid(sock)
            sock.settimeout(timeout)
            sock.sendall(protocol.encode(protocol.HELLO, protocol.VERSION))
            while b"\n" not in buffer:
                sock.settimeout(max(deadline - time.monotonic(), 0.001))
                data = sock.recv(65_536)
                if not data:
                    return KeeperProbe(folder.name, pid, "it closed the connection")
                buffer += data
    except TimeoutError:
        return KeeperProbe(folder.name, pid, f"it has not answered for {timeout:g} s")
    except OSError as error:
        return KeeperProbe(folder.name, pid, f"it accepts no connection: {error.strerror or error}")
    return KeeperProbe(folder.name, pid, "")


def try_lock(path: Path) -> int | None:
    """The open, locked file; None when another process has locked it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def is_locked(path: Path) -> bool:
    lock = try_lock(path)
    if lock is None:
        return True
    os.close(lock)
    return False


def _is_readable(fd: int, timeout: float) -> bool:
    poll = select.poll()  # not select(): it takes no descriptor above 1,023
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout * 1_000))
