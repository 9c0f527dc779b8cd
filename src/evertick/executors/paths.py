"""Folders and file names: private folders, and safe names for jobs, runs and steps."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from evertick.errors import SettingsError
from evertick.model.instant import to_text
from evertick.model.run import RunKey

NAME_MAX = 120
"""Bytes; well below the limit of any file system, so that suffixes fit."""

_UNSAFE = re.compile(rb"[^A-Za-z0-9_.-]")
_LEADING_DOT = re.compile(rb"^\.")


def state_folder(path: Path) -> Path:
    """Create a node's state folder; `SettingsError` says how to choose another one."""
    try:
        return private_folder(path)
    except OSError as error:
        raise SettingsError(
            f"the state folder '{path}' cannot be used: {error.strerror}. "
            "Make it writable, or choose another with the setting 'state' (EVERTICK_STATE)."
        ) from error


def private_folder(path: Path) -> Path:
    """Create the folder if needed, readable by this user only; `SettingsError` if it belongs to another user."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise SettingsError(f"the folder {path} belongs to another user. Choose another state folder.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
    return path


def file_name(text: str) -> str:
    """A file name for any text: unique for each text, without separators, blanks or a leading dot."""
    encoded = _UNSAFE.sub(_escape, text.encode("utf-8", "surrogateescape"))
    name = _LEADING_DOT.sub(_escape, encoded) or b"%"
    if len(name) > NAME_MAX:
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        name = name[: NAME_MAX - 33] + b"%" + digest.encode()
    return name.decode("ascii")


def date_of(key: RunKey) -> str:
    """The UTC day for which a run was due."""
    return to_text(key.scheduled_for)[:10]


def run_folder(key: RunKey) -> tuple[str, ...]:
    """`report/2026-03-02/090000Z`, with `~request` appended for a requested run."""
    time = to_text(key.scheduled_for)[11:].replace(":", "")
    origin = f"~{file_name(key.origin)}" if key.origin else ""
    return file_name(key.job_id), date_of(key), f"{time}{origin}"


def open_folder(root: int | str, parts: Sequence[str], *, create: bool = False) -> int:
    """A descriptor of the folder under `root`; no part of the path may be a symbolic link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(root, flags) if isinstance(root, str) else os.dup(root)
    try:
        for part in parts:
            try:
                below = os.open(part, flags, dir_fd=folder)
            except FileNotFoundError:
                if not create:
                    raise
                # Another process may create it first, which is as good.
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=folder)
                below = os.open(part, flags, dir_fd=folder)
            os.close(folder)
            folder = below
    except BaseException:
        os.close(folder)
        raise
    return folder


def _escape(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found[0][0]
