"""Shares are equal, complete, and move little."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evertick.model.ledger import BUCKETS, share_of

names = st.sets(st.text("abcdefgh", min_size=1, max_size=5), min_size=1, max_size=20)


@given(names)
def test_every_bucket_has_exactly_one_owner_and_shares_differ_by_one_at_most(nodes):
    shares = [share_of(node, nodes) for node in nodes]
    assert sorted(bucket for share in shares for bucket in share) == list(range(BUCKETS))
    assert max(map(len, shares)) <= -(-BUCKETS // len(nodes))


@given(names)
def test_the_order_in_which_nodes_are_named_does_not_matter(nodes):
    for node in nodes:
        assert share_of(node, sorted(nodes)) == share_of(node, sorted(nodes, reverse=True))


def test_a_stranger_owns_nothing():
    assert share_of("c", ["a", "b"]) == frozenset()


def test_a_fourth_node_moves_little_more_than_its_own_share():
    three, four = ["a", "b", "c"], ["a", "b", "c", "d"]
    owner = {bucket: node for node in three for bucket in share_of(node, three)}
    moved = sum(owner[bucket] != node for node in four for bucket in share_of(node, four))
    assert moved <= 2 * BUCKETS // 4
