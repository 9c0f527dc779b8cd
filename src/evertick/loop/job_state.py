"""The state of one job in the loop. Only the loop reads and writes it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from evertick.loop.runs import Lane, OpenRun
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.ledger import bucket_of
from evertick.model.lifecycle import SkipReason
from evertick.model.policy import Missed, Overlap
from evertick.model.run import RunKey
from evertick.planning.deadlines import Deadline


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
        """Items first: their parents are active already, and continue only when the items have ended."""
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
