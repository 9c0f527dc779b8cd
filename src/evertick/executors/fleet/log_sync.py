"""Chooses which logs to fetch from members: growing ones in turns, then the rest of ended attempts."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.fleet import messages, validation
from evertick.executors.fleet.log_copy import LogCopies

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
        self._ending: dict[AttemptId, tuple[str, int]] = {}
        """Attempts that have ended and whose logs are not all here: the member, and how often it is still asked."""
        self._asked_at = 0.0
        self._turn = 0

    def tick(self, now: float, running: Callable[[], Sequence[tuple[AttemptId, str]]]) -> None:
        if now - self._asked_at < EVERY_SECONDS:
            return
        self._asked_at = now
        growing = list(running())
        # In turns, because a second may be too short for all of them.
        turn = self._turn % max(len(growing), 1)
        wanted = (growing[turn:] + growing[:turn])[:AT_ONCE]
        self._turn = turn + len(wanted)
        for attempt_id, (member, asks_left) in list(self._ending.items()):
            if not asks_left:
                self._forget(attempt_id)
            elif self._is_heard(member, now) and len(wanted) < 2 * AT_ONCE:
                # One that is away is waited for, because it keeps what it has for days.
                del self._ending[attempt_id]
                self._ending[attempt_id] = (member, asks_left - 1)
                wanted.append((attempt_id, member))
        for attempt_id, member in wanted:
            if self._is_heard(member, now):
                self._ask(attempt_id, member)

    def ended(self, attempt_id: AttemptId, member: str) -> None:
        """An attempt has ended, or was given up: what is missing of its logs is fetched as soon as its member is there.

        Unless all of it came with its end.
        """
        while len(self._ending) >= ENDING_MAX:
            self._forget(next(iter(self._ending)))
        self._ending.setdefault(attempt_id, (member, ASKED_MAX))

    def take(self, verb: str, member: str, attempt_id: AttemptId, rest: list[Any], holder: str | None) -> None:
        """A piece, or word that there is no more. Only from the one that has the attempt, or had it."""
        ending = self._ending.get(attempt_id)
        if member not in {holder, ending[0] if ending else None}:
            return
        if verb == messages.LOGS_END:
            if holder is None:
                self._forget(attempt_id)
            else:
                # It comes before the end that it belongs to; nothing more is to be asked for then.
                self._ending[attempt_id] = (member, 0)
            return
        step, offset, data, is_complete = rest
        piece = base64.b64decode(data)
        has_grown = self._copies.write(
            attempt_id, validation.text_of(step), validation.offset_of(offset), piece, is_complete=bool(is_complete)
        )
        # Not where it could not be written: it would be asked for again and again.
        if has_grown and len(piece) >= messages.PIECE:
            self._ask(attempt_id, member)  # there is more

    def _ask(self, attempt_id: AttemptId, member: str) -> None:
        offsets = self._copies.offsets_of(attempt_id)
        self._tell(member, protocol.encode(messages.LOGS, *attempt_id.key, attempt_id.attempt, offsets))

    def _forget(self, attempt_id: AttemptId) -> None:
        self._ending.pop(attempt_id, None)
        self._copies.forget(attempt_id)
