"""An executor whose memory survives `kill -9`: for tests of what must survive it.

Each line of its file is one event, written before anything else happens; only a power cut would lose it:

    {"event": "started", "run": "report@2026-03-02T09:00:00Z", "attempt": 1, "fence": 65537, "at": 1772442000000000}
    {"event": "finished", "run": "report@2026-03-02T09:00:00Z", "attempt": 1, "state": "succeeded", "at": ...}

One executor at a time writes to a file; the next one reads what the one before had written.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple

from evertick.dispatch.clock import Clock, SystemClock
from evertick.executor import Attempt, Capabilities, Member
from evertick.model.instant import SECOND, Instant
from evertick.model.lifecycle import CANCELLED, SUCCEEDED, RunState
from evertick.model.report import Report, RunFinished, RunLost, RunStarted, RunUnknown
from evertick.model.run import RunKey


class Act(NamedTuple):
    """How an attempt goes: what it takes, and how it ends."""

    takes_us: int = 0
    state: RunState = SUCCEEDED


class Launched(NamedTuple):
    """A line of the file: an attempt was started."""

    run_id: str
    attempt: int
    fence: int
    at: Instant


@dataclass(slots=True)
class _Known:
    """What the file says of an attempt."""

    started_at: Instant
    act: Act
    finished: tuple[RunState, Instant] | None = None
    is_here: bool = False
    """Whether it is under way in this process, not only in the memory of one that has ended."""


class DiskExecutor:
    """Starts nothing that its file has already, and answers after a crash from what the file says.

    `act` says how each attempt goes; at once and well, unless it is given. `runs_survive` says what becomes of runs
    whose scheduler dies: they vanish with it, or go on by themselves and are found again.

    Without a `clock`, time is the machine's and a thread ends what is over. Whoever brings a clock moves it, and calls
    `advance` when it did.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str = "local",
        act: Callable[[RunKey, int], Act] = lambda _key, _attempt: Act(),
        runs_survive: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self._act = act
        self._runs_survive = runs_survive
        self._clock = clock or SystemClock()
        self._has_thread = clock is None
        self._report: Callable[[Report], None] = _nowhere
        self._ends: list[tuple[Instant, str, int, RunKey]] = []
        self._changed = threading.Condition(threading.RLock())
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._attempts: dict[tuple[str, int], _Known] = {}
        self._recall(path)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def open(self, report: Callable[[Report], None]) -> None:
        self._report = report

    def launch(self, attempt: Attempt) -> None:
        key, number = attempt.key, attempt.attempt
        with self._changed:
            if (key.run_id, number) in self._attempts:
                self._tell(key, number)
                return
            now = self._clock.now()
            self._write(event="started", run=key.run_id, attempt=number, fence=attempt.fence, at=now)
            self._attempts[key.run_id, number] = _Known(now, self._act(key, number), is_here=True)
            self._report(RunStarted(key, number, now))
            self._go_on(key, number)

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        with self._changed:
            known = self._attempts.get((key.run_id, attempt))
            if known is not None and known.is_here and known.finished is None:
                self._finish(key, attempt, CANCELLED, self._clock.now(), detail)

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        with self._changed:
            for key, attempt in runs:
                self._tell(key, attempt)

    def members(self) -> Sequence[Member]:
        with self._changed:
            running = sum(known.is_here and known.finished is None for known in self._attempts.values())
        return (Member(self.name, is_healthy=True, running=running),)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        os.close(self._fd)

    # --- time, for those who move it themselves

    def next_at(self) -> Instant | None:
        """When the next attempt ends."""
        return self._ends[0][0] if self._ends else None

    def advance(self) -> None:
        """End what is over by now."""
        with self._changed:
            while self._ends and self._ends[0][0] <= self._clock.now():
                at, run_id, attempt, key = heappop(self._ends)
                known = self._attempts[run_id, attempt]
                if known.finished is None:
                    self._finish(key, attempt, known.act.state, at)

    # --- what becomes of attempts

    def _tell(self, key: RunKey, attempt: int) -> None:
        """Say what is known of an attempt."""
        known = self._attempts.get((key.run_id, attempt))
        if known is None:
            self._report(RunUnknown(key, attempt))
        elif known.finished is not None:
            self._report(_finished(key, attempt, *known.finished))
        elif known.is_here:
            self._report(RunStarted(key, attempt, known.started_at))
        elif self._runs_survive:
            known.act, known.is_here = self._act(key, attempt), True
            self._report(RunStarted(key, attempt, known.started_at))
            self._go_on(key, attempt)
        else:
            self._report(RunLost(key, attempt, "it vanished with its process"))

    def _go_on(self, key: RunKey, attempt: int) -> None:
        """Let an attempt run to its end."""
        known = self._attempts[key.run_id, attempt]
        ends_at = known.started_at + known.act.takes_us
        if ends_at <= self._clock.now():
            self._finish(key, attempt, known.act.state, ends_at)
            return
        self._end_at(ends_at, key, attempt)

    def _end_at(self, ends_at: Instant, key: RunKey, attempt: int) -> None:
        heappush(self._ends, (ends_at, key.run_id, attempt, key))
        if self._has_thread and self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="evertick-disk-executor", daemon=True)
            self._thread.start()
        self._changed.notify()

    def _finish(self, key: RunKey, attempt: int, state: RunState, at: Instant, detail: str = "") -> None:
        try:
            self._write(event="finished", run=key.run_id, attempt=attempt, state=state, at=at)
        except OSError:
            # An end that is not written down has not happened yet; a full disk only makes it late.
            self._end_at(self._clock.now() + SECOND, key, attempt)
            return
        self._attempts[key.run_id, attempt].finished = (state, at)
        self._report(_finished(key, attempt, state, at, detail))

    def _watch(self) -> None:
        with self._changed:
            while not self._is_closed:
                self.advance()
                ends_at = self.next_at()
                self._changed.wait(None if ends_at is None else max(ends_at - self._clock.now(), 0) / SECOND)

    # --- the file

    def _write(self, **line: object) -> None:
        content = json.dumps(line).encode() + b"\n"
        end = os.fstat(self._fd).st_size
        try:
            if os.write(self._fd, content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._fd, end)  # half a line would spoil the next one
            raise

    def _recall(self, path: Path) -> None:
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._fd, whole)  # a line that was never finished: what it speaks of never began
        for line in _lines(content):
            place = line["run"], line["attempt"]
            if line["event"] == "started":
                self._attempts[place] = _Known(line["at"], Act())
            else:
                self._attempts[place].finished = (RunState(line["state"]), line["at"])


def launches_in(path: Path) -> list[Launched]:
    """Every start that a file tells of, in the order they happened."""
    return [
        Launched(line["run"], line["attempt"], line["fence"], line["at"])
        for line in _lines(path.read_bytes())
        if line["event"] == "started"
    ]


def ends_in(path: Path) -> dict[tuple[str, int], Instant]:
    """When each attempt ended that a file tells of."""
    return {
        (line["run"], line["attempt"]): line["at"] for line in _lines(path.read_bytes()) if line["event"] == "finished"
    }


def _lines(content: bytes) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines())


def _finished(key: RunKey, attempt: int, state: RunState, at: Instant, detail: str = "") -> RunFinished:
    return RunFinished(key, attempt, at, state, 0 if state is SUCCEEDED else 1, detail)


def _nowhere(report: Report) -> None:
    raise AssertionError(f"{report} before open()")
