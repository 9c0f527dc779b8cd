"""The events of a node, published as they happen to clients of its socket and to the program around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from evertick.dispatch.broadcast import Broadcast
from evertick.dispatch.events import DROPPED, Event, kept, kind_of
from evertick.dispatch.facts import Fact
from evertick.loop.messages import NodesSeen
from evertick.model.instant import Instant

SIZE: Final = 10_000


class Feed(Broadcast[Event]):
    """`name` differs at each start, because the numbers start again."""

    def __init__(self, name: str, now: Callable[[], Instant], size: int = SIZE) -> None:
        # With the number of the newest that is lost: a client that comes back with it has lost no more.
        super().__init__(size, lambda number, lost, event: Event(number, event.at, DROPPED, lost))
        self.name = name
        self._now = now
        self._nodes: frozenset[str] | None = None

    def __call__(self, facts: Sequence[Fact]) -> None:
        """Publish; it is a listener to facts."""
        now = self._now()
        self.publish(lambda number: self._events(facts, now, number))

    def _events(self, facts: Sequence[Fact], now: Instant, number: int) -> Iterator[Event]:
        for fact in facts:
            kind = kind_of(fact)
            if kind is not None and not (isinstance(fact, NodesSeen) and not self._is_news(fact)):
                yield Event(number, now, kind, kept(fact))
                number += 1

    def _is_news(self, seen: NodesSeen) -> bool:
        """Nodes are listed every two seconds, and rarely change."""
        is_news, self._nodes = seen.nodes != self._nodes, seen.nodes
        return is_news
