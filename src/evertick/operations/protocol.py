"""The contract of all operations: `LocalOperations` implements it on a store, `evertick.Client` over HTTP.

Errors are those of `evertick.errors`. Lists that may be long come in pages: pass `next` of a page as `after`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from evertick.errors import InvalidArgument
from evertick.model.lifecycle import JobStatus, RunState, SkipReason, Trigger

if TYPE_CHECKING:
    # A hundred classes take longer to import than most commands to run.
    from evertick.model.policy import Missed
    from evertick.operations.results.attention import Attention
    from evertick.operations.results.blackouts import BlackoutChange, Blackouts
    from evertick.operations.results.bulk import Bulk, BulkAction
    from evertick.operations.results.jobs import Durations, Graph, JobDetail, JobPage, JobSort, Rule, StepHistory
    from evertick.operations.results.requests import (
        Backfill,
        BackfillProgress,
        CancelledBackfill,
        Catchup,
        RequestStatus,
        Why,
    )
    from evertick.operations.results.runs import (
        GapPage,
        LogChunk,
        LogFile,
        LogHits,
        LogText,
        LogTime,
        RunDefinition,
        RunDetail,
        RunPage,
        RunSort,
    )
    from evertick.operations.results.schedule import (
        Calendar,
        CronPreview,
        JobUpcoming,
        Load,
        Overview,
        Plan,
        Timeline,
        TimelineGroup,
        TimelineSort,
        Upcoming,
    )
    from evertick.operations.results.system import Executors, ForgottenNode, Nodes, Queues, Status, Verification

Moment: TypeAlias = datetime | str
"""An aware datetime, or text: RFC 3339, a local time in the job's time zone, or relative: `yesterday`, `-2d`, `1h`."""

LOG_BYTES_MAX = 1 << 20
ALL_STEPS = "*"
"""In place of a step: the merged log of an attempt, unless a step has this name."""

E = TypeVar("E", bound=StrEnum)


def enum_of(what: str, word: str, kind: type[E]) -> E:
    """The member of an enum that a word names; else `InvalidArgument`."""
    try:
        return kind(word)
    except ValueError:
        raise InvalidArgument(f"unknown {what} '{word}'.", hint=f"Use one of {', '.join(kind)}.", field=what) from None


def enums_of(what: str, words: Collection[str], kind: type[E]) -> tuple[E, ...]:
    return tuple(enum_of(what, word, kind) for word in words)


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which runs to list; an empty collection means any."""

    job: str | None = None
    states: Collection[RunState] = ()
    triggers: Collection[Trigger] = ()
    reasons: Collection[SkipReason] = ()
    tags: Collection[str] = ()
    """A run's job must have all of them."""
    since: Moment | None = None
    """Due at this time or later."""
    until: Moment | None = None
    """Due before this time."""
    executor: str | None = None
    sort: RunSort | None = None
    """None: by due time, the newest first."""
    is_reversed: bool = False


class Operations(Protocol):
    # --- jobs

    def list_jobs(
        self,
        search: str = "",
        tags: Collection[str] = (),
        statuses: Collection[JobStatus] = (),
        limit: int = 100,
        after: str | None = None,
        *,
        with_gone: bool = False,
        recent: int = 0,
        sort: JobSort | None = None,
        is_reversed: bool = False,
    ) -> JobPage:
        """A page of jobs, by id unless `sort` is given.

        `search` matches ids, names, descriptions and tags; a job must have all `tags`.
        `with_gone` includes jobs whose definition was deleted; `recent` adds that many of each job's last runs.
        """
        ...

    def job(self, job_id: str) -> JobDetail:
        """The status of a job and its definition."""
        ...

    def explain(self, job_id: str) -> Sequence[Rule]:
        """Every policy of a job, and where it was set."""
        ...

    def graph(self, job_id: str) -> Graph:
        """The steps of a job and their dependencies."""
        ...

    def durations(self, job_id: str, limit: int = 100) -> Durations:
        """How long the last runs of a job took, oldest first."""
        ...

    def step_history(self, job_id: str, limit: int = 40) -> StepHistory:
        """How each step did in the last runs of a job, oldest first, and how the job does by weekday."""
        ...

    def catchup(self, job_id: str, keep: Missed | None = None) -> Catchup:
        """What a start or a resume would catch up now."""
        ...

    def why(self, target: str, at: Moment | None = None) -> Why:
        """Why an occurrence of a job, or a run, has its outcome; of a job without a time, the newest one."""
        ...

    # --- runs

    def list_runs(self, query: RunQuery = ..., limit: int = 100, after: str | None = None) -> RunPage:
        """A page of the ledger, newest first unless the query has another order."""
        ...

    def gaps(
        self,
        job: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> GapPage:
        """Occurrences that were skipped together, newest first."""
        ...

    def run(self, run_id: str) -> RunDetail:
        """A run with its attempts, steps and logs.

        In all operations a run is named by its id, by a unique beginning of it, or by its job for the latest run.
        """
        ...

    def run_definition(self, run_id: str, attempt: int | None = None) -> RunDefinition:
        """The job's definition when an attempt was launched, compared with the current one."""
        ...

    def list_logs(self, run_id: str) -> Sequence[LogFile]:
        """The logs of a run, by attempt and step.

        In the operations on a log, the step `*` means all steps of an attempt: their lines by time, each with its
        time and its step before it, separated by tabs.
        """
        ...

    def read_log(
        self, run_id: str, attempt: int, step: str, offset: int = 0, limit: int = LOG_BYTES_MAX, *, lines: bool = False
    ) -> LogText:
        """A part of a log as text. With `lines` it begins with a whole line and has its number."""
        ...

    def log_bytes(self, run_id: str, attempt: int, step: str, offset: int = 0, limit: int = LOG_BYTES_MAX) -> LogChunk:
        """A part of a log as bytes."""
        ...

    def log_times(self, run_id: str, attempt: int, step: str, offset: int = 0) -> Sequence[LogTime]:
        """From which byte on a log was written at which time, beginning with the time of the byte at an offset."""
        ...

    def search_log(
        self, run_id: str, attempt: int, step: str, text: str = "", *, errors: bool = False, line: int | None = None
    ) -> LogHits:
        """The lines of a log that contain a text (case is ignored), that look like errors, or that has a number."""
        ...

    # --- time

    def attention(self) -> Attention:
        """What needs attention now, worst first, with the action that most likely helps."""
        ...

    def overview(self) -> Overview:
        """What runs, waits, failed and comes next, and the figures of the last day."""
        ...

    def timeline(
        self,
        start: Moment,
        end: Moment,
        offset: int = 0,
        limit: int = 50,
        search: str = "",
        tags: Collection[str] = (),
        statuses: Collection[JobStatus] = (),
        cells: int = 240,
        *,
        sort: TimelineSort | None = None,
        group: TimelineGroup | None = None,
        unfolded: Collection[str] = (),
    ) -> Timeline:
        """The runs of jobs in a period, one lane per job; a lane with more than `cells` runs has counts instead.

        `sort` is by name where it is absent. The jobs of a group share one lane of counts, unless `unfolded` names it.
        """
        ...

    def upcoming(
        self, count: int = 20, until: Moment | None = None, *, once: bool = False, excluded: bool = False
    ) -> Upcoming:
        """The next occurrences of all jobs; with `once` only the first of each job.

        With `excluded` also those that a calendar excludes, with the reason and the name of the day.
        """
        ...

    def job_upcoming(
        self, job_id: str, count: int = 20, until: Moment | None = None, *, excluded: bool = False
    ) -> JobUpcoming:
        """The next occurrences of a job, and how changes of the clock affect them; `excluded` as in `upcoming`."""
        ...

    def plan(self, until: Moment, jobs: Collection[str] = (), limit: int = 100) -> Plan:
        """What would run or be skipped until a time."""
        ...

    def load(self, until: Moment) -> Load:
        """How many jobs start in each minute until a time."""
        ...

    def cron(
        self,
        expression: str,
        timezone: str | None = None,
        count: int = 10,
        after: Moment | None = None,
        name: str = "",
    ) -> CronPreview:
        """What a cron expression means and when it is due; `name` is the job's id, from which `H` is computed."""
        ...

    def calendar(
        self,
        job_id: str | None = None,
        start: date | str | None = None,
        end: date | str | None = None,
        zone: str | None = None,
    ) -> Calendar:
        """The outcomes of each day, of one job or of all, and what is still to come."""
        ...

    def blackouts(self, over: bool = False) -> Blackouts:
        """The blackouts of the settings and those that were added at run time; with `over` also those that are over."""
        ...

    def add_blackout(
        self,
        start: Moment,
        end: Moment,
        jobs: Collection[str] = (),
        tags: Collection[str] = (),
        is_for_all: bool = False,
        reason: str = "",
        timezone: str | None = None,
        preview: bool = False,
        *,
        request_id: str = "",
    ) -> BlackoutChange:
        """Plan nothing for some jobs from `start`, or now if that is later, until before `end`.

        `timezone` is that of times without an offset. With `preview` nothing changes, and the answer says which
        occurrences would be in it.
        """
        ...

    def remove_blackout(self, blackout_id: str, preview: bool = False) -> BlackoutChange:
        """Remove a blackout that was added at run time; if it lasts, it ends now, by the rules of a resume."""
        ...

    # --- the system

    def status(self) -> Status:
        """Whether a scheduler runs, and its own report."""
        ...

    def executors(self) -> Executors:
        """The executors, their health and their runs."""
        ...

    def queues(self) -> Queues:
        """The queues that jobs share, and their runs."""
        ...

    def nodes(self) -> Nodes:
        """The nodes that schedule, and those whose return is awaited."""
        ...

    def forget_node(self, node: str, force: bool = False) -> ForgottenNode:
        """Declare that a node does not return: its runs are retried or lost now instead of when its lease ends."""
        ...

    def verify(self) -> Verification:
        """Whether the ledger has every occurrence exactly once."""
        ...

    # --- commands: durable requests; a `request_id` is executed once, and without it every call is a new request.
    # `wait_seconds` is how long to wait for the scheduler's answer.

    def trigger(
        self,
        job_id: str,
        params: Mapping[str, str] | None = None,
        trigger: Trigger = Trigger.MANUAL,
        *,
        request_id: str = "",
        wait_seconds: float = 0.0,
    ) -> RequestStatus:
        """Run a job now; its overlap rule applies."""
        ...

    def cancel(self, target: str, *, request_id: str = "", wait_seconds: float = 0.0) -> RequestStatus:
        """Cancel a run, or every open run of a job."""
        ...

    def retry(
        self, run_id: str, from_failed: bool = False, *, request_id: str = "", wait_seconds: float = 0.0
    ) -> RequestStatus:
        """Re-run a past run with its parameters; with `from_failed` the steps that succeeded are not repeated."""
        ...

    def pause(self, job_id: str, note: str = "", *, request_id: str = "", wait_seconds: float = 0.0) -> RequestStatus:
        """Pause a job."""
        ...

    def resume(
        self, job_id: str, keep: Missed | None = None, *, request_id: str = "", wait_seconds: float = 0.0
    ) -> RequestStatus:
        """Resume a job; `keep` says which missed occurrences run, else the job's catch-up rule does."""
        ...

    def backfill(
        self,
        job_id: str,
        start: Moment,
        end: Moment,
        only_missing: bool = True,
        overlap: str = "wait",
        gap_seconds: float = 0.0,
        preview: bool = False,
        *,
        request_id: str = "",
        wait_seconds: float = 0.0,
    ) -> Backfill:
        """Run past occurrences from `start` until before `end`, at least `gap_seconds` apart."""
        ...

    def backfills(self, job_id: str, limit: int = 10) -> Sequence[BackfillProgress]:
        """The backfills of a job: those in progress, then the newest."""
        ...

    def backfill_progress(self, job_id: str, request: str) -> BackfillProgress:
        """The progress of a backfill."""
        ...

    def cancel_backfill(
        self, job_id: str, request: str, *, request_id: str = "", wait_seconds: float = 0.0
    ) -> CancelledBackfill:
        """Cancel the runs of a backfill that have not ended."""
        ...

    def bulk(
        self,
        action: BulkAction,
        jobs: Collection[str] = (),
        runs: Collection[str] = (),
        start: Moment | None = None,
        end: Moment | None = None,
        note: str = "",
        preview: bool = False,
        *,
        request_id: str = "",
    ) -> Bulk:
        """Run, pause, resume or backfill many jobs, or retry or cancel many runs; at most 500.

        With jobs and a period, `retry` and `retry-failed` are for their failed runs, and `cancel` for those that wait.
        """
        ...

    def answer(self, request_id: str, wait_seconds: float = 0.0) -> RequestStatus:
        """The status of a request."""
        ...
