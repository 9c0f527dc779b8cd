"""What every operation reads: the ledger, the definitions, the clock, and a short-lived cache of them."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from evertick.definitions.source import Folder
from evertick.errors import InvalidArgument
from evertick.model.bucket import bucket_of
from evertick.model.instant import MILLISECOND, Instant, from_datetime
from evertick.model.job import Job
from evertick.model.ledger import JobRecord, Snapshot
from evertick.model.lifecycle import RunState
from evertick.model.run import LedgerRow
from evertick.model.schedule import ScheduleSpec
from evertick.operations.data import run_data
from evertick.operations.jobs import current_specs, name_of, specs_of, watermark_of, zone_of
from evertick.operations.next_due_cache import NextDueCache
from evertick.operations.run_logs import LogsReader, RunLogs
from evertick.operations.run_reference import find_referenced
from evertick.operations.submission import find_record, live_nodes, no_such_job
from evertick.operations.time_text import read_moment
from evertick.store import Store

CHANGED_US = 100 * MILLISECOND
"""How old an answer about all jobs may be once something has happened."""
REST = 20
"""What took a while is kept so many times as long: however many look at all jobs, it takes a small part of the time."""
ANSWERS_MAX = 50
"""So many answers are kept with a view; what people search for must not fill the memory."""

T = TypeVar("T")


class Live(Protocol):
    """What only a scheduler at work can tell."""

    def status(self) -> Mapping[str, Any] | None:
        """None: there is none, or it does not answer."""

    def look(self) -> None:
        """Have it look for what was asked for, at once."""


def now_by_the_clock() -> Instant:
    return from_datetime(datetime.now(UTC))


def folder_of(jobs: Mapping[str, Job]) -> Folder:
    """Jobs that no files define, as a folder of them."""
    return Folder(jobs=jobs)


class Shared(dict[str, Any]):
    """An answer that many get as it is: whoever writes it out leaves the text with it for the next."""

    __slots__ = ("fresh", "kept", "text")

    def __init__(self, data: Mapping[str, Any], fresh: Mapping[str, Any] | None = None) -> None:
        """`fresh` is what of it is not kept: it is told anew to each who asks."""
        super().__init__(data if fresh is None else {**fresh, **data})
        self.kept = self
        self.fresh = fresh or {}
        self.text: bytes | None = None

    def told_with(self, fresh: Mapping[str, Any]) -> Shared:
        """The same answer, with what is true only now."""
        found = Shared(self.kept, {**self.fresh, **fresh})
        found.kept = self.kept
        return found


class _Answer:
    """What was worked out once from a view, by whoever asked first."""

    __slots__ = ("is_known", "lock", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_known = False
        self.value: Any = None


class View:
    """All jobs at one moment, by their ids, and what was worked out from them."""

    def __init__(self, folder: Folder, snapshot: Snapshot, took_us: int = 0) -> None:
        self.folder = folder
        self.snapshot = snapshot
        self.jobs = folder.jobs
        self.records: Mapping[str, JobRecord] = {record.job_id: record for record in snapshot.jobs}
        self.open_runs: dict[str, list[LedgerRow]] = defaultdict(list)
        for row in snapshot.open_runs:
            self.open_runs[row.key.job_id].append(row)
        self.took_us = took_us
        """How long it took to make it and its answers."""
        self._lock = threading.Lock()
        self._answers: dict[Hashable, _Answer] = {}

    def kept(self, question: Hashable, work_out: Callable[[], T], most: int = ANSWERS_MAX) -> T:
        """The answer to a question about all jobs: it lives as long as the view, and those who come at once wait.

        A long one is kept only where no more than `most` others are.
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
        """The runs of a job that have not ended, in these states."""
        return [row for row in self.open_runs.get(job_id, ()) if row.state in states]


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
    ) -> None:
        """`keep_us` is how old an answer about all jobs may be: a page asks for the same again and again.

        `breathe` is called between parts of a long answer: whoever shares the interpreter may have to go first.
        """
        self.store = store
        self.definitions = definitions
        self.now = now
        self.logs = logs if isinstance(logs, RunLogs) or logs is None else RunLogs(logs)
        self.live = live
        self.by = by
        self.horizon = NextDueCache()
        self._is_scheduler_running = is_scheduler_running
        self._keep_us = keep_us
        self._breathe = breathe
        self._lock = threading.Lock()
        self._kept: tuple[Instant, View] | None = None
        self._kept_days: dict[Instant, tuple[Instant, Any]] = {}
        """What was counted of a day that is over, by its start, and until when that counts."""
        self._has_changed = False

    @property
    def jobs(self) -> Mapping[str, Job]:
        return self.definitions().jobs

    def view(self) -> View:
        """All jobs, at most `keep_us` ago."""
        folder = self.definitions()
        if not self._keep_us:
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
        """For how long what is kept is good enough."""
        if not self._has_changed or self._kept is None:
            return self._keep_us
        return min(max(CHANGED_US, REST * self._kept[1].took_us), self._keep_us)

    def stir(self, _: object = None) -> None:
        """Something has happened: what is kept is not kept as long. In a storm it is read again ten times a second."""
        self._has_changed = True

    def forget(self) -> None:
        """Whoever has changed something sees it."""
        with self._lock:
            self._kept = None

    def definition_of(self, job_id: str) -> Job:
        """A job whose definition is needed."""
        jobs = self.jobs
        if job_id not in jobs:
            raise no_such_job(job_id, {*jobs, *self.view().records})
        return jobs[job_id]

    def require(self, job_id: str) -> JobRecord | None:
        """What the ledger keeps about a job; one that neither it nor the definitions know is `NotFound`."""
        return find_record(self.store, job_id, self.jobs)

    def is_job(self, job_id: str) -> bool:
        """Whether the definitions or the ledger know a job of that name."""
        return job_id in self.jobs or any(one.job_id == job_id for one in self.store.load([bucket_of(job_id)]).jobs)

    def find_run(self, reference: str) -> LedgerRow:
        """The run that a text names: its id, a beginning of it, or its job for the latest."""
        return find_referenced(self.store, reference, self.jobs, self.now())

    def specs(self, job_id: str) -> tuple[ScheduleSpec, ...]:
        return specs_of(self.store, job_id, self.jobs)

    def all_specs(self, job_ids: Sequence[str]) -> Mapping[str, tuple[ScheduleSpec, ...]]:
        """Of many jobs at once: as their definitions say, else as the ledger last knew them."""
        jobs = self.jobs
        unknown = [job_id for job_id in job_ids if job_id not in jobs]
        found = current_specs(self.store.schedules(unknown)) if unknown else {}
        return {job_id: jobs[job_id].schedules if job_id in jobs else found.get(job_id, ()) for job_id in job_ids}

    def zone(self, job_id: str | None) -> str:
        """The zone in which times about a job are written; UTC where it is about all of them."""
        return "UTC" if job_id is None else zone_of(self.jobs.get(job_id), self.specs(job_id))

    def run_rows(self, rows: Iterable[LedgerRow]) -> list[dict[str, Any]]:
        """Lines of the ledger, each with the zone that its job's times are told in; how steps stand is told of one."""
        jobs = self.jobs
        found = [
            {
                **run_data(row),
                "job_name": name_of(row.key.job_id, jobs.get(row.key.job_id)),
                "timezone": _zone(jobs.get(row.key.job_id)),
            }
            for row in rows
        ]
        for one in found:
            del one["steps"]
            job = jobs.get(one["job"])
            # A keeper tells of the steps of a run that has several; the only step runs while its run does.
            if (
                one["state"] == RunState.RUNNING
                and not one["running_steps"]
                and job is not None
                and len(job.steps) == 1
            ):
                one["running_steps"] = [job.steps[0].name]
        return found

    def name_of(self, job_id: str) -> str:
        return name_of(job_id, self.jobs.get(job_id))

    def moment(self, text: str | None, job_id: str | None = None, zone: str | None = None) -> Instant | None:
        """A time as somebody wrote it: with an offset, or on the clocks of the job's zone."""
        return None if text is None else read_moment(text, zone or self.zone(job_id))

    def status(self) -> Mapping[str, Any] | None:
        return None if self.live is None else self.live.status()

    def is_scheduler_running(self) -> bool:
        """Whether anybody is there to carry out what is asked."""
        if self._is_scheduler_running is not None:
            return self._is_scheduler_running()
        return self.status() is not None or bool(live_nodes(self.store, self.now()))


def _zone(job: Job | None) -> str:
    return "UTC" if job is None else zone_of(job, job.schedules)


def bounded(what: str, value: int, least: int, most: int) -> int:
    """A number that somebody gave, unless it is out of bounds."""
    if not least <= value <= most:
        raise InvalidArgument(f"{what} is {value:,}.", hint=f"Write a number from {least:,} to {most:,}.", field=what)
    return value
