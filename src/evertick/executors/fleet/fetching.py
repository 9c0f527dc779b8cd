"""Which logs are asked of members: those that grow, in turns, and the rest of those whose attempts have ended."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

from evertick.executors import wire
from evertick.executors.fleet import talk
from evertick.executors.fleet.copying import LogCopies
from evertick.executors.keeper.book import Ticket

EVERY_SECONDS = 1.0
AT_ONCE = 200
WAIT_SECONDS = 60.0
"""How long the rest of a log is waited for when its attempt has ended."""


class LogFetcher:
    def __init__(self, copies: LogCopies, tell: Callable[[str, bytes], None], is_there: Callable[[str], bool]) -> None:
        self._copies = copies
        self._tell = tell
        self._is_there = is_there
        self._ending: dict[Ticket, tuple[str, float]] = {}
        """Attempts that have ended and whose logs are not all here: the member, and until when it is waited."""
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
        for ticket, (member, until) in list(self._ending.items()):
            if now > until:
                self._forget(ticket)
            else:
                wanted.append((ticket, member))
        for ticket, member in wanted:
            if self._is_there(member):
                self._ask(ticket, member)

    def ended(self, ticket: Ticket, member: str, now: float) -> None:
        """An attempt has ended: what is missing of its logs is fetched, unless all of it came with its end."""
        self._ending.setdefault(ticket, (member, now + WAIT_SECONDS))

    def take(self, verb: str, member: str, ticket: Ticket, rest: list[Any], holder: str | None) -> None:
        """A piece, or word that there is no more. Only from the one that has the attempt, or had it."""
        ending = self._ending.get(ticket)
        if member not in {holder, ending[0] if ending else None}:
            return
        if verb == talk.LOGS_END:
            if holder is None:
                self._forget(ticket)
            else:
                # It comes before the end that it belongs to; nothing more is to be asked for then.
                self._ending[ticket] = (member, 0.0)
            return
        step, offset, data, is_complete = rest
        piece = base64.b64decode(data)
        self._copies.write(ticket, str(step), int(offset), piece, is_complete=bool(is_complete))
        if len(piece) >= talk.PIECE:
            self._ask(ticket, member)  # there is more

    def _ask(self, ticket: Ticket, member: str) -> None:
        offsets = self._copies.offsets_of(ticket)
        self._tell(member, wire.line(talk.LOGS, *ticket.key, ticket.attempt, offsets))

    def _forget(self, ticket: Ticket) -> None:
        self._ending.pop(ticket, None)
        self._copies.forget(ticket)
