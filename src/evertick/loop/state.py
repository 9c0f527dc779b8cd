"""What the loop knows. It owns all of it; nobody else reads or writes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from evertick.loop.ring import Ring
from evertick.loop.runs import Awaited, EndedRun, Lane, OpenRun, Queue
from evertick.loop.statistics import Statistics
from evertick.model.bucket import bucket_of
from evertick.model.instant import Instant
from evertick.model.job import After, Job
from evertick.model.ledger import Batch, RunsHeld
from evertick.model.lifecycle import RunState, SkipReason
from evertick.model.member import Member
from evertick.model.policy import Missed, Overlap
from evertick.model.report import AttemptQuestion
from evertick.model.run import Change, RunKey
from evertick.model.schedule import ScheduleSpec
from evertick.planning.occurrences import OccurrenceIndex
from evertick.routing.selection import Nowhere
from evertick.settings.parts import LoopSettings


class Arrival(NamedTuple):
    """A success of an upstream job that has not been used yet."""

    request_id: str
    at: Instant
    run: str = ""
    """The id of the run that succeeded; empty from a version that did not say."""


class Hold(StrEnum):
    """Why nothing is planned for a job."""

    PAUSED = "paused"
    DISABLED = "disabled"
    ERROR = "error"
    RETIRED = "retired"


class JobState:
    """A job this node owns."""

    __slots__ = (
        "arrivals",
        "asked",
        "bucket",
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
        """While the job is in the index, the index's horizon is its watermark and this is older."""
        self.hold: Hold | None = None
        self.idle_reason = SkipReason.MISSED
        """Why nothing was planned since the watermark."""
        self.keep: Missed | None = None
        """What a person chose for the stretch since the watermark."""
        self.error = ""
        self.is_edited = False
        """Whether its schedules are others than those it was planned under."""
        self.last_asked_at: Instant = 0
        """When the pause or resume that was carried out last was asked for."""
        self.paused_at: Instant | None = None
        self.pause_note = ""
        self.since: Instant = 0
        """From when on its present schedules count."""
        self.retired_at: Instant | None = None
        self.is_gone = False
        """Its grace is over; only its last runs are waited for."""
        self.asked = 0
        """Runs whose executor was asked what became of them and has not answered; planning waits for it."""
        self.last_success_at: Instant | None = None
        self.last_started_at: Instant = 0
        self.last_failed = False
        self.is_outcome_known = True
        """Not of a job that was taken over: its last owner may have told how a run ended and no more."""
        self.skip_next = 0
        """Coming occurrences that a broken constraint takes away."""
        self.told = ""
        """The digest of the definition that the ledger was told last."""
        # Made when first needed: a million idle jobs have none.
        self.placements: tuple[str, ...] | None = None
        """The members it ran on last, newest last; None: the ledger has not said yet."""
        self.arrivals: dict[str, Arrival] | None = None
        """By upstream job."""
        self.planned: dict[RunKey, OpenRun] | None = None
        self.lanes: dict[str, Lane] | None = None

    def is_waiting(self, run: OpenRun) -> bool:
        return run in self.lane_of(run.key).waiting

    def lane_of(self, key: RunKey) -> Lane:
        """The lane a run belongs to; a backfill's exists already, any other run goes to the job's own."""
        lanes = self.lanes
        if lanes is None:
            lanes = self.lanes = {}
        lane = lanes.get(key.origin) or lanes.get("")
        if lane is None:
            lane = lanes[""] = Lane()
        return lane

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
        """The run under this key if it occupies its job."""
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
    """The job of each request it answers."""
    launches: tuple[OpenRun, ...] = ()
    """Runs that may be started at most once: when the ledger has it that they are being launched."""
    epochs: Mapping[int, int] = MappingProxyType({})
    """Of the buckets that were owned when it was decided; it may rest on others that were lost before."""
    schedules: Mapping[str, tuple[ScheduleSpec, ...]] = MappingProxyType({})
    """Of the jobs of which it enters gaps."""


class Handled(NamedTuple):
    """A request that was carried out."""

    job_id: str
    answer: dict[str, object]


STRIKES: Final = 2
"""How often in a row an entry is found waiting for nothing before it is stuck."""


STUCK_STRIKES: Final = 8
"""After so many it has been taken up again, and that did not help."""


class Suspect(NamedTuple):
    """An entry that waited for nothing when it was looked at."""

    strikes: int
    """How often in a row, without having moved."""
    as_of: tuple[RunState, int, int] | None = None
    """Its state, its attempt and how often that was refused; None: the loop does not hold it."""


class AuditProgress:
    """How far the comparison of the ledger with what the loop holds has come."""

    __slots__ = ("after", "answered", "looked_at", "next_at", "number", "suspects")

    def __init__(self, next_at: Instant) -> None:
        self.number = 0
        """Of the portion that was asked for last."""
        self.answered = 0
        self.next_at = next_at
        self.after: RunKey | None = None
        """Where the next portion begins; None: at the oldest."""
        self.looked_at: set[RunKey] = set()
        """In this round."""
        self.suspects: dict[RunKey, Suspect] = {}

    @property
    def is_answered(self) -> bool:
        return self.answered == self.number

    @property
    def stuck(self) -> int:
        """Entries that were taken up again, and still do not move."""
        return sum(suspect.strikes > STUCK_STRIKES for suspect in self.suspects.values())


class Catchup:
    """A catch-up under way, for its summary."""

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
        """Differs at each start of the process, so that its entries can be told from those of the one before."""
        self.definitions: dict[str, Job] = {}
        self.jobs: dict[str, JobState] = {}
        self.epochs: dict[int, int] = {}
        self.newest_epochs: dict[int, int] = {}
        """Of each bucket that this node ever had, the newest epoch under which it did."""
        self.lease_until: Instant | None = None
        """Beyond this instant the buckets may be somebody else's; None: this node is the only one."""
        self.index = OccurrenceIndex(now)
        self.stops = OccurrenceIndex(now)
        """Occurrences of stop and restart schedules, under `stop:<job>` and `restart:<job>`."""
        self.ring: Ring[OpenRun] = Ring()
        self.queues: dict[str, Queue] = {name: Queue(limit) for name, limit in settings.queues}
        self.freed_queues: set[str] = set()
        self.queue_jobs: dict[str, tuple[str, ...]] = {}
        """Which jobs are in each queue, of all definitions there are; empty: nobody has looked."""
        self.downstream: dict[str, dict[str, After]] = {}
        """Which jobs run after a job, and after which end of it, of all definitions there are."""
        self.to_plan: dict[str, None] = {}
        """Jobs that must be planned by themselves before they join the index."""
        self.retiring: dict[str, Instant] = {}
        self.is_whole = True
        """Whether every definition could be read; otherwise a job that is not there may be in one that could not."""
        self.batches: dict[int, PendingBatch] = {}
        self.next_batch = 1
        self.records: dict[int, Sequence[Change]] = {}
        """What each `Record` says that is not answered yet."""
        self.next_record = 1
        self.changes_in_flight = 0
        self.recent: deque[EndedRun] = deque()
        """Runs that ended within the grace."""
        self.live_nodes: frozenset[str] | None = None
        """The nodes that gave a sign of life lately; None: nobody has said yet."""
        self.holding: Mapping[str, RunsHeld] = {}
        """The nodes that hold what they run; under this node's name, from another state folder."""
        self.lapsed: frozenset[str] = frozenset()
        """The nodes that held what they ran, and are gone since."""
        self.forgotten: Mapping[str, str] = {}
        """The nodes that do not come back, and the operator who said so."""
        self.holds_runs = False
        """Whether this node does: then nobody gives its runs away because it was silent for a while."""
        self.remembers_since: Instant = 0
        """What was launched on this machine before may be unknown here although it ran: the state folder is newer."""
        self.members: dict[str, tuple[Member, ...]] = {}
        """Who runs attempts, by executor; this machine is not among them."""
        self.placed: dict[str, dict[RunKey, OpenRun]] = {}
        """What was put on each member; those that have ended are forgotten when somebody counts."""
        self.reserved: dict[str, dict[RunKey, OpenRun]] = {}
        """Those of them that asked for resources, by member."""
        self.counted_at: dict[str, Instant] = {}
        """When those that have ended were last forgotten, for each member without a limit of slots."""
        self.homeless: dict[RunKey, Nowhere] = {}
        """Runs that wait because no member can take them, and why."""
        self.recalling: set[str] = set()
        """Jobs that the ledger was asked about where they ran."""
        self.foreign: dict[RunKey, str] = {}
        """Runs of our jobs that another node started and still has: key to node."""
        self.doubted: dict[RunKey, int] = {}
        """Those of them whose node is gone, and the number of the `ReadReports` that is to be answered first."""
        self.to_reconcile: dict[int, list[tuple[OpenRun | None, AttemptQuestion]]] = {}
        """Attempts that executors are asked about when the `ReadReports` of that number is answered."""
        self.reports_number = 0
        """Of the last `ReadReports`."""
        self.orphans: dict[RunKey, OpenRun] = {}
        """Runs this node started for jobs it no longer owns; it tells the owner how they end."""
        self.looked_up: dict[RunKey, bool] = {}
        """Runs of others that an earlier process of this node had, and whether they may have started."""
        self.stopped_orphans: set[tuple[RunKey, int]] = set()
        """Attempts of both that were ended at the wish of their owners: asked again, their handlers would end too."""
        self.next_stops_look_at: Instant = now
        self.is_looking_for_stops = False
        """Whether the ledger was asked for such wishes, and has not answered."""
        self.handled: dict[str, Handled] = {}
        """Requests that were taken up, and whose answer is not known to be in the ledger."""
        self.answered: dict[str, Handled] = {}
        """Requests whose answer is; the last ones."""
        self.cancelling: dict[str, tuple[str, set[RunKey]]] = {}
        """Requests to cancel that are answered when these runs of their job have ended."""
        self.resuming: dict[str, str] = {}
        """Requests to resume that are answered when their job is planned again: job to request."""
        self.sub_runs: dict[RunKey, Awaited] = {}
        """Runs that steps on this node wait for."""
        self.next_look_up_at: Instant = now
        self.is_looking_up = False
        """Whether the ledger was asked about them, and has not answered."""
        self.catchup: Catchup | None = None
        self.outcomes_asked: set[RunKey] = set()
        """Runs that are due, and that wait for the ledger to say how runs of other nodes ended."""
        self.unlaunched: dict[RunKey, OpenRun] = {}
        """Runs that the ledger has as launched, and that wait for the lease of this node to be renewed."""
        self.statistics = Statistics()
        self.audit = AuditProgress(now)
        self.is_stopping = False
        self.next_plan_at: Instant = now
        self.next_flush_at: Instant = now
        self.last_now = now
        self.known_floor: Instant = 0
        """How far somebody has planned the buckets of this node, by whatever clock; planning goes as far."""
        self.removed: dict[str, Instant] = {}
        """Jobs that were here once, and how far the ledger knows of them."""
        self.furthest_now = now
        """The latest time seen: a watermark never goes back behind it, whatever the clock was set to."""
        self.last_boottime_us: tuple[Instant, int] | None = None
        """The wall and the monotonic clock when they were last compared."""

    @property
    def local_executor(self) -> str:
        return f"local@{self.node}"

    def is_lease_over(self, now: Instant) -> bool:
        return self.lease_until is not None and now >= self.lease_until

    def queue_of(self, job: JobState) -> Queue | None:
        """The named limit of a job's runs; a name without a limit limits nothing."""
        return self.queues.get(job.job.queue) if job.job.queue else None

    def owns(self, job_id: str) -> bool:
        return bucket_of(job_id) in self.epochs

    def watermark_of(self, job: JobState) -> Instant:
        return self.index.horizon if job.job.id in self.index else job.watermark
