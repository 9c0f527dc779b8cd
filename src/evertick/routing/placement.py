"""Where an attempt was put, as the ledger holds it: `fleet:ex-a`, or for a broadcast `fleet:*ex-a+,ex-b,ex-c`.

In a broadcast the place in the list is the number of the shard, `+` means that it has succeeded, and an empty name that
it was left out. So one text in the ledger names the members to ask after a restart, and the shards to repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from evertick.model.routing import KUBERNETES

_DONE = "+"
_ALL = "*"


class Shard(NamedTuple):
    """One part of a broadcast."""

    number: int
    member: str
    """Empty: it was left out."""
    is_done: bool = False

    @property
    def is_wanted(self) -> bool:
        return bool(self.member) and not self.is_done


class Placement(NamedTuple):
    executor: str
    member: str = ""
    """Of an attempt that is in one place."""
    shards: tuple[Shard, ...] = ()
    """Of a broadcast; their number is the total."""

    @property
    def wanted(self) -> tuple[Shard, ...]:
        """The shards that this attempt runs."""
        return tuple(shard for shard in self.shards if shard.is_wanted)

    @property
    def members(self) -> tuple[str, ...]:
        """The members that run a part of this attempt."""
        return tuple(shard.member for shard in self.wanted) if self.shards else (self.member,) if self.member else ()

    def done(self, numbers: Sequence[int]) -> Placement:
        """The same with these shards done too."""
        finished = set(numbers)
        return self._replace(
            shards=tuple(shard._replace(is_done=shard.is_done or shard.number in finished) for shard in self.shards)
        )

    def __str__(self) -> str:
        if self.shards:
            words = (shard.member + (_DONE if shard.is_done else "") for shard in self.shards)
            return f"{self.executor}:{_ALL}{','.join(words)}"
        return f"{self.executor}:{self.member}" if self.member else self.executor


def parse_placement(text: str) -> Placement:
    """Parse the placement in the ledger; `local@node` has no member that we could choose."""
    executor, _, rest = text.partition(":")
    if not rest:
        return Placement(executor.partition("@")[0])
    if not rest.startswith(_ALL):
        return Placement(executor, rest)
    words = rest.removeprefix(_ALL).split(",")
    shards = tuple(Shard(number, word.removesuffix(_DONE), word.endswith(_DONE)) for number, word in enumerate(words))
    return Placement(executor, shards=shards)


@lru_cache(maxsize=1_000)
def executor_of(text: str) -> str:
    """`local@node` is local, `fleet:ex-a` is the fleet."""
    return parse_placement(text).executor


def is_shared(text: str) -> bool:
    """Whether it is on members or a cluster, which every node can reach, so that no other node has to be asked."""
    placed = parse_placement(text)
    # Not `members`: those of a broadcast that has succeeded everywhere run no part of it any more.
    return bool(placed.member or placed.shards) or placed.executor == KUBERNETES
