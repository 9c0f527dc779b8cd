"""Which expected members of a fleet are missing: told once when one goes, and once when it is back."""

from __future__ import annotations

from collections.abc import Sequence

from evertick.dispatch.notify.rules import Message
from evertick.model.instant import Instant, to_text
from evertick.model.member import Member
from evertick.model.notify import Channel

EVENT = "on_member_missing"


class MemberWatch:
    """It belongs to one thread."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = tuple(channels)
        self._missing: set[str] = set()

    def seen(self, executor: str, members: Sequence[Member], now: Instant) -> list[Message]:
        """What is worth a message about the members as they are now."""
        told = []
        for member in members:
            is_missing = is_missing_member(member)
            if is_missing == (member.name in self._missing):
                continue
            if is_missing:
                self._missing.add(member.name)
                last = f"it was last seen at {to_text(member.seen_at)}" if member.seen_at else "it was not seen yet"
                told.append(self._message(executor, member, now, f"is missing: {last}"))
            elif member.is_healthy:
                self._missing.discard(member.name)
                told.append(self._message(executor, member, now, "is back"))
        return told if self._channels else []

    def _message(self, executor: str, member: Member, now: Instant, how: str) -> Message:
        text = f"The member {member.name} of the {executor} {how}."
        return Message(
            f"{executor}/{member.name}/{how}/{now}", EVENT, "", executor, "", now, now, text, "", self._channels
        )


def is_missing_member(member: Member) -> bool:
    """Expected, and away for longer than its lease; one that may reconnect in a moment is not missing yet."""
    return member.is_expected and not member.is_healthy and not member.is_awaited
