"""Which node should own which bucket."""

from __future__ import annotations

from collections.abc import Collection
from zlib import crc32

from evertick.model.bucket import BUCKETS


def share_of(node: str, nodes: Collection[str], buckets: int = BUCKETS) -> frozenset[int]:
    """The buckets this node should own among the live ones.

    Every node computes the same answer from the same list, so nobody has to hand out shares. Each bucket ranks the
    nodes by a hash of both and goes to the first that is not full: shares differ by one at most, and a node that
    joins or leaves moves little more than its own share.
    """
    ranked = sorted(set(nodes))
    if node not in ranked:
        return frozenset()
    room = dict.fromkeys(ranked, -(-buckets // len(ranked)))
    mine: set[int] = set()
    for bucket in range(buckets):
        owner = max((name for name in ranked if room[name]), key=lambda name: crc32(f"{name}/{bucket}".encode()))
        room[owner] -= 1
        if owner == node:
            mine.add(bucket)
    return frozenset(mine)
