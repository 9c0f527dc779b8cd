"""One publisher and many readers, none of which can hold up the publisher or another reader.

The items are in a ring, numbered from one. Nothing is queued for a reader: it has a cursor in the ring, and a reader
that is overtaken loses the items in between and learns how many. Publishing costs the same however many readers wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

log = logging.getLogger("evertick.broadcast")

AT_ONCE: Final = 500
"""Items that a reader takes at once."""

Item = TypeVar("Item")


class Broadcast(Generic[Item]):
    def __init__(self, size: int, replace_lost: Callable[[int, int, Item], Item] | None = None) -> None:
        """`replace_lost` makes the item that a reader gets instead of lost ones.

        It is called with the number of the newest lost item, how many are lost, and the item that follows.
        """
        self._ring: list[Item | None] = [None] * size
        self._replace_lost = replace_lost
        self._lock = threading.Lock()
        self._cursors: tuple[Cursor[Item], ...] = ()
        self.last = 0
        """The number of the newest item."""
        self.dropped = 0
        """Items that all readers together have lost."""

    @property
    def oldest(self) -> int:
        """The number of the oldest item that can still be read; if there is none, one after the last."""
        return max(1, self.last - len(self._ring) + 1)

    @property
    def listeners(self) -> int:
        return len(self._cursors)

    @property
    def size(self) -> int:
        """Items that can be read again."""
        return len(self._ring)

    def publish(self, make: Callable[[int], Iterable[Item]], overwritten: int = 0) -> None:
        """Add the items that `make` returns for the number of the first of them; from any thread.

        `overwritten` items before them are not made, because as many as the ring holds follow.
        """
        with self._lock:
            first = self.last + overwritten + 1
            number = first - 1
            for number, item in enumerate(make(first), first):
                self._ring[number % len(self._ring)] = item
            if number == self.last:
                return
            self.last = number
        self.wake_all(only_waiting=True)

    def since(self, after: int, limit: int = AT_ONCE) -> tuple[list[Item], int]:
        """The items after a number, oldest first, and how many before them are lost."""
        with self._lock:
            first = max(after + 1, self.oldest)
            numbers = range(first, min(first + limit, self.last + 1))
            found = [item for number in numbers if (item := self._ring[number % len(self._ring)]) is not None]
            return found, max(0, first - after - 1)

    def open_cursor(
        self, wake: Callable[[], None], after: int | None = None, behind_max: int | None = None
    ) -> Cursor[Item]:
        """Read after a number, or from now on.

        `wake` is called from any thread and must not wait. A reader that is further behind than `behind_max` loses the
        items in between.
        """
        with self._lock:
            cursor = Cursor(self, wake, self.last if after is None else after, behind_max)
            self._cursors = (*self._cursors, cursor)
        return cursor

    def close_cursor(self, cursor: Cursor[Item]) -> None:
        with self._lock:
            self._cursors = tuple(one for one in self._cursors if one is not cursor)

    def wake_all(self, *, only_waiting: bool = False) -> None:
        for cursor in self._cursors:
            if cursor.is_waiting or not only_waiting:
                cursor.is_waiting = False
                cursor.wake()

    def note_lost(self, lost: int, following_number: int, following: Item) -> Item | None:
        self.dropped += lost
        return None if self._replace_lost is None else self._replace_lost(following_number - 1, lost, following)


class Cursor(Generic[Item]):
    """The position of one reader. It belongs to one thread or task."""

    __slots__ = ("_behind_max", "_broadcast", "after", "dropped", "is_waiting", "wake")

    def __init__(
        self, broadcast: Broadcast[Item], wake: Callable[[], None], after: int, behind_max: int | None
    ) -> None:
        self._broadcast = broadcast
        self._behind_max = behind_max
        self.wake = wake
        self.is_waiting = False
        self.after = after
        self.dropped = 0
        """Items that this reader has lost."""

    def take(self, limit: int = AT_ONCE) -> list[Item]:
        """The next items; when there are none, `wake` is called at the next one."""
        self.is_waiting = True
        start = self.after
        if self._behind_max is not None:
            start = max(start, self._broadcast.last - self._behind_max)
        items, lost = self._broadcast.since(start, limit)
        if not items:
            return []
        self.is_waiting = False
        first = start + lost + 1
        lost, self.after = first - 1 - self.after, first + len(items) - 1
        if lost:
            self.dropped += lost
            replacement = self._broadcast.note_lost(lost, first, items[0])
            if replacement is not None:
                items.insert(0, replacement)
        return items


class ReaderThread(Generic[Item]):
    """Calls a function for each item, in a thread that starts with the first one. Exceptions are logged."""

    def __init__(
        self,
        broadcast: Broadcast[Item],
        call: Callable[[Item], None],
        after: int | None = None,
        *,
        name: object = None,
    ) -> None:
        """`name` is what the log calls it; None: the function."""
        self._broadcast = broadcast
        self._call = call
        self._name = name or call
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_ending = self._is_closed = False
        self._cursor = broadcast.open_cursor(self._wake, after)
        if after is None:
            self._cursor.take()  # nothing; from now on it is woken
        else:
            self._wake()

    def end(self) -> None:
        """Let the thread end after the function was called for everything published; it starts again for more."""
        with self._lock:
            self._is_ending = True
            self._news.set()

    def close(self) -> None:
        """Stop calling the function; also from inside it."""
        self._broadcast.close_cursor(self._cursor)
        with self._lock:
            self._is_closed = self._is_ending = True
            self._news.set()

    def join(self, timeout: float) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _wake(self) -> None:
        with self._lock:
            if self._is_closed:  # a publisher may still have seen the cursor
                return
            self._is_ending = False
            self._news.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="evertick-listener", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._news.clear()
            dropped = self._cursor.dropped
            items = self._cursor.take()
            if self._cursor.dropped > dropped:
                log.warning("listener.behind listener=%r lost=%d", self._name, self._cursor.dropped - dropped)
            for item in items:
                if self._is_closed:
                    return
                try:
                    self._call(item)
                except Exception:
                    log.exception("listener.raised listener=%r item=%r", self._name, item)
            if items:
                continue
            with self._lock:
                if self._is_ending and not self._news.is_set():
                    self._thread = None
                    return
                is_ending = self._is_ending
            if not is_ending:
                self._news.wait()
