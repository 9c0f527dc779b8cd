"""Where a run's files are: names that any text can be turned into, and that never leave their folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Sequence

from evertick.model.instant import to_text
from evertick.model.run import RunKey

NAME_MAX = 120
"""Bytes; far below what any file system allows, so that suffixes fit behind."""

_UNSAFE = re.compile(rb"[^A-Za-z0-9_.-]")
_LEADING_DOT = re.compile(rb"^\.")


def file_name(text: str) -> str:
    """A name for any text: two texts never share one, and it holds no separator, no leading dot and no blank."""
    encoded = _UNSAFE.sub(_escape, text.encode("utf-8", "surrogateescape"))
    name = _LEADING_DOT.sub(_escape, encoded) or b"%"
    if len(name) > NAME_MAX:
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        name = name[: NAME_MAX - 33] + b"%" + digest.encode()
    return name.decode("ascii")


def date_of(key: RunKey) -> str:
    """The day a run was due, UTC."""
    return to_text(key.scheduled_for)[:10]


def run_folder(key: RunKey) -> tuple[str, ...]:
    """`report/2026-03-02/090000Z`, and `~request` behind it for a requested run."""
    time = to_text(key.scheduled_for)[11:].replace(":", "")
    origin = f"~{file_name(key.origin)}" if key.origin else ""
    return file_name(key.job_id), date_of(key), f"{time}{origin}"


def open_folder(root: int | str, parts: Sequence[str], *, create: bool = False) -> int:
    """A descriptor of the folder under `root`; no part of the way may be a symbolic link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(root, flags) if isinstance(root, str) else os.dup(root)
    try:
        for part in parts:
            try:
                below = os.open(part, flags, dir_fd=folder)
            except FileNotFoundError:
                if not create:
                    raise
                # Somebody else may be faster, which is as good.
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
