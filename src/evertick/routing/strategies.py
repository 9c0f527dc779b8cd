"""Which member of the fleet an attempt goes to: ten ways to choose one. The eleventh, all of them, is in `selection`.

Each is a function of values: the members, where the job ran before, and the name of the attempt. A rotation needs no
counter: the ledger knows where a job ran last, so a restart or another node continues where this one stopped.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from evertick.model.routing import Strategy

HISTORY: Final = 64
"""How many placements of a job are looked back on; a member that joins is behind by no more than these."""


class RoutingContext(NamedTuple):
    """What a choice rests on."""

    names: Sequence[str]
    """Of the members that may be chosen, sorted; at least one."""
    job_id: str
    seed: str
    """Differs for each attempt, and is the same on every node."""
    used: Sequence[str] = ()
    """Where the job ran before, oldest first."""
    last_tried: str = ""
    """Where this run was tried last; empty: nowhere yet."""
    busy: frozenset[str] = frozenset()
    """Members on which the job is active."""
    free: Mapping[str, int] = MappingProxyType({})
    """Free slots of each member; one that is not in it has none."""
    cpu: Mapping[str, float] = MappingProxyType({})
    """Per cent of its processors that each member uses."""


Choose: TypeAlias = Callable[[RoutingContext], str | None]


def _first(at: RoutingContext) -> str:
    return at.names[0]


def _last(at: RoutingContext) -> str:
    return at.names[-1]


def _round(at: RoutingContext) -> str:
    """The next by name after the last one used; a member with more free slots goes first if it had no more turns.

    A strict rotation would keep jobs together forever once an outage has sent all of them to one member.
    """
    if not at.used:
        return min(at.names, key=lambda name: _preference(at, name))
    first = at.names.index(_next_after(at.names, at.used[-1]))
    in_turn = (*at.names[first:], *at.names[:first])
    turns = Counter(at.used[-2 * len(at.names) :])
    entitled = [name for name in in_turn if turns[name] <= turns[in_turn[0]]]
    return max(entitled, key=lambda name: at.free.get(name, 0))  # of equals the first


def _random(at: RoutingContext) -> str:
    return at.names[_number(at.seed) % len(at.names)]


def _lfu(at: RoutingContext) -> str:
    """The least used of late; among equals the one that has waited longest."""
    counts = Counter(at.used)
    return min(at.names, key=lambda name: (counts[name], _last_use(at.used, name), *_preference(at, name)))


def _lru(at: RoutingContext) -> str:
    return min(at.names, key=lambda name: (_last_use(at.used, name), *_preference(at, name)))


def _consistent_hash(at: RoutingContext) -> str:
    """The member whose hash together with the job is highest: losing one moves only the jobs it had."""
    return max(at.names, key=lambda name: (_number(f"{at.job_id}\0{name}"), name))


def _failover(at: RoutingContext) -> str:
    """The first; a run that was tried before moves to the next one."""
    return _next_after(at.names, at.last_tried) if at.last_tried else at.names[0]


def _busyover(at: RoutingContext) -> str | None:
    """The first on which the job is not active; none if it is on all."""
    return next((name for name in at.names if name not in at.busy), None)


def _least_loaded(at: RoutingContext) -> str:
    """The one with the most free slots; among equals the one whose processors have the least to do."""
    return min(at.names, key=lambda name: (-at.free.get(name, 0), at.cpu.get(name, 0.0), _rank(at, name)))


STRATEGIES: Final[Mapping[Strategy, Choose]] = MappingProxyType(
    {
        Strategy.FIRST: _first,
        Strategy.LAST: _last,
        Strategy.ROUND: _round,
        Strategy.RANDOM: _random,
        Strategy.LFU: _lfu,
        Strategy.LRU: _lru,
        Strategy.CONSISTENT_HASH: _consistent_hash,
        Strategy.FAILOVER: _failover,
        Strategy.BUSYOVER: _busyover,
        Strategy.LEAST_LOADED: _least_loaded,
    }
)
ROTATING: Final = frozenset({Strategy.ROUND, Strategy.LFU, Strategy.LRU})
"""Those that look at where the job ran before."""


def _next_after(names: Sequence[str], name: str) -> str:
    return next((later for later in names if later > name), names[0])


def _preference(at: RoutingContext, name: str) -> tuple[int, int]:
    """The order among members that have the same claim: most free slots first, then the job's own rotation."""
    return -at.free.get(name, 0), _rank(at, name)


def _rank(at: RoutingContext, name: str) -> int:
    """The place of a member in the job's rotation, which begins at a hash: jobs due together begin apart."""
    return (at.names.index(name) - _number(at.job_id)) % len(at.names)


def _last_use(used: Sequence[str], name: str) -> int:
    """The place of its last use, older is less; -1 for one that was not used."""
    return next((place for place in range(len(used) - 1, -1, -1) if used[place] == name), -1)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8])
