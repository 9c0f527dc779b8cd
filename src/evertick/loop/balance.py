"""Which node should own which bucket."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from zlib import crc32

from evertick.model.ledger import BUCKETS


def share_of(node: str, nodes: Collection[str], buckets: int = BUCKETS) -> frozenset[int]:
    """The buckets that this node should own among the live nodes.

    Every node computes the same answer from the same list, so no node has to assign shares. Each bucket ranks the nodes
    by a hash of both and goes to the first that is not full: shares differ by at most one, and a node that joins or
    leaves moves little more than its own share.
    """
    return _shares(tuple(sorted(set(nodes))), buckets).get(node, frozenset())


@lru_cache(maxsize=64)
def _shares(ranked: tuple[str, ...], buckets: int) -> Mapping[str, frozenset[int]]:
    """The shares of every node; cached, because nodes ask at every renewal of their leases, usually with one list."""
    room = dict.fromkeys(ranked, -(-buckets // max(len(ranked), 1)))
    shares: dict[str, set[int]] = {name: set() for name in ranked}
    for bucket in range(buckets if ranked else 0):
        owner = max((name for name in ranked if room[name]), key=lambda name: crc32(f"{name}/{bucket}".encode()))
        room[owner] -= 1
        shares[owner].add(bucket)
    return {name: frozenset(share) for name, share in shares.items()}
