"""Collects what one iteration of the loop writes in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from evertick.loop.claims import claims_of, claims_without
from evertick.loop.effects import Commit, Record
from evertick.loop.job_state import JobState
from evertick.loop.runs import OpenRun
from evertick.loop.state import PendingBatch, State
from evertick.model.ledger import Batch, DefinitionLine, JobRecord, Request, ScheduleLine, bucket_of
from evertick.model.run import Change, Entry, RunKey
from evertick.model.schedule import ScheduleSpec
from evertick.planning.deadlines import Deadline

REPORTS_TOGETHER = 200
"""Reports in one transaction at most: each may carry the steps of its run."""


class BatchBuilder:
    """A batch under construction; `commit` adds the watermarks of its jobs."""

    __slots__ = (
        "answers",
        "changes",
        "definitions",
        "entered",
        "entries",
        "jobs",
        "launches",
        "misses",
        "request_jobs",
        "requests",
        "rests_on",
        "rewound",
        "schedules",
        "wants_floor",
        "withdrawn",
    )

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.entered: list[OpenRun] = []
        """The runs that the entries create."""
        self.jobs: dict[str, JobState] = {}
        self.rewound: set[str] = set()
        """Jobs whose watermark may move back."""
        self.withdrawn: list[RunKey] = []
        self.changes: list[Change] = []
        self.schedules: list[ScheduleLine] = []
        self.definitions: list[DefinitionLine] = []
        self.requests: list[Request] = []
        self.rests_on: dict[str, RunKey] = {}
        """By request: the run among the changes that led to it."""
        self.answers: dict[str, str] = {}
        self.request_jobs: dict[str, str] = {}
        """The job of each answered request."""
        self.launches: list[OpenRun] = []
        """Runs to launch when this batch is written."""
        self.misses: dict[str, Deadline] = {}
        """By job: the newest deadline that passed without a success."""
        self.wants_floor = False
        """Whether to write how far planning has come, even if there is nothing else to write."""

    @property
    def is_empty(self) -> bool:
        return not (
            self.wants_floor
            or self.entries
            or self.jobs
            or self.withdrawn
            or self.changes
            or self.schedules
            or self.definitions
            or self.requests
            or self.answers
        )

    def forget(self, buckets: Collection[int]) -> list[Change]:
        """Drop the decisions about these buckets; returns the changes to their runs."""
        told, lost = _parted(self.changes, buckets, self.rests_on)
        self.entries = [entry for entry in self.entries if _is_kept(entry.key.job_id, buckets)]
        self.entered = [run for run in self.entered if _is_kept(run.key.job_id, buckets)]
        self.jobs = {job_id: job for job_id, job in self.jobs.items() if _is_kept(job_id, buckets)}
        self.rewound = {job_id for job_id in self.rewound if _is_kept(job_id, buckets)}
        self.withdrawn = [key for key in self.withdrawn if _is_kept(key.job_id, buckets)]
        self.changes = told
        self.schedules = [line for line in self.schedules if _is_kept(line.job_id, buckets)]
        self.definitions = [line for line in self.definitions if _is_kept(line.job_id, buckets)]
        self.launches = [run for run in self.launches if _is_kept(run.key.job_id, buckets)]
        self.misses = {job_id: one for job_id, one in self.misses.items() if _is_kept(job_id, buckets)}
        for request_id, job_id in list(self.request_jobs.items()):
            if not _is_kept(job_id, buckets):
                del self.request_jobs[request_id]
                self.answers.pop(request_id, None)
        return lost

    def commit(self, state: State) -> Commit:
        number = next_number(state)
        # A bucket with a job that is not planned yet has not been planned as far as the index.
        unplanned = {state.jobs[job_id].bucket for job_id in state.to_plan if job_id in state.jobs}
        batch = Batch(
            by=by(state, number),
            entries=self.entries,
            jobs=[_record_of(state, job) for job in self.jobs.values()],
            rewinds={job_id: state.watermark_of(self.jobs[job_id]) for job_id in self.rewound},
            withdrawn=self.withdrawn,
            changes=self.changes,
            schedules=self.schedules,
            definitions=self.definitions,
            floors={bucket: state.index.horizon for bucket in state.epochs if bucket not in unplanned},
            epochs=_rested_on(state, state.epochs),
            requests=self.requests,
            rests_on=self.rests_on,
            answers=self.answers,
            claims=claims_of(state, self.launches),
        )
        schedules = _schedules_of_gaps(state, batch)
        launches = tuple(self.launches)
        state.batches[number] = PendingBatch(
            batch, self.entered, self.request_jobs, launches, dict(state.epochs), schedules, self.misses
        )
        return Commit(number, batch, schedules)


def commit_again(state: State, pending: PendingBatch, lost: Collection[int]) -> Commit:
    """The same batch without some buckets; later decisions are written after it."""
    old = pending.batch
    number = next_number(state)
    runs = [run for run in pending.runs if _is_kept(run.key.job_id, lost)]
    early = [run.early_change for run in runs if run.early_change is not None]
    epochs = {bucket: epoch for bucket, epoch in pending.epochs.items() if bucket not in lost}
    launches = tuple(run for run in pending.launches if _is_kept(run.key.job_id, lost))
    batch = Batch(
        by=old.by,  # a call whose answer was lost may have written it
        entries=[entry for entry in old.entries if _is_kept(entry.key.job_id, lost)],
        jobs=[record for record in old.jobs if _is_kept(record.job_id, lost)],
        rewinds={job_id: watermark for job_id, watermark in old.rewinds.items() if _is_kept(job_id, lost)},
        withdrawn=[key for key in old.withdrawn if _is_kept(key.job_id, lost)],
        changes=[*_parted(old.changes, lost, old.rests_on)[0], *early],
        schedules=[line for line in old.schedules if _is_kept(line.job_id, lost)],
        definitions=[line for line in old.definitions if _is_kept(line.job_id, lost)],
        floors={bucket: floor for bucket, floor in old.floors.items() if bucket not in lost},
        epochs=_rested_on(state, epochs),
        requests=old.requests,
        rests_on=old.rests_on,
        answers={
            request_id: answer
            for request_id, answer in old.answers.items()
            if _is_kept(pending.request_jobs.get(request_id, ""), lost)
        },
        claims=claims_without(old.claims, lost),
    )
    misses = {job_id: one for job_id, one in pending.misses.items() if _is_kept(job_id, lost)}
    state.batches[number] = PendingBatch(batch, runs, pending.request_jobs, launches, epochs, pending.schedules, misses)
    return Commit(number, batch, pending.schedules)


def _rested_on(state: State, epochs: Mapping[int, int]) -> dict[int, int]:
    """The epochs under which a batch was decided, and those of the unanswered batches before it.

    If one of those is refused, this one must be refused too: it says how far planning has come, which is false without
    their entries. Of two epochs of a bucket the older one counts, because it was lost before the newer one was gained.
    """
    rested_on = dict(epochs)
    for pending in state.batches.values():
        for bucket, epoch in pending.batch.epochs.items():
            if epoch < rested_on.get(bucket, epoch + 1):
                rested_on[bucket] = epoch
    return rested_on


def commit_reports(state: State, reports: Sequence[Request]) -> Iterator[Commit]:
    """Reports to other owners, without epochs: they are valid whichever node owns their jobs.

    Together, because a node that restarts has one for each of its runs, and planning pauses behind many commits.
    """
    for first in range(0, len(reports), REPORTS_TOGETHER):
        number = next_number(state)
        batch = Batch(by=by(state, number), requests=reports[first : first + REPORTS_TOGETHER])
        state.batches[number] = PendingBatch(batch, [], {})
        yield Commit(number, batch)


def record(state: State, changes: Sequence[Change]) -> Record:
    """The outcomes of runs, for the write after the transaction."""
    number = state.next_record
    state.next_record += 1
    state.records[number] = changes
    state.changes_in_flight += len(changes)
    return Record(number, changes)


def next_number(state: State) -> int:
    number = state.next_batch
    state.next_batch += 1
    return number


def by(state: State, number: int) -> str:
    """Who wrote a batch: an entry found under the same name comes from a call whose answer was lost."""
    return f"{state.node}/{state.incarnation}#{number}"


def _schedules_of_gaps(state: State, batch: Batch) -> dict[str, tuple[ScheduleSpec, ...]]:
    gaps = {entry.key.job_id for entry in batch.entries if entry.is_gap}
    return {job_id: state.jobs[job_id].job.schedules for job_id in gaps if job_id in state.jobs}


def _record_of(state: State, job: JobState) -> JobRecord:
    # A job outside of the index has not been planned up to the floor, so the floor must not count for it.
    return JobRecord(
        job.job.id,
        state.watermark_of(job),
        held=job.job.id not in state.index,
        fingerprint=job.job.fingerprint,
        paused_at=job.paused_at,
        pause_note=job.pause_note,
        retired_at=job.retired_at,
        last_success_at=job.last_success_at,
        error=job.error,
        has_failed=job.last_failed,
        since=job.since,
        skip_next=job.skip_next,
        definition=job.told,
        asked_at=job.last_asked_at,
        deadlines_through=job.deadlines.through if job.deadlines is not None else 0,
        late_since=job.deadlines.late_since if job.deadlines is not None else None,
    )


def changes_to_write(batch: Batch, lost: Collection[int]) -> list[Change]:
    """Changes of a refused batch that are not written again with it."""
    return _parted(batch.changes, lost, batch.rests_on)[1]


def _parted(
    changes: Sequence[Change], lost: Collection[int], rests_on: Mapping[str, RunKey]
) -> tuple[list[Change], list[Change]]:
    """Split changes into those for the transaction without the lost buckets, and the others.

    A change that requests rest on stays with them: the ledger accepts both or neither, by the fence of the change.
    """
    leading_on = set(rests_on.values())
    parted: tuple[list[Change], list[Change]] = ([], [])
    for change in changes:
        is_with_batch = change.key in leading_on or _is_kept(change.key.job_id, lost)
        parted[0 if is_with_batch else 1].append(change)
    return parted


def _is_kept(job_id: str, lost: Collection[int]) -> bool:
    return bucket_of(job_id) not in lost
