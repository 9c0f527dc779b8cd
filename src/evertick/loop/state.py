"""The state of the loop. Only the loop reads and writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from evertick.loop.ring import Ring
from evertick.loop.runs import AwaitedSubRun, EndedRun, Lane, OpenRun, Queue
from evertick.loop.statistics import Statistics
from evertick.model.answer import Answer
from evertick.model.blackout import AddedBlackout
from evertick.model.instant import Instant
from evertick.model.job import After, Job
from evertick.model.ledger import Batch, RunsHeld, bucket_of
from evertick.model.lifecycle import RunState, SkipReason
from evertick.model.member import Member
from evertick.model.policy import Missed, Overlap
from evertick.model.report import AttemptQuestion
from evertick.model.run import Change, RunKey
from evertick.model.schedule import ScheduleSpec
from evertick.model.subrun import SubRunEnd
from evertick.planning.deadlines import Deadline
from evertick.planning.occurrences import OccurrenceIndex
from evertick.routing.selection import NoPlacement
from evertick.settings.parts import LoopSettings


class UpstreamEnd(NamedTuple):
    """An end of an upstream job that has not been used yet."""

    request_id: str
    at: Instant
    run: str = ""
    """The id of the run that ended; empty from a version that did not send it."""


class Hold(StrEnum):
    """Why a job is not planned."""

    PAUSED = "paused"
    DISABLED = "disabled"
    ERROR = "error"
    RETIRED = "retired"
    BLACKOUT = "blackout"


class DeadlineWatch:
    """How far the deadlines of a job are settled."""

    __slots__ = ("excused", "late_since", "next", "placed_at", "through")

    def __init__(self, through: Instant, late_since: Instant | None = None) -> None:
        self.through = through
        """Those of occurrences up to this one are: met, excused, or reported."""
        self.late_since = late_since
        self.next: Deadline | None = None
        """The first that is not; None: the job is held, or is never due again."""
        self.placed_at: Instant | None = None
        """When the loop looks at it next."""
        self.excused: set[Instant] = set()
        """Occurrences after `through` that need not succeed."""


class JobState:
    """A job this node owns."""

    __slots__ = (
        "_is_unconditional",
        "_judged",
        "arrivals",
        "asked",
        "bucket",
        "deadlines",
        "error",
        "hold",
        "idle_reason",
        "is_edited",
        "is_gone",
        "is_outcome_known",
        "job",
        "keep",
        "lanes",
        "last_asked_at",
        "last_failed",
        "last_started_at",
        "last_success_at",
        "pause_note",
        "paused_at",
        "placements",
        "planned",
        "retired_at",
        "since",
        "skip_next",
        "told",
        "watermark",
    )

    def __init__(self, job: Job, watermark: Instant) -> None:
        self.job = job
        self.bucket = bucket_of(job.id)
        self.watermark = watermark
        """While the job is in the index, its watermark is the horizon of the index, and this value is older."""
        self.hold: Hold | None = None
        self.idle_reason = SkipReason.MISSED
        """Why nothing was planned since the watermark."""
        self.keep: Missed | None = None
        """The operator's choice for the time since the watermark."""
        self.error = ""
        self.is_edited = False
        """Whether its schedules differ from those it was planned under."""
        self.last_asked_at: Instant = 0
        """When the last executed pause or resume was requested."""
        self.paused_at: Instant | None = None
        self.pause_note = ""
        self.since: Instant = 0
        """From when its current schedules apply."""
        self.retired_at: Instant | None = None
        self.is_gone = False
        """Its grace is over; only its last runs remain."""
        self.asked = 0
        """Runs whose executor was asked for their state and has not answered; planning waits for it."""
        self.last_success_at: Instant | None = None
        self.last_started_at: Instant = 0
        self.last_failed = False
        self.is_outcome_known = True
        """False for a job that was taken over: its last owner may have recorded the end of a run and nothing more."""
        self.skip_next = 0
        """How many coming occurrences a violated constraint skips."""
        self.told = ""
        """The digest of the definition that the ledger has."""
        # Created on first use: a million idle jobs have none.
        self.deadlines: DeadlineWatch | None = None
        """Of a job whose occurrences must succeed by a time."""
        self.placements: tuple[str, ...] | None = None
        """The members it ran on last, newest last; None: the ledger has not answered yet."""
        self.arrivals: dict[str, UpstreamEnd] | None = None
        """By upstream job."""
        self.planned: dict[RunKey, OpenRun] | None = None
        self.lanes: dict[str, Lane] | None = None
        self._judged: Job | None = None
        """The definition that `is_unconditional` was last asked about."""
        self._is_unconditional = False

    @property
    def is_unconditional(self) -> bool:
        """As `Job.is_unconditional`, which is computed once for each definition."""
        if self._judged is not self.job:
            self._judged, self._is_unconditional = self.job, self.job.is_unconditional
        return self._is_unconditional

    def is_waiting(self, run: OpenRun) -> bool:
        return run in self.lane_of(run.key).waiting

    def lane_of(self, key: RunKey) -> Lane:
        """The lane of a run; that of a backfill or an item exists already, any other run belongs to the job's own."""
        lanes = self.lanes
        if lanes is None:
            lanes = self.lanes = {}
        lane = lanes.get(key.origin) or lanes.get("")
        if lane is None:
            lane = lanes[""] = Lane()
        return lane

    def lanes_in_turn(self) -> list[Lane]:
        """Items first: their parents are active already, and go on only when the items have ended."""
        lanes = list((self.lanes or {}).values())
        return sorted(lanes, key=lambda lane: not lane.is_of_item) if len(lanes) > 1 else lanes

    def overlap_of(self, lane: Lane) -> Overlap:
        return lane.overlap or self.job.policy.overlap

    def open_runs(self) -> list[OpenRun]:
        found = list(self.planned.values()) if self.planned else []
        for lane in (self.lanes or {}).values():
            found += lane.active.values()
            found += lane.waiting
        return found

    def find(self, key: RunKey) -> OpenRun | None:
        if self.planned and (run := self.planned.get(key)):
            return run
        for lane in (self.lanes or {}).values():
            if run := lane.active.get(key):
                return run
            for run in lane.waiting:
                if run.key == key:
                    return run
        return None

    def active_run(self, key: RunKey) -> OpenRun | None:
        """The run with this key, if it occupies its job."""
        lanes = self.lanes
        if not lanes:
            return None
        own = lanes.get("")
        if own is not None and (run := own.active.get(key)):
            return run
        lane = lanes.get(key.origin)
        return lane.active.get(key) if lane else None


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

    @property
    def local_executor(self) -> str:
        return f"local@{self.node}"

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
