"""What happens, as it happens, for whoever wants to know; nobody who listens can hold up what is listened to."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from evertick.dispatch.events import DROPPED, Event, kept, kind_of
from evertick.dispatch.facts import Fact
from evertick.loop.messages import NodesSeen
from evertick.model.instant import Instant

log = logging.getLogger("evertick.feed")

SIZE: Final = 10_000
AT_ONCE: Final = 500
"""Events that a listener takes in one go."""


class Feed:
    """A ring of numbered events, and places in it. Publishing costs the same however many listen.

    Nothing is queued for anybody: a listener has a place in the ring, and one that is overtaken is told how many
    events it has lost. `name` differs at each start, because the numbers begin anew.
    """

    def __init__(self, name: str, now: Callable[[], Instant], size: int = SIZE) -> None:
        self.name = name
        self._now = now
        self._ring: list[Event | None] = [None] * size
        self._lock = threading.Lock()
        self._places: tuple[Place, ...] = ()
        self._nodes: frozenset[str] | None = None
        self.last = 0
        """The number of the newest event."""
        self.dropped = 0
        """Events that listeners have lost, all together."""

    @property
    def oldest(self) -> int:
        """The number of the oldest event that can still be had; one beyond the last where there is none."""
        return max(1, self.last - len(self._ring) + 1)

    @property
    def listeners(self) -> int:
        return len(self._places)

    def __call__(self, facts: Sequence[Fact]) -> None:
        """Publish; it is a listener to facts."""
        now = self._now()
        with self._lock:
            last = self.last
            for fact in facts:
                kind = kind_of(fact)
                if kind is None or (isinstance(fact, NodesSeen) and not self._is_news(fact)):
                    continue
                last += 1
                self._ring[last % len(self._ring)] = Event(last, now, kind, kept(fact))
            if last == self.last:
                return
            self.last = last
        for place in self._places:
            place.wake_if_waiting()

    def since(self, after: int, limit: int = AT_ONCE) -> tuple[list[Event], int]:
        """The events behind a number, oldest first, and how many before them are lost."""
        with self._lock:
            first = max(after + 1, self.oldest)
            numbers = range(first, min(first + limit, self.last + 1))
            found = [event for number in numbers if (event := self._ring[number % len(self._ring)]) is not None]
            return found, max(0, first - after - 1)

    def place(self, wake: Callable[[], None], after: int | None = None) -> Place:
        """A place to listen from: behind a number, or from now on. `wake` comes from any thread and must not wait."""
        with self._lock:
            place = Place(self, wake, self.last if after is None else after)
            self._places = (*self._places, place)
        return place

    def leave(self, place: Place) -> None:
        with self._lock:
            self._places = tuple(one for one in self._places if one is not place)

    def listen(self, hear: Callable[[Event], None], after: int | None = None) -> Callable[[], None]:
        """Call `hear` for each event, from a thread of its own; answers what ends it."""
        listener = _Listener(self, hear, after)
        listener.start()
        return listener.stop

    async def stream(self, after: int | None = None) -> AsyncIterator[Event]:
        """The events as they come, for asyncio."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(news.set)
            except RuntimeError:  # the event loop has ended, and with it the listening
                self.leave(place)

        place = self.place(wake, after)
        try:
            while True:
                news.clear()
                events = place.take()
                for event in events:
                    yield event
                if not events:
                    await news.wait()
        finally:
            self.leave(place)

    def _is_news(self, seen: NodesSeen) -> bool:
        """Nodes are seen every two seconds, and seldom others than before."""
        is_news, self._nodes = seen.nodes != self._nodes, seen.nodes
        return is_news


class Place:
    """Where a listener stands in the ring. It belongs to one thread or task."""

    __slots__ = ("_feed", "_is_waiting", "_wake", "after", "dropped")

    def __init__(self, feed: Feed, wake: Callable[[], None], after: int) -> None:
        self._feed = feed
        self._wake = wake
        self._is_waiting = False
        self.after = after
        self.dropped = 0

    def take(self, limit: int = AT_ONCE) -> list[Event]:
        """What has come since; when there is nothing, `wake` will be called at the next event."""
        self._is_waiting = True
        events, lost = self._feed.since(self.after, limit)
        if not events:
            return []
        self._is_waiting = False
        self.after = events[-1].number
        if lost:
            self.dropped += lost
            self._feed.dropped += lost
            # With the number of the newest that is lost: whoever comes back with it has lost no more.
            events.insert(0, Event(events[0].number - 1, events[0].at, DROPPED, lost))
        return events

    def wake_if_waiting(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._wake()


class _Listener:
    """A callback and its thread. What it raises is logged, and it goes on."""

    def __init__(self, feed: Feed, hear: Callable[[Event], None], after: int | None) -> None:
        self._feed = feed
        self._hear = hear
        self._news = threading.Event()
        self._is_stopping = False
        self._place = feed.place(self._news.set, after)
        self._thread = threading.Thread(target=self._run, name="evertick-listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._is_stopping = True
        self._news.set()
        self._feed.leave(self._place)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            self._news.clear()
            if self._is_stopping:  # after the clear, which may have taken the stop's signal
                return
            events = self._place.take()
            for event in events:
                if self._is_stopping:
                    return
                try:
                    self._hear(event)
                except Exception:
                    log.exception("listener.raised")
            if not events:
                self._news.wait()
