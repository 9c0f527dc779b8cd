"""Where a job wants to run: on which executor, on which of its members."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from evertick.model.member import Labels
from evertick.model.resources import Resources

LOCAL = "local"
FLEET = "fleet"
KUBERNETES = "kubernetes"


class Strategy(StrEnum):
    """How one of the members that match is chosen."""

    FIRST = "FIRST"
    LAST = "LAST"
    ROUND = "ROUND"
    RANDOM = "RANDOM"
    LFU = "LFU"
    LRU = "LRU"
    CONSISTENT_HASH = "CONSISTENT_HASH"
    FAILOVER = "FAILOVER"
    BUSYOVER = "BUSYOVER"
    LEAST_LOADED = "LEAST_LOADED"
    SHARDING_BROADCAST = "SHARDING_BROADCAST"


@dataclass(frozen=True, slots=True)
class Routing:
    executor: str = LOCAL
    strategy: Strategy = Strategy.ROUND
    labels: Labels = ()
    """A member must have all of them, with these values."""
    resources: Resources = ()
    """A member must have room for all of them at once."""
    bundle: str = ""
    """A folder, wheel or zip file of the scheduler's machine that a member is given before it runs the job."""

    @property
    def is_remote(self) -> bool:
        return self.executor != LOCAL

    @property
    def has_members(self) -> bool:
        """Whether there are members to choose from; a cluster chooses among its nodes itself."""
        return self.executor not in (LOCAL, KUBERNETES)

    @property
    def may_spread_items(self) -> bool:
        """Whether items of a step may run apart from their run; those of a shard stay with their shard."""
        return self.has_members and self.strategy is not Strategy.SHARDING_BROADCAST
