"""The address at which other nodes read what only this node has: its logs.

It is announced as a lease in the ledger. A lease fits: it exists as long as the node renews it, every store has leases,
and everyone who can read leases can read the ledger. The token opens the API of that node only, and only for reading.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from evertick.model.ledger import Lease

ADDRESS_PREFIX: Final = "address:"
HOLDER_MAX: Final = 255
"""Characters that a ledger has for who holds a lease."""


class NodeAddress(NamedTuple):
    node: str
    url: str
    token: str
    machine: str
    """Where the node runs; an address such as 127.0.0.1 means something there only."""
    certificate: str = ""
    """The SHA-256 of the certificate that it shows; empty: it shows none, or one that authorities vouch for."""

    @property
    def lease_name(self) -> str:
        return ADDRESS_PREFIX + self.node

    @property
    def holder(self) -> str:
        return f"{self.node}/{' '.join((self.url, self.token, self.machine, self.certificate)).rstrip()}"


def read_address(lease: Lease) -> NodeAddress | None:
    """The address that a lease announces; None for another lease, or words that are none."""
    if not lease.name.startswith(ADDRESS_PREFIX):
        return None
    node = lease.name.removeprefix(ADDRESS_PREFIX)
    words = lease.holder.removeprefix(f"{node}/").split(" ")
    if not 3 <= len(words) <= 4 or not words[0].startswith(("http://", "https://")):
        return None
    return NodeAddress(node, *words)
