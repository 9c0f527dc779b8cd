"""Publishes what has happened once the ledger has recorded it, so that a listener can read it there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from evertick.loop.effects import Commit, Effect, Log, Notify, Record
from evertick.loop.messages import (
    BatchCommitted,
    BatchFenced,
    BucketsGained,
    BucketsLost,
    ChangesRecorded,
    MembersSeen,
    Message,
    NodesSeen,
)
from evertick.model.ledger import Batch
from evertick.model.run import Change, Entry, RunKey

log = logging.getLogger("evertick")


class Withdrawn(NamedTuple):
    """Entries that were removed before they were due."""

    keys: Sequence[RunKey]


class Answered(NamedTuple):
    """Requests whose answers the ledger has."""

    requests: Collection[str]


Fact: TypeAlias = (
    Entry | Change | Withdrawn | Answered | Log | Notify | BucketsGained | BucketsLost | MembersSeen | NodesSeen
)
Listener: TypeAlias = Callable[[Sequence[Fact]], None]

_TELLING = frozenset(
    {
        *(Record, ChangesRecorded, Commit, BatchCommitted, BatchFenced),
        *(Log, Notify, BucketsGained, BucketsLost, MembersSeen, NodesSeen),
    }
)


class Facts:
    """Observes the dispatcher in its thread, and matches decisions with the ledger's answers for all listeners.

    A decision that the ledger refused, because another node had decided, is never published.
    """

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self.listeners = list(listeners)
        self._batches: dict[int, Batch] = {}
        self._changes: dict[int, Sequence[Change]] = {}
        """Not known to be written yet, by the number of the write."""

    def __call__(self, seen: Sequence[Message | Effect]) -> None:
        # In a storm, nearly everything here is a launch or a report that the ledger has not answered yet.
        for one in [one for one in seen if type(one) in _TELLING]:
            self._see(one)

    def _see(self, seen: Message | Effect) -> None:
        match seen:
            case Record(number, changes):
                self._changes[number] = changes
            case ChangesRecorded(numbers, refused):
                written = [change for number in numbers for change in self._changes.pop(number, ())]
                self._publish([change for change in written if change.key not in refused] if refused else written)
            case Commit(number, batch):
                if batch.entries or batch.changes or batch.withdrawn or batch.answers:
                    self._batches[number] = batch
            case BatchCommitted(number, refused, crowded, overruled):
                committed = self._batches.pop(number, None)
                if committed is not None:
                    self._publish(_facts_of(committed, refused, crowded | overruled))
            case BatchFenced(number):
                self._batches.pop(number, None)
            case Log() | Notify() | BucketsGained() | BucketsLost() | MembersSeen() | NodesSeen():
                self._publish([seen])
            case _:
                pass

    def _publish(self, facts: Sequence[Fact]) -> None:
        if not facts:
            return
        for listener in self.listeners:
            try:
                listener(facts)
            except Exception:
                # The exception of one listener must not affect the next one or the loop.
                log.exception("listener.raised")


def _facts_of(batch: Batch, refused: frozenset[RunKey], unwritten: frozenset[RunKey]) -> list[Fact]:
    # First, so that a listener finds it without reading all changes of a storm.
    found: list[Fact] = [Answered(batch.answers.keys())] if batch.answers else []
    found += [Withdrawn(batch.withdrawn)] if batch.withdrawn else []
    found += [entry for entry in batch.entries if entry.key not in refused]
    found += [change for change in batch.changes if change.key not in refused and change.key not in unwritten]
    return found
