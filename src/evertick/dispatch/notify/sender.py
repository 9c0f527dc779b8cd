"""Delivers messages: in its own threads, with retries, and with limits on everything."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Final, NamedTuple

from evertick.dispatch.notify.channels import Outcome, deliver, receiver_of
from evertick.dispatch.notify.config import NotifySettings
from evertick.dispatch.notify.egress import EgressGuard
from evertick.dispatch.notify.rules import Message
from evertick.model.notify import Channel

log = logging.getLogger("evertick.notify")

LOG_MAX: Final = 1_000
KNOWN_MAX: Final = 10_000
"""Recent deliveries, for queries."""


class Delivered(StrEnum):
    DELIVERED = "delivered"
    FAILED = "failed"
    DROPPED = "dropped"


class DeliveryRecord(NamedTuple):
    """How one message to one receiver ended."""

    message_id: str
    event: str
    job_id: str
    receiver: str
    end: Delivered
    attempts: int
    detail: str


@dataclass(order=True, slots=True)
class _Delivery:
    due: float
    number: int
    message: Message = field(compare=False)
    channel: Channel = field(compare=False)
    attempts: int = field(default=0, compare=False)


class Sender:
    """A few threads and a queue. `send` returns at once, whatever the receivers do.

    One attempt is in progress for a receiver at a time, so a slow one blocks one thread and no other receiver.
    """

    def __init__(
        self,
        settings: NotifySettings,
        *,
        deliver_once: Callable[[Message, Channel], Outcome] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        guard = EgressGuard.allowing(settings.allowed_targets)
        self._settings = settings
        self._deliver = deliver_once or (lambda message, channel: deliver(message, channel, settings, guard))
        self._clock = clock
        self._queue: list[_Delivery] = []
        self._numbers = count()
        self._waiting: Counter[Channel] = Counter()
        self._busy: set[Channel] = set()
        self._known: OrderedDict[tuple[str, Channel], None] = OrderedDict()
        self._changed = threading.Condition()
        self._is_stopping = False
        self._must_end = False
        self._records: deque[DeliveryRecord] = deque(maxlen=LOG_MAX)
        self._unlogged: deque[DeliveryRecord] = deque()
        self.counts: Counter[str] = Counter()
        """Deliveries by result."""
        self._threads = [
            threading.Thread(target=self._work, name=f"evertick-notify-{number}", daemon=True)
            for number in range(settings.workers)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def send(self, messages: Iterable[Message]) -> None:
        with self._changed:
            for message in messages:
                for channel in message.channels:
                    self._enqueue(message, channel)
            self._changed.notify_all()
        self._log_ends()

    def stop(self, timeout: float) -> bool:
        """Try each queued message once more, then stop; returns whether none was left."""
        deadline = self._clock() + timeout
        with self._changed:
            self._is_stopping = True
            for parcel in self._queue:
                parcel.due = 0.0
            heapq.heapify(self._queue)
            self._changed.notify_all()
            while (self._queue or self._busy) and (rest := deadline - self._clock()) > 0:
                self._changed.wait(rest)
            self._must_end = True
            left = list(self._queue)
            self._queue.clear()
            for parcel in left:
                self._close(parcel, Delivered.DROPPED, "the scheduler stopped")
            self._changed.notify_all()
        self._log_ends()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - self._clock()))
        return not left and not any(thread.is_alive() for thread in self._threads)

    def wait_until_idle(self, timeout: float) -> bool:
        """Whether nothing waits and nothing is in progress."""
        deadline = self._clock() + timeout
        with self._changed:
            while self._queue or self._busy:
                rest = deadline - self._clock()
                if rest <= 0:
                    return False
                self._changed.wait(rest)
            return True

    def records(self) -> list[DeliveryRecord]:
        """The newest deliveries, oldest first."""
        with self._changed:
            return list(self._records)

    def _enqueue(self, message: Message, channel: Channel) -> None:
        known = (f"{message.id}#{message.folded}", channel)
        if known in self._known:
            self.counts["repeated"] += 1
            return
        parcel = _Delivery(self._clock(), next(self._numbers), message, channel)
        if self._is_stopping:
            self._close(parcel, Delivered.DROPPED, "the scheduler stops")
        elif len(self._queue) >= self._settings.queue_max:
            self._close(parcel, Delivered.DROPPED, f"{self._settings.queue_max:,} messages are already queued")
        elif self._waiting[parcel.channel] >= self._settings.receiver_max:
            self._close(
                parcel, Delivered.DROPPED, f"{self._settings.receiver_max:,} messages are already queued for it"
            )
        else:
            self._known[known] = None
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
            self._push(parcel)

    def _push(self, parcel: _Delivery) -> None:
        heapq.heappush(self._queue, parcel)
        self._waiting[parcel.channel] += 1

    def _work(self) -> None:
        while True:
            with self._changed:
                parcel = self._next()
                if parcel is None:
                    return
            outcome = self._try(parcel)
            with self._changed:
                self._settle(parcel, outcome)
            # Logged before the caller that waits for the end continues.
            self._log_ends()
            with self._changed:
                self._busy.discard(parcel.channel)
                self._changed.notify_all()

    def _try(self, parcel: _Delivery) -> Outcome:
        try:
            return self._deliver(parcel.message, parcel.channel)
        except Exception as error:
            # A fault of ours costs one message, never the thread.
            log.exception("notify.fault receiver=%s", receiver_of(parcel.channel))
            return Outcome(False, type(error).__name__)

    def _next(self) -> _Delivery | None:
        """The first parcel that is due and whose receiver is free; None when it is time to end."""
        while not self._must_end:
            now = self._clock()
            held, found = [], None
            while self._queue and self._queue[0].due <= now:
                parcel = heapq.heappop(self._queue)
                if parcel.channel not in self._busy:
                    found = parcel
                    break
                held.append(parcel)
            for parcel in held:
                heapq.heappush(self._queue, parcel)
            if found is not None:
                self._waiting[found.channel] -= 1
                if not self._waiting[found.channel]:
                    del self._waiting[found.channel]
                self._busy.add(found.channel)
                return found
            later = [parcel.due for parcel in self._queue if parcel.due > now]
            self._changed.wait(max(0.0, min(later) - now) if later else None)
        return None

    def _settle(self, parcel: _Delivery, outcome: Outcome) -> None:
        parcel.attempts += 1
        if outcome.is_delivered:
            self._close(parcel, Delivered.DELIVERED, outcome.detail)
        elif outcome.may_retry and parcel.attempts < self._settings.attempts and not self._is_stopping:
            wait = self._settings.backoff_first_seconds * 2 ** (parcel.attempts - 1)
            parcel.due = self._clock() + min(wait, self._settings.backoff_max_seconds)
            self._push(parcel)
        else:
            self._close(parcel, Delivered.FAILED, outcome.detail)

    def _close(self, parcel: _Delivery, end: Delivered, detail: str) -> None:
        message = parcel.message
        record = DeliveryRecord(
            message.id,
            str(message.event),
            message.job_id,
            receiver_of(parcel.channel),
            end,
            parcel.attempts,
            detail,
        )
        self.counts[end] += 1
        self._records.append(record)
        self._unlogged.append(record)

    def _log_ends(self) -> None:
        """Outside of the lock: a slow log must not block a sending thread."""
        while True:
            try:
                record = self._unlogged.popleft()
            except IndexError:
                return
            level = logging.INFO if record.end is Delivered.DELIVERED else logging.WARNING
            words = "notify.%s event=%s job=%s receiver=%s attempts=%d detail=%s"
            log.log(
                level, words, record.end, record.event, record.job_id, record.receiver, record.attempts, record.detail
            )
