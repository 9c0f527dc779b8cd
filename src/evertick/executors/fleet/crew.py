"""Who is in the fleet, as far as this scheduler has heard: who is there, who is silent, and for how long."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from evertick.executors.fleet.settings import FleetSettings
from evertick.executors.fleet.talk import Card
from evertick.model.instant import SECOND
from evertick.model.member import Member

FORGET_SECONDS = 3_600.0
"""A member that was away for this long is not told of any more."""
CARDS_MIN, CARDS_KEPT = 3, 10
CLOCKS_US = 2 * SECOND
"""By how much clocks may differ before it is made up for: messages take their time too."""

log = logging.getLogger("evertick.fleet")


@dataclass(slots=True)
class Seat:
    card: Card
    address: str
    heard_at: float
    """By a clock that only goes forward."""
    seen_at: int
    """The same as an instant, for people."""
    is_there: bool = True
    ahead: tuple[int, ...] = ()
    """By how much its clock was ahead of ours when its last cards arrived; what they took on the way makes it less."""

    @property
    def ahead_us(self) -> int:
        """As the fastest of the last cards has it; 0 where it might as well be the way that the message took."""
        if len(self.ahead) < CARDS_MIN:
            return 0
        least_delayed = max(self.ahead)
        return least_delayed if abs(least_delayed) > CLOCKS_US else 0


class Crew:
    """Silence counts only while something can be heard: no member can be, through a line that is cut or dead."""

    def __init__(self, settings: FleetSettings) -> None:
        self._silence = settings.silence_us / SECOND
        self._lease = settings.lease_us / SECOND
        self._seats: dict[str, Seat] = {}
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

    def shown(self, card: Card, address: str, now: float, instant: int, age: float = 0.0) -> str | None:
        """A member says that it is there; answers its name when what it knows must be asked for anew."""
        before = self._seats.get(card.name)
        seen_at = instant - int(age * SECOND)
        ahead = ((*(before.ahead if before else ()), card.clock - seen_at))[-CARDS_KEPT:]
        self._seats[card.name] = seat = Seat(card, address, now - age, seen_at, ahead=ahead)
        if seat.ahead_us and before is not None and not before.ahead_us:
            log.warning("member.clock_differs member=%s ahead_us=%d", card.name, seat.ahead_us)
        if before is None or not before.is_there or before.card.incarnation != card.incarnation:
            return card.name
        # Frozen, or behind a line that was cut: what was said to it meanwhile may be lost, and given up.
        return card.name if now - before.heard_at > self._silence else None

    def ours(self, name: str, at: int) -> int:
        """An instant that a member tells, by our clock: a wrong one there must not put runs into another hour."""
        seat = self._seats.get(name)
        return at - seat.ahead_us if seat is not None else at

    def left(self, name: str) -> None:
        seat = self._seats.get(name)
        if seat is not None:
            seat.is_there = False

    def is_there(self, name: str) -> bool:
        seat = self._seats.get(name)
        return self.is_connected and seat is not None and seat.is_there

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
        silence = self.silence_of(name, now)
        return silence is not None and silence > self._lease

    def members(self, now: float) -> Iterator[Member]:
        for name, seat in sorted(self._seats.items()):
            if not seat.is_there and now - seat.heard_at > FORGET_SECONDS:
                continue
            is_healthy = self.is_there(name) and now - seat.heard_at <= self._silence
            member = seat.card.to_member(seat.address, seat.seen_at, is_healthy=is_healthy)
            yield member._replace(is_awaited=not is_healthy and not self.is_given_up(name, now))
