"""Why an attempt ended without a result."""

from __future__ import annotations

from enum import StrEnum


class LossReason(StrEnum):
    NODE_GONE = "node-gone"
    """Its node is gone, and held no lease on what it ran."""
    LEASE_EXPIRED = "lease-expired"
    """Its node is gone, and the lease on what it ran has run out."""
    NODE_FORGOTTEN = "node-forgotten"
    """An operator said that its node does not come back."""
    NOT_STARTED = "not-started"
    """The node that had it never started it."""
    KEEPER = "keeper"
    """The keeper of its machine ended it because its lease was over, or found it gone after a crash."""
    PROCESS_GONE = "process-gone"
    """Its process is gone, and nothing on its machine knows how it ended."""
    NO_HEARTBEAT = "no-heartbeat"
    """Its executor sent no heartbeat in time."""
    MEMBER_LOST = "member-lost"
    """The member of the fleet that had it is silent, or was started anew."""
    EXECUTOR = "executor"
    """Its executor lost it; the detail says how."""


LOSS_WORDS = {
    LossReason.NODE_GONE: "its node is gone",
    LossReason.LEASE_EXPIRED: "its node is gone, and its lease has run out",
    LossReason.NODE_FORGOTTEN: "an operator said that its node does not come back",
    LossReason.NOT_STARTED: "its node never started it",
    LossReason.KEEPER: "the keeper of its machine ended it, or found it gone",
    LossReason.PROCESS_GONE: "its process is gone, and how it ended is unknown",
    LossReason.NO_HEARTBEAT: "its executor sent no heartbeat in time",
    LossReason.MEMBER_LOST: "the member of the fleet that ran it was lost",
    LossReason.EXECUTOR: "its executor lost it",
}


def read_loss(text: str | None) -> LossReason | None:
    """As the ledger has it; None for no reason, and for one that only a newer version knows."""
    return LossReason(text) if text in _KNOWN else None


_KNOWN = frozenset(str(reason) for reason in LossReason)
