"""The events of a node, published as they happen to clients of its socket and to the program around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from evertick.dispatch.broadcast import Broadcast
from evertick.dispatch.events import DROPPED, Event, kept, kind_of
from evertick.dispatch.facts import Fact
from evertick.loop.messages import NodesSeen
from evertick.model.instant import Instant
from evertick.model.run import Change

SIZE: Final = 10_000


class Feed(Broadcast[Event]):
    """`name` differs at each start, because the numbers start again."""

    def __init__(self, name: str, now: Callable[[], Instant], size: int = SIZE) -> None:
        # With the number of the newest lost item: a client that returns with it has lost no more.
        super().__init__(size, lambda number, lost, event: Event(number, event.at, DROPPED, lost))
        self.name = name
        self._now = now
        self._nodes: frozenset[str] | None = None

    def __call__(self, facts: Sequence[Fact]) -> None:
        """Publish; it is a listener to facts."""
        now = self._now()
        news = [fact for fact in facts if type(fact) is Change or self._is_event(fact)]
        # A storm may bring more at once than the ring holds; items that would be overwritten are only counted.
        overwritten = max(0, len(news) - self.size)
        self.publish(lambda number: _events(news[overwritten:], now, number), overwritten)

    def _is_event(self, fact: Fact) -> bool:
        if isinstance(fact, NodesSeen) and not self._is_news(fact):
            return False
        return kind_of(fact) is not None

    def _is_news(self, seen: NodesSeen) -> bool:
        """Nodes are listed every two seconds, and rarely change."""
        is_news, self._nodes = seen.nodes != self._nodes, seen.nodes
        return is_news


def _events(news: Sequence[Fact], now: Instant, first: int) -> Iterator[Event]:
    for number, fact in enumerate(news, first):
        kind = kind_of(fact)
        assert kind is not None
        yield Event(number, now, kind, kept(fact))
