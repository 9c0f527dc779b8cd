"""What is written to the ledger and read back from it, as values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import crc32

from evertick.model.instant import Instant
from evertick.model.lifecycle import RunState, SkipReason, Trigger
from evertick.model.run import Change, Entry, LedgerRow, RunKey

BUCKETS: Final = 64
"""Enough for dozens of nodes, few enough to lease all of them in one statement. Never changed: it is in the ledger."""


def bucket_of(job_id: str) -> int:
    """The share of the jobs that a job belongs to, which a node leases: the same on every node, in every version."""
    return crc32(job_id.encode()) % BUCKETS


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


class JobRecord(NamedTuple):
    """What the ledger keeps about a job's planning.

    Every occurrence up to and including `watermark` is in the ledger. While a job is not `held`, its bucket's
    floor counts too: the later of the two is its watermark, so that a tick writes what is due, not what exists.
    """

    job_id: str
    watermark: Instant
    held: bool = False
    """Paused, disabled or in error: nothing is planned, and the floor does not lift the watermark."""
    fingerprint: str = ""
    paused_at: Instant | None = None
    pause_note: str = ""
    retired_at: Instant | None = None
    """When its definition went away; None while it is there."""
    last_success_at: Instant | None = None
    """The due time of the newest successful run."""
    error: str = ""
    has_failed: bool = False
    """Whether the run that ended last failed."""
    since: Instant = 0
    """From when its current schedule line applies."""
    skip_next: int = 0
    """How many coming occurrences a violated constraint skips."""
    definition: str = ""
    """The digest of the definition that the ledger has."""
    asked_at: Instant = 0
    """When the newest answered pause or resume was submitted: earlier ones are out of date."""
    deadlines_through: Instant = 0
    """The deadlines of its occurrences up to this one are settled: met, excused, or reported as missed."""
    late_since: Instant | None = None
    """The first deadline that passed without a success since the last one; None: none did."""


class ScheduleLine(NamedTuple):
    """From `since` on, a job's occurrences are those of `specs` (JSON; empty: none). `verify` reads them back."""

    job_id: str
    since: Instant
    specs: str


class DefinitionLine(NamedTuple):
    """From `since` on, a job was what `text` says, and its runs refer to it by `digest`. Written again, it moves up."""

    job_id: str
    digest: str
    since: Instant
    text: str


class StoredJob(NamedTuple):
    """A job that a program added while it ran; the ledger keeps its definition, so that the next start finds it."""

    job_id: str
    text: str | None
    """JSON, which only the library reads; None: the job was removed."""


class StoredBlackout(NamedTuple):
    """A blackout that was added at run time."""

    id: str
    text: str | None
    """JSON, which `model.blackout` reads; None: it was removed."""


STORED_JOBS = "changes.stored_jobs"
"""The counter that tells a node whether stored jobs have changed since it read them."""


class RequestKind(StrEnum):
    TRIGGER = "trigger"
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    BACKFILL = "backfill"
    CHAIN = "chain"
    """A job ended that this one runs after."""
    REPORT = "report"
    """The outcome of a run, from the node that ran it to the current owner of its job."""


class Request(NamedTuple):
    """A request of a person or a program; durable, so that any process may submit it."""

    id: str
    kind: RequestKind
    job_id: str
    payload: str
    """JSON."""
    submitted_at: Instant
    submitted_by: str = ""
    answer: str | None = None
    """JSON, once the request was handled; None until then."""


class Claim(NamedTuple):
    """Places in a queue whose runs several nodes start: counted and taken in one transaction."""

    queue: str
    limit: int
    job_ids: Sequence[str]
    """All jobs in the queue: their runs that are active according to the ledger have a place."""
    keys: Sequence[RunKey]
    """The runs that need one, in this order; one that has a place keeps it."""
    priorities: Mapping[str, int] = {}  # a value, never changed
    """Priorities of the jobs whose waiting runs may go first; 0 if unknown."""
    insisting: Collection[RunKey] = ()
    """Runs that have yielded for long enough: the run with the higher priority did not start."""

    def without_place(self, active: Collection[RunKey], waiting: Collection[RunKey] = ()) -> Sequence[RunKey]:
        """Runs that get no place: active runs keep theirs, then the first that asked."""
        wanted = [key for key in self.keys if key not in active]
        free = max(self.limit - len(active), 0)
        return [key for number, key in enumerate(wanted) if number + self._before(key, active, waiting) >= free]

    def outranked(self, active: Collection[RunKey], waiting: Collection[RunKey]) -> Sequence[RunKey]:
        """Runs that get none only because runs of a higher priority wait elsewhere."""
        return [key for key in self.without_place(active, waiting) if key not in self.without_place(active)]

    def _before(self, key: RunKey, active: Collection[RunKey], waiting: Collection[RunKey]) -> int:
        """How many jobs with a higher priority wait for a place; a job with an active run does not count."""
        if key in self.insisting:
            return 0
        mine, busy = self.priorities.get(key.job_id, 0), {one.job_id for one in (*active, *self.keys)}
        return len({one.job_id for one in waiting if self.priorities.get(one.job_id, 0) > mine} - busy)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one `commit` writes."""

    by: str
    """Node, incarnation and number of the batch: an entry found with the same `by` was written by a lost call."""
    entries: Sequence[Entry] = ()
    jobs: Sequence[JobRecord] = ()
    """Inserted or replaced; a watermark only moves forward, except by `rewinds`."""
    rewinds: Mapping[str, Instant] = field(default_factory=dict)
    """Watermarks to set back, together with the entries in `withdrawn`."""
    withdrawn: Sequence[RunKey] = ()
    """Entries to remove because they had not come due; only those still `planned` are removed."""
    changes: Sequence[Change] = ()
    """Changes that must be written together with the entries."""
    schedules: Sequence[ScheduleLine] = ()
    definitions: Sequence[DefinitionLine] = ()
    stored_jobs: Sequence[StoredJob] = ()
    """Inserted, replaced or removed."""
    blackouts: Sequence[StoredBlackout] = ()
    """Inserted, replaced or removed."""
    floors: Mapping[int, Instant] = field(default_factory=dict)
    """Per bucket: planned through this instant; only moves forward."""
    epochs: Mapping[int, int] = field(default_factory=dict)
    """Per bucket: the epoch that must still be the lease's; otherwise `Fenced`, and nothing is written."""
    requests: Sequence[Request] = ()
    """Submitted requests; one that exists already is left as it is."""
    rests_on: Mapping[str, RunKey] = field(default_factory=dict)
    """Per request id: the run among `changes` that caused it; without that change the request is not submitted."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """Per request id: its answer, JSON."""
    claims: Sequence[Claim] = ()
    """Places that runs among `changes` need; each gets one, or its changes are not written."""

    def requests_without(self, unwritten: Collection[RunKey]) -> Sequence[Request]:
        """Requests to submit if the changes of these runs were not written."""
        if not (unwritten and self.rests_on):
            return self.requests
        return [request for request in self.requests if self.rests_on.get(request.id) not in unwritten]


@dataclass(frozen=True, slots=True)
class Committed:
    refused: frozenset[RunKey] = frozenset()
    """Entries that another node had decided before: ours were not written."""
    crowded: frozenset[RunKey] = frozenset()
    """Runs that found no place in their queue: the batch's changes to them were not written."""
    overruled: frozenset[RunKey] = frozenset()
    """Runs that had ended, or have a newer fence: the changes to them were not written either."""
    outranked: frozenset[RunKey] = frozenset()
    """Those of the crowded runs that must yield to runs of a higher priority."""


NODE_PREFIX = "node:"
"""The prefix of the lease with which a node shows that it is alive."""


BUCKET_PREFIX = "bucket:"
RUNS_PREFIX = "runs:"
"""The prefix of the lease of a node on the runs on its own machine."""
STOPPED_PREFIX = "stopped:"
"""The prefix of the announcement of a stopped node that it will return."""
FORGOTTEN_PREFIX = "forgotten:"
"""The prefix of the mark of a node that does not return; its holder is the operator who set it."""


class RunsHeld(NamedTuple):
    """A node holds the runs of its machine: no other node starts them before this ends."""

    until: Instant
    is_stopped: bool = False
    """It was stopped normally, and is expected back."""


def runs_lease(node: str, folder: str) -> str:
    """The lease on the runs of a node from one state folder; with another folder it does not know them."""
    return f"{RUNS_PREFIX}{node}/{folder}"


def runs_held(leases: Sequence[Lease], but: str = "") -> dict[str, RunsHeld]:
    """Which nodes hold runs, according to these leases; one lease may be left out."""
    found: dict[str, RunsHeld] = {}
    stopped = {lease.name.removeprefix(STOPPED_PREFIX) for lease in leases if lease.name.startswith(STOPPED_PREFIX)}
    for lease in leases:
        if not lease.name.startswith(RUNS_PREFIX) or lease.name == but:
            continue
        place = lease.name.removeprefix(RUNS_PREFIX)
        node = place.rpartition("/")[0]
        held = RunsHeld(lease.expires_at, place in stopped)
        found[node] = max(held, found.get(node, held))
    return found


def nodes_forgotten(leases: Sequence[Lease]) -> dict[str, str]:
    """The nodes that do not return, according to these leases, and the operator who marked them."""
    marks = [lease for lease in leases if lease.name.startswith(FORGOTTEN_PREFIX)]
    return {lease.name.removeprefix(FORGOTTEN_PREFIX): lease.holder for lease in marks}


def nodes_alive(leases: Sequence[Lease]) -> frozenset[str]:
    """The nodes that are alive, according to these leases."""
    return frozenset(lease.holder.partition("/")[0] for lease in leases if lease.name.startswith(NODE_PREFIX))


def bucket_lease(bucket: int) -> str:
    """The lease whose epoch a commit about this bucket must have."""
    return f"{BUCKET_PREFIX}{bucket}"


class Lease(NamedTuple):
    name: str
    holder: str
    epoch: int
    """Grows each time the lease changes its holder or is taken after it expired."""
    expires_at: Instant

    def renewed(self, until: Instant) -> Lease:
        """By its holder. A lease of runs is never shortened, because keepers rely on it."""
        is_kept = self.name.startswith(RUNS_PREFIX)
        return self._replace(expires_at=max(until, self.expires_at) if is_kept else until)


class HourCount(NamedTuple):
    """How many entries of one kind, due in an hour, have ended, and how many occurrences they cover."""

    entries: int
    occurrences: int


class WrongCount(NamedTuple):
    """A stored count, and the count of the entries, which differs."""

    hour: Instant
    """Its start."""
    state: RunState
    trigger: Trigger
    reason: SkipReason | None
    kept: HourCount
    found: HourCount


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a node needs to own buckets."""

    jobs: Sequence[JobRecord] = ()
    open_runs: Sequence[LedgerRow] = ()
    """Every run that has not ended, oldest first."""
    floors: Mapping[int, Instant] = field(default_factory=dict)
    notices: Sequence[str] = ()
    """What the operator must know about this state, such as a file that was set aside."""
