"""Writing to a ledger that may not answer: one call after another, in order, until each is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol, TypeAlias

from evertick.dispatch.writer import (
    answered,
    are_launches,
    commit_around,
    fold,
    launched_in,
    may_overtake_launches,
)
from evertick.errors import Fenced, StoreUnavailable
from evertick.loop.effects import Commit, Record
from evertick.loop.messages import BatchFenced, ChangesRecorded, Message
from evertick.model.instant import MILLISECOND, SECOND
from evertick.model.run import Change, RunKey
from evertick.testing.faults import Faults
from evertick.testing.timeline import Timeline
from evertick.testing.unreliable import NodeCrashed, StoreHandle

RETRY_FIRST_US = 50 * MILLISECOND
RETRY_MAX_US = 5 * SECOND

Call: TypeAlias = Callable[[], list[Message]]
Write: TypeAlias = Commit | Record | Call
"""What the loop wants written, or a question that waits for its turn."""


class Process(Protocol):
    """The process of a writer."""

    def is_alive(self) -> bool: ...
    def later(self, delay_us: int, action: Callable[..., None], *args: object) -> None:
        """Call a function then, if the process still lives and is not stalled."""

    def receive(self, message: Message) -> None: ...
    def die(self, why: str) -> None: ...


class SimulatedWriter:
    """The writer of one process. A call that is under way when the process dies may still take effect."""

    def __init__(
        self,
        process: Process,
        store: StoreHandle,
        timeline: Timeline,
        random: Random,
        faults: Callable[[], Faults],
        confirm: Callable[[Sequence[tuple[RunKey, int]]], None],
    ) -> None:
        self._process = process
        self._confirm = confirm
        self._launched: list[tuple[RunKey, int]] = []
        """What the call that is under way has written of launches."""
        self._store = store
        self._timeline = timeline
        self._random = random
        self._faults = faults
        self._waiting: deque[Write] = deque()
        self._is_busy = False

    @property
    def is_idle(self) -> bool:
        return not self._is_busy and not self._waiting

    def write(self, write: Write) -> None:
        self._waiting.append(write)
        self._begin()

    def _begin(self) -> None:
        if self._is_busy or not self._waiting:
            return
        self._is_busy = True
        self._send(self._call(self._waiting.popleft()), RETRY_FIRST_US)

    def _call(self, write: Write) -> Call:
        if isinstance(write, Commit):
            return lambda: self._commit(write)
        if isinstance(write, Record):
            if self._overtakes(write):
                overtaking = self._waiting.popleft()
                self._waiting.appendleft(write)
                return self._call(overtaking)
            changes, numbers = list(write.changes), [write.number]
            while self._waiting and isinstance(following := self._waiting[0], Record):
                changes += following.changes
                numbers.append(following.number)
                self._waiting.popleft()
            folded = fold(changes)
            return lambda: self._record(folded, numbers)
        return write

    def _overtakes(self, record: Record) -> bool:
        """Whether the next commit is written before these launches, as when the real writer waits for their ends."""
        following = self._waiting[0] if self._waiting else None
        may = isinstance(following, Commit) and may_overtake_launches(following)
        return may and are_launches(record.changes) and self._random.random() < 0.5

    def _record(self, changes: Sequence[Change], numbers: list[int]) -> list[Message]:
        refused = self._store.record(changes)
        self._launched = launched_in(changes, refused)
        return [ChangesRecorded(numbers, refused)]

    def _commit(self, commit: Commit) -> list[Message]:
        try:
            committed = commit_around(self._store, commit)
        except Fenced as fenced:
            return [BatchFenced(commit.number, fenced.buckets)]
        refused = committed.overruled | committed.crowded | committed.refused
        self._launched = launched_in(commit.batch.changes, refused)
        return [answered(commit.number, committed)]

    def _send(self, call: Call, wait_us: int) -> None:
        self._timeline.after(self._latency_us(), self._arrive, call, wait_us)

    def _arrive(self, call: Call, wait_us: int) -> None:
        """The call reaches the store, though its caller may have died since."""
        if not self._process.is_alive() and self._random.random() < 0.5:
            return
        try:
            messages = call()
        except StoreUnavailable:
            self._process.later(wait_us, self._send, call, min(wait_us * 2, RETRY_MAX_US))
        except NodeCrashed:
            self._process.die("at a write")
        else:
            self._process.later(self._latency_us(), self._done, messages)

    def _done(self, messages: list[Message]) -> None:
        self._is_busy = False
        self._confirm(self._launched)
        self._launched = []
        for message in messages:
            self._process.receive(message)
        self._begin()

    def _latency_us(self) -> int:
        return self._random.randrange(self._faults().latency_max_us)
