"""The order of lists of jobs and of runs, and where a page of one begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from evertick.errors import InvalidArgument
from evertick.model.lifecycle import JobStatus
from evertick.model.run import LedgerRow, RunKey
from evertick.operations.context import Context, View
from evertick.operations.jobs import is_held, newest_of
from evertick.operations.ledger_rows import lateness_seconds, seconds_between
from evertick.operations.results.jobs import JobSort
from evertick.operations.results.runs import RunSort

T = TypeVar("T")

_WORST_FIRST = (
    JobStatus.ERROR,
    JobStatus.RUNNING,
    JobStatus.PAUSED,
    JobStatus.IDLE,
    JobStatus.FINISHED,
    JobStatus.DISABLED,
)
_LATE = 0.5
"""Late jobs come after those in error, whatever else they are."""
_GREATEST_FIRST = (JobSort.LAST, JobSort.DURATION)


def sort_jobs(
    context: Context, view: View, jobs: Mapping[str, JobStatus], sort: JobSort, *, is_reversed: bool
) -> Sequence[str]:
    """Jobs without a value, such as those that are never due, come last in both directions."""
    if sort is JobSort.JOB:
        return sorted(jobs, reverse=is_reversed)
    values = _values(context, view, jobs, sort)
    sign = -1 if (sort in _GREATEST_FIRST) is not is_reversed else 1
    return [*sorted(values, key=lambda job_id: (sign * values[job_id], job_id)), *sorted(jobs.keys() - values.keys())]


def _values(context: Context, view: View, jobs: Mapping[str, JobStatus], sort: JobSort) -> Mapping[str, float]:
    found: dict[str, float | None]
    match sort:
        case JobSort.STATE:
            late = {job_id for job_id, record in view.records.items() if record.late_since is not None}
            ranks = {status: number for number, status in enumerate(_WORST_FIRST)}
            found = {job: min(ranks[status], _LATE) if job in late else ranks[status] for job, status in jobs.items()}
        case JobSort.NEXT:
            now, specs = context.now(), context.all_specs(list(jobs))
            held = {job_id for job_id in jobs if is_held(view.jobs.get(job_id), view.records.get(job_id))}
            found = {job: context.next_due.next_of(job, specs[job], now) for job in jobs if job not in held}
        case _:
            newest = view.kept("newest", lambda: context.store.newest(list(view.records)))
            last = {job_id: row for job_id in jobs if (row := newest_of(newest, job_id)) is not None}
            if sort is JobSort.LAST:
                found = {job_id: row.key.scheduled_for for job_id, row in last.items()}
            else:
                found = {job_id: seconds_between(row.started_at, row.finished_at) for job_id, row in last.items()}
    return {job_id: value for job_id, value in found.items() if value is not None}


def sort_runs(rows: Sequence[LedgerRow], sort: RunSort, *, is_reversed: bool) -> Sequence[LedgerRow]:
    """Only the rows that have a value, the greatest first; of equal ones the first of `rows` comes first."""
    values = {
        row.key: lateness_seconds(row) if sort is RunSort.LATENESS else seconds_between(row.started_at, row.finished_at)
        for row in rows
    }
    sign = 1 if is_reversed else -1
    return sorted((row for row in rows if values[row.key] is not None), key=lambda row: sign * (values[row.key] or 0.0))


def behind(ordered: Sequence[T], mark: T | None) -> Sequence[T]:
    """The part of a list after the last item of the page before."""
    if mark is None:
        return ordered
    try:
        return ordered[ordered.index(mark) + 1 :]
    except ValueError:
        name = mark.run_id if isinstance(mark, RunKey) else mark
        raise InvalidArgument(
            f"'{name}' is no longer in this list.", hint="Read the list from its first page.", field="cursor"
        ) from None
