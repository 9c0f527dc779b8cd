"""What happened, for the person who looks into a failing seed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from evertick.model.instant import to_text
from evertick.model.run import RunKey
from evertick.testing.timeline import Timeline

LENGTH = 400


class Trace:
    """The last events, put into words only when somebody reads them."""

    __slots__ = ("_events", "_timeline")

    def __init__(self, timeline: Timeline, length: int = LENGTH) -> None:
        self._timeline = timeline
        self._events: deque[tuple[int, str, str, tuple[object, ...]]] = deque(maxlen=length)

    def add(self, who: str, what: str, *args: object) -> None:
        self._events.append((self._timeline.now, who, what, args))

    def lines(self) -> tuple[str, ...]:
        return tuple(
            f"{to_text(at)[11:]:>16} {who:8} {what % tuple(_said(arg) for arg in args)}"
            for at, who, what, args in self._events
        )


def _said(value: object) -> object:
    if isinstance(value, RunKey):
        return value.run_id
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_said(one)}" for name, one in value.items())
    return value
