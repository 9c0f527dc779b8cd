"""Chooses which logs to fetch from members: growing ones in turns, then the rest of ended attempts."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

from evertick.executors import wire
from evertick.executors.fleet import messages, validation
from evertick.executors.fleet.log_copy import LogCopies
from evertick.executors.keeper.attempt_state import Ticket

EVERY_SECONDS = 1.0
AT_ONCE = 200
ASKED_MAX = 60
"""How often a member that is there is asked for the rest of a log whose attempt has ended."""
ENDING_MAX = 10_000
"""Attempts whose logs are still wanted; of more, those that have waited longest are left where they are."""


class LogFetcher:
    def __init__(
        self, copies: LogCopies, tell: Callable[[str, bytes], None], is_heard: Callable[[str, float], bool]
    ) -> None:
        self._copies = copies
        self._tell = tell
        self._is_heard = is_heard
        self._ending: dict[Ticket, tuple[str, int]] = {}
        """Attempts that have ended and whose logs are not all here: the member, and how often it is still asked."""
        self._asked_at = 0.0
        self._turn = 0

    def tick(self, now: float, running: Callable[[], Sequence[tuple[Ticket, str]]]) -> None:
        if now - self._asked_at < EVERY_SECONDS:
            return
        self._asked_at = now
        growing = list(running())
        # In turns, because a second may be too short for all of them.
        turn = self._turn % max(len(growing), 1)
        wanted = (growing[turn:] + growing[:turn])[:AT_ONCE]
        self._turn = turn + len(wanted)
        for ticket, (member, asks_left) in list(self._ending.items()):
            if not asks_left:
                self._forget(ticket)
            elif self._is_heard(member, now) and len(wanted) < 2 * AT_ONCE:
                # One that is away is waited for, because it keeps what it has for days.
                del self._ending[ticket]
                self._ending[ticket] = (member, asks_left - 1)
                wanted.append((ticket, member))
        for ticket, member in wanted:
            if self._is_heard(member, now):
                self._ask(ticket, member)

    def ended(self, ticket: Ticket, member: str) -> None:
        """An attempt has ended, or was given up: what is missing of its logs is fetched as soon as its member is there.

        Unless all of it came with its end.
        """
        while len(self._ending) >= ENDING_MAX:
            self._forget(next(iter(self._ending)))
        self._ending.setdefault(ticket, (member, ASKED_MAX))

    def take(self, verb: str, member: str, ticket: Ticket, rest: list[Any], holder: str | None) -> None:
        """A piece, or word that there is no more. Only from the one that has the attempt, or had it."""
        ending = self._ending.get(ticket)
        if member not in {holder, ending[0] if ending else None}:
            return
        if verb == messages.LOGS_END:
            if holder is None:
                self._forget(ticket)
            else:
                # It comes before the end that it belongs to; nothing more is to be asked for then.
                self._ending[ticket] = (member, 0)
            return
        step, offset, data, is_complete = rest
        piece = base64.b64decode(data)
        has_grown = self._copies.write(
            ticket, validation.text_of(step), validation.offset_of(offset), piece, is_complete=bool(is_complete)
        )
        # Not where it could not be written: it would be asked for again and again.
        if has_grown and len(piece) >= messages.PIECE:
            self._ask(ticket, member)  # there is more

    def _ask(self, ticket: Ticket, member: str) -> None:
        offsets = self._copies.offsets_of(ticket)
        self._tell(member, wire.line(messages.LOGS, *ticket.key, ticket.attempt, offsets))

    def _forget(self, ticket: Ticket) -> None:
        self._ending.pop(ticket, None)
        self._copies.forget(ticket)
