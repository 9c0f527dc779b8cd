"""The scheduler's events, forwarded to any number of pages.

One thread follows the scheduler's socket. A page that does not read loses events and is asked to reload; no other page
waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from evertick.dispatch.broadcast import Broadcast
from evertick.model.instant import from_datetime, to_text

log = logging.getLogger("evertick.api")

KEPT: Final = 5_000
QUEUE_MAX: Final = 1_000
LISTENERS_MAX: Final = 200
HEARTBEAT_SECONDS: Final = 15.0
AWAY_SECONDS: Final = 1.0
JOBS_MAX: Final = 100
"""Up to this many changed jobs get one event each; for more, one event says that many have changed."""
GATHER_SECONDS: Final = 0.05
"""Events within this time are sent to a page together: in a storm it gets twenty messages a second, not a thousand."""

Follow = Callable[[threading.Event], Iterable[Mapping[str, object]]]
"""The scheduler's events from now on; it ends when the scheduler goes away or the event is set."""


class FeedMessage(NamedTuple):
    number: int
    kind: str
    data: Mapping[str, object]
    """Empty as soon as the text is rendered: thousands of messages stay in memory."""
    text: bytes = b""
    """The bytes on the wire, rendered once for all pages. Empty: no page was listening."""


_RENDERED: Final[Mapping[str, object]] = MappingProxyType({})
RESET: Final = "reset"
"""Events were dropped: clients must read the current state again."""


class Feed:
    def __init__(self, follow: Follow | None = None, pause: Callable[[], None] = lambda: None) -> None:
        """`pause` is called before each event is forwarded, so that more urgent work goes first."""
        self.name = secrets.token_hex(4)
        """Identifies this start of the server: numbers start again with each."""
        self._follow = follow
        self._pause = pause
        self._stop = threading.Event()
        self._told: Broadcast[FeedMessage] = Broadcast(
            KEPT, lambda number, _lost, _told: FeedMessage(number, RESET, {})
        )
        self._thread: threading.Thread | None = None
        self.watchers: list[Callable[[Mapping[str, object]], None]] = []
        """Called for each event by the thread that follows the feed, for example to make traces."""

    def start(self) -> None:
        if self._follow is not None:
            self._thread = threading.Thread(target=self._run, name="evertick-feed", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._told.wake_all()
        if self._thread is not None:
            self._thread.join(0.2)  # it may wait for the next event, and holds nothing that must be closed

    @property
    def listeners(self) -> int:
        return self._told.listeners

    def publish(self, event: Mapping[str, object]) -> None:
        """Forward an event to all pages."""
        self._told.publish(lambda number: [self._numbered(number, event)])
        for watch in self.watchers:
            try:
                watch(event)
            except Exception:
                log.exception("feed.watcher_failed")

    def _numbered(self, number: int, event: Mapping[str, object]) -> FeedMessage:
        told = FeedMessage(number, str(event.get("kind", "message")), event)
        return told._replace(text=self.written(told), data=_RENDERED) if self.listeners else told

    def publish_reset(self) -> None:
        """Make every page reload what it shows."""
        self.publish({"kind": RESET})

    def publish_jobs(self, job_ids: Sequence[str]) -> None:
        """The definitions behind this server's responses have changed; without ids, the errors of some file have."""
        if not 0 < len(job_ids) <= JOBS_MAX:
            self.publish_reset()
            return
        at = to_text(from_datetime(datetime.now(UTC)))
        for job_id in job_ids:
            self.publish({"kind": "job", "what": "defined", "job": job_id, "at": at})

    def written(self, told: FeedMessage) -> bytes:
        """An event as pages read it."""
        if told.text:
            return told.text
        known = {"id": told.number, "type": told.kind, **told.data}
        data = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
        return f"id: {self.name}-{told.number}\nevent: {told.kind}\ndata: {data}\n\n".encode("utf-8", "replace")

    async def gather(self, after: int | None = None) -> AsyncGenerator[list[FeedMessage], None]:
        """Events since the last call, as they come; empty when it is time for a beat.

        They begin after a given number, if it is still known. A number that is too old, or from another start, begins
        with a reset.
        """
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the page's connection
                loop.call_soon_threadsafe(news.set)

        is_known = after is None or self._told.oldest - 1 <= after <= self._told.last
        cursor = self._told.open_cursor(wake, after if is_known else None, QUEUE_MAX)
        try:
            if not is_known:
                yield [FeedMessage(cursor.after, RESET, {})]
            while not self._stop.is_set():
                news.clear()
                found = cursor.take(QUEUE_MAX)
                if not found:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), HEARTBEAT_SECONDS)
                    found = cursor.take(QUEUE_MAX)
                yield found
                await asyncio.sleep(GATHER_SECONDS)
        finally:
            self._told.close_cursor(cursor)

    def _run(self) -> None:
        assert self._follow is not None
        while not self._stop.is_set():
            try:
                for event in self._follow(self._stop):
                    self._pause()
                    self.publish(event)
            except Exception:
                log.exception("feed.failed")
            self._stop.wait(AWAY_SECONDS)  # the scheduler is not running yet, or has just ended
