"""Writes a snapshot of the ledger in small parts, so that no write to the ledger waits for the whole snapshot."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final
from zlib import crc32

from evertick.stores.disk import FILE_MODE, write_all
from evertick.stores.files.codec import SUM, VERSION, encode_contents
from evertick.stores.memory import Contents

LINES: Final = 1_000
"""The minimum number of lines in one part: some milliseconds."""
PARTS: Final = 200
"""The maximum number of parts: writes that arrive meanwhile must be copied into the next journal."""
_END = b"]}}\n"


class Fold:
    """A copy of the ledger as of its start, in a file beside the current snapshot; `seal` writes the same at once."""

    def __init__(self, path: Path, known: dict[str, object], contents: Contents, journal_end: int) -> None:
        self.path = path
        self.journal_end = journal_end
        """The snapshot contains the journal up to here."""
        self.draft = path.with_name(f"{path.name}.tmp-{os.getpid()}")
        self._rows = contents.rows
        self._lines = max(LINES, -(-len(contents.rows) // PARTS))
        self._done = 0
        ledger = encode_contents(contents._replace(rows=()))
        del ledger["rows"]
        text = json.dumps({"version": VERSION, **known, "ledger": {**ledger, "rows": []}}, separators=(",", ":"))
        body = text.encode()[: -len(_END) + 1]
        self._sum = crc32(body)
        self.draft.unlink(missing_ok=True)
        self._fd = os.open(self.draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        self.size = 0
        self._head = b'%b%08x",%b' % (SUM, 0, body[1:])

    def go_on(self) -> bool:
        """Write the next lines; returns whether the snapshot is complete and on disk."""
        if not self.size:
            self._append(self._head)
        some = self._rows[self._done : self._done + self._lines]
        if some:
            text = json.dumps(some, separators=(",", ":")).encode()[1:-1]
            piece = b"," + text if self._done else text
            self._sum = crc32(piece, self._sum)
            self._append(piece)
            self._done += len(some)
        if self._done < len(self._rows):
            os.fdatasync(self._fd)  # in parts: at the end it would be all of it at once
            return False
        self._sum = crc32(_END[:-1], self._sum)
        self._append(_END)
        write_all(self._fd, b"%08x" % self._sum, len(SUM))
        os.fsync(self._fd)
        self._close()
        return True

    def give_up(self) -> None:
        self._close()
        self.draft.unlink(missing_ok=True)

    def _append(self, piece: bytes) -> None:
        write_all(self._fd, piece, self.size)
        self.size += len(piece)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
