"""What every operation reads: the ledger, the definitions, the clock, and a short-lived cache of them."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from evertick.errors import InvalidArgument
from evertick.model.instant import MILLISECOND, Instant, from_datetime
from evertick.model.job import Job
from evertick.model.ledger import JobRecord, Snapshot
from evertick.model.lifecycle import RunState, Trigger
from evertick.model.plain_json import Json
from evertick.model.run import LedgerRow
from evertick.model.schedule import ScheduleSpec
from evertick.operations.added_blackouts import AddedBlackouts
from evertick.operations.jobs import current_specs, name_of, specs_of, watermark_of, zone_of
from evertick.operations.ledger_rows import run_of
from evertick.operations.merged_log import MergedLogCache
from evertick.operations.next_due_cache import NextDueCache
from evertick.operations.submission import find_record, is_known, live_nodes, no_such_job
from evertick.operations.time_text import read_moment

if TYPE_CHECKING:
    # What only some operations need is imported where it is used.
    from pathlib import Path

    from evertick.definitions.source import Folder
    from evertick.dispatch.control_client import ControlClient
    from evertick.operations.log_files import LogsReader
    from evertick.operations.protocol import Moment
    from evertick.operations.results.runs import Run
    from evertick.operations.run_logs import RunLogs
    from evertick.operations.scheduler_report import SchedulerReport
    from evertick.settings.blackouts import BlackoutRule
    from evertick.store import Store

CHANGED_US = 100 * MILLISECOND
"""How old a view of all jobs may be once something has changed."""
REST = 20
"""A view that took long is kept this many times as long: reading all jobs takes at most a twentieth of the time."""
ANSWERS_MAX = 50
"""Results kept with a view: what people search for must not fill the memory."""

T = TypeVar("T")


class Live(Protocol):
    """What only a running scheduler knows."""

    def status(self) -> Mapping[str, Json] | None:
        """Its report; None if there is none, or it does not answer."""

    def announce_requests(self) -> None:
        """Make it look for new requests now."""


def scheduler_at(state_folder: Path) -> ControlClient:
    """The client for the scheduler that uses a state folder on this machine; it may not be running."""
    from evertick.dispatch.control_client import ControlClient

    return ControlClient(state_folder)


def now_by_the_clock() -> Instant:
    return from_datetime(datetime.now(UTC))


def folder_of(jobs: Mapping[str, Job]) -> Folder:
    """Jobs that no files define, as a folder of them."""
    from evertick.definitions.source import Folder

    return Folder(jobs=jobs)


class _Answer:
    """A result that is computed once per view, by the first caller."""

    __slots__ = ("is_known", "lock", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_known = False
        self.value: Any = None


class View:
    """All jobs at one moment, and the results computed from them."""

    def __init__(self, folder: Folder, snapshot: Snapshot, took_us: int = 0) -> None:
        self.folder = folder
        self.open_rows = snapshot.open_runs
        """Also those of items."""
        # An item is a part of its parent's run, which is shown.
        open_runs = [row for row in snapshot.open_runs if row.trigger is not Trigger.ITEM]
        self.snapshot = snapshot = replace(snapshot, open_runs=open_runs)
        self.jobs = folder.jobs
        self.records: Mapping[str, JobRecord] = {record.job_id: record for record in snapshot.jobs}
        self.open_runs: dict[str, list[LedgerRow]] = defaultdict(list)
        for row in snapshot.open_runs:
            self.open_runs[row.key.job_id].append(row)
        self.took_us = took_us
        """How long it took to read it and to compute its results."""
        self._lock = threading.Lock()
        self._answers: dict[Hashable, _Answer] = {}

    def kept(self, question: Hashable, work_out: Callable[[], T], most: int = ANSWERS_MAX) -> T:
        """The result of a query about all jobs: computed once per view; concurrent callers wait for it.

        It is kept unless `most` others are.
        """
        with self._lock:
            found = self._answers.get(question)
            if found is None:
                found = _Answer()
                if len(self._answers) < most:
                    self._answers[question] = found
        with found.lock:
            if not found.is_known:
                began = time.perf_counter_ns()
                found.value = work_out()
                found.is_known = True
                self.took_us += (time.perf_counter_ns() - began) // 1_000
        value: T = found.value
        return value

    def watermark(self, job_id: str) -> Instant | None:
        return watermark_of(self.records.get(job_id), self.snapshot.floors)

    def of(self, job_id: str, *states: RunState) -> list[LedgerRow]:
        """The open runs of a job that are in these states."""
        rows = self.open_runs.get(job_id)
        return [row for row in rows if row.state in states] if rows else []


class Context:
    """What all operations share. Any thread may use it."""

    def __init__(
        self,
        store: Store,
        definitions: Callable[[], Folder],
        *,
        now: Callable[[], Instant] = now_by_the_clock,
        logs: LogsReader | RunLogs | None = None,
        live: Live | None = None,
        by: str = "",
        is_scheduler_running: Callable[[], bool] | None = None,
        keep_us: int = 0,
        breathe: Callable[[], None] = lambda: None,
        node: str = "",
        timezone: str = "UTC",
        declared_blackouts: tuple[str, tuple[BlackoutRule, ...]] = ("", ()),
    ) -> None:
        """`keep_us` is how old a view of all jobs may be: pages repeat the same queries.

        `breathe` is called between the parts of a long query, so that a scheduler in the same process can go first.
        `declared_blackouts` are those of the settings, and the file that has them.
        """
        self.store = store
        self._definitions = definitions
        self.added_blackouts = AddedBlackouts(store)
        self.declared_blackouts = declared_blackouts
        self.now = now
        self.logs = None if logs is None else _run_logs(logs)
        self.live = live
        self.by = by
        self.node, self.timezone = node, timezone
        self.next_due = NextDueCache()
        self._is_scheduler_running = is_scheduler_running
        self.keep_us = keep_us
        self.breathe = breathe
        self._lock = threading.Lock()
        self._kept: tuple[Instant, View] | None = None
        self.merged_logs = MergedLogCache()
        self.kept_error_lines: dict[str, str] = {}
        """The lines that name the errors of failed runs, by run and attempt."""
        self.kept_skipped: tuple[Hashable, Sequence[str]] | None = None
        """The jobs that were skipped often, and what the counts of the ledger were then."""
        self._has_changed = False
        self._changed = threading.Condition()
        self._changes = 0

    def definitions(self) -> Folder:
        """The jobs as they are planned: with the blackouts that were added at run time."""
        return self.added_blackouts.applied_to(self._definitions())

    @property
    def jobs(self) -> Mapping[str, Job]:
        return self.definitions().jobs

    @property
    def written_jobs(self) -> Mapping[str, Job]:
        """The jobs as their files have them: a request for a run need not read the ledger's blackouts."""
        return self._definitions().jobs

    def view(self) -> View:
        """All jobs, at most `keep_us` ago."""
        folder = self.definitions()
        if not self.keep_us:
            return View(folder, self.store.load())
        with self._lock:  # those who come at once read it once
            at = self.now()
            if self._kept is not None and self._kept[1].folder is folder and 0 <= at - self._kept[0] < self._rest():
                return self._kept[1]
            self._has_changed = False  # before it is read: what comes meanwhile is not in it
            began = time.perf_counter_ns()
            snapshot = self.store.load()
            view = View(folder, snapshot, (time.perf_counter_ns() - began) // 1_000)
            self._kept = (at, view)
            return view

    def _rest(self) -> int:
        """How long the present view is used."""
        if not self._has_changed or self._kept is None:
            return self.keep_us
        return min(max(CHANGED_US, REST * self._kept[1].took_us), self.keep_us)

    def stir(self, _: object = None) -> None:
        """Something has changed: use the view for a shorter time. Under many changes it is read ten times a second."""
        self._has_changed = True
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    @property
    def changes(self) -> int:
        """How often something has changed; see `wait_for_change`."""
        return self._changes

    def wait_for_change(self, seen: int, timeout: float) -> None:
        """Wait until `changes` is no longer `seen`, or the timeout is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._changes != seen, timeout)

    def forget(self) -> None:
        """Drop the view, so that a caller sees its own change."""
        with self._lock:
            self._kept = None

    def definition_of(self, job_id: str) -> Job:
        """The definition of a job; `NotFound` if it has none."""
        jobs = self.jobs
        if job_id not in jobs:
            raise no_such_job(job_id, {*jobs, *self.view().records})
        return jobs[job_id]

    def require(self, job_id: str) -> JobRecord | None:
        """What the ledger keeps about a job; one that neither it nor the definitions know is `NotFound`."""
        return find_record(self.store, job_id, self.written_jobs)

    def is_job(self, job_id: str) -> bool:
        """Whether a job with this id is defined or in the ledger."""
        return is_known(self.store, job_id, self.written_jobs)

    def require_job(self, job_id: str) -> None:
        """`NotFound` unless a job with this id is defined or in the ledger."""
        if not self.is_job(job_id):
            raise no_such_job(job_id, {*self.written_jobs, *self.view().records})

    def find_run(self, reference: str) -> LedgerRow:
        """The run that a text names: its id, a beginning of it, or its job for the latest."""
        from evertick.operations.run_reference import find_referenced

        return find_referenced(self.store, reference, self.written_jobs, self.now())

    def specs(self, job_id: str) -> tuple[ScheduleSpec, ...]:
        return specs_of(self.store, job_id, self.written_jobs)

    def all_specs(self, job_ids: Sequence[str]) -> Mapping[str, tuple[ScheduleSpec, ...]]:
        """Of many jobs at once: as their definitions say, else as the ledger last knew them."""
        jobs = self.jobs
        specs = {job_id: job.schedules for job_id in job_ids if (job := jobs.get(job_id)) is not None}
        if len(specs) < len(job_ids) and (unknown := [job_id for job_id in job_ids if job_id not in specs]):
            specs |= dict.fromkeys(unknown, ())
            specs |= current_specs(self.store.schedules(unknown))
        return specs

    def zone(self, job_id: str | None) -> str:
        """The zone in which times about a job are written; UTC where it is about all of them."""
        return "UTC" if job_id is None else zone_of(self.written_jobs.get(job_id), self.specs(job_id))

    def runs(self, rows: Iterable[LedgerRow]) -> tuple[Run, ...]:
        """Rows of the ledger, each with the name and the time zone of its job."""
        jobs = self.jobs
        return tuple(run_of(row, jobs.get(row.key.job_id)) for row in rows)

    def name_of(self, job_id: str) -> str:
        return name_of(job_id, self.written_jobs.get(job_id))

    def instant(
        self, at: Moment, job_id: str | None = None, zone: str | None = None, *, is_ahead: bool = False
    ) -> Instant:
        """A time that a caller gave: aware, with an offset, local in the job's time zone, or relative to now."""
        if isinstance(at, datetime):
            return from_datetime(at)
        return read_moment(at, zone or self.zone(job_id), now=self.now(), is_ahead=is_ahead)

    def instant_or_none(
        self, at: Moment | None, job_id: str | None = None, *, is_ahead: bool = False
    ) -> Instant | None:
        return None if at is None else self.instant(at, job_id, is_ahead=is_ahead)

    def raw_report(self) -> Mapping[str, Json] | None:
        """The scheduler's report as it was received; None if there is none to ask."""
        return None if self.live is None else self.live.status()

    def report(self) -> SchedulerReport | None:
        data = self.raw_report()
        if data is None:
            return None
        from evertick.operations.scheduler_report import read_report

        return read_report(data)

    def is_scheduler_running(self) -> bool:
        """Whether a scheduler is there to answer requests."""
        if self._is_scheduler_running is not None:
            return self._is_scheduler_running()
        return self.raw_report() is not None or bool(live_nodes(self.store, self.now()))


def _run_logs(logs: LogsReader | RunLogs) -> RunLogs:
    from evertick.operations.run_logs import RunLogs

    return logs if isinstance(logs, RunLogs) else RunLogs(logs)


def bounded(what: str, value: int, least: int, most: int) -> int:
    """The number, if it is within its bounds; else `InvalidArgument`."""
    if not least <= value <= most:
        raise InvalidArgument(f"{what} is {value:,}.", hint=f"Write a number from {least:,} to {most:,}.", field=what)
    return value
