"""What happens while a scheduler works, told to whoever listens; a slow or failing listener harms nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypeAlias

from evertick.dispatch.facts import Fact
from evertick.errors import InvalidArgument
from evertick.loop.effects import Log
from evertick.model.instant import SECOND, Instant, to_datetime, to_text
from evertick.model.lifecycle import CANCELLED, FAILED, LOST, RETRYING, RUNNING, SKIPPED, SUCCEEDED, TIMED_OUT
from evertick.model.run import Change, Entry

log = logging.getLogger("evertick.events")

KEPT = 1_000
"""Events that wait for one listener; when it is further behind, the oldest are left out."""
FAREWELL_SECONDS = 5.0

START, COMPLETE, ERROR = "execution:start", "execution:complete", "execution:error"
CANCELLED_, SKIPPED_ = "execution:cancelled", "execution:skipped"
CHANGED, STATUS = "schedule:changed", "scheduler:status"
NAMES = (START, COMPLETE, ERROR, CANCELLED_, SKIPPED_, CHANGED, STATUS)
EVERY = "*"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened; what does not apply to its kind is None."""

    name: str
    at: datetime
    job: str | None = None
    run: str | None = None
    scheduled_for: datetime | None = None
    attempt: int | None = None
    state: str | None = None
    detail: str | None = None
    """What the function returned or raised."""
    reason: str | None = None
    """Of a skip."""
    duration_seconds: float | None = None
    will_retry: bool | None = None
    """Of an error: whether another try follows."""
    retry_attempt: int | None = None
    """Of an error: the number of the retry that follows, or that was the last."""
    change: str | None = None
    """`added`, `updated` or `removed`."""
    status: str | None = None
    """Of the scheduler: `starting`, `standby`, `running`, `stopping`, `stopped`."""

    def to_dict(self) -> dict[str, Any]:
        """What is known, with the names that events have on the wire: `willRetry`, `scheduledFor`."""
        plain: dict[str, Any] = {}
        for field in self.__dataclass_fields__:
            value = getattr(self, field)
            if value is not None:
                head, *rest = field.split("_")
                name = head + "".join(word.title() for word in rest)
                plain[name] = value.isoformat() if isinstance(value, datetime) else value
        return plain


Callback: TypeAlias = Callable[[Event], Awaitable[object] | object]

_BY_STATE = {
    RUNNING: START,
    SUCCEEDED: COMPLETE,
    RETRYING: ERROR,
    FAILED: ERROR,
    TIMED_OUT: ERROR,
    LOST: ERROR,
    CANCELLED: CANCELLED_,
    SKIPPED: SKIPPED_,
}
_CHANGES = {"job.added": "added", "job.changed": "updated", "job.removed": "removed"}


def event_of(fact: Fact | int, now: Instant) -> Event | None:
    """What a fact means to those who listen; None for what is no event of theirs."""
    match fact:
        case Change():
            return _of_change(fact)
        case Entry() if fact.state is SKIPPED:
            many = f"{fact.occurrences:,} occurrences, until {to_text(fact.through)}" if fact.through else None
            return replace(_of_run(SKIPPED_, fact), detail=many or fact.detail, reason=str(fact.reason))
        case Log(event, fields) if event in _CHANGES:
            return Event(CHANGED, to_datetime(now), str(fields["job"]), change=_CHANGES[event])
    return None


def _of_change(change: Change) -> Event | None:
    # Words added to a run that goes on as it is name no trigger.
    name = _BY_STATE.get(change.state) if change.trigger is not None else None
    if name is None:
        return None
    span = None
    if change.started_at is not None and change.finished_at is not None:
        span = (change.finished_at - change.started_at) / SECOND
    will_retry = change.state is RETRYING if name == ERROR else None
    tries = (change.attempt or 1) - (0 if will_retry else 1)
    return replace(
        _of_run(name, change),
        attempt=change.attempt,
        detail=change.detail,
        reason=None if change.reason is None else str(change.reason),
        duration_seconds=span,
        will_retry=will_retry,
        retry_attempt=tries if name == ERROR and tries else None,
    )


def _of_run(name: str, fact: Change | Entry) -> Event:
    key = fact.key
    at = fact.at if isinstance(fact, Change) else fact.decided_at
    due = to_datetime(key.scheduled_for)
    return Event(name, to_datetime(at), key.job_id, key.run_id, due, state=str(fact.state))


class Listeners:
    """Each has a queue and a thread of its own, so that none waits for another, and the loop for none."""

    def __init__(self, home: Callable[[], asyncio.AbstractEventLoop | None]) -> None:
        self._home = home
        self._listeners: list[_Listener] = []
        self._streams: list[EventStream] = []

    def add(self, name: str, callback: Callback) -> Callable[[], None]:
        """Call it for every event of that name (`*`: of all); answers how to end that."""
        _check(name)
        listener = _Listener(name, callback, self._home)
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)
                listener.end()

        return remove

    def stream(self, names: tuple[str, ...]) -> EventStream:
        for name in names:
            _check(name)
        stream = EventStream(names or (EVERY,), self._streams.remove)
        self._streams.append(stream)
        return stream

    def tell(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            listener.take(event)
        for stream in tuple(self._streams):
            stream.take(event)

    def end(self) -> None:
        """Nothing more comes: what waits is delivered, within a moment."""
        for stream in list(self._streams):
            stream.finish()
        for listener in self._listeners:
            listener.end()
        for listener in self._listeners:
            listener.join(FAREWELL_SECONDS)


def _check(name: str) -> None:
    if name not in (*NAMES, EVERY):
        near = get_close_matches(name, NAMES, n=1, cutoff=0.5)
        hint = f"Did you mean '{near[0]}'?" if near else f"It is one of: {', '.join(NAMES)}, or '*' for all."
        raise InvalidArgument(f"there is no event '{name}'.", hint=hint)


class _Listener:
    def __init__(self, name: str, callback: Callback, home: Callable[[], asyncio.AbstractEventLoop | None]) -> None:
        self._name, self._callback, self._home = name, callback, home
        self._waiting: deque[Event] = deque(maxlen=KEPT)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._left_out = 0

    def take(self, event: Event) -> None:
        if self._name not in (EVERY, event.name):
            return
        with self._changed:
            self._left_out += len(self._waiting) == KEPT
            self._waiting.append(event)
            self._is_over = False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="evertick-listener", daemon=True)
                self._thread.start()
            self._changed.notify()

    def end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def join(self, timeout: float) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._is_over:
                        self._thread = None
                        return
                    self._changed.wait()
                event = self._waiting.popleft()
                left_out, self._left_out = self._left_out, 0
            if left_out:
                log.warning("listener.behind listener=%r left_out=%d", self._callback, left_out)
            try:
                made = self._callback(event)
                if inspect.iscoroutine(made):
                    self._await(made)
            except Exception:
                log.exception("listener.raised listener=%r event=%s", self._callback, event.name)

    def _await(self, made: Any) -> None:
        home = self._home()
        if home is None or home.is_closed():
            made.close()
            raise RuntimeError("the event loop that the listener runs on is closed")
        asyncio.run_coroutine_threadsafe(made, home).result()


class EventStream:
    """Events as they come: `async for event in scheduler.events(): ...`; it ends when the scheduler has stopped."""

    def __init__(self, names: tuple[str, ...], forget: Callable[[EventStream], None]) -> None:
        self._names = names
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Event] = deque(maxlen=KEPT)
        self._some = asyncio.Event()
        self._is_over = False

    def take(self, event: Event) -> None:
        if EVERY in self._names or event.name in self._names:
            self._waiting.append(event)
            self._wake()

    def finish(self) -> None:
        self._is_over = True
        self._wake()

    def close(self) -> None:
        """Hear no more."""
        if not self._is_over:
            self.finish()
        with contextlib.suppress(ValueError):  # for the second time
            self._forget(self)

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._some.set)
        except RuntimeError:
            self._is_over = True  # its loop has ended

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            if self._is_over:
                self.close()
                raise StopAsyncIteration
            self._some.clear()
            if self._waiting or self._is_over:
                continue
            await self._some.wait()
        return self._waiting.popleft()


def status_event(status: str, now: Instant, details: Mapping[str, Any] | None = None) -> Event:
    return Event(STATUS, to_datetime(now), status=status, detail=str(details) if details else None)
