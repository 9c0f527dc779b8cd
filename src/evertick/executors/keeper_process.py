"""The process that is the keeper of a folder: started when there is none, and ended by force when it hangs."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from evertick.executors.settings import KeeperSettings

MODULE: Final = "evertick.executors.keeper"
LOCK: Final = "keeper.lock"
"""Held by the keeper of a folder for as long as it lives; its text is the number of the process."""
KILL_SECONDS = 10.0
"""A process that is killed is gone by then, unless it hangs in the kernel."""
PACKAGE_ROOT = str(Path(__file__).parents[2])


class KeeperProcess:
    def __init__(self, folder: Path, logs: Path, settings: KeeperSettings, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._logs = logs
        self._settings = settings
        self._environ = environ
        self._children: list[int] = []

    def start(self, timeout: float) -> bytes:
        """What it says within that time: that it is ready, or that there is one; nothing when it says nothing."""
        reader, writer = os.pipe()
        arguments = ("--folder", str(self._folder), "--logs", str(self._logs), "--settings", self._settings.to_text())
        complaints = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-P", "-m", MODULE, *arguments],
                {**self._environ, "PYTHONPATH": PACKAGE_ROOT},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, writer, 1),
                    (os.POSIX_SPAWN_OPEN, 2, str(self._folder / "keeper.log"), complaints, 0o600),
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
                ended = pid  # somebody else has
            if ended:
                self._children.remove(pid)

    def locked_by(self) -> int | None:
        """The keeper that has the folder, if it has said which process it is."""
        try:
            return int((self._folder / LOCK).read_text())
        except (OSError, ValueError):
            return None

    def kill(self, pid: int) -> bool:
        """End that process, if it is the keeper of this folder; whether it is gone. What it runs is not touched."""
        try:
            process = os.pidfd_open(pid)
        except OSError:
            return not _is_there(pid)
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


def _is_readable(fd: int, timeout: float) -> bool:
    poll = select.poll()  # not select(): it takes no descriptor above 1,023
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout * 1_000))


def _is_there(pid: int) -> bool:
    return Path("/proc", str(pid)).exists()
