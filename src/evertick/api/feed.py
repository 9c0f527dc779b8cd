"""What happens while somebody looks: the scheduler's events, handed on to any number of pages.

One thread follows the scheduler's socket. Each page has a queue of its own that is bounded: a page that does not read
loses events and is told so, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from evertick.model.instant import from_datetime, to_text

log = logging.getLogger("evertick.api")

KEPT: Final = 5_000
QUEUE_MAX: Final = 1_000
LISTENERS_MAX: Final = 200
HEARTBEAT_SECONDS: Final = 15.0
AWAY_SECONDS: Final = 1.0
JOBS_MAX: Final = 100
"""Jobs that changed together and are told of one by one; of more, only that much has changed."""
GATHER_SECONDS: Final = 0.05
"""What happens within this time goes to a page together: in a storm it hears twenty times a second, not a thousand."""

Follow = Callable[[threading.Event], Iterable[Mapping[str, Any]]]
"""The scheduler's events from now on; it ends when the scheduler goes away or the event is set."""


class Told(NamedTuple):
    number: int
    kind: str
    data: Mapping[str, Any]
    text: bytes = b""
    """As it goes over the wire; written once, however many pages hear it. Empty: nobody listened when it happened."""


RESET: Final = "reset"
"""Something was not told: whoever shows anything asks for it again."""


class Feed:
    def __init__(self, follow: Follow | None = None, pause: Callable[[], None] = lambda: None) -> None:
        """`pause` is called before each event is handed on: whoever must not be disturbed is let go first."""
        self.name = secrets.token_hex(4)
        """Of this start of the server: numbers begin anew with each."""
        self._follow = follow
        self._pause = pause
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._kept: deque[Told] = deque(maxlen=KEPT)
        self._number = 0
        self._listeners: set[_Listener] = set()
        self._thread: threading.Thread | None = None
        self.watchers: list[Callable[[Mapping[str, Any]], None]] = []
        """Called for each event by the thread that follows, such as traces are."""

    def start(self) -> None:
        if self._follow is not None:
            self._thread = threading.Thread(target=self._run, name="evertick-feed", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        with self._lock:
            for listener in self._listeners:
                listener.wake()
        if self._thread is not None:
            self._thread.join(0.2)  # it may wait for the next event, and holds nothing that must be put away

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def tell(self, event: Mapping[str, Any]) -> None:
        """Hand an event on to everybody."""
        with self._lock:
            self._number += 1
            told = Told(self._number, str(event.get("kind", "message")), event)
            if self._listeners:
                told = told._replace(text=self.written(told))
            self._kept.append(told)
            for listener in self._listeners:
                listener.put(told)
        for watch in self.watchers:
            try:
                watch(event)
            except Exception:
                log.exception("feed.watcher_failed")

    def tell_reset(self) -> None:
        """Have every page ask again for what it shows."""
        self.tell({"kind": RESET})

    def tell_jobs(self, job_ids: Sequence[str]) -> None:
        """The definitions behind this server's answers have changed; without ids, what is wrong with some file."""
        if not 0 < len(job_ids) <= JOBS_MAX:
            self.tell_reset()
            return
        at = to_text(from_datetime(datetime.now(UTC)))
        for job_id in job_ids:
            self.tell({"kind": "job", "what": "defined", "job": job_id, "at": at})

    def written(self, told: Told) -> bytes:
        """An event as pages read it."""
        if told.text:
            return told.text
        known = {"id": told.number, "type": told.kind, **told.data}
        data = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
        return f"id: {self.name}-{told.number}\nevent: {told.kind}\ndata: {data}\n\n".encode("utf-8", "replace")

    async def gather(self, after: int | None = None) -> AsyncGenerator[list[Told], None]:
        """Events as they come, all that happened since the last time; empty when it is time for a sign of life.

        From behind a number where it is still known. One that is too old, or of another start, begins with a reset.
        """
        listener = _Listener(asyncio.get_running_loop())
        with self._lock:
            missed = [] if after is None else [told for told in self._kept if told.number > after]
            is_known = after is None or self._is_known(after)
            for told in missed if is_known else ():
                listener.put(told)
            self._listeners.add(listener)
            number = self._number
        try:
            if not is_known:
                yield [Told(number, RESET, {})]
            while not self._stop.is_set():
                yield await listener.take()
                await asyncio.sleep(GATHER_SECONDS)
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def _is_known(self, after: int) -> bool:
        oldest = self._kept[0].number if self._kept else self._number + 1
        return oldest - 1 <= after <= self._number

    def _run(self) -> None:
        assert self._follow is not None
        while not self._stop.is_set():
            try:
                for event in self._follow(self._stop):
                    self._pause()
                    self.tell(event)
            except Exception:
                log.exception("feed.failed")
            self._stop.wait(AWAY_SECONDS)  # the scheduler is not there yet, or has just gone


class _Listener:
    """The queue of one page: filled by any thread, emptied by the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Told] = deque()
        self._has_lost = False
        self._lock = threading.Lock()
        self._more = asyncio.Event()

    def put(self, told: Told) -> None:
        with self._lock:
            if len(self._waiting) >= QUEUE_MAX:
                self._waiting.clear()
                self._has_lost = True
            is_first = not self._waiting
            self._waiting.append(told)
        if is_first:  # of the others it will hear when it looks
            self.wake()

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the page's connection
            self._loop.call_soon_threadsafe(self._more.set)

    async def take(self) -> list[Told]:
        """All events since the last time; none when nothing has happened for a while."""
        found = self._take()
        if not found:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._more.wait(), HEARTBEAT_SECONDS)
            found = self._take()
        return found

    def _take(self) -> list[Told]:
        with self._lock:
            found = list(self._waiting)
            self._waiting.clear()
            self._more.clear()
            if self._has_lost:
                self._has_lost = False
                return [Told(found[-1].number if found else 0, RESET, {}), *found]
            return found
