"""The file in which a program that runs something elsewhere, such as a container, leaves how it ended.

The program inherits a descriptor of it. Its keeper reads the note there; if that keeper was killed, the next one does,
which is not the parent of the program and cannot have its exit code from the kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from evertick.kinds import NOTE_MAX, ExitNote
from evertick.model.plain_json import parse_json

HEAD_MAX = 16 * 1024


class NoteHead(NamedTuple):
    """What the next keeper has to know of a try: the first line of the file."""

    step: str = ""
    digest: str = ""
    started_at: int = 0
    tries: int = 1
    decides_success: bool = False
    """Whether nothing of the attempt is left to do after its success."""
    decides_failure: bool = False
    """Whether nothing is left to do after its failure: no other try, no rule that tolerates it."""


NO_HEAD = NoteHead()


class LeftNote(NamedTuple):
    """What a program of a killed keeper has left."""

    head: NoteHead
    note: ExitNote
    at: int
    """When it was written."""


class ExitNoteFile:
    """The note of one process, from before it starts until its end is known."""

    def __init__(self, folder: Path, name: str, head: NoteHead) -> None:
        self._folder = folder
        self._path = folder / f"{name}.new"
        self.fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            self._start = os.write(self.fd, json.dumps(head).encode() + b"\n")
        except OSError:
            self.close()
            raise

    def name_after(self, pid: int, started_us: int) -> None:
        """From now on the next keeper finds it by the process, which the journal has."""
        path = self._folder / _name(pid, started_us)
        with contextlib.suppress(OSError):  # the process runs, whether or not the next keeper finds its note
            os.rename(self._path, path)
            self._path = path

    def read(self) -> ExitNote:
        return ExitNote.decode(os.pread(self.fd, NOTE_MAX, self._start))

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            self._path.unlink(missing_ok=True)


def take_left_note(folder: Path, pid: int, started_us: int) -> LeftNote | None:
    """The note of a process that has ended, which is removed; None: it left none."""
    path = folder / _name(pid, started_us)
    try:
        with path.open("rb") as file:
            written, text = os.fstat(file.fileno()).st_mtime_ns // 1_000, file.read(HEAD_MAX + NOTE_MAX)
    except OSError:
        return None
    path.unlink(missing_ok=True)
    first, _, rest = text.partition(b"\n")
    with contextlib.suppress(ValueError, TypeError):
        note, head = ExitNote.decode(rest), parse_json(first)
        if note.exit_code is not None and isinstance(head, list):
            # An older version wrote fewer fields.
            return LeftNote(NoteHead._make([*head, *NO_HEAD[len(head) :]]), note, written)
    return None


def remove_other_notes(folder: Path, processes: Collection[tuple[int, int]]) -> None:
    """Remove what earlier keepers have left, except the notes of these processes."""
    kept = {_name(*process) for process in processes}
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink(missing_ok=True)


def _name(pid: int, started_us: int) -> str:
    return f"{pid}-{started_us}"
