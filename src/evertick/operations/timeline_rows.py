"""Which lanes the timeline has, in which order, and when no scheduler ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from evertick.model.facts import read_facts
from evertick.model.instant import MINUTE, Instant, to_datetime
from evertick.model.job import Job
from evertick.model.lifecycle import SKIPPED, JobStatus, SkipReason, Trigger
from evertick.model.run import LedgerRow
from evertick.operations.attention import attention
from evertick.operations.context import Context, View
from evertick.operations.jobs import is_held, name_of
from evertick.operations.ledger_rows import moment
from evertick.operations.results.attention import AttentionKind
from evertick.operations.results.schedule import Downtime, LaneGroup, TimelineGroup, TimelineSort
from evertick.store import RunFilter

DOWNTIME_ROWS_MAX = 1_000
SAME_START_US = 2 * MINUTE
"""What a scheduler records within this time after its start belongs to one downtime."""
_NEVER = 1 << 62
_WORST = {kind: number for number, kind in enumerate(AttentionKind)}


class Row(NamedTuple):
    """A lane: one job, or the jobs of a group."""

    jobs: tuple[str, ...]
    group: LaneGroup | None = None


def troubles_of(context: Context) -> Mapping[str, AttentionKind]:
    """The jobs that need attention, each with the worst reason."""
    found: dict[str, AttentionKind] = {}
    for item in attention(context).items:
        if item.job:
            found.setdefault(item.job, item.kind)
    return found


def worst_of(kinds: Collection[AttentionKind | None]) -> AttentionKind | None:
    return min((kind for kind in kinds if kind is not None), key=_WORST.__getitem__, default=None)


def rows_of(
    context: Context,
    view: View,
    jobs: Collection[str],
    sort: TimelineSort,
    group: TimelineGroup,
    unfolded: Collection[str],
) -> Sequence[Row]:
    """Every lane in order; the jobs of a folded group share one."""
    troubles = troubles_of(context) if sort is TimelineSort.WORST or group is not TimelineGroup.NONE else {}
    ordered = _sorted(context, view, jobs, sort, troubles)
    match group:
        case TimelineGroup.NONE:
            return [Row((job_id,)) for job_id in ordered]
        case TimelineGroup.HEALTH:
            bad = [Row((job_id,)) for job_id in ordered if job_id in troubles]
            well = [job_id for job_id in ordered if job_id not in troubles]
            return [*bad, *_grouped("", well, troubles, unfolded)]
        case TimelineGroup.TAG:
            by_tag: dict[str, list[str]] = defaultdict(list)
            for job_id in ordered:
                by_tag[_first_tag(view.jobs.get(job_id))].append(job_id)
            # With the worst first, so are the groups that have it; jobs without a tag come last.
            tags = sorted(by_tag) if sort in {TimelineSort.NAME, TimelineSort.TAG} else list(by_tag)
            tags.sort(key=lambda tag: not tag)
            return [row for tag in tags for row in _grouped(tag, by_tag[tag], troubles, unfolded)]


def _sorted(
    context: Context, view: View, jobs: Collection[str], sort: TimelineSort, troubles: Mapping[str, AttentionKind]
) -> Sequence[str]:
    if sort in {TimelineSort.NAME, TimelineSort.TAG}:
        by_name = sorted(jobs, key=lambda job_id: (name_of(job_id, view.jobs.get(job_id)).casefold(), job_id))
        if sort is TimelineSort.NAME:
            return by_name
        tags = {job_id: _first_tag(view.jobs.get(job_id)) for job_id in jobs}
        return sorted(by_name, key=lambda job_id: (not tags[job_id], tags[job_id]))
    now, specs = context.now(), context.all_specs(list(jobs))

    def place(job_id: str) -> tuple[int, Instant, str]:
        kind = troubles.get(job_id)
        held = is_held(view.jobs.get(job_id), view.records.get(job_id))
        next_at = None if held else context.next_due.next_of(job_id, specs[job_id], now)
        return len(_WORST) if kind is None else _WORST[kind], _NEVER if next_at is None else next_at, job_id

    return sorted(jobs, key=place)


def _grouped(
    name: str, jobs: Sequence[str], troubles: Mapping[str, AttentionKind], unfolded: Collection[str]
) -> list[Row]:
    if not jobs:
        return []
    head = LaneGroup(name, len(jobs), sum(job_id in troubles for job_id in jobs), name in unfolded)
    return [Row(tuple(jobs), head), *(Row((job_id,)) for job_id in jobs if head.is_open)]


def _first_tag(job: Job | None) -> str:
    return job.tags[0] if job is not None and job.tags else ""


def group_status(view: View, statuses: Mapping[str, JobStatus], jobs: Collection[str]) -> JobStatus:
    """What a folded lane shows: that something runs, else that all are the same, else nothing in particular."""
    found = {statuses[job_id] for job_id in jobs if job_id in view.jobs}
    if JobStatus.RUNNING in found:
        return JobStatus.RUNNING
    return found.pop() if len(found) == 1 else JobStatus.IDLE


def downtimes_of(context: Context, view: View, since: Instant, until: Instant) -> tuple[Downtime, ...]:
    """When no scheduler ran, by what was missed then and recorded at the next start.

    A job that was paused, or alone missed something, does not make a downtime of the scheduler.
    """
    now = context.now()
    rows: list[LedgerRow] = []
    for where in (
        RunFilter(states=[SKIPPED], reasons=[SkipReason.MISSED], since=since, until=until),
        RunFilter(triggers=[Trigger.CATCHUP], since=since, until=until),
    ):
        rows += context.store.query(where, limit=DOWNTIME_ROWS_MAX).rows
    missed = sorted((row for row in rows if _is_missed(row)), key=lambda row: row.decided_at)
    starts: list[list[LedgerRow]] = []
    for row in missed:
        if starts and row.decided_at - starts[-1][0].decided_at <= SAME_START_US:
            starts[-1].append(row)
        else:
            starts.append([row])
    found = []
    for some in starts:
        jobs = {row.key.job_id for row in some}
        if len(jobs) >= min(2, len(view.jobs)):
            first = min(row.key.scheduled_for for row in some)
            found.append(Downtime(to_datetime(first), to_datetime(some[0].decided_at), len(jobs)))
    planned_until = max(view.snapshot.floors.values(), default=None)
    if planned_until is not None and since <= planned_until < now and not context.is_scheduler_running():
        found.append(Downtime(to_datetime(planned_until), moment(None), len(view.jobs)))
    return tuple(found)


def _is_missed(row: LedgerRow) -> bool:
    """Whether no scheduler was running when it was due: it was decided later, and its job was not paused."""
    return row.decided_at > row.key.scheduled_for and not read_facts(row.facts).held_since
