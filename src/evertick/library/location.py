"""Where a scheduler inside a program keeps its ledger, and which instance slot it holds there."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from evertick.errors import SettingsError
from evertick.settings.parts import STATE_FOLDER
from evertick.store import Store
from evertick.stores import lock_path, open_store
from evertick.stores.lock import FolderLock

__all__ = ["MEMORY", "InstanceSlot", "Location", "find_place", "open_store"]

MEMORY = "memory:"
SEATS_MAX = 256


@dataclass(frozen=True, slots=True)
class Location:
    store_url: str
    folder: Path | None = None
    """Of job files; None: all jobs are functions."""
    state: Path | None = None
    """Where to keep what outlives the process; None: beside the jobs, or beside the ledger."""

    @property
    def is_memory(self) -> bool:
        return self.store_url.startswith(MEMORY)

    @property
    def is_shared(self) -> bool:
        """Whether several nodes may work on the ledger at once."""
        return not self.is_memory and lock_path(self.store_url) is None

    @property
    def state_folder(self) -> Path | None:
        """Where this machine keeps what outlives the process; None: nothing does."""
        if self.state is not None or self.folder is not None:
            return self.state or (self.folder or Path()) / STATE_FOLDER
        lock = lock_path(self.store_url)
        # Beside a SQLite file, or inside a folder of files.
        return None if lock is None else lock.parent / STATE_FOLDER

    def is_anyone_running(self, store: Store) -> bool:
        """Whether a scheduler is at work on the ledger, in this process or in another one."""
        from evertick.operations.submission import live_nodes

        now = time.time_ns() // 1_000
        lock = lock_path(self.store_url)
        if lock is None:
            return not self.is_memory and bool(live_nodes(store, now))
        return FolderLock(lock).is_held_by_anyone(now)


def find_place(directory: str | Path | None, store: str | None, state: Path | None = None) -> Location:
    folder = None if directory is None else Path(directory)
    if store is not None and "://" not in store and not store.startswith((MEMORY, "files:", "sqlite:")):
        raise SettingsError(f"the store {store!r} is not a URL. Write for example sqlite:///evertick.db.")
    if store is None:
        if folder is None:
            return Location(MEMORY)
        store = f"sqlite:///{((state or folder / STATE_FOLDER) / 'ledger.db').absolute()}"
    return Location(store, folder, state)


class InstanceSlot:
    """A name that no other process of this machine has at the same time, and a folder that goes with it.

    Several processes may share a ledger and a state folder, such as the workers of a web server. Each takes the first
    free seat; the kernel frees it when its process ends, and whoever takes it next finds what that one has left.
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
        for number in range(1, SEATS_MAX + 1):
            folder = place.state_folder / "seats" / f"{name}-{number}"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                continue
            return cls(f"{name}-{number}", folder, fd)
        raise SettingsError(
            f"{SEATS_MAX} processes work on {place.state_folder} already. Give this one a folder of its own."
        )

    def leave(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
