"""The state of every attempt that a keeper was given: accepted, started, ended, delivered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Final, NamedTuple

from evertick.executor import AttemptId
from evertick.executors.keeper.journal import HEADER, Line
from evertick.executors.keeper.unconfirmed import Deadline
from evertick.model.lifecycle import RunState
from evertick.model.loss import LossReason
from evertick.model.run import RunKey
from evertick.model.steps import LOST, RUNNING, StepRecord, steps_text

# The verbs of the journal, and their fields.
ACCEPTED = "accepted"  # number, job, scheduled for, origin, attempt, fence
UNCONFIRMED = "unconfirmed"  # number, instance, end at: the ledger has not recorded its launch
CONFIRMED = "confirmed"  # number
STARTED = "started"  # number, at
SPAWNED = "spawned"  # number, pid, started since boot
EXITED = "exited"  # number, pid
BEGAN = "began"  # number, the fields of RunningStep; those of an item only the first time
STEP = "step"  # number, pid, StepEnd
FINISHED = "finished"  # number, serial, state, at, exit code, detail, cause
REFUSED = "refused"  # number
DELIVERED = "delivered"  # serial
FENCED = "fenced"  # job, scheduled for, origin, fence: the run was unknown here when an owner asked


_NONE: Final[dict[int, int]] = {}
_NONE_BEGUN: Final[dict[str, RunningStep]] = {}
"""Shared by all ended attempts: there are tens of thousands of them."""


class RunningStep(NamedTuple):
    """A running step."""

    at: int
    sub_run: str = ""
    """The run that it waits for."""
    item_of: str = ""
    item: str = ""


class StepEnd(NamedTuple):
    """How a step ended, and the resources of its last try."""

    name: str
    outcome: str
    started_at: int
    finished_at: int
    exit_code: int | None = None
    """Minus the signal, if one ended it."""
    tries: int = 1
    user_us: int = 0
    system_us: int = 0
    max_rss_bytes: int = 0
    detail: str = ""
    output: str | None = None
    """Its output, unless it holds a secret; cut to what the ledger keeps."""
    is_output_cut: bool = False
    reused_from: str = ""
    digest: str = ""
    has_log: bool = False
    sub_run: str = ""
    item_of: str = ""
    item: str = ""
    executor: str = ""
    """Where it ran, if not here."""


class AttemptEnd(NamedTuple):
    """How an attempt ended; `state` is a run state."""

    state: str
    at: int
    exit_code: int | None = None
    detail: str = ""
    cause: str = ""
    """Of a lost attempt, a value of `LossReason`; otherwise the constraint that failed, if one did."""


class Loss(NamedTuple):
    """Why an attempt ends, or has ended, without a result."""

    reason: LossReason
    detail: str

    def to_end(self, at: int) -> AttemptEnd:
        return AttemptEnd(RunState.LOST, at, None, self.detail, self.reason)


@dataclass(slots=True)
class AttemptState:
    """One attempt; the journal refers to it by its number."""

    number: int
    attempt_id: AttemptId
    fence: int
    started_at: int | None = None
    end: AttemptEnd | None = None
    serial: int = 0
    """The number of its end: schedulers acknowledge all ends up to a serial."""
    processes: dict[int, int] = field(default_factory=dict)
    """Running processes: pid, and start time since boot."""
    steps: tuple[StepEnd, ...] = ()
    unconfirmed: Deadline | None = None
    """Until when it may run unconfirmed, as journalled last; None: the ledger has recorded it."""
    begun: dict[str, RunningStep] = field(default_factory=dict)
    """Running steps, by their names."""

    def steps_text(self) -> str | None:
        """Its steps, for the ledger; None when none are known, or they were delivered and dropped."""
        if not self.steps and not self.begun:
            return None
        running_state = LOST if self.end is not None else RUNNING
        attempt = self.attempt_id.attempt
        records = [_record_of(step, attempt) for step in self.steps]
        for name, (at, sub_run, item_of, item) in self.begun.items():
            known = StepRecord(name, running_state, attempt, started_at=at, sub_run=sub_run)
            records.append(known._replace(item_of=item_of, item=item))
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
        step.item_of,
        step.item,
        step.executor,
    )


class AttemptStates:
    """Changed only by the lines of the journal, so reading the journal gives the same states."""

    def __init__(self) -> None:
        self.by_id: dict[AttemptId, AttemptState] = {}
        self.open: dict[int, AttemptState] = {}
        self.delivered = 0
        self.last_serial = 0
        self.last_number = 0
        self.boot_id = ""
        self._ended: dict[int, AttemptState] = {}
        self._fences: dict[RunKey, int] = {}
        self._asked: dict[RunKey, tuple[int, int]] = {}
        """The fence with which an owner asked about an unknown run, and the last serial at that time."""

    def fence_of(self, key: RunKey) -> int:
        """The newest fence with which the run was launched here, or asked about while it was unknown."""
        return max(self._fences.get(key, -1), self._asked.get(key, (-1, 0))[0])

    def undelivered(self) -> Iterator[AttemptState]:
        return (state for serial, state in self._ended.items() if serial > self.delivered)

    def apply(self, line: Line) -> None:
        verb = line[0]
        if verb == ACCEPTED:
            _, number, job_id, scheduled_for, origin, attempt, fence = line
            if number in self.open:
                # Carried over into a new file, followed by its state.
                self.open[number].steps, self.open[number].begun = (), {}
                return
            # Tens of thousands of them are kept: the runs of a job share its name.
            state = AttemptState(number, AttemptId(RunKey(intern(job_id), scheduled_for, origin), attempt), fence)
            self.by_id[state.attempt_id] = self.open[number] = state
            self._fences[state.attempt_id.key] = max(fence, self._fences.get(state.attempt_id.key, -1))
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
            state = self.open[line[1]]
            if verb == SPAWNED:
                state.processes[line[2]] = line[3]
            elif verb == STARTED:
                state.started_at = line[2]
            elif verb == EXITED:
                state.processes.pop(line[2], None)
            elif verb == STEP:
                state.processes.pop(line[2], None)
                end = StepEnd(*line[3])
                state.steps += (end,)
                state.begun.pop(end.name, None)
            elif verb == BEGAN:
                item = line[5:7] or state.begun.get(line[2], RunningStep(0))[2:]
                state.begun[line[2]] = RunningStep(line[3], line[4], *item)
            elif verb == UNCONFIRMED:
                state.unconfirmed = Deadline(line[2], line[3])
            elif verb == CONFIRMED:
                state.unconfirmed = None
            elif verb == REFUSED:
                self._remove(state)

    def read(self, lines: Iterable[Line]) -> None:
        """Apply the lines of a journal; damaged ones and those of another version are skipped."""
        for line in lines:
            with contextlib.suppress(TypeError, ValueError, IndexError, KeyError):
                self.apply(line)

    def opening(self) -> Iterator[Line]:
        """The lines that restore the open attempts: the beginning of a new file."""
        yield HEADER, self.boot_id, self.last_number, self.last_serial, self.delivered
        for state in self.open.values():
            (job_id, scheduled_for, origin), attempt = state.attempt_id
            yield ACCEPTED, state.number, job_id, scheduled_for, origin, attempt, state.fence
            if state.unconfirmed is not None:
                yield UNCONFIRMED, state.number, *state.unconfirmed
            if state.started_at is not None:
                yield STARTED, state.number, state.started_at
            for pid, started_us in state.processes.items():
                yield SPAWNED, state.number, pid, started_us
            for step in state.steps:
                yield STEP, state.number, 0, step
            for name, begun in state.begun.items():
                yield BEGAN, state.number, name, *begun

    def forget(self, serial: int) -> None:
        """Drop the attempts that ended up to that serial."""
        ended: list[int] = []
        for number in self._ended:
            if number > serial:
                break
            ended.append(number)
        for number in ended:
            self._remove(self._ended.pop(number))
        self._asked = {key: asked for key, asked in self._asked.items() if asked[1] >= serial}

    def _finish(self, number: int, serial: int, *end: Any) -> None:
        state = self.open.pop(number, None)
        if state is not None:
            state.end, state.serial = AttemptEnd(intern(str(end[0])), *end[1:]), serial
            state.processes = _NONE
            self._ended[serial] = state
        self.last_serial = max(self.last_serial, serial)

    def _deliver(self, serial: int) -> None:
        for number in range(self.delivered + 1, serial + 1):
            state = self._ended.get(number)
            if state is not None:
                # Delivered, and too large to keep for tens of thousands; its start was reported before its end.
                state.steps, state.begun, state.started_at = (), _NONE_BEGUN, None
        self.delivered = max(self.delivered, serial)

    def _remove(self, state: AttemptState) -> None:
        self.open.pop(state.number, None)
        self.by_id.pop(state.attempt_id, None)
        if self._fences.get(state.attempt_id.key) == state.fence:
            del self._fences[state.attempt_id.key]


def read_states(lines: Iterable[Line]) -> AttemptStates:
    """The states that a journal describes; lines of an unknown shape are skipped."""
    states = AttemptStates()
    states.read(lines)
    return states
