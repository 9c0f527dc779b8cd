"""The messages that the loop receives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from evertick.model.blackout import AddedBlackout
from evertick.model.facts import Parent
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.ledger import RunsHeld, Snapshot
from evertick.model.lifecycle import RunState, Trigger
from evertick.model.policy import Missed, Overlap
from evertick.model.report import (
    AttemptSeen,
    LaunchRefused,
    MembersSeen,
    RunFinished,
    RunHeartbeat,
    RunLost,
    RunStarted,
    RunUnknown,
    StepsSeen,
    SubRunUnwanted,
    SubRunWanted,
)
from evertick.model.run import LedgerRow, RunKey

__all__ = [
    "AttemptSeen",
    "BackfillJob",
    "BatchCommitted",
    "BatchFenced",
    "BucketsGained",
    "BucketsLost",
    "CancelRun",
    "ChangesRecorded",
    "DefinitionEventsLost",
    "DefinitionsChanged",
    "DefinitionsResynced",
    "ForwardedReport",
    "LaunchRefused",
    "LeaseRenewed",
    "MembersSeen",
    "Message",
    "NodesSeen",
    "OpenRunsSeen",
    "OrphansFound",
    "OutcomesSeen",
    "PauseJob",
    "PlacementsSeen",
    "ReportsRead",
    "ResumeJob",
    "RunFinished",
    "RunHeartbeat",
    "RunLost",
    "RunStarted",
    "RunUnknown",
    "Shutdown",
    "StepsSeen",
    "SubRunFound",
    "SubRunUnwanted",
    "SubRunWanted",
    "SubRunsSeen",
    "TimePassed",
    "TriggerJob",
    "UpstreamEnded",
]

"""Names where a caller waits for the answer; the loop only returns it."""


# --- time and the world


class TimePassed(NamedTuple):
    """The time since boot beside the wall clock, which tells a jump from a stall."""

    boottime_us: int
    """It cannot be set, and it counts suspend: a lease also ends while the machine sleeps."""


class Shutdown(NamedTuple):
    """Plan and start nothing more."""

    ends_runs: bool = False
    """Also stop active runs, instead of leaving them to the next scheduler."""


# --- definitions


class DefinitionsChanged(NamedTuple):
    """Some jobs were added, changed or removed."""

    jobs: Sequence[Job] = ()
    removed: Sequence[str] = ()
    is_whole: bool = True
    """False: a definition cannot be read, so its job is unknown."""


class DefinitionsResynced(NamedTuple):
    """The complete set of jobs."""

    jobs: Sequence[Job]
    is_whole: bool = True
    """As in `DefinitionsChanged`."""


class DefinitionEventsLost(NamedTuple):
    """Events may have been lost: read all definitions."""


class BlackoutsSeen(NamedTuple):
    """All the blackouts that were added at run time, as the ledger has them."""

    blackouts: tuple[AddedBlackout, ...]


# --- ownership


class BucketsGained(NamedTuple):
    """This node owns these buckets, under these epochs; the snapshot is what the ledger knows about their jobs."""

    epochs: Mapping[int, int]
    snapshot: Snapshot
    successes: Mapping[str, Instant] = MappingProxyType({})
    """By job, the scheduled time of the newest successful run, where the snapshot may have an older one."""
    failures: frozenset[str] = frozenset()
    """Jobs whose newest run failed: this is recorded separately from the job's row, and may be there without it."""


class BucketsLost(NamedTuple):
    """This node no longer owns these buckets: it released them, or another node took them."""

    buckets: Mapping[int, int]
    """With the epochs under which it owned them."""
    is_fenced: bool = False
    """Taken: the new owner may have given up its runs already, so they are stopped."""


class LeaseRenewed(NamedTuple):
    """This node owns the buckets until then; afterwards nothing may be launched, whatever was planned."""

    until: Instant


class NodesSeen(NamedTuple):
    """The live nodes, and the nodes that hold their runs whether or not they are alive."""

    nodes: frozenset[str]
    holding: Mapping[str, RunsHeld] = MappingProxyType({})
    """Under this node's own name: from another state folder."""
    forgotten: Mapping[str, str] = MappingProxyType({})
    """The nodes that an operator has given up, and the operator."""


class OrphansFound(NamedTuple):
    """Runs that an earlier process of this node has according to the ledger, whichever node owns their jobs."""

    runs: Sequence[LedgerRow]


# --- the ledger answers


class BatchCommitted(NamedTuple):
    number: int
    refused: frozenset[RunKey] = frozenset()
    crowded: frozenset[RunKey] = frozenset()
    overruled: frozenset[RunKey] = frozenset()
    outranked: frozenset[RunKey] = frozenset()


class BatchFenced(NamedTuple):
    """The batch was not written, because another node owns these buckets."""

    number: int
    buckets: Sequence[int]


class ChangesRecorded(NamedTuple):
    numbers: Sequence[int]
    """Numbers of the `Record`s that were written."""
    refused: frozenset[RunKey] = frozenset()


class SubRunFound(NamedTuple):
    key: RunKey
    answer: str | None
    """The answer to the request: empty until there is one; None: the ledger has no such request."""
    row: LedgerRow | None


class SubRunsSeen(NamedTuple):
    """The ledger's state of runs that steps wait for."""

    found: Sequence[SubRunFound]


class StopWanted(NamedTuple):
    key: RunKey
    attempt: int
    detail: str


class StopsSeen(NamedTuple):
    """The runs on this node that their owners want stopped."""

    wanted: Sequence[StopWanted]


class OutcomesSeen(NamedTuple):
    """How the last runs of other nodes' jobs ended, on which a due run depends."""

    key: RunKey
    """Key of the run that is due."""
    failed: frozenset[str]
    """The jobs among them whose last run did not succeed."""


class OpenRunsSeen(NamedTuple):
    """A portion of the overdue open entries in the ledger, oldest first."""

    number: int
    """Number of the `Audit` that asked for it."""
    rows: Sequence[LedgerRow]
    after: RunKey | None
    """Where the next portion begins; None: this was the last."""


class ReportsRead(NamedTuple):
    """Every report that nodes had forwarded when the ledger was read has been delivered."""

    number: int
    """Number of the `ReadReports` that asked for them."""


class PlacementsSeen(NamedTuple):
    """Where a job ran last according to the ledger, newest last."""

    job_id: str
    placements: Sequence[str]


# --- people ask


class TriggerJob(NamedTuple):
    request_id: str
    job_id: str
    submitted_at: Instant
    trigger: Trigger = Trigger.MANUAL
    params: str = ""
    detail: str = ""
    """What the run is for, as text."""
    parents: tuple[Parent, ...] = ()
    """The runs that caused it."""


class CancelRun(NamedTuple):
    """One run, or every open run of the job."""

    request_id: str
    job_id: str
    key: RunKey | None = None
    by: str = ""


class PauseJob(NamedTuple):
    request_id: str
    job_id: str
    note: str = ""
    submitted_at: Instant = 0
    """A pause or resume that was requested before one that is already executed is out of date."""


class ResumeJob(NamedTuple):
    request_id: str
    job_id: str
    keep: Missed | None = None
    """Which missed occurrences to run; None: as the job's own rule says."""
    submitted_at: Instant = 0


class BackfillJob(NamedTuple):
    """Run these instants under their own overlap rule, beside the job's live runs."""

    request_id: str
    job_id: str
    instants: Sequence[Instant]
    overlap: Overlap
    gap_us: int = 0
    """Minimum time between two starts."""


class ForwardedReport(NamedTuple):
    """A report about a run of this node's job, from the node that owned the job before."""

    request_id: str
    report: RunFinished
    node: str = ""
    """The node that reports: several nodes may have launched an attempt with the same number."""


class UpstreamEnded(NamedTuple):
    """A run ended of a job that `job_id` runs after."""

    request_id: str
    job_id: str
    upstream: str
    at: Instant
    run: str = ""
    """The id of the run that ended."""
    state: RunState = RunState.SUCCEEDED


Message: TypeAlias = (
    TimePassed
    | Shutdown
    | DefinitionsChanged
    | DefinitionsResynced
    | DefinitionEventsLost
    | BlackoutsSeen
    | BucketsGained
    | BucketsLost
    | LeaseRenewed
    | NodesSeen
    | OrphansFound
    | BatchCommitted
    | BatchFenced
    | ChangesRecorded
    | OpenRunsSeen
    | OutcomesSeen
    | StopsSeen
    | PlacementsSeen
    | ReportsRead
    | MembersSeen
    | AttemptSeen
    | RunStarted
    | RunHeartbeat
    | StepsSeen
    | RunFinished
    | RunLost
    | RunUnknown
    | LaunchRefused
    | SubRunWanted
    | SubRunUnwanted
    | SubRunsSeen
    | TriggerJob
    | CancelRun
    | PauseJob
    | ResumeJob
    | BackfillJob
    | ForwardedReport
    | UpstreamEnded
)
