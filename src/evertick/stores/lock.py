"""Which process owns a folder: a lock file with a heartbeat, which two processes cannot take at once.

    {"pid": 12345, "hostname": "worker-1", "startedAt": "...", "heartbeat": "...", "process": "..."}

`process` tells a process from a later one with the same pid. Reading, judging and replacing the file happen under a
kernel lock on its folder, so that of two starters that find a stale file only one replaces it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final

from evertick.errors import SchedulerLockError
from evertick.model.instant import SECOND, Instant, from_text, to_text
from evertick.stores.disk import FOLDER_MODE, write_atomically

HEARTBEAT_US: Final = 10 * SECOND
STALE_US: Final = 60 * SECOND


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a lock file, and its last heartbeat."""

    pid: int
    hostname: str
    started_at: Instant
    heartbeat_at: Instant
    process: str = ""
    """Boot and start time of the process; empty if the system does not provide them."""

    def is_same(self, other: Owner) -> bool:
        return replace(self, heartbeat_at=0) == replace(other, heartbeat_at=0)

    def is_live(self, now: Instant) -> bool:
        """Whether this owner may be running. A heartbeat from the future counts: its clock may be ahead."""
        if self.hostname == socket.gethostname() and not _is_running(self.pid, self.process):
            return False
        return now - self.heartbeat_at < STALE_US

    def to_bytes(self) -> bytes:
        document = {
            "pid": self.pid,
            "hostname": self.hostname,
            "startedAt": to_text(self.started_at),
            "heartbeat": to_text(self.heartbeat_at),
            "process": self.process,
        }
        return (json.dumps(document, indent=2) + "\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Owner:
        """ValueError if that is not a lock file."""
        document = json.loads(content)
        try:
            return cls(
                int(document["pid"]),
                str(document["hostname"]),
                from_text(document["startedAt"]),
                from_text(document["heartbeat"]),
                str(document.get("process", "")),
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("it does not have the form of a lock file") from error


class FolderLock:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._mine: Owner | None = None

    @property
    def is_held(self) -> bool:
        return self._mine is not None

    def is_held_by_anyone(self, now: Instant) -> bool:
        """Whether a process that may be running has it; changes nothing."""
        owner = self._owner()
        return owner is not None and owner.is_live(now)

    def acquire(self, now: Instant) -> FolderLock:
        """Take the folder, or raise `SchedulerLockError` that says who has it."""
        mine = Owner(os.getpid(), socket.gethostname(), now, now, process_identity(os.getpid()))
        with self._alone():
            owner = self._owner()
            if owner is not None and owner.is_live(now):
                raise SchedulerLockError(
                    f"{self.path} is held by process {owner.pid} on {owner.hostname}, which has been running since "
                    f"{to_text(owner.started_at)} and was last seen at {to_text(owner.heartbeat_at)}. Stop that one, "
                    "or use another folder. The lock of a dead process is released automatically, on another "
                    f"machine after {STALE_US // SECOND} seconds."
                )
            write_atomically(self.path, mine.to_bytes())
        self._mine = mine
        return self

    def heartbeat(self, now: Instant) -> None:
        """Say that the owner is alive; raises `SchedulerLockError` if the folder was taken over meanwhile."""
        mine = self._mine
        if mine is None:
            raise SchedulerLockError(f"{self.path} is not held by this process. Acquire it first.")
        if 0 <= now - mine.heartbeat_at < HEARTBEAT_US:
            return
        with self._alone():
            owner = self._owner()
            if owner is not None and not owner.is_same(mine) and owner.process != UNREADABLE:
                self._mine = None
                raise SchedulerLockError(
                    f"{self.path} was taken over by process {owner.pid} on {owner.hostname} at "
                    f"{to_text(owner.started_at)}, after no heartbeat for {STALE_US // SECOND} seconds. "
                    "This process must stop scheduling; start it again if it is the one that should run."
                )
            self._mine = replace(mine, heartbeat_at=now)
            write_atomically(self.path, self._mine.to_bytes())

    def release(self) -> None:
        """Release the folder; does nothing if this process does not own it."""
        mine, self._mine = self._mine, None
        if mine is None:
            return
        with self._alone():
            owner = self._owner()
            if owner is not None and owner.is_same(mine):
                self.path.unlink(missing_ok=True)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock out other processes; the kernel releases this lock when the process ends."""
        folder = self.path.parent
        try:
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                yield
            finally:
                os.close(fd)
        except OSError as error:
            raise SchedulerLockError(
                f"{self.path} cannot be used: {error.strerror}. Check the owner of the folder and the space on the "
                "disk, and that it is not on a network."
            ) from error

    def _owner(self) -> Owner | None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return Owner.from_bytes(content)
        except ValueError:
            # The owner is unknown; it is as fresh as the file.
            written_at = self.path.stat().st_mtime_ns // 1_000
            return Owner(0, "an unknown machine", written_at, written_at, UNREADABLE)


UNREADABLE: Final = "unreadable"


def process_identity(pid: int) -> str:
    """Distinguishes a process from a later one with the same pid; empty if it does not exist or cannot be read."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        fields = _stat_fields(pid)
        return f"{boot}/{fields[19]}"  # the start time
    except (OSError, IndexError):
        return ""


def _stat_fields(pid: int) -> list[str]:
    """The fields after the process name, which is in parentheses and may contain anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _is_running(pid: int, process: str) -> bool:
    if pid <= 0:
        return False  # to the kernel, that would mean a whole group
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's process, but running
    except OverflowError:
        return False
    with suppress(OSError, IndexError):
        if _stat_fields(pid)[0] in ("Z", "X"):
            return False  # it has ended, and its parent has not noticed yet: it schedules nothing any more
    present = process_identity(pid)
    return not (process and present) or process == present
