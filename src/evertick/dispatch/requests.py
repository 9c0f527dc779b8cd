"""Brings requests to the loop: announced by the submitter or the database, and polled as well."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from evertick.dispatch.writer import Ask
from evertick.errors import StoreError
from evertick.loop.messages import Message
from evertick.model.instant import SECOND
from evertick.model.ledger import BUCKETS
from evertick.store import ChangeStamps, Ledger, Request, RequestAnnouncements

log = logging.getLogger("evertick.requests")

POLL_SECONDS: Final = 1.0
EARLY_SECONDS: Final = 0.1
"""A look may be this early: the loop does not wake a second time for it."""
STAMP_SECONDS: Final = 2.0
"""Time between two checks of the stamp of a ledger that has one: the submitter notifies the scheduler by its socket."""
UNSTAMPED_LOOKS: Final = 30
"""After this many checks of an unchanged stamp, the ledger is read anyway."""
REQUESTS_MAX: Final = 200
"""Requests read in one poll."""

LISTEN_SECONDS: Final = 1.0
"""Duration of one wait: the thread checks only afterwards whether it should stop."""
AWAY_SECONDS: Final = 5.0


Translate: TypeAlias = Callable[[Ledger, Sequence[Request]], Sequence[Message]]


class RequestPoller:
    """Reads requests in the writer's turn, one poll at a time.

    A ledger with stamps is read only after a commit: an idle scheduler would wake its writer each second for nothing.
    """

    def __init__(
        self,
        write: Callable[[Ask], None],
        owned_buckets: Callable[[], Sequence[int]],
        translate: Translate,
        stamps: ChangeStamps | None = None,
    ) -> None:
        self._write, self._owned_buckets, self._translate = write, owned_buckets, translate
        self._stamps = stamps
        self._stamp: object = None
        self._looks = 0
        self._look_at_us = 0
        self._is_polling = False

    def turned(self, at_us: int) -> None:
        """The loop has ended an iteration, which it does each second or two: look if a look is due.

        A timer of its own would wake an idle scheduler a second time for this.
        """
        if at_us >= self._look_at_us:
            seconds = POLL_SECONDS if self._stamps is None else STAMP_SECONDS
            self._look_at_us = at_us + int((seconds - EARLY_SECONDS) * SECOND)
            if self.may_have_news():
                self.poll()

    def may_have_news(self) -> bool:
        """Whether a read may find a request: there was a commit since the last one, or that one found some."""
        if self._stamps is None:
            return True
        if not self._owned_buckets():
            return False  # nothing would be read, and the stamp would count as seen
        stamp = self._stamps.change_stamp()  # before the read: a commit in between has another stamp
        self._looks += 1
        if stamp == self._stamp and self._looks < UNSTAMPED_LOOKS:
            return False
        self._stamp, self._looks = stamp, 0
        return True

    def poll(self) -> None:
        """From any thread."""
        if self._owned_buckets() and not self._is_polling:
            self._is_polling = True
            self._write(Ask(self._read))

    def _read(self, ledger: Ledger) -> Sequence[Message]:
        self._is_polling = False  # before the read: a request submitted in between is not in it
        owned = self._owned_buckets()
        seen, self._stamp = self._stamp, None
        found = ledger.claim(owned if len(owned) < BUCKETS else None, REQUESTS_MAX)
        if not found:
            # Only now: a failed read is repeated, and so is one that found requests that may have to wait.
            self._stamp = seen
        return self._translate(ledger, found)


class RequestListener:
    """A thread that waits for announcements. Nothing depends on it: the node polls as well."""

    def __init__(self, store: RequestAnnouncements, look: Callable[[], None]) -> None:
        self._store = store
        self._look = look
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evertick-requests", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(2 * LISTEN_SECONDS + 1)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._store.wait_for_requests(LISTEN_SECONDS):
                    self._look()
            except StoreError as error:
                log.debug("requests.unannounced reason=%s", error)
                self._stopping.wait(AWAY_SECONDS)
