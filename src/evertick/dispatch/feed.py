"""The events of a node, published as they happen to clients of its socket and to the program around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from evertick.dispatch.broadcast import Broadcast
from evertick.dispatch.events import DROPPED, RUN, Event, kept, kind_of
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
        news = [(kind, fact) for fact in facts if (kind := self._kind_of(fact)) is not None]
        # A storm may bring more at once than the ring holds; items that would be overwritten are only counted.
        overwritten = max(0, len(news) - self.size)
        self.publish(lambda number: _events(news[overwritten:], now, number), overwritten)

    def _kind_of(self, fact: Fact) -> str | None:
        if type(fact) is Change:
            return RUN
        return None if isinstance(fact, NodesSeen) and not self._is_news(fact) else kind_of(fact)

    def _is_news(self, seen: NodesSeen) -> bool:
        """Nodes are listed every two seconds, and rarely change."""
        is_news, self._nodes = seen.nodes != self._nodes, seen.nodes
        return is_news


def _events(news: Sequence[tuple[str, Fact]], now: Instant, first: int) -> Iterator[Event]:
    for number, (kind, fact) in enumerate(news, first):
        yield Event(number, now, kind, kept(fact))
