"""Records on disk which attempts this process began and how they ended, for the next process to read.

Functions end with their process. The next one finds here which of them had begun: those are lost, and tried again or
not as their jobs say; whatever is not here was never started. Lines reach the kernel before the function is called, so
that a `kill -9` cannot take them back. After a restart of the machine the file may lack its last lines; then what is
not in it counts as begun too.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from evertick.executor import AttemptId
from evertick.model.instant import Instant

KEPT = 10_000
"""Attempts that are remembered at most."""
BOOT = Path("/proc/sys/kernel/random/boot_id")


class Known(NamedTuple):
    at: Instant = 0
    state: str | None = None
    """How it ended; None: it had begun, and its process has ended since."""
    detail: str = ""


class AttemptJournal:
    """Nothing is remembered: for a node whose name is never used again."""

    def open(self) -> None: ...
    def started(self, attempt_id: AttemptId) -> None: ...
    def ended(self, attempt_id: AttemptId, at: Instant, state: str, detail: str) -> None: ...
    def recall(self, attempt_id: AttemptId) -> Known | None: ...
    def close(self) -> None: ...


NO_MEMORY = AttemptJournal()


class FileAttemptJournal(AttemptJournal):
    """Lines of JSON: the boot, then `[run, attempt]` for a start and `[run, attempt, at, state, detail]` for an end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: OrderedDict[tuple[str, int], Known] = OrderedDict()
        self._is_doubtful = False
        """Whether lines may be missing, because the machine went down."""
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._lines = 0

    def open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._read()
        self._rewrite()

    def started(self, attempt_id: AttemptId) -> None:
        with self._lock:
            self._append([attempt_id.key.run_id, attempt_id.attempt])
            self._known[attempt_id.key.run_id, attempt_id.attempt] = Known()

    def ended(self, attempt_id: AttemptId, at: Instant, state: str, detail: str) -> None:
        with self._lock:
            self._append([attempt_id.key.run_id, attempt_id.attempt, at, state, detail])
            self._known[attempt_id.key.run_id, attempt_id.attempt] = Known(at, state, detail)

    def recall(self, attempt_id: AttemptId) -> Known | None:
        with self._lock:
            found = self._known.get((attempt_id.key.run_id, attempt_id.attempt))
        return Known() if found is None and self._is_doubtful else found

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _append(self, line: list[object]) -> None:
        if self._fd is None:
            return
        os.write(self._fd, (json.dumps(line) + "\n").encode())
        self._lines += 1
        if self._lines > 2 * KEPT:
            self._rewrite()

    def _read(self) -> None:
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return
        for number, text in enumerate(lines):
            try:
                line = json.loads(text)
                if number == 0:
                    self._is_doubtful = line["boot"] != _boot()
                else:
                    run_id, attempt, *end = line
                    self._known[str(run_id), int(attempt)] = Known(*end)
            except (ValueError, TypeError, KeyError):
                # Half a line, from a full disk: what it said is not known.
                self._is_doubtful = True

    def _rewrite(self) -> None:
        """A new file with what is still worth knowing; it takes the old one's place in one step."""
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        lines = [json.dumps({"boot": _boot()})]
        lines += [
            json.dumps([*key, *known] if known.state is not None else [*key]) for key, known in self._known.items()
        ]
        new = self._path.with_suffix(".new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(fd, ("\n".join(lines) + "\n").encode())
        os.replace(new, self._path)
        self.close()
        self._fd, self._lines = fd, len(lines)


def _boot() -> str:
    try:
        return BOOT.read_text().strip()
    except OSError:
        return ""
