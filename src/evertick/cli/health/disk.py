"""Whether the state folder lies well: space, locks, a disk that keeps what it was given, and nobody else's hands."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from evertick.cli.health.finding import FAIL, OK, WARN
from evertick.definitions.source import writable_by_others
from evertick.mounts import network_file_system

Told = Iterator[tuple[str, ...]]

FSYNC_SLOW_SECONDS = 0.25
SPACE_MIN, SPACE_LOW = 100 << 20, 1 << 30
ASIDE = "*.unreadable-*"


def check_file_system(folder: Path) -> Told:
    """What the ledger rests on: a folder that can be written, space, locks, and writes that last."""
    if not os.access(folder, os.W_OK | os.X_OK):
        yield FAIL, f"{folder} cannot be written by this user", f"chown it, or run as user {folder.stat().st_uid}"
        return
    network = network_file_system(folder)
    if network is not None:
        yield (
            WARN,
            f"{folder} is on a network file system ({network})",
            "keep the ledger on a local disk, or in PostgreSQL or MariaDB: locks of a network may fail",
        )
    else:
        yield OK, f"{folder} is on a local file system"
    yield from _space(folder)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
            yield from _locks(Path(file.name), file.fileno())
            yield from _lasting(file.fileno())
    except OSError as error:
        yield FAIL, f"nothing can be written in {folder}: {error.strerror}", "free space, or check its permissions"


def _space(folder: Path) -> Told:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    text = f"{free / (1 << 30):,.1f} GiB free"
    if free < SPACE_MIN:
        yield FAIL, text, "free space: a ledger that cannot be written stops planning"
    elif free < SPACE_LOW:
        yield WARN, text, "free space soon, or keep history and logs for a shorter time: evertick settings"
    else:
        yield OK, text
    if disk.f_files and disk.f_favail < 1_000:
        yield FAIL, f"{disk.f_favail:,} files can still be made", "remove files: logs of runs need some"


def _locks(path: Path, fd: int) -> Told:
    """Another process must find the lock held: where it does not, two schedulers would run."""
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    code = (
        "import fcntl, sys\n"
        "with open(sys.argv[1]) as file:\n"
        "    try:\n        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    except OSError:\n        sys.exit(7)\n"
    )
    tried = subprocess.run([sys.executable, "-I", "-c", code, str(path)], capture_output=True, check=False)
    if tried.returncode == 7:
        yield OK, "locks hold between processes"
    else:
        yield FAIL, "a lock does not keep other processes out here", "keep the state folder on a local disk"


def _lasting(fd: int) -> Told:
    began = time.monotonic()
    os.write(fd, b"x" * 4096)
    os.fsync(fd)
    took = time.monotonic() - began
    text = f"a write reached the disk in {took * 1_000:.0f} ms"
    if took > FSYNC_SLOW_SECONDS:
        yield WARN, text, "runs are entered ahead, so they are on time; many at once will wait. Use a faster disk"
    else:
        yield OK, text


def check_permissions(state: Path) -> Told:
    """Whether others may read or change what is ours."""
    found = state.stat()
    if found.st_uid != os.geteuid():
        yield WARN, f"{state} belongs to user {found.st_uid}, not to you ({os.geteuid()})", "run as that user"
    open_ones = [path for path in (state, *state.iterdir()) if _is_open(path, state)]
    for path in open_ones[:5]:
        yield FAIL, f"others may use {path} (mode {stat.S_IMODE(path.lstat().st_mode):o})", f"chmod go= {path}"
    if not open_ones:
        yield OK, f"nobody else can read {state}"


def _is_open(path: Path, state: Path) -> bool:
    mode = path.lstat().st_mode
    # Inside a folder that is closed, what lies in it is closed too; links have no mode of their own.
    return not stat.S_ISLNK(mode) and bool(mode & 0o077) and (path == state or _is_open(path.parent, state))


def check_job_files(folder: Path) -> Told:
    """Whether others may change what runs as this user."""
    exposed = writable_by_others(folder)
    for path in exposed[:5]:
        yield FAIL, f"every user of this machine may change {path}, and so run programs as you", f"chmod o-w {path}"
    if not exposed:
        yield OK, f"no other user may change the job files in {folder}"


def check_set_aside(*folders: Path) -> Told:
    found = sorted({path for folder in folders for path in folder.rglob(ASIDE)})
    for path in found[:5]:
        yield (
            WARN,
            f"{path} was set aside because it could not be read",
            "look at it, then remove it; the jobs it was about began as new, without catch-up",
        )
    if not found:
        yield OK, "no state was set aside"
