"""The fleet's members as this scheduler sees them: connected or not, silent, and since when."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from evertick.executors.fleet.messages import Heartbeat
from evertick.model.instant import SECOND
from evertick.model.member import Closed, Member
from evertick.settings.parts import FleetSettings

FORGET_SECONDS = 7 * 86_400.0
"""A member that was disconnected for this long is not listed any more, unless it is expected."""
HEARTBEATS_MIN, HEARTBEATS_KEPT = 3, 10
HEARTBEATS_COMPARED = 300
"""Heartbeats, at one a second, among which at least one was fast: it shows how much the others were delayed."""
CLOCKS_US = 2 * SECOND
"""Clock differences below this are not corrected: the delay of messages causes them too."""

log = logging.getLogger("evertick.fleet")


@dataclass(slots=True)
class Delays:
    """How much longer heartbeats took than the fastest of the last hundreds."""

    fastest_us: int | None = None
    before_us: int | None = None
    """The fastest of the period before; of two periods, one is always complete."""
    count: int = 0

    def delay_of(self, arrived_us: int, stamp: int) -> int:
        took_us = arrived_us - stamp  # two clocks with different starts: only changes matter
        if self.count >= HEARTBEATS_COMPARED:
            self.before_us, self.fastest_us, self.count = self.fastest_us, None, 0
        self.count += 1
        self.fastest_us = took_us if self.fastest_us is None else min(self.fastest_us, took_us)
        fastest = self.fastest_us if self.before_us is None else min(self.fastest_us, self.before_us)
        return took_us - fastest


@dataclass(slots=True)
class MemberState:
    heartbeat: Heartbeat
    address: str
    heard_at: float
    """By the monotonic clock."""
    seen_at: int
    """The same by the wall clock, for people."""
    is_connected: bool = True
    absent_since: float | None = None
    """The start of the connection in which the hub reported how long the member was silent; None: it did not."""
    is_forgotten: bool = False
    """Whether an operator removed it from the list; its attempts are still waited for."""
    ahead: tuple[int, ...] = ()
    """By how much its clock was ahead of ours when its last heartbeats were sent."""
    delays: Delays = field(default_factory=Delays)

    @property
    def ahead_us(self) -> int:
        """By the fastest of the last heartbeats; 0 where the delay of the message could explain it."""
        if len(self.ahead) < HEARTBEATS_MIN:
            return 0
        least_delayed = max(self.ahead)
        return least_delayed if abs(least_delayed) > CLOCKS_US else 0


class Membership:
    """Silence counts only while the connection works: over a dead one no message arrives."""

    def __init__(self, settings: FleetSettings) -> None:
        self._silence = settings.silence_us / SECOND
        self._lease = settings.lease_us / SECOND
        self._expected = settings.expected
        self._members: dict[str, MemberState] = {}
        self._connected_at: float | None = None
        self._heard_at = 0.0
        """When anything was last received from the fleet."""

    @property
    def is_connected(self) -> bool:
        return self._connected_at is not None

    def connected(self, now: float) -> None:
        self._connected_at = self._heard_at = now

    def received(self, now: float) -> None:
        """Any message. After a long silence of all members, count as newly connected."""
        if self._connected_at is not None and now - self._heard_at > self._silence:
            self._connected_at = now
        self._heard_at = now

    def disconnected(self) -> None:
        self._connected_at = None
        for state in self._members.values():
            state.is_connected = False

    def seen(self, heartbeat: Heartbeat, address: str, now: float, instant: int, age: float = 0.0) -> str | None:
        """A heartbeat; returns the member's name if everything unanswered must be sent to it again."""
        before = self._members.get(heartbeat.name)
        seen_at = instant - int(age * SECOND)
        # A restarted machine has another clock.
        is_same = before is not None and before.heartbeat.incarnation == heartbeat.incarnation
        delays = before.delays if before is not None and is_same else Delays()
        delay_us = delays.delay_of(int((now - age) * SECOND), heartbeat.stamp) if heartbeat.stamp else 0
        ahead = ((*(before.ahead if before else ()), heartbeat.clock - (seen_at - delay_us)))[-HEARTBEATS_KEPT:]
        self._members[heartbeat.name] = state = MemberState(
            heartbeat, address, now - age, seen_at, ahead=ahead, delays=delays
        )
        if not is_same and heartbeat.lease_us > self._lease * SECOND:
            log.warning(
                "member.lease_too_long member=%s lease_us=%d; it receives no runs until fleet.lease is as long",
                heartbeat.name,
                heartbeat.lease_us,
            )
        if state.ahead_us and before is not None and not before.ahead_us:
            log.warning("member.clock_differs member=%s ahead_us=%d", heartbeat.name, state.ahead_us)
        if before is None or not before.is_connected or before.heartbeat.incarnation != heartbeat.incarnation:
            return heartbeat.name
        # It was suspended or unreachable: what was sent to it may be lost, and its attempts given up.
        return heartbeat.name if now - before.heard_at > self._silence else None

    def restored(self, heartbeat: Heartbeat, address: str, now: float, instant: int, age: float) -> None:
        """A member that was connected before this scheduler was, and is not now."""
        state = self._members.get(heartbeat.name)
        if state is None:
            seen_at = instant - int(age * SECOND)
            state = MemberState(heartbeat, address, now - age, seen_at, is_connected=False)
            self._members[heartbeat.name] = state
        state.heard_at = max(state.heard_at, now - age)
        state.absent_since = self._connected_at

    def to_our_clock(self, name: str, at: int) -> int:
        """A member's instant by our clock: a wrong clock there must not move runs to another hour."""
        state = self._members.get(name)
        return at - state.ahead_us if state is not None else at

    def forget(self, name: str) -> None:
        """Drop a disconnected member from the list; when it connects again, it is listed again."""
        state = self._members.get(name)
        if state is not None and not self.is_member_connected(name):
            state.is_forgotten = True

    def boottime_of(self, name: str, now: float) -> int | None:
        """A lower bound of a member's clock since boot: its last heartbeat was sent before it arrived."""
        state = self._members.get(name)
        if state is None or not state.heartbeat.stamp:
            return None
        return state.heartbeat.stamp + int((now - state.heard_at) * SECOND)

    def disconnect(self, name: str) -> None:
        state = self._members.get(name)
        if state is not None:
            state.is_connected = False

    def is_member_connected(self, name: str) -> bool:
        state = self._members.get(name)
        return self.is_connected and state is not None and state.is_connected

    def is_heard(self, name: str, now: float) -> bool:
        """Whether it is connected and sent a heartbeat recently; a suspended one is connected and receives nothing."""
        return self.is_member_connected(name) and now - self._members[name].heard_at <= self._silence

    def connected_names(self) -> list[str]:
        return sorted(name for name, state in self._members.items() if self.is_connected and state.is_connected)

    def silence_of(self, name: str, now: float) -> float | None:
        """For how many seconds a member sent nothing although it could have; None: unknown."""
        if self._connected_at is None:
            return None
        state = self._members.get(name)
        since = self._connected_at if state is None else max(state.heard_at, self._connected_at)
        return max(0.0, min(now, self._heard_at) - since)

    def is_given_up(self, name: str, now: float) -> bool:
        """Not before its keeper has ended what it runs."""
        silence = self.silence_of(name, now)
        state = self._members.get(name)
        lease = self._lease if state is None else max(self._lease, state.heartbeat.lease_us / SECOND)
        return silence is not None and silence > lease

    def awaited_names(self, now: float) -> list[str]:
        """Members that are away and may still run what was launched there.

        For one that the hub named as absent, the silence before this connection counts too.
        """
        return [name for name, state in self._members.items() if not state.is_connected and self._may_run(name, now)]

    def _may_run(self, name: str, now: float) -> bool:
        state = self._members[name]
        lease = max(self._lease, state.heartbeat.lease_us / SECOND)
        was_told = self._connected_at is not None and state.absent_since == self._connected_at
        return not self.is_given_up(name, now) and not (was_told and self._heard_at - state.heard_at > lease)

    def usable(self, now: float) -> list[Member]:
        """All members; one whose lease is longer than ours is closed, because we would give it up too soon."""
        return [
            member._replace(is_open=False, closed=Closed.LEASE_TOO_LONG)
            if member.is_open and member.lease_us > self._lease * SECOND
            else member
            for member in self.members(now)
        ]

    def members(self, now: float) -> Iterator[Member]:
        for name in sorted({*self._members, *self._expected}):
            is_expected, state = name in self._expected, self._members.get(name)
            if state is None:
                is_awaited = not self.is_given_up(name, now)
                yield Member(name, False, 0, is_awaited=is_awaited, is_expected=True)
                continue
            is_gone = state.heartbeat.is_leaving or state.is_forgotten or now - state.heard_at > FORGET_SECONDS
            if not state.is_connected and is_gone and not is_expected:
                continue
            is_healthy = self.is_heard(name, now)
            member = state.heartbeat.to_member(state.address, state.seen_at, is_healthy=is_healthy)
            is_awaited = not is_healthy and not self.is_given_up(name, now)
            yield member._replace(is_awaited=is_awaited, is_expected=is_expected)
