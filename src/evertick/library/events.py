"""Events of a running scheduler for its listeners; a slow or failing listener does not affect the others."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from itertools import chain
from typing import TypeAlias

from evertick.dispatch.broadcast import Broadcast, ReaderThread
from evertick.dispatch.facts import Answered, Fact
from evertick.errors import InvalidArgument
from evertick.loop.effects import Log
from evertick.model.instant import SECOND, Instant, to_datetime, to_text
from evertick.model.lifecycle import (
    CANCELLED,
    FAILED,
    LOST,
    RETRYING,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    TERMINAL,
    TIMED_OUT,
    Trigger,
)
from evertick.model.run import Change, Entry

log = logging.getLogger("evertick.events")

KEPT = 10_000
"""Events that listeners may be behind; one that is further behind loses the oldest."""
FAREWELL_SECONDS = 5.0

START, COMPLETE, ERROR = "execution:start", "execution:complete", "execution:error"
CANCELLED_, SKIPPED_ = "execution:cancelled", "execution:skipped"
CHANGED, STATUS = "schedule:changed", "scheduler:status"
NAMES = (START, COMPLETE, ERROR, CANCELLED_, SKIPPED_, CHANGED, STATUS)
EVERY = "*"


@dataclass(frozen=True, slots=True)
class Event:
    """An event; fields that do not apply to its kind are None."""

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
    """Why an occurrence was skipped."""
    duration_seconds: float | None = None
    will_retry: bool | None = None
    """For an error: whether a retry follows."""
    retry_attempt: int | None = None
    """For an error: the number of the next retry, or of the last one."""
    change: str | None = None
    """`added`, `updated` or `removed`."""
    status: str | None = None
    """The status of the scheduler: `starting`, `standby`, `running`, `stopping`, `stopped`."""

    def to_dict(self) -> dict[str, object]:
        """The fields that are set, with their JSON names: `willRetry`, `scheduledFor`."""
        plain: dict[str, object] = {}
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
    """The event for a fact; None if listeners have no event for it."""
    match fact:
        case Change():
            return _of_change(fact)
        case Entry() if fact.state is SKIPPED and fact.trigger is not Trigger.ITEM:
            many = f"{fact.occurrences:,} occurrences, until {to_text(fact.through)}" if fact.through else None
            return replace(_of_run(SKIPPED_, fact), detail=many or fact.detail, reason=str(fact.reason))
        case Log(event, fields) if event in _CHANGES:
            return Event(CHANGED, to_datetime(now), str(fields["job"]), change=_CHANGES[event])
    return None


def _of_change(change: Change) -> Event | None:
    # A detail added to a run that continues unchanged has no trigger; an item is a part of its parent's run.
    name = _BY_STATE.get(change.state) if change.trigger not in (None, Trigger.ITEM) else None
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


class CommitNews:
    """Wakes the calls that wait for the end of a run or an answer, once this process has written it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[asyncio.Event]:
        """An event that each end of a run of a job sets, or the answer to a request."""
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiting.setdefault(name, []).append(waiter)
        try:
            yield waiter[1]
        finally:
            with self._lock:
                self._waiting[name].remove(waiter)
                if not self._waiting[name]:
                    del self._waiting[name]

    def publish(self, fact: Fact | int) -> None:
        """Called in the thread of the scheduler for every fact; most of the time no call waits."""
        if not self._waiting:
            return
        match fact:
            case Change() | Entry() if fact.state in TERMINAL:
                self._wake([fact.key.job_id])
            case Answered(requests):
                self._wake(requests)

    def _wake(self, names: Iterable[str]) -> None:
        with self._lock:
            for loop, event in chain.from_iterable(self._waiting.get(name, ()) for name in names):
                with contextlib.suppress(RuntimeError):  # its loop is closed
                    loop.call_soon_threadsafe(event.set)


class Listeners:
    """Each callback has a thread of its own, so that none waits for another, and the loop for none."""

    def __init__(self, home: Callable[[], asyncio.AbstractEventLoop | None]) -> None:
        self._home = home
        self._events: Broadcast[Event] = Broadcast(KEPT)
        self._threads: list[ReaderThread[Event]] = []
        self._streams: list[EventStream] = []

    def add(self, name: str, callback: Callback) -> Callable[[], None]:
        """Call it for every event with this name (`*`: all events); returns a function that removes it."""
        _check(name)

        def call(event: Event) -> None:
            if name in (EVERY, event.name):
                made = callback(event)
                if inspect.iscoroutine(made):
                    _await(made, self._home())

        thread = ReaderThread(self._events, call, name=callback)
        self._threads.append(thread)

        def remove() -> None:
            if thread in self._threads:
                self._threads.remove(thread)
                thread.close()

        return remove

    def stream(self, names: tuple[str, ...]) -> EventStream:
        for name in names:
            _check(name)
        stream = EventStream(names or (EVERY,), self._events, self._streams.remove)
        self._streams.append(stream)
        return stream

    def publish(self, event: Event) -> None:
        self._events.publish(lambda _number: [event])

    def end(self) -> None:
        """Deliver what was published, for a moment, and stop."""
        for stream in list(self._streams):
            stream.finish()
        for thread in self._threads:
            thread.end()
        for thread in self._threads:
            thread.join(FAREWELL_SECONDS)


def _check(name: str) -> None:
    if name not in (*NAMES, EVERY):
        near = get_close_matches(name, NAMES, n=1, cutoff=0.5)
        hint = f"Did you mean '{near[0]}'?" if near else f"Use one of: {', '.join(NAMES)}, or '*' for all."
        raise InvalidArgument(f"unknown event '{name}'.", hint=hint)


def _await(made: Coroutine[object, object, object], home: asyncio.AbstractEventLoop | None) -> None:
    if home is None or home.is_closed():
        made.close()
        raise RuntimeError("the event loop that the listener runs on is closed")
    asyncio.run_coroutine_threadsafe(made, home).result()


class EventStream:
    """A stream of events: `async for event in scheduler.events(): ...`; it ends when the scheduler stops."""

    def __init__(self, names: tuple[str, ...], events: Broadcast[Event], forget: Callable[[EventStream], None]) -> None:
        self._names = names
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._some = asyncio.Event()
        self._is_over = False
        self._taken: deque[Event] = deque()
        self._events = events
        self._cursor = events.open_cursor(self._wake)

    def finish(self) -> None:
        self._is_over = True
        self._wake()

    def close(self) -> None:
        """Stop listening."""
        if not self._is_over:
            self.finish()
        self._events.close_cursor(self._cursor)
        with contextlib.suppress(ValueError):  # for the second time
            self._forget(self)

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._some.set)
        except RuntimeError:
            self._is_over = True  # its loop has ended
            self._events.close_cursor(self._cursor)

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        while not self._taken:
            self._some.clear()
            is_over, events = self._is_over, self._cursor.take()
            self._taken += [event for event in events if EVERY in self._names or event.name in self._names]
            if events:
                continue
            if is_over:
                self.close()
                raise StopAsyncIteration
            await self._some.wait()
        return self._taken.popleft()


def status_event(status: str, now: Instant, details: Mapping[str, object] | None = None) -> Event:
    return Event(STATUS, to_datetime(now), status=status, detail=str(details) if details else None)
