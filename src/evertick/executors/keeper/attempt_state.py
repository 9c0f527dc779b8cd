"""The state of every attempt that a keeper was given: accepted, started, ended, delivered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from evertick.executor import AttemptId
from evertick.executors.keeper.journal import Line
from evertick.executors.keeper.unconfirmed import Deadline
from evertick.model.lifecycle import RunState
from evertick.model.loss import LossReason
from evertick.model.run import RunKey
from evertick.model.steps import LOST, RUNNING, StepRecord, steps_text

# The verbs of the journal, and what stands behind them.
HEADER = "keeper"  # boot id, last number, last serial, delivered
ACCEPTED = "accepted"  # number, job, scheduled for, origin, attempt, fence
UNCONFIRMED = "unconfirmed"  # number, instance, end at: the ledger does not know of it
CONFIRMED = "confirmed"  # number
STARTED = "started"  # number, at
SPAWNED = "spawned"  # number, pid, started since boot
EXITED = "exited"  # number, pid
BEGAN = "began"  # number, step, at, the run of another job that it waits for
STEP = "step"  # number, pid, StepEnd
FINISHED = "finished"  # number, serial, state, at, exit code, detail, cause
REFUSED = "refused"  # number
DELIVERED = "delivered"  # serial
FENCED = "fenced"  # job, scheduled for, origin, fence: the run was unknown here when an owner asked


_NONE: Final[dict[int, int]] = {}
_NONE_BEGUN: Final[dict[str, tuple[int, str]]] = {}
"""Shared by all that have ended: there are tens of thousands of them."""


class StepEnd(NamedTuple):
    """How a step ended, and what its last try used."""

    name: str
    outcome: str
    started_at: int
    finished_at: int
    exit_code: int | None = None
    """Minus the signal, where one ended it."""
    tries: int = 1
    user_us: int = 0
    system_us: int = 0
    max_rss_bytes: int = 0
    detail: str = ""
    output: str | None = None
    """What it handed on, if that may be shown; not more than the ledger keeps."""
    is_output_cut: bool = False
    reused_from: str = ""
    digest: str = ""
    has_log: bool = False
    sub_run: str = ""


class Ending(NamedTuple):
    """How an attempt ended; `state` is a run state."""

    state: str
    at: int
    exit_code: int | None = None
    detail: str = ""
    cause: str = ""
    """Of a lost one, a word of `LossReason`; otherwise the constraint that does not hold, if that is why."""


class Loss(NamedTuple):
    """Why an attempt is ended, or was found to have ended, without a result."""

    reason: LossReason
    detail: str

    def ending(self, at: int) -> Ending:
        return Ending(RunState.LOST, at, None, self.detail, self.reason)


@dataclass(slots=True)
class Known:
    """One attempt. Its number stands for it in the journal."""

    number: int
    attempt_id: AttemptId
    fence: int
    started_at: int | None = None
    ending: Ending | None = None
    serial: int = 0
    """Of its ending, among all endings: what is delivered is delivered up to a serial."""
    processes: dict[int, int] = field(default_factory=dict)
    """Started and not ended: pid, and when it started since boot."""
    steps: tuple[StepEnd, ...] = ()
    unconfirmed: Deadline | None = None
    """Until when it may go on without the ledger, as written last; None: the ledger knows of it."""
    begun: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Steps that go on, since when, and for which run of another job they wait."""

    def steps_text(self) -> str | None:
        """How its steps stand, for the ledger; None when nothing is known of them, or it was told and forgotten."""
        if not self.steps and not self.begun:
            return None
        going = LOST if self.ending is not None else RUNNING
        attempt = self.attempt_id.attempt
        records = [_record_of(step, attempt) for step in self.steps]
        for name, (at, sub_run) in self.begun.items():
            records.append(StepRecord(name, going, attempt, started_at=at, sub_run=sub_run))
        return steps_text(records)


def _record_of(step: StepEnd, attempt: int) -> StepRecord:
    return StepRecord(
        step.name,
        step.outcome,
        attempt,
        step.tries,
        step.started_at,
        step.finished_at,
        step.exit_code,
        step.detail,
        step.output,
        step.is_output_cut,
        step.sub_run,
        step.reused_from,
        step.digest,
        step.has_log,
        step.user_us,
        step.system_us,
        step.max_rss_bytes,
    )


class AttemptStates:
    """Changes only by the lines that are written to the journal, so that reading them again gives the same book."""

    def __init__(self) -> None:
        self.known: dict[AttemptId, Known] = {}
        self.open: dict[int, Known] = {}
        self.delivered = 0
        self.last_serial = 0
        self.last_number = 0
        self.boot_id = ""
        self._ended: dict[int, Known] = {}
        self._fences: dict[RunKey, int] = {}
        self._asked: dict[RunKey, tuple[int, int]] = {}
        """The fence under which an unknown run was asked about, and the last serial at that time."""

    def fence_of(self, key: RunKey) -> int:
        """The newest fence under which the run was launched here, or asked about and found to be unknown."""
        return max(self._fences.get(key, -1), self._asked.get(key, (-1, 0))[0])

    def undelivered(self) -> Iterator[Known]:
        return (known for serial, known in self._ended.items() if serial > self.delivered)

    def apply(self, line: Line) -> None:
        verb = line[0]
        if verb == ACCEPTED:
            _, number, job_id, scheduled_for, origin, attempt, fence = line
            if number in self.open:
                # Carried over into a new file, with all that is known of it behind.
                self.open[number].steps, self.open[number].begun = (), {}
                return
            known = Known(number, AttemptId(RunKey(job_id, scheduled_for, origin), attempt), fence)
            self.known[known.attempt_id] = self.open[number] = known
            self._fences[known.attempt_id.key] = max(fence, self._fences.get(known.attempt_id.key, -1))
            self.last_number = max(self.last_number, number)
        elif verb == FINISHED:
            self._finish(*line[1:])
        elif verb == DELIVERED:
            self._deliver(line[1])
        elif verb == FENCED:
            _, job_id, scheduled_for, origin, fence = line
            self._asked[RunKey(job_id, scheduled_for, origin)] = int(fence), self.last_serial
        elif verb == HEADER:
            _, self.boot_id, number, serial, delivered = line
            self.last_number, self.last_serial = max(self.last_number, number), max(self.last_serial, serial)
            self.delivered = max(self.delivered, delivered)
        elif line[1] in self.open:
            known = self.open[line[1]]
            if verb == SPAWNED:
                known.processes[line[2]] = line[3]
            elif verb == STARTED:
                known.started_at = line[2]
            elif verb == EXITED:
                known.processes.pop(line[2], None)
            elif verb == STEP:
                known.processes.pop(line[2], None)
                end = StepEnd(*line[3])
                known.steps += (end,)
                known.begun.pop(end.name, None)
            elif verb == BEGAN:
                known.begun[line[2]] = line[3], line[4]
            elif verb == UNCONFIRMED:
                known.unconfirmed = Deadline(line[2], line[3])
            elif verb == CONFIRMED:
                known.unconfirmed = None
            elif verb == REFUSED:
                self._remove(known)

    def read(self, lines: Iterable[Line]) -> None:
        """Apply the lines of a journal, which may be damaged or of another version."""
        for line in lines:
            with contextlib.suppress(TypeError, ValueError, IndexError, KeyError):
                self.apply(line)

    def opening(self) -> Iterator[Line]:
        """The lines from which the open part of this book can be read again."""
        yield HEADER, self.boot_id, self.last_number, self.last_serial, self.delivered
        for known in self.open.values():
            (job_id, scheduled_for, origin), attempt = known.attempt_id
            yield ACCEPTED, known.number, job_id, scheduled_for, origin, attempt, known.fence
            if known.unconfirmed is not None:
                yield UNCONFIRMED, known.number, *known.unconfirmed
            if known.started_at is not None:
                yield STARTED, known.number, known.started_at
            for pid, started_us in known.processes.items():
                yield SPAWNED, known.number, pid, started_us
            for step in known.steps:
                yield STEP, known.number, 0, step
            for name, (at, sub_run) in known.begun.items():
                yield BEGAN, known.number, name, at, sub_run

    def forget(self, serial: int) -> None:
        """What ended up to that serial is history now."""
        over: list[int] = []
        for number in self._ended:
            if number > serial:
                break
            over.append(number)
        for number in over:
            self._remove(self._ended.pop(number))
        self._asked = {key: asked for key, asked in self._asked.items() if asked[1] >= serial}

    def _finish(self, number: int, serial: int, *ending: Any) -> None:
        known = self.open.pop(number, None)
        if known is not None:
            known.ending, known.serial = Ending(*ending), serial
            known.processes = _NONE
            self._ended[serial] = known
        self.last_serial = max(self.last_serial, serial)

    def _deliver(self, serial: int) -> None:
        for number in range(self.delivered + 1, serial + 1):
            known = self._ended.get(number)
            if known is not None:
                known.steps, known.begun = (), _NONE_BEGUN  # told, and too large to keep for tens of thousands
        self.delivered = max(self.delivered, serial)

    def _remove(self, known: Known) -> None:
        self.open.pop(known.number, None)
        self.known.pop(known.attempt_id, None)
        if self._fences.get(known.attempt_id.key) == known.fence:
            del self._fences[known.attempt_id.key]


def book_of(lines: Iterable[Line]) -> AttemptStates:
    """The book that a journal tells; lines of a shape that we do not know are passed over."""
    book = AttemptStates()
    book.read(lines)
    return book
