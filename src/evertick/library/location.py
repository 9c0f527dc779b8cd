"""Which name and folder a scheduler inside a program has, where several processes share a ledger."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import time
from pathlib import Path

from evertick.errors import SettingsError
from evertick.location import Location
from evertick.store import Store
from evertick.stores.lock import FolderLock

SLOTS_MAX = 256


def is_anyone_running(location: Location, store: Store) -> bool:
    """Whether a scheduler works on the ledger, in this process or in another one."""
    from evertick.operations.submission import live_nodes

    now = time.time_ns() // 1_000
    lock = location.lock_path
    if lock is None:
        return not location.is_memory and bool(live_nodes(store, now))
    return FolderLock(lock).is_held_by_anyone(now)


class InstanceSlot:
    """A name that no other process of this machine has at the same time, and a folder that goes with it.

    Several processes may share a ledger and a state folder, such as the workers of a web server. Each takes the first
    free slot; the kernel frees it when its process ends, and the next process that takes it finds what was left there.
    """

    def __init__(self, node: str, folder: Path | None, lock: int | None = None) -> None:
        self.node, self.folder, self._lock = node, folder, lock

    @classmethod
    def take(cls, place: Location, node: str | None) -> InstanceSlot:
        name = node or socket.gethostname()
        if not place.is_shared:
            return cls(name, place.state_folder)
        if place.state_folder is None:
            # Nothing of it is left when it ends, so that its name need not be known again; but no other may have it:
            # a node that finds runs under its own name takes them for its own.
            return cls(f"{name}-{os.getpid()}-{secrets.token_hex(2)}", None)
        for number in range(1, SLOTS_MAX + 1):
            folder = place.state_folder / "seats" / f"{name}-{number}"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                continue
            return cls(f"{name}-{number}", folder, fd)
        raise SettingsError(f"{SLOTS_MAX} processes already use {place.state_folder}. Give this one its own folder.")

    def leave(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
