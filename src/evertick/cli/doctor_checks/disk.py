"""Checks of the state folder: disk space, locks, durable writes and permissions."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from evertick.cli.doctor_checks import FAIL, OK, WARN, Results
from evertick.definitions.source import writable_by_others
from evertick.model.duration import duration_text
from evertick.mounts import network_file_system

FSYNC_SLOW_SECONDS = 0.25
SPACE_MIN, SPACE_LOW = 100 << 20, 1 << 30
ASIDE = "*.unreadable-*"


def check_file_system(folder: Path) -> Results:
    """Whether the folder is writable and has space, working locks and durable writes."""
    if not os.access(folder, os.W_OK | os.X_OK):
        yield FAIL, f"this user cannot write to {folder}", f"chown it, or run as user {folder.stat().st_uid}"
        return
    network = network_file_system(folder)
    if network is not None:
        yield (
            WARN,
            f"{folder} is on a network file system ({network})",
            "move the ledger to a local disk, PostgreSQL or MariaDB: locks on a network file system are unreliable",
        )
    else:
        yield OK, f"{folder} is on a local file system"
    yield from _space(folder)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
            yield from _locks(Path(file.name), file.fileno())
            yield from _lasting(file.fileno())
    except OSError as error:
        yield FAIL, f"cannot write to {folder}: {error.strerror}", "free some space, or check its permissions"


def _space(folder: Path) -> Results:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    text = f"{free / (1 << 30):,.1f} GiB free"
    if free < SPACE_MIN:
        yield FAIL, text, "free some space: the scheduler stops planning when it cannot write its ledger"
    elif free < SPACE_LOW:
        yield WARN, text, "free some space, or keep history and logs for a shorter time: evertick settings"
    else:
        yield OK, text
    if disk.f_files and disk.f_favail < 1_000:
        yield FAIL, f"{disk.f_favail:,} inodes free", "remove files: every run's log needs an inode"


def _locks(path: Path, fd: int) -> Results:
    """Another process must see the lock as held; otherwise two schedulers could run."""
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    code = (
        "import fcntl, sys\n"
        "with open(sys.argv[1]) as file:\n"
        "    try:\n        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    except OSError:\n        sys.exit(7)\n"
    )
    tried = subprocess.run([sys.executable, "-I", "-c", code, str(path)], capture_output=True, check=False)
    if tried.returncode == 7:
        yield OK, "file locks work between processes"
    else:
        yield FAIL, "file locks do not work between processes", "move the state folder to a local disk"


def _lasting(fd: int) -> Results:
    began = time.monotonic()
    os.write(fd, b"x" * 4096)
    os.fsync(fd)
    took = time.monotonic() - began
    text = f"fsync took {duration_text(round(took * 1_000_000))}"
    if took > FSYNC_SLOW_SECONDS:
        yield WARN, text, "use a faster disk: many runs at once will start late"
    else:
        yield OK, text


def check_permissions(state: Path) -> Results:
    """Whether other users can read or change the state folder."""
    found = state.stat()
    if found.st_uid != os.geteuid():
        yield WARN, f"{state} belongs to user {found.st_uid}, not to you ({os.geteuid()})", "run as that user"
    open_ones = [path for path in (state, *state.iterdir()) if _is_open(path, state)]
    for path in open_ones[:5]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        yield FAIL, f"other users have access to {path} (mode {mode:o})", f"chmod go= {path}"
    if not open_ones:
        yield OK, f"no other user has access to {state}"


def _is_open(path: Path, state: Path) -> bool:
    mode = path.lstat().st_mode
    # A file inside a closed folder is closed too; links have no mode of their own.
    return not stat.S_ISLNK(mode) and bool(mode & 0o077) and (path == state or _is_open(path.parent, state))


def check_job_files(folder: Path) -> Results:
    """Whether other users can change the programs that run as this user."""
    exposed = writable_by_others(folder)
    for path in exposed[:5]:
        yield FAIL, f"every user of this machine can change {path} and so run programs as you", f"chmod o-w {path}"
    if not exposed:
        yield OK, f"no other user can change the job files in {folder}"


def check_set_aside(*folders: Path) -> Results:
    found = sorted({path for folder in folders for path in folder.rglob(ASIDE)})
    for path in found[:5]:
        yield (
            WARN,
            f"the scheduler could not read its state and renamed it to {path}",
            "inspect and remove it; the affected jobs started as new, without catch-up",
        )
    if not found:
        yield OK, "no unreadable state files"
