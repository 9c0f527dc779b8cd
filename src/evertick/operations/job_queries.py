"""Queries about jobs: list, status, policies, durations, catch-up."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from evertick.model.instant import DAY, Instant, to_datetime
from evertick.model.job import Job
from evertick.model.ledger import JobRecord, bucket_of
from evertick.model.lifecycle import ACTIVE, ENDED, SKIPPED, WAITING, JobStatus, SkipReason
from evertick.model.policy import Missed
from evertick.model.run import LedgerRow
from evertick.model.schedule import ScheduleSpec
from evertick.operations import rules
from evertick.operations.context import Context, View, bounded
from evertick.operations.deadlines import light
from evertick.operations.definition_results import definition_of, graph_of, problem_of, problems_of
from evertick.operations.figures import on_time_lateness, percentiles, skip_counts, success_rate
from evertick.operations.jobs import (
    delayed_start,
    is_held,
    is_running,
    judge,
    last_success_of,
    name_of,
    newest_of,
    watermark_of,
    zone_of,
)
from evertick.operations.ledger_rows import moment, point_of, run_summary
from evertick.operations.list_order import behind, sort_jobs
from evertick.operations.results.base import fields_of
from evertick.operations.results.jobs import Durations, Graph, JobDetail, JobPage, JobSort, ListedJob, Rule, RunPoint
from evertick.operations.results.jobs import Job as JobResult
from evertick.operations.time_text import local_text
from evertick.store import RunFilter

if TYPE_CHECKING:
    from evertick.operations.results.requests import Catchup

PAGE_MAX = 1_000
RECENT_MAX = 50
SKIPS_OF_US = 30 * DAY
"""How far back skips are counted."""


def list_jobs(
    context: Context,
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
    bounded("limit", limit, 1, PAGE_MAX)
    bounded("recent", recent, 0, RECENT_MAX)
    view, wanted, order = context.view(), frozenset(statuses), sort or JobSort.JOB

    def arrange() -> _Arranged:
        all_jobs = statuses_of(context, view, search, tags, with_gone=with_gone)
        chosen = {job_id: status for job_id, status in all_jobs.items() if status in wanted} if wanted else all_jobs
        ordered = sort_jobs(context, view, chosen, order, is_reversed=is_reversed)
        return _Arranged(all_jobs, ordered, dict(sorted(Counter(all_jobs.values()).items())))

    listing = (search, frozenset(tags), wanted, with_gone, order, is_reversed)

    def find() -> JobPage:
        # For all pages of a list together.
        all_jobs, ordered, counts = view.kept(("arranged jobs", *listing), arrange)
        is_by_id = order is JobSort.JOB and not is_reversed
        rest = ordered[bisect_right(ordered, after or "") :] if is_by_id else behind(ordered, after)
        page = rest[:limit]
        return JobPage(
            items=_listed(context, view, page, all_jobs, recent),
            next=page[-1] if len(rest) > limit else None,
            total=len(ordered),
            statuses=counts,
            tags=view.kept("tags", lambda: tuple(sorted({tag for job in view.jobs.values() for tag in job.tags}))),
            problems=problems_of(view.folder.errors),
        )

    return view.kept(("jobs", *listing, limit, after, recent), find)


class _Arranged(NamedTuple):
    """The jobs of a list, whatever page of it is asked for."""

    statuses: Mapping[str, JobStatus]
    """Of all jobs that the search and the tags match."""
    ordered: Sequence[str]
    """Those with a wanted status."""
    counts: Mapping[JobStatus, int]


def statuses_of(
    context: Context, view: View, search: str = "", tags: Collection[str] = (), *, with_gone: bool = False
) -> Mapping[str, JobStatus]:
    """The jobs that match, by id, each with its status."""
    text, jobs, records = search.casefold(), view.jobs, view.records

    def choose() -> Mapping[str, JobStatus]:
        found = view.kept("statuses", lambda: _judge_all(context, view))
        if with_gone and not text and not tags:
            return found
        if not text and not tags:
            gone = {job_id for job_id, record in records.items() if record.retired_at is not None} - jobs.keys()
            return {job_id: status for job_id, status in found.items() if job_id not in gone} if gone else found
        return {
            job_id: status
            for job_id, status in found.items()
            if (with_gone or job_id in jobs or records[job_id].retired_at is None)
            and _is_match(job_id, jobs.get(job_id), text, tags)
        }

    return view.kept(("statuses", text, frozenset(tags), with_gone), choose)


def _judge_all(context: Context, view: View) -> Mapping[str, JobStatus]:
    now, jobs, records = context.now(), view.jobs, view.records
    # Nearly always all jobs are defined: their ids are in order, and need no set.
    ids = sorted(jobs if records.keys() <= jobs.keys() else {*jobs, *records})
    running = {row.key.job_id for row in view.snapshot.open_runs if is_running(row)}
    gone_specs = context.all_specs([job_id for job_id in ids if job_id not in jobs])
    found = {}
    for job_id in ids:
        job = jobs.get(job_id)
        specs = gone_specs[job_id] if job is None else job.schedules
        found[job_id] = judge(job, records.get(job_id), specs, has_running=job_id in running, now=now)
    return found


def job(context: Context, job_id: str) -> JobDetail:
    now, folder, snapshot = context.now(), context.definitions(), context.store.load([bucket_of(job_id)])
    found = next((record for record in snapshot.jobs if record.job_id == job_id), None)
    record = context.require(job_id) if found is None else found
    job, specs = folder.jobs.get(job_id), context.specs(job_id)
    rows = [row for row in snapshot.open_runs if row.key.job_id == job_id]
    active = [row for row in rows if row.state in ACTIVE]
    last = newest_of(context.store.newest([job_id]), job_id)
    errors = folder.errors.get(job.file or "", ()) if job else ()
    return JobDetail(
        **fields_of(
            JobResult,
            _job_of(
                context,
                job_id,
                job,
                record,
                status=judge(job, record, specs, has_running=any(map(is_running, active)), now=now),
                specs=specs,
                watermark=watermark_of(record, snapshot.floors),
                active=len(active),
                waiting=sum(row.state is WAITING for row in rows),
                last=last,
                skips={} if last else _skips(context, [job_id], now).get(job_id, {}),
                now=now,
            ),
        ),
        active_runs=context.runs(active),
        definition=None if job is None else definition_of(job),
        is_stale=job_id in folder.stale,
        problems=tuple(map(problem_of, errors)),
        is_scheduler_running=context.is_scheduler_running(),
    )


def explain(context: Context, job_id: str) -> Sequence[Rule]:
    return rules.explain(context.definition_of(job_id))


def graph(context: Context, job_id: str) -> Graph:
    return graph_of(context.definition_of(job_id), context.jobs)


def catchup(context: Context, job_id: str, keep: Missed | None = None) -> Catchup:
    from evertick.operations.preview import preview_catchup
    from evertick.operations.results.requests import Catchup, CatchupDecision

    job = context.definition_of(job_id)
    found, zone = preview_catchup(context.store, job, context.now(), keep), zone_of(job, job.schedules)
    return Catchup(
        job=job_id,
        timezone=zone,
        watermark=moment(found.watermark),
        paused_at=moment(found.paused_at),
        blackout_until=None if found.blackout is None else to_datetime(found.blackout.end),
        backlog=tuple(key.run_id for key in found.backlog),
        kept=found.kept,
        skipped=found.skipped,
        fates=tuple(
            CatchupDecision(
                scheduled_for=to_datetime(fate.at),
                local=local_text(fate.at, zone),
                through=moment(fate.through),
                occurrences=fate.occurrences,
                runs=fate.runs,
                what="run" if fate.runs else f"skip: {fate.reason}",
                reason=fate.reason,
                detail=fate.detail,
            )
            for fate in found.fates
        ),
    )


def durations(context: Context, job_id: str, limit: int = 100) -> Durations:
    context.require_job(job_id)
    bounded("limit", limit, 1, PAGE_MAX)
    rows = context.store.query(RunFilter(job_ids=[job_id], states=ENDED), limit=limit).rows
    points = tuple(point_of(row) for row in reversed(rows))
    return Durations(
        job=job_id,
        items=points,
        percentiles=percentiles([point.duration_seconds for point in points if point.duration_seconds is not None]),
        lateness=percentiles(on_time_lateness(rows, context.jobs)),
        success_rate=success_rate(Counter(row.state for row in rows)),
    )


def _listed(
    context: Context, view: View, page: Sequence[str], statuses: Mapping[str, JobStatus], recent: int
) -> tuple[ListedJob, ...]:
    now, specs, last = context.now(), context.all_specs(page), context.store.newest(page, max(recent, 1))
    skips = _skips(context, [job_id for job_id in page if not last.get(job_id)], now)
    return tuple(
        _job_of(
            context,
            job_id,
            view.jobs.get(job_id),
            view.records.get(job_id),
            status=statuses[job_id],
            specs=specs[job_id],
            watermark=view.watermark(job_id),
            active=len(view.of(job_id, *ACTIVE)),
            waiting=len(view.of(job_id, WAITING)),
            last=newest_of(last, job_id),
            skips=skips.get(job_id, {}),
            now=now,
            recent=tuple(point_of(row) for row in reversed(last.get(job_id, ()))) if recent else None,
        )
        for job_id in page
    )


def _job_of(
    context: Context,
    job_id: str,
    job: Job | None,
    record: JobRecord | None,
    *,
    status: JobStatus,
    specs: tuple[ScheduleSpec, ...],
    watermark: Instant | None,
    active: int,
    waiting: int,
    last: LedgerRow | None,
    skips: Mapping[SkipReason, int],
    now: Instant,
    recent: tuple[RunPoint, ...] | None = None,
) -> ListedJob:
    """A job that only the ledger knows has no name, tags or file."""
    known = record or JobRecord(job_id, 0)
    next_for = None if is_held(job, record) else context.next_due.next_of(job_id, specs, now)
    return ListedJob(
        job=job_id,
        name=name_of(job_id, job),
        description=job.description if job else "",
        tags=tuple(job.tags) if job else (),
        file=job.file if job else None,
        is_defined=job is not None,
        enabled=job.enabled if job else None,
        queue=job.queue if job else None,
        priority=job.priority if job else 0,
        status=status,
        light=light(job, record, last, is_under_way=bool(active or waiting)),
        late_since=moment(known.late_since),
        next_at=moment(next_for),
        next_starts_at=moment(delayed_start(job, next_for)),
        timezone=zone_of(job, specs),
        schedules=tuple(map(str, specs)),
        watermark=moment(watermark),
        active=active,
        waiting=waiting,
        last=None if last is None else run_summary(last),
        skips=skips,
        last_success_for=moment(last_success_of(record, last)),
        paused_at=moment(known.paused_at),
        pause_note=known.pause_note,
        error=known.error,
        retired_at=moment(known.retired_at),
        recent=recent,
    )


def _skips(context: Context, job_ids: Sequence[str], now: Instant) -> Mapping[str, Mapping[SkipReason, int]]:
    """The recent skips of jobs that have never run, by reason."""
    if not job_ids:
        return {}
    found = defaultdict(list)
    where = RunFilter(job_ids=job_ids, states=[SKIPPED], since=now - SKIPS_OF_US, until=now + 1)
    for one in context.store.tally(where, SKIPS_OF_US + 1, by_job=True):
        found[one.job_id].append(one)
    return {job_id: skip_counts(tallies) for job_id, tallies in found.items()}


def _is_match(job_id: str, job: Job | None, search: str, tags: Collection[str]) -> bool:
    if job is None:
        return not tags and search in job_id.casefold()
    if not all(tag in job.tags for tag in tags):
        return False
    texts = (job_id, job.name, job.description, *job.tags)
    return not search or any(search in text.casefold() for text in texts)
