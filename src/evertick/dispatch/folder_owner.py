"""Checks that the state folder belongs to this node: two nodes must not share one."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from evertick.errors import SchedulerLockError
from evertick.model.instant import Instant

NAME: Final = "node.lock"
_IDENTITY: Final = "node.id"


class FolderIdentity(NamedTuple):
    """What distinguishes a state folder from one that had the same path before."""

    name: str
    made_at: Instant


def folder_identity(folder: Path, now: Instant) -> FolderIdentity:
    """Created once and atomically: a part of it would be another identity."""
    path = folder / _IDENTITY
    if not path.exists():
        fresh = folder / f"{_IDENTITY}.new"
        # A folder from before there were identities has all of its data.
        made_at = 0 if (folder / "keeper-0").exists() else now
        fresh.write_text(f"{secrets.token_hex(8)} {made_at}\n")
        fresh.rename(path)
    name, at = path.read_text().split()
    return FolderIdentity(name, int(at))


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Lock the folder while this process uses it; the kernel releases the lock when the process ends."""
    try:
        descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SchedulerLockError(
            f"'{folder / NAME}' cannot be used: {error.strerror}. "
            "Make the folder writable, or choose another with the setting 'state' (EVERTICK_STATE)."
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SchedulerLockError(
                f"another scheduler keeps its state in '{folder}'. "
                "Stop it, or give this one a folder of its own with the setting 'state' (EVERTICK_STATE)."
            ) from None
        yield
    finally:
        os.close(descriptor)
