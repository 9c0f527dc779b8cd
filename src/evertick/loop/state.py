"""The state of the loop. Only the loop reads and writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from evertick.loop.job_state import JobState
from evertick.loop.ring import Ring
from evertick.loop.runs import AwaitedSubRun, EndedRun, OpenRun, Queue
from evertick.loop.statistics import Statistics
from evertick.model.answer import Answer
from evertick.model.blackout import AddedBlackout
from evertick.model.instant import Instant
from evertick.model.job import After, Job
from evertick.model.ledger import Batch, RunsHeld, bucket_of
from evertick.model.lifecycle import RunState
from evertick.model.member import Member
from evertick.model.report import AttemptQuestion
from evertick.model.run import Change, RunKey
from evertick.model.schedule import ScheduleSpec
from evertick.model.subrun import SubRunEnd
from evertick.planning.deadlines import Deadline
from evertick.planning.occurrences import OccurrenceIndex
from evertick.routing.selection import NoPlacement
from evertick.settings.parts import LoopSettings


class PendingBatch(NamedTuple):
    """A commit that is not answered yet."""

    batch: Batch
    runs: list[OpenRun]
    """The runs that wait for it: one for each of its planned entries."""
    request_jobs: dict[str, str]
    """The job of each request that it answers."""
    launches: tuple[OpenRun, ...] = ()
    """At-most-once runs, which start after the ledger has recorded their launch."""
    epochs: Mapping[int, int] = MappingProxyType({})
    """Epochs of the buckets owned when it was decided; it may rest on others that were lost before."""
    schedules: Mapping[str, tuple[ScheduleSpec, ...]] = MappingProxyType({})
    """Schedules of the jobs for which it enters gaps."""
    misses: Mapping[str, Deadline] = MappingProxyType({})
    """By job: the deadline that it settles as missed; the loop reports it once, when this is written."""


class HandledRequest(NamedTuple):
    """A request that was executed."""

    job_id: str
    answer: Answer


STALLED_CHECKS: Final = 2
"""How often in a row an entry must wait for nothing before it counts as stuck."""


STUCK_CHECKS: Final = 8
"""After this many, resuming it did not help."""


class StalledEntry(NamedTuple):
    """An entry that waited for nothing when it was checked."""

    checks: int
    """How often in a row, without any change."""
    as_of: tuple[RunState, int, int] | None = None
    """Its state, its attempt and how often that was refused; None: the loop does not have it."""


class AuditProgress:
    """How far the audit of the ledger has come."""

    __slots__ = ("after", "answered", "looked_at", "next_at", "number", "stalled")

    def __init__(self, next_at: Instant) -> None:
        self.number = 0
        """Number of the last portion requested."""
        self.answered = 0
        self.next_at = next_at
        self.after: RunKey | None = None
        """Where the next portion begins; None: at the oldest."""
        self.looked_at: set[RunKey] = set()
        """In this round."""
        self.stalled: dict[RunKey, StalledEntry] = {}

    @property
    def is_answered(self) -> bool:
        return self.answered == self.number

    @property
    def stuck(self) -> int:
        """Entries that were resumed and still do not move."""
        return sum(entry.checks > STUCK_CHECKS for entry in self.stalled.values())


class Catchup:
    """A catch-up in progress, for its summary."""

    __slots__ = ("began_at", "dispatched", "outstanding", "skipped")

    def __init__(self, began_at: Instant) -> None:
        self.began_at = began_at
        self.outstanding: set[RunKey] = set()
        self.dispatched = 0
        self.skipped = 0


class State:
    """Everything the loop knows."""

    def __init__(self, settings: LoopSettings, node: str, incarnation: str, now: Instant) -> None:
        self.settings = settings
        self.node = node
        self.local_executor = f"local@{node}"
        self.incarnation = incarnation
        """Different at each start of the process, so that its entries differ from those of the previous process."""
        self.definitions: dict[str, Job] = {}
        """As they are written; `definition_of` has the blackouts that were added at run time too."""
        self.jobs: dict[str, JobState] = {}
        self.epochs: dict[int, int] = {}
        self.newest_epochs: dict[int, int] = {}
        """By bucket, the newest epoch under which this node has owned it."""
        self.lease_until: Instant | None = None
        """After this instant another node may own the buckets; None: this is the only node."""
        self.index = OccurrenceIndex(now)
        self.stops = OccurrenceIndex(now)
        """Occurrences of stop and restart schedules, under `stop:<job>` and `restart:<job>`."""
        self.blackouts: tuple[AddedBlackout, ...] = ()
        """Those that were added at run time."""
        self.blackout_bounds: list[tuple[Instant, str]] = []
        """A heap: when blackouts of which job begin and end."""
        self.ring: Ring[OpenRun] = Ring()
        self.deadlines: Ring[str] = Ring()
        """Jobs, by when their next deadline is judged."""
        self.late_jobs: set[str] = set()
        """Jobs of which a deadline passed without a success since."""
        self.queues: dict[str, Queue] = {name: Queue(limit) for name, limit in settings.queues}
        self.freed_queues: set[str] = set()
        self.queue_jobs: dict[str, tuple[str, ...]] = {}
        """The jobs of each queue, over all definitions; empty: not computed yet."""
        self.downstream: dict[str, dict[str, After]] = {}
        """The jobs that run after a job, and after which end of it, over all definitions."""
        self.to_plan: dict[str, None] = {}
        """Jobs that must be planned individually before they join the index."""
        self.retiring: dict[str, Instant] = {}
        self.is_whole = True
        """Whether every definition could be read; otherwise a missing job may be in an unreadable file."""
        self.batches: dict[int, PendingBatch] = {}
        self.next_batch = 1
        self.records: dict[int, Sequence[Change]] = {}
        """The content of each unanswered `Record`."""
        self.next_record = 1
        self.changes_in_flight = 0
        self.unwritten_ends: dict[RunKey, EndedRun] = {}
        """Runs that ended, until the ledger has answered the write of their end: it may refuse it."""
        self.live_nodes: frozenset[str] | None = None
        """The live nodes; None: not reported yet."""
        self.holding: Mapping[str, RunsHeld] = {}
        """The nodes that hold their runs; under this node's name, from another state folder."""
        self.lapsed: frozenset[str] = frozenset()
        """The nodes that held their runs, and are gone now."""
        self.forgotten: Mapping[str, str] = {}
        """The nodes that an operator has given up, and the operator."""
        self.holds_runs = False
        """Whether this node holds its runs: then other nodes do not restart them because it was silent for a while."""
        self.remembers_since: Instant = 0
        """The state folder is newer than some runs: this machine may have run them without knowing it."""
        self.members: dict[str, tuple[Member, ...]] = {}
        """The members of each remote executor."""
        self.placed: dict[str, dict[RunKey, OpenRun]] = {}
        """The attempts placed on each member; ended ones are dropped when they are counted."""
        self.reserved: dict[str, dict[RunKey, OpenRun]] = {}
        """Those of them that use resources, by member."""
        self.counted_at: dict[str, Instant] = {}
        """When ended attempts were last dropped, for each member without a limit of slots."""
        self.unplaced: dict[RunKey, NoPlacement] = {}
        """Runs that wait because no member can take them, and why."""
        self.placement_lookups: set[str] = set()
        """Jobs about which the ledger was asked where they ran."""
        self.foreign: dict[RunKey, str] = {}
        """Runs of this node's jobs that another node started and still has: key to node."""
        self.doubted: dict[RunKey, int] = {}
        """Those of them whose node is gone, and the number of the `ReadReports` to be answered first."""
        self.to_reconcile: dict[int, list[tuple[OpenRun | None, AttemptQuestion]]] = {}
        """Attempts to ask executors about when the `ReadReports` of that number is answered."""
        self.reports_number = 0
        """Number of the last `ReadReports`."""
        self.unused_reports: dict[RunKey, set[str]] = {}
        """Reports about runs whose executor is asked: requests that have no answer as long as it has given none."""
        self.orphans: dict[RunKey, OpenRun] = {}
        """Runs that this node started for jobs it no longer owns; it reports their end to the owner."""
        self.looked_up: dict[RunKey, bool] = {}
        """Runs of other nodes' jobs that an earlier process of this node had, and whether they may have started."""
        self.stopped_orphans: set[tuple[RunKey, int]] = set()
        """Attempts of both that were stopped for their owners; a second stop would also stop their handlers."""
        self.next_stops_look_at: Instant = now
        self.is_looking_for_stops = False
        """Whether the ledger was asked for such requests, and has not answered."""
        self.handled: dict[str, HandledRequest] = {}
        """Requests in execution whose answer is not known to be in the ledger."""
        self.answered: dict[str, HandledRequest] = {}
        """The last requests whose answer is in the ledger."""
        self.cancelling: dict[str, tuple[str, set[RunKey]]] = {}
        """Cancel requests that are answered when these runs of their job have ended."""
        self.resuming: dict[str, str] = {}
        """Resume requests that are answered when their job is planned again: job to request."""
        self.sub_runs: dict[RunKey, AwaitedSubRun] = {}
        """Runs that steps on this node wait for."""
        self.sub_run_ends: dict[RunKey, SubRunEnd] = {}
        """How some of them ended, until the ledger has it."""
        self.next_look_up_at: Instant = now
        self.is_looking_up = False
        """Whether the ledger was asked about them, and has not answered."""
        self.catchup: Catchup | None = None
        self.outcomes_asked: set[RunKey] = set()
        """Due runs that wait until the ledger has reported the outcomes of other nodes' runs."""
        self.unlaunched: dict[RunKey, OpenRun] = {}
        """Runs recorded as launching that wait for this node's lease to be renewed."""
        self.statistics = Statistics()
        self.audit = AuditProgress(now)
        self.is_stopping = False
        self.next_plan_at: Instant = now
        self.next_flush_at: Instant = now
        self.last_now = now
        self.known_floor: Instant = 0
        """How far the buckets of this node were planned, by any node's clock; planning goes at least as far."""
        self.removed: dict[str, Instant] = {}
        """Jobs that were here once, and up to where the ledger has them."""
        self.furthest_now = now
        """The latest time seen: a watermark never moves behind it, whatever the clock was set to."""
        self.last_boottime_us: tuple[Instant, int] | None = None
        """The wall clock and the monotonic clock when they were last compared."""

    def is_lease_over(self, now: Instant) -> bool:
        return self.lease_until is not None and now >= self.lease_until

    def queue_of(self, job: JobState) -> Queue | None:
        """The limit of a job's queue; a queue without a limit limits nothing."""
        return self.queues.get(job.job.queue) if job.job.queue else None

    def queue_of_run(self, job: JobState, run: OpenRun) -> Queue | None:
        """The same for one run: its parent has the place for an item."""
        return None if run.is_item else self.queue_of(job)

    def definition_of(self, job_id: str) -> Job | None:
        """A job as it is planned: with the blackouts that were added at run time."""
        found = self.definitions.get(job_id)
        return found.with_blackouts(self.blackouts) if found is not None and self.blackouts else found

    def owns(self, job_id: str) -> bool:
        return bucket_of(job_id) in self.epochs

    def watermark_of(self, job: JobState) -> Instant:
        return self.index.horizon if job.job.id in self.index else job.watermark
