"""Records on disk which attempts of functions started and how they ended, for the next process to read.

A function dies with its process. The next process finds here which attempts had started: those are lost, and retried
or not as their jobs say; an attempt that is not here never started. A line reaches the kernel before the function is
called, so `kill -9` cannot take it back. After a reboot the last lines may be missing; then an attempt that is not in
the file counts as started too.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from evertick.executor import AttemptId
from evertick.executors.keeper.procfs import boot_id
from evertick.model.instant import Instant
from evertick.private_file import sync_folder

KEPT = 10_000
"""Attempts kept in the file."""


class Recorded(NamedTuple):
    at: Instant = 0
    state: str | None = None
    """How it ended; None: it had started when its process died."""
    detail: str = ""


class AttemptJournal:
    """Records nothing: for a node whose name is never used again."""

    def open(self) -> None: ...
    def started(self, attempt_id: AttemptId) -> None: ...
    def ended(self, attempt_id: AttemptId, at: Instant, state: str, detail: str) -> None: ...
    def find(self, attempt_id: AttemptId) -> Recorded | None: ...
    def close(self) -> None: ...


NO_JOURNAL = AttemptJournal()


class FileAttemptJournal(AttemptJournal):
    """Lines of JSON: the boot, then `[run, attempt]` for a start and `[run, attempt, at, state, detail]` for an end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: OrderedDict[tuple[str, int], Recorded] = OrderedDict()
        self._may_be_incomplete = False
        """Whether lines may be missing, because the machine was rebooted or a line is damaged."""
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._lines = 0

    def open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._read()
        self._rewrite()
        if self._fd is not None:
            # The boot must be on disk before a function is called: without it, nothing says that lines are missing.
            os.fsync(self._fd)
            sync_folder(self._path.parent)

    def started(self, attempt_id: AttemptId) -> None:
        with self._lock:
            self._append([attempt_id.key.run_id, attempt_id.attempt])
            self._known[attempt_id.key.run_id, attempt_id.attempt] = Recorded()

    def ended(self, attempt_id: AttemptId, at: Instant, state: str, detail: str) -> None:
        with self._lock:
            self._append([attempt_id.key.run_id, attempt_id.attempt, at, state, detail])
            self._known[attempt_id.key.run_id, attempt_id.attempt] = Recorded(at, state, detail)

    def find(self, attempt_id: AttemptId) -> Recorded | None:
        with self._lock:
            found = self._known.get((attempt_id.key.run_id, attempt_id.attempt))
        return Recorded() if found is None and self._may_be_incomplete else found

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
                    self._may_be_incomplete = line["boot"] != boot_id()
                else:
                    run_id, attempt, *end = line
                    self._known[str(run_id), int(attempt)] = Recorded(*end)
            except (ValueError, TypeError, KeyError):
                # Half a line, from a full disk.
                self._may_be_incomplete = True

    def _rewrite(self) -> None:
        """Replace the file atomically with one of the attempts still kept."""
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        lines = [json.dumps({"boot": boot_id()})]
        lines += [
            json.dumps([*key, *known] if known.state is not None else [*key]) for key, known in self._known.items()
        ]
        new = self._path.with_suffix(".new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(fd, ("\n".join(lines) + "\n").encode())
        os.replace(new, self._path)
        self.close()
        self._fd, self._lines = fd, len(lines)
