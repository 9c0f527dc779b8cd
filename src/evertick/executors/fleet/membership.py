"""The fleet's members as this scheduler sees them: present, silent, and since when."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from evertick.executors.fleet.messages import Heartbeat
from evertick.executors.fleet.settings import FleetSettings
from evertick.model.instant import SECOND
from evertick.model.member import Closed, Member

FORGET_SECONDS = 7 * 86_400.0
"""A member that was away for this long is not told of any more, unless it is expected."""
CARDS_MIN, CARDS_KEPT = 3, 10
CARDS_COMPARED = 300
"""Among this many cards, at one a second, one was fast: by it the others are known to have been held up."""
CLOCKS_US = 2 * SECOND
"""Clock differences below this are not corrected: the delay of messages causes them too."""

log = logging.getLogger("evertick.fleet")


@dataclass(slots=True)
class Delays:
    """How long cards were on the way: by how much more than the fastest of the last hundreds."""

    fastest_us: int | None = None
    before_us: int | None = None
    """The fastest of those before; two spans, so that one is always long."""
    cards: int = 0

    def delay_of(self, arrived_us: int, stamp: int) -> int:
        took_us = (
            arrived_us - stamp
        )  # two clocks that nobody sets, from different beginnings: only changes mean anything
        if self.cards >= CARDS_COMPARED:
            self.before_us, self.fastest_us, self.cards = self.fastest_us, None, 0
        self.cards += 1
        self.fastest_us = took_us if self.fastest_us is None else min(self.fastest_us, took_us)
        fastest = self.fastest_us if self.before_us is None else min(self.fastest_us, self.before_us)
        return took_us - fastest


@dataclass(slots=True)
class MemberState:
    card: Heartbeat
    address: str
    heard_at: float
    """By a clock that only goes forward."""
    seen_at: int
    """The same as an instant, for people."""
    is_there: bool = True
    is_forgotten: bool = False
    """Whether people asked not to be told of it; what it had is still waited for."""
    ahead: tuple[int, ...] = ()
    """By how much its clock was ahead of ours when its last cards were sent."""
    delays: Delays = field(default_factory=Delays)

    @property
    def ahead_us(self) -> int:
        """As the fastest of the last cards has it; 0 where it might as well be the way that the message took."""
        if len(self.ahead) < CARDS_MIN:
            return 0
        least_delayed = max(self.ahead)
        return least_delayed if abs(least_delayed) > CLOCKS_US else 0


class Membership:
    """Silence counts only while something can be heard: no member can be, through a line that is cut or dead."""

    def __init__(self, settings: FleetSettings) -> None:
        self._silence = settings.silence_us / SECOND
        self._lease = settings.lease_us / SECOND
        self._expected = settings.expected
        self._seats: dict[str, MemberState] = {}
        self._connected_at: float | None = None
        self._heard_at = 0.0
        """When anything at all was last heard of the fleet."""

    @property
    def is_connected(self) -> bool:
        return self._connected_at is not None

    def connected(self, now: float) -> None:
        self._connected_at = self._heard_at = now

    def heard(self, now: float) -> None:
        """Something was said, by whomever. After a long silence of all of them it is as if we came anew."""
        if self._connected_at is not None and now - self._heard_at > self._silence:
            self._connected_at = now
        self._heard_at = now

    def disconnected(self) -> None:
        self._connected_at = None
        for seat in self._seats.values():
            seat.is_there = False

    def shown(self, card: Heartbeat, address: str, now: float, instant: int, age: float = 0.0) -> str | None:
        """A member says that it is there; answers its name when what it knows must be asked for anew."""
        before = self._seats.get(card.name)
        seen_at = instant - int(age * SECOND)
        # A machine that was restarted counts anew.
        is_same = before is not None and before.card.incarnation == card.incarnation
        delays = before.delays if before is not None and is_same else Delays()
        delay_us = delays.delay_of(int((now - age) * SECOND), card.stamp) if card.stamp else 0
        ahead = ((*(before.ahead if before else ()), card.clock - (seen_at - delay_us)))[-CARDS_KEPT:]
        self._seats[card.name] = seat = MemberState(card, address, now - age, seen_at, ahead=ahead, delays=delays)
        if not is_same and card.lease_us > self._lease * SECOND:
            log.warning(
                "member.lease_too_long member=%s lease_us=%d; it is given nothing until fleet.lease is as long",
                card.name,
                card.lease_us,
            )
        if seat.ahead_us and before is not None and not before.ahead_us:
            log.warning("member.clock_differs member=%s ahead_us=%d", card.name, seat.ahead_us)
        if before is None or not before.is_there or before.card.incarnation != card.incarnation:
            return card.name
        # Frozen, or behind a line that was cut: what was said to it meanwhile may be lost, and given up.
        return card.name if now - before.heard_at > self._silence else None

    def remembered(self, card: Heartbeat, address: str, now: float, instant: int, age: float) -> None:
        """The fleet tells of a member that was there before us, and is not now."""
        if card.name not in self._seats:
            self._seats[card.name] = MemberState(card, address, now - age, instant - int(age * SECOND), is_there=False)

    def ours(self, name: str, at: int) -> int:
        """An instant that a member tells, by our clock: a wrong one there must not put runs into another hour."""
        seat = self._seats.get(name)
        return at - seat.ahead_us if seat is not None else at

    def forgotten(self, name: str) -> None:
        """Nobody wants to hear of a member that is away; one that comes again is there again."""
        seat = self._seats.get(name)
        if seat is not None and not self.is_there(name):
            seat.is_forgotten = True

    def boottime_of(self, name: str, now: float) -> int | None:
        """What a member's clock since boot shows at least: its last card was sent before it was heard."""
        seat = self._seats.get(name)
        if seat is None or not seat.card.stamp:
            return None
        return seat.card.stamp + int((now - seat.heard_at) * SECOND)

    def left(self, name: str) -> None:
        seat = self._seats.get(name)
        if seat is not None:
            seat.is_there = False

    def is_there(self, name: str) -> bool:
        seat = self._seats.get(name)
        return self.is_connected and seat is not None and seat.is_there

    def is_heard(self, name: str, now: float) -> bool:
        """Whether it is there and has said so a moment ago; one that is frozen is there, and hears nothing."""
        return self.is_there(name) and now - self._seats[name].heard_at <= self._silence

    def there(self) -> list[str]:
        return sorted(name for name, seat in self._seats.items() if self.is_connected and seat.is_there)

    def silence_of(self, name: str, now: float) -> float | None:
        """For how many seconds a member could have been heard, and was not; None: we cannot tell."""
        if self._connected_at is None:
            return None
        seat = self._seats.get(name)
        since = self._connected_at if seat is None else max(seat.heard_at, self._connected_at)
        return max(0.0, min(now, self._heard_at) - since)

    def is_given_up(self, name: str, now: float) -> bool:
        """Not before its keeper has ended what it runs."""
        silence = self.silence_of(name, now)
        seat = self._seats.get(name)
        lease = self._lease if seat is None else max(self._lease, seat.card.lease_us / SECOND)
        return silence is not None and silence > lease

    def usable(self, now: float) -> list[Member]:
        """Everyone, as far as we may use them: one whose lease is longer than ours we would give up too soon."""
        return [
            member._replace(is_open=False, closed=Closed.LEASE_TOO_LONG)
            if member.is_open and member.lease_us > self._lease * SECOND
            else member
            for member in self.members(now)
        ]

    def members(self, now: float) -> Iterator[Member]:
        for name in sorted({*self._seats, *self._expected}):
            is_expected, seat = name in self._expected, self._seats.get(name)
            if seat is None:
                is_awaited = not self.is_given_up(name, now)
                yield Member(name, False, 0, is_awaited=is_awaited, is_expected=True)
                continue
            is_gone = seat.card.is_leaving or seat.is_forgotten or now - seat.heard_at > FORGET_SECONDS
            if not seat.is_there and is_gone and not is_expected:
                continue
            is_healthy = self.is_heard(name, now)
            member = seat.card.to_member(seat.address, seat.seen_at, is_healthy=is_healthy)
            is_awaited = not is_healthy and not self.is_given_up(name, now)
            yield member._replace(is_awaited=is_awaited, is_expected=is_expected)
