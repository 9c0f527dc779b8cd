"""What can be said to the loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

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
    "ChainArrived",
    "ChangesRecorded",
    "DefinitionsChanged",
    "DefinitionsDoubtful",
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
    "PlacementsRecalled",
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
]

"""Names the place where an asker waits; the loop only hands it back."""


# --- time and the world


class TimePassed(NamedTuple):
    """The time since boot beside the wall clock, so that a jump can be told from a stall."""

    boottime_us: int
    """Nobody sets it, and it counts suspend: a lease runs out while the machine sleeps."""


class Shutdown(NamedTuple):
    """Plan and start nothing more."""

    ends_runs: bool = False
    """Also end what runs, instead of leaving it to whoever starts next."""


# --- definitions


class DefinitionsChanged(NamedTuple):
    """Some jobs were added, changed or removed."""

    jobs: Sequence[Job] = ()
    removed: Sequence[str] = ()
    is_whole: bool = True
    """False: there is a definition that cannot be read, and nobody knows of which job."""


class DefinitionsResynced(NamedTuple):
    """These are all the jobs there are."""

    jobs: Sequence[Job]
    is_whole: bool = True
    """As of those that changed."""


class DefinitionsDoubtful(NamedTuple):
    """Events may have been lost: ask for all of them."""


# --- ownership


class BucketsGained(NamedTuple):
    """This node owns these buckets, under these epochs; the snapshot is what the ledger knows of their jobs."""

    epochs: Mapping[int, int]
    snapshot: Snapshot
    successes: Mapping[str, Instant] = MappingProxyType({})
    """Of jobs, the time for which the newest good run was, where the snapshot may have an older one."""
    failures: frozenset[str] = frozenset()
    """The jobs whose newest run went wrong: that is written apart from the line of the job, and may be there alone."""


class BucketsLost(NamedTuple):
    """These buckets are no longer this node's: given up on purpose, or taken while it was not looking."""

    buckets: Mapping[int, int]
    """With the epochs under which they were."""
    is_fenced: bool = False
    """Taken: whoever has them may have given up its runs already, so they are ended."""


class LeaseRenewed(NamedTuple):
    """The buckets are this node's until then; afterwards nothing may be launched, whatever was planned."""

    until: Instant


class NodesSeen(NamedTuple):
    """The nodes that gave a sign of life, and those that hold what they run whether or not they did."""

    nodes: frozenset[str]
    holding: Mapping[str, RunsHeld] = MappingProxyType({})
    """Under this node's own name: from another state folder than its own."""
    forgotten: Mapping[str, str] = MappingProxyType({})
    """The nodes that do not come back, and the operator who said so."""


class OrphansFound(NamedTuple):
    """Runs that the ledger says an earlier process of this node has, whoever owns their jobs."""

    runs: Sequence[LedgerRow]


# --- the ledger answers


class BatchCommitted(NamedTuple):
    number: int
    refused: frozenset[RunKey] = frozenset()
    crowded: frozenset[RunKey] = frozenset()
    overruled: frozenset[RunKey] = frozenset()
    outranked: frozenset[RunKey] = frozenset()


class BatchFenced(NamedTuple):
    """The batch was not written, because these buckets have another owner."""

    number: int
    buckets: Sequence[int]


class ChangesRecorded(NamedTuple):
    numbers: Sequence[int]
    """Of the `Record`s that were written."""
    refused: frozenset[RunKey] = frozenset()


class SubRunFound(NamedTuple):
    key: RunKey
    answer: str | None
    """To the request for it: empty until there is one, None when the ledger knows no such request."""
    row: LedgerRow | None


class SubRunsSeen(NamedTuple):
    """What the ledger has about runs that steps wait for."""

    found: Sequence[SubRunFound]


class StopWanted(NamedTuple):
    key: RunKey
    attempt: int
    detail: str


class StopsSeen(NamedTuple):
    """Which runs that this node has for other owners these want ended."""

    wanted: Sequence[StopWanted]


class OutcomesSeen(NamedTuple):
    """How the last runs of jobs of other nodes ended, which a run that is due depends on."""

    key: RunKey
    """Of the run that is due."""
    failed: frozenset[str]
    """The jobs among them whose last run did not succeed."""


class OpenRunsSeen(NamedTuple):
    """A portion of the overdue entries that are open by the ledger, oldest first."""

    number: int
    """Of the `Audit` that asked for it."""
    rows: Sequence[LedgerRow]
    after: RunKey | None
    """Where the next portion begins; None: this was the last."""


class ReportsRead(NamedTuple):
    """Every report that nodes had forwarded when the ledger was read has been delivered."""

    number: int
    """Of the `ReadReports` that asked for them."""


class PlacementsRecalled(NamedTuple):
    """Where a job ran last, by the ledger; the newest last."""

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
    """In words, what it is for."""
    parents: tuple[Parent, ...] = ()
    """The runs that it exists because of."""


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
    """A pause or resume that was asked for before one that is carried out already is out of date."""


class ResumeJob(NamedTuple):
    request_id: str
    job_id: str
    keep: Missed | None = None
    """What to do with what was missed; None: what the job's own policy says."""
    submitted_at: Instant = 0


class BackfillJob(NamedTuple):
    """Run these instants under their own overlap rule, beside the job's live runs."""

    request_id: str
    job_id: str
    instants: Sequence[Instant]
    overlap: Overlap
    gap_us: int = 0
    """At least this long between two starts."""


class ForwardedReport(NamedTuple):
    """A report about a run of ours, from the node that had its job before."""

    request_id: str
    report: RunFinished
    node: str = ""
    """Whose report it is: under one number an attempt may have been launched on several."""


class ChainArrived(NamedTuple):
    """A run of a job ended that `job_id` runs after."""

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
    | DefinitionsDoubtful
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
    | PlacementsRecalled
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
    | ChainArrived
)
