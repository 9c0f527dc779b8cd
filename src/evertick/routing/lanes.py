"""Which lane a launch takes, and when it is its turn: jobs that are slow to start must not delay the others.

A dispatch is counted from the moment it leaves its lane's queue until its first process is there. A job whose
dispatches were slow more than ten times within a minute takes the slow lane until that minute is over. Before a job is
known to be slow it is in the fast lane; so a tenth of that is kept for jobs whose last dispatch was fast, and they go
first when there is a queue: a thousand jobs that turn out to be slow at the same moment do not delay them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from enum import Enum, StrEnum
from typing import Generic, NamedTuple, TypeVar

from evertick.model.instant import MINUTE, Instant
from evertick.settings.parts import LaneSettings

Ticket = TypeVar("Ticket", bound=Hashable)
KNOWN_MAX = 100_000
"""How many jobs are remembered as fast: the most recently dispatched."""


class Lane(StrEnum):
    FAST = "fast"
    SLOW = "slow"


class Admission(Enum):
    """What to do with an offered launch."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"
    """The lane and its queue are full: the run waits with the scheduler, and is offered again."""


class _Dispatch(NamedTuple):
    lane: Lane
    job_id: str
    since: Instant


class Lanes(Generic[Ticket]):
    """Dispatches in progress and waiting. It reads no clock: every method takes the time."""

    def __init__(self, settings: LaneSettings) -> None:
        self._settings = settings
        self._size = {Lane.FAST: settings.fast, Lane.SLOW: settings.slow}
        self._bound = {Lane.FAST: settings.fast_queue, Lane.SLOW: settings.slow_queue}
        self._used = {Lane.FAST: 0, Lane.SLOW: 0}
        self._waiting: dict[Lane, OrderedDict[Ticket, str]] = {lane: OrderedDict() for lane in Lane}
        self._express: OrderedDict[Ticket, str] = OrderedDict()
        """Launches that wait for the fast lane and are known to be fast."""
        self._known_fast: OrderedDict[str, None] = OrderedDict()
        self._under_way: OrderedDict[Ticket, _Dispatch] = OrderedDict()
        self._minute = 0
        self._slow_counts: dict[str, int] = {}

    def lane_of(self, job_id: str, now: Instant) -> Lane:
        self._forget_last_minute(now)
        return Lane.SLOW if self._slow_counts.get(job_id, 0) > self._settings.forgiven else Lane.FAST

    def offer(self, ticket: Ticket, job_id: str, now: Instant) -> Admission:
        """Accept a launch; one answered with `LATER` is returned by `ended` or `overdue`."""
        lane = self.lane_of(job_id, now)
        is_express = lane is Lane.FAST and job_id in self._known_fast
        if self._used[lane] < self._size_for(lane, is_express=is_express):
            self._begin(lane, ticket, job_id, now)
            return Admission.NOW
        waiting = self._express if is_express else self._waiting[lane]
        if len(self._waiting[lane]) + (len(self._express) if lane is Lane.FAST else 0) >= self._bound[lane]:
            return Admission.NEVER
        waiting[ticket] = job_id
        return Admission.LATER

    def _size_for(self, lane: Lane, *, is_express: bool) -> int:
        reserve = self._settings.reserve if lane is Lane.FAST and not is_express else 0
        return self._size[lane] - reserve

    def ended(self, ticket: Ticket, now: Instant, *, is_measured: bool = True) -> Sequence[Ticket]:
        """A dispatch is over; returns the launches whose turn it is now. An unknown one changes nothing."""
        dispatch = self._under_way.pop(ticket, None)
        if dispatch is None:
            return ()
        if is_measured:
            self._measure(dispatch.job_id, now - dispatch.since, now)
        self._used[dispatch.lane] -= 1
        return self._advance(dispatch.lane, now)

    def _measure(self, job_id: str, took_us: int, now: Instant) -> None:
        if took_us > self._settings.slow_after_us:
            self._forget_last_minute(now)
            self._slow_counts[job_id] = self._slow_counts.get(job_id, 0) + 1
            self._known_fast.pop(job_id, None)
        else:
            self._known_fast[job_id] = None
            self._known_fast.move_to_end(job_id)
            if len(self._known_fast) > KNOWN_MAX:
                self._known_fast.popitem(last=False)

    def overdue(self, now: Instant) -> Sequence[Ticket]:
        """Let slow dispatches release their place in the fast lane; returns the launches whose turn it is now.

        Without it, many slow jobs that come at once for the first time would fill the fast lane before they are known.
        """
        for ticket, dispatch in self._under_way.items():
            if now - dispatch.since <= self._settings.slow_after_us:
                break
            if dispatch.lane is Lane.FAST:
                self._under_way[ticket] = dispatch._replace(lane=Lane.SLOW)
                self._used[Lane.FAST] -= 1
                self._used[Lane.SLOW] += 1
        return self._advance(Lane.FAST, now)

    def withdraw(self, ticket: Ticket) -> bool:
        """Whether it was still waiting; then it is out of the queue."""
        queues = (*self._waiting.values(), self._express)
        return any(waiting.pop(ticket, None) is not None for waiting in queues)

    def is_under_way(self, ticket: Ticket) -> bool:
        return ticket in self._under_way

    def load(self) -> dict[str, dict[str, int]]:
        """Per lane: how many dispatches are under way and wait, and how many may."""
        return {
            str(lane): {
                "under_way": self._used[lane],
                "size": self._size[lane],
                "waiting": len(self._waiting[lane]),
                "queue": self._bound[lane],
            }
            for lane in Lane
        }

    @property
    def has_waiting(self) -> bool:
        return any(self._waiting.values()) or bool(self._express)

    def _advance(self, lane: Lane, now: Instant) -> Sequence[Ticket]:
        turns: list[Ticket] = []
        queues = [(self._express, True)] if lane is Lane.FAST else []
        for waiting, is_express in (*queues, (self._waiting[lane], False)):
            while waiting and self._used[lane] < self._size_for(lane, is_express=is_express):
                ticket, job_id = waiting.popitem(last=False)
                self._begin(lane, ticket, job_id, now)
                turns.append(ticket)
        return turns

    def _begin(self, lane: Lane, ticket: Ticket, job_id: str, now: Instant) -> None:
        self._used[lane] += 1
        self._under_way[ticket] = _Dispatch(lane, job_id, now)

    def _forget_last_minute(self, now: Instant) -> None:
        minute = now // MINUTE
        if minute != self._minute:
            self._minute = minute
            self._slow_counts.clear()
