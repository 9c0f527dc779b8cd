"""Why an attempt ended without a result."""

from __future__ import annotations

from enum import StrEnum


class LossReason(StrEnum):
    NODE_GONE = "node-gone"
    """Its node is gone, and held no lease on its runs."""
    LEASE_EXPIRED = "lease-expired"
    """The lease of its node or member on its runs expired: that is gone, or could not renew it in time."""
    NOT_CONFIRMED = "not-confirmed"
    """Its start was not recorded in the ledger in time, so its keeper stopped it before another node could start it."""
    NODE_FORGOTTEN = "node-forgotten"
    """An operator removed its node for good."""
    NOT_STARTED = "not-started"
    """The node that had it never started it."""
    KEEPER = "keeper"
    """The keeper of its machine, of an earlier version, ended it or found it gone."""
    PROCESS_GONE = "process-gone"
    """Its process is gone, and its machine does not know how it ended."""
    MACHINE_RESTARTED = "machine-restarted"
    """Its machine was restarted while it ran."""
    NO_HEARTBEAT = "no-heartbeat"
    """Its executor sent no heartbeat in time."""
    MEMBER_LOST = "member-lost"
    """The member of the fleet that had it is silent, or has restarted."""
    EXECUTOR = "executor"
    """Its executor lost it; the detail says how."""


LOSS_WORDS = {
    LossReason.NODE_GONE: "its node is gone",
    LossReason.LEASE_EXPIRED: "its lease expired",
    LossReason.NOT_CONFIRMED: "its start was not recorded in the ledger in time, so its keeper stopped it",
    LossReason.NODE_FORGOTTEN: "an operator removed its node for good",
    LossReason.NOT_STARTED: "its node never started it",
    LossReason.KEEPER: "the keeper on its machine stopped it, or found it gone",
    LossReason.PROCESS_GONE: "its process is gone, and how it ended is unknown",
    LossReason.MACHINE_RESTARTED: "its machine was restarted while it ran",
    LossReason.NO_HEARTBEAT: "its executor sent no heartbeat in time",
    LossReason.MEMBER_LOST: "the member of the fleet that ran it was lost",
    LossReason.EXECUTOR: "its executor lost it",
}


def read_loss(text: str | None) -> LossReason | None:
    """From the ledger; None for no reason, and for one that only a newer version knows."""
    return LossReason(text) if text in _KNOWN else None


def read_keeper_loss(text: str) -> LossReason | None:
    """The keeper's reason; None if it cannot know, and for a keeper of an earlier version."""
    return LossReason(text) if text in _KEEPERS else None


_KNOWN = frozenset(str(reason) for reason in LossReason)
_KEEPERS = frozenset(
    {
        LossReason.LEASE_EXPIRED,
        LossReason.NOT_CONFIRMED,
        LossReason.PROCESS_GONE,
        LossReason.MACHINE_RESTARTED,
        LossReason.EXECUTOR,
    }
)
