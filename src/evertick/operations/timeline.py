"""The timeline: every job's past and future runs in a span of time, as lanes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from evertick.errors import InvalidArgument
from evertick.model.instant import DAY, Instant, to_datetime
from evertick.model.lifecycle import ACTIVE, JobStatus
from evertick.model.run import LedgerRow
from evertick.model.schedule import ScheduleSpec
from evertick.operations.codec import refreshed
from evertick.operations.context import Context, View, bounded
from evertick.operations.figures import BAD, BADNESS, outcome_counts
from evertick.operations.job_queries import statuses_of
from evertick.operations.jobs import is_held, name_of, zone_of
from evertick.operations.ledger_rows import gap_of, mark_of, moment
from evertick.operations.protocol import Moment
from evertick.operations.results.attention import AttentionKind
from evertick.operations.results.runs import Gap
from evertick.operations.results.schedule import (
    FutureCell,
    Lane,
    LaneGroup,
    Mark,
    Timeline,
    TimelineCell,
    TimelineGroup,
    TimelineSort,
)
from evertick.operations.timeline_rows import Row, downtimes_of, group_status, rows_of, troubles_of, worst_of
from evertick.planning.schedules import compile_all, count_of, occurrences
from evertick.store import Page, RunFilter, Tally

LANES_MAX = 200
CELLS_MAX = 2_000
GAPS_MAX = 2_000
FUTURE_US = 400 * DAY
"""How far ahead the occurrences of a job with several schedules are listed: counting them takes linear time."""
ROWS_MAX = 10_000
"""Rows of all lanes together that are listed one by one."""
GROUP_CELLS_MAX = 120
GROUP_FUTURE_CELLS = 12
GROUP_FUTURE_MAX = 10_000
"""Distinct schedules of a group times parts of the future that are counted."""
KEPT_MAX = 12
"""At most this many timelines are kept with a view: one may have megabytes."""


def timeline(
    context: Context,
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
    bounded("offset", offset, 0, 10_000_000)
    bounded("limit", limit, 1, LANES_MAX)
    bounded("cells", cells, 1, CELLS_MAX)
    since, until = context.instant(start), context.instant(end)
    if since >= until:
        raise InvalidArgument(
            f"the timeline from {start} to {end} has no length.", hint="Write the earlier time first."
        )
    wanted, view = frozenset(statuses), context.view()
    order, parts = sort or TimelineSort.NAME, group or TimelineGroup.NONE
    asked = (search, frozenset(tags), wanted, order, parts, frozenset(unfolded))

    def draw() -> Timeline:
        found = statuses_of(context, view, search, tags).items()
        chosen = {job_id: status for job_id, status in found if not wanted or status in wanted}
        rows = view.kept(("timeline rows", asked), lambda: rows_of(context, view, chosen, order, parts, unfolded))
        return Timeline(
            now=to_datetime(context.now()),
            from_=to_datetime(since),
            to=to_datetime(until),
            since=moment(_oldest(context)),
            jobs=len(chosen),
            total=len(rows),
            offset=offset,
            lanes=_lanes(context, view, rows[offset : offset + limit], chosen, since, until, cells),
            downtimes=view.kept(("downtimes", since, until), lambda: downtimes_of(context, view, since, until)),
        )

    # Pages that show the same period ask for the same timeline.
    question = ("timeline", since, until, offset, limit, cells, asked)
    return refreshed(view.kept(question, draw, most=KEPT_MAX), now=to_datetime(context.now()))


def _oldest(context: Context) -> Instant | None:
    """The time of the oldest row in the ledger."""
    first = context.store.query(RunFilter(oldest_first=True), limit=1).rows
    return first[0].key.scheduled_for if first else None


def _lanes(
    context: Context,
    view: View,
    rows: Sequence[Row],
    statuses: Mapping[str, JobStatus],
    since: Instant,
    until: Instant,
    cells: int,
) -> tuple[Lane, ...]:
    ids = [row.jobs[0] for row in rows if row.group is None]
    past = _past(context, view, ids, since, until, cells)
    gaps, all_specs, troubles = _gaps(context, ids, since, until), context.all_specs(ids), troubles_of(context)
    failing = _failing(context, view, ids)
    is_running = context.is_scheduler_running() if any(view.records.get(job_id) for job_id in ids) else True
    found = []
    for row in rows:
        context.breathe()
        if row.group is not None:
            found.append(_group_lane(context, view, row, row.group, statuses, troubles, since, until, cells))
            continue
        job_id = row.jobs[0]
        found.append(
            _job_lane(
                context,
                view,
                job_id,
                statuses[job_id],
                all_specs[job_id],
                is_running=is_running,
                trouble=troubles.get(job_id),
                marks=tuple(map(mark_of, past[0][job_id])),
                counted=tuple(past[1][job_id]),
                gaps=tuple(gaps[job_id]),
                failing_run=failing.get(job_id),
                window=(since, until, cells),
            )
        )
    return tuple(found)


def _job_lane(
    context: Context,
    view: View,
    job_id: str,
    status: JobStatus,
    specs: tuple[ScheduleSpec, ...],
    *,
    is_running: bool,
    trouble: AttentionKind | None,
    marks: tuple[Mark, ...],
    counted: tuple[TimelineCell, ...],
    gaps: tuple[Gap, ...],
    failing_run: Mark | None,
    window: tuple[Instant, Instant, int],
) -> Lane:
    now, (since, until, cells) = context.now(), window
    job, record, watermark = view.jobs.get(job_id), view.records.get(job_id), view.watermark(job_id)
    held = is_held(job, record)
    is_undecided = watermark is not None and watermark < now and (held or not is_running)
    future, future_cells = _future(view, job_id, specs, max(since - 1, now), until - 1, cells)
    return Lane(
        job=job_id,
        group=None,
        trouble=trouble,
        name=name_of(job_id, job),
        description=job.description if job else "",
        tags=tuple(job.tags) if job else (),
        status=status,
        timezone=zone_of(job, specs),
        next_at=None if held else moment(context.next_due.next_of(job_id, specs, now)),
        watermark=moment(watermark),
        undecided_since=moment(watermark) if is_undecided else None,
        marks=marks,
        cells=counted,
        gaps=gaps,
        future=tuple(map(to_datetime, future)),
        future_cells=future_cells,
        failing_run=failing_run,
    )


def _group_lane(
    context: Context,
    view: View,
    row: Row,
    group: LaneGroup,
    statuses: Mapping[str, JobStatus],
    troubles: Mapping[str, AttentionKind],
    since: Instant,
    until: Instant,
    cells: int,
) -> Lane:
    """All jobs of a group as counts."""
    now, width_us = context.now(), max(-(-(until - since) // min(cells, GROUP_CELLS_MAX)), 1)
    by_cell: dict[int, list[Tally]] = defaultdict(list)
    for one in context.store.tally(RunFilter(job_ids=row.jobs, since=since, until=until), width_us):
        by_cell[one.cell].append(one)
    specs = context.all_specs(row.jobs)
    due = (context.next_due.next_of(job_id, specs[job_id], now) for job_id in row.jobs)
    return Lane(
        job="",
        group=group,
        trouble=worst_of([troubles.get(job_id) for job_id in row.jobs]),
        name=group.name,
        description="",
        tags=(),
        status=group_status(view, statuses, row.jobs),
        timezone=context.timezone,
        next_at=moment(min((at for at in due if at is not None), default=None)),
        watermark=None,
        undecided_since=None,
        marks=(),
        cells=tuple(_cell(since + cell * width_us, width_us, some) for cell, some in sorted(by_cell.items())),
        gaps=(),
        future=(),
        future_cells=_group_future(view, specs, max(since - 1, now), until - 1, width_us),
        failing_run=None,
    )


def _group_future(
    view: View, specs: Mapping[str, tuple[ScheduleSpec, ...]], after: Instant, end: Instant, width_us: int
) -> tuple[FutureCell, ...]:
    """How often the jobs of a group are due in each part of the time to come; empty where that takes long to count."""
    same = Counter(one for job_id, one in specs.items() if not is_held(view.jobs.get(job_id), view.records.get(job_id)))
    width_us = max(width_us, (end - after) // GROUP_FUTURE_CELLS + 1)
    if end <= after or len(same) * ((end - after) // width_us + 1) > GROUP_FUTURE_MAX:
        return ()
    counts: Counter[int] = Counter()
    for one, jobs in same.items():
        schedules = compile_all(one)
        for low in range(after, end, width_us):
            counts[low] += jobs * count_of(schedules, low, min(low + width_us, end))
    return tuple(
        FutureCell(to_datetime(low), to_datetime(min(low + width_us, end)), count)
        for low, count in sorted(counts.items())
        if count
    )


def _past(
    context: Context, view: View, lanes: Sequence[str], since: Instant, until: Instant, cells: int
) -> tuple[dict[str, list[LedgerRow]], dict[str, list[TimelineCell]]]:
    """Each row of lanes that have few, and the cells of the others."""
    drawn: dict[str, list[LedgerRow]] = defaultdict(list)
    found: dict[str, list[TimelineCell]] = defaultdict(list)
    if not lanes:
        return drawn, found
    where = RunFilter(job_ids=lanes, since=since, until=until, gaps=False, oldest_first=True)
    # Counted before they are read: of lanes that get cells, thousands of rows would be read for nothing.
    width_us = max(-(-(until - since) // cells), 1)
    lines: Counter[str] = Counter()
    by_lane: dict[str, dict[int, list[Tally]]] = defaultdict(lambda: defaultdict(list))
    for one in context.store.tally(where, width_us, by_job=True):
        lines[one.job_id] += one.lines
        by_lane[one.job_id][one.cell].append(one)
    few = _drawn(lines, cells)
    page = context.store.query(replace(where, job_ids=few), limit=ROWS_MAX) if few else Page((), None)
    if page.after is not None:  # rows were added meanwhile
        few, page = [], Page((), None)
    for row in page.rows:
        drawn[row.key.job_id].append(row)
    for job_id in by_lane.keys() - set(few):
        tallies = sorted(by_lane[job_id].items())
        found[job_id] = [_cell(since + cell * width_us, width_us, some) for cell, some in tallies]
    for job_id in lanes:
        earlier = [row for row in view.of(job_id, *ACTIVE) if row.key.scheduled_for < since]
        if earlier:
            # A run that started before the period and is still active is part of it.
            drawn[job_id] = [*earlier, *drawn[job_id]]
    return drawn, found


def _failing(context: Context, view: View, lanes: Sequence[str]) -> dict[str, Mark]:
    """The last run of each lane whose last run failed: its mark may be outside the period, and the lane empty."""
    records = {job_id: view.records.get(job_id) for job_id in lanes}
    ids = [job_id for job_id, record in records.items() if record is not None and record.has_failed]
    newest = context.store.newest(ids) if ids else {}
    return {job_id: mark_of(rows[0]) for job_id, rows in newest.items() if rows and rows[0].state in BAD}


def _gaps(context: Context, lanes: Sequence[str], since: Instant, until: Instant) -> dict[str, list[Gap]]:
    found: dict[str, list[Gap]] = defaultdict(list)
    if lanes:
        where = RunFilter(job_ids=lanes, since=since, until=until, gaps=True)
        for row in reversed(context.store.query(where, limit=GAPS_MAX).rows):
            found[row.key.job_id].append(gap_of(row))
    return found


def _drawn(lines: Mapping[str, int], cells: int) -> list[str]:
    """The lanes whose rows are listed one by one: those with the fewest rows, as long as all fit into a page."""
    found, total = [], 0
    for job_id, count in sorted(lines.items(), key=lambda item: item[1]):
        total += count
        if count > cells or total > ROWS_MAX:
            break
        found.append(job_id)
    return found


def _future(
    view: View, job_id: str, specs: Sequence[ScheduleSpec], after: Instant, end: Instant, cells: int
) -> tuple[Sequence[Instant], tuple[FutureCell, ...]]:
    """The coming occurrences of a job, or how many there are in each cell."""
    if is_held(view.jobs.get(job_id), view.records.get(job_id)):
        return (), ()
    start = max(after, view.watermark(job_id) or 0)
    schedules = compile_all(specs)
    if len(schedules) > 1:
        end = min(end, after + FUTURE_US)
    count = count_of(schedules, start, end) if start < end else 0
    if count <= cells:
        return (list(occurrences(schedules, start, end)) if count else ()), ()
    # At most sixty: each is counted by itself.
    width_us = max((end - start) // min(cells, 60), 1)
    bounds = [(at, min(at + width_us, end)) for at in range(start, end, width_us)]
    counted = [(low, high, count_of(schedules, low, high)) for low, high in bounds]
    return (), tuple(FutureCell(to_datetime(low), to_datetime(high), number) for low, high, number in counted if number)


def _cell(at: Instant, width_us: int, tallies: Sequence[Tally]) -> TimelineCell:
    return TimelineCell(
        **outcome_counts(tallies),
        at=to_datetime(at),
        through=to_datetime(at + width_us),
        worst=max((one.state for one in tallies), key=BADNESS.__getitem__),
        longest_seconds=_most([one.longest_us for one in tallies]),
        latest_seconds=_most([one.latest_us for one in tallies]),
    )


def _most(values: Sequence[int | None]) -> float | None:
    found = [value for value in values if value is not None]
    return max(found) / 1_000_000 if found else None
