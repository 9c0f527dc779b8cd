"""What an operator should look at now: failing jobs, stuck runs, repeated skips, and trouble of the system itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypedDict

from evertick.dispatch.integrity import CheckState
from evertick.model.facts import WaitKind, read_facts
from evertick.model.instant import DAY, HOUR, MINUTE, Instant, from_text, to_datetime
from evertick.model.job import Job
from evertick.model.lifecycle import ACTIVE, LAUNCHING, PLANNED, SKIPPED, WAITING, SkipReason
from evertick.model.member import Closed
from evertick.model.run import LedgerRow, RunKey
from evertick.operations.codec import refreshed
from evertick.operations.context import Context, View
from evertick.operations.error_line import error_line
from evertick.operations.figures import BAD
from evertick.operations.jobs import is_held, name_of, zone_of
from evertick.operations.ledger_rows import moment, starts_at_of, wait_of
from evertick.operations.node_queries import nodes_with
from evertick.operations.results.attention import Attention, AttentionAction, AttentionItem, AttentionKind
from evertick.store import RunFilter

SHOWN = 50
LOOKED_BACK = 20
"""Runs of a failing job that are looked at to count its failures in a row."""
STUCK_US = 5 * MINUTE
SKIPS_MIN = 3
SKIPS_OF_US = 7 * DAY
JUMP_SHOWN_US = HOUR
LAG_MIN_SECONDS = 30.0

_MEANT = (
    *(SkipReason.PAUSED, SkipReason.DISABLED, SkipReason.CALENDAR),
    *(SkipReason.ALREADY_SUCCEEDED, SkipReason.CONDITION),
)
"""Skips that people chose."""
_UNMEANT = tuple(reason for reason in SkipReason if reason not in _MEANT)
_MEANT_WAITS = (WaitKind.HOLD, WaitKind.RATE)
_ORDER = {kind: number for number, kind in enumerate(AttentionKind)}


def attention(context: Context) -> Attention:
    view = context.view()
    found = view.kept("attention", lambda: _look(context, view))
    return refreshed(found, now=to_datetime(context.now()))


def _look(context: Context, view: View) -> Attention:
    now = context.now()
    kinds = (
        *_scheduler(context, now),
        *_failing(context, view),
        *_past_deadline(context, view),
        *_stuck(view, now),
        *_skipping(context, view, now),
        *_nodes(context, view),
        *_members(context),
        *_files(view),
    )
    counts: Counter[AttentionKind] = Counter()
    items = []
    for item in sorted(kinds, key=lambda item: _ORDER[item.kind]):
        counts[item.kind] += 1
        if counts[item.kind] <= SHOWN:
            items.append(item)
    return Attention(to_datetime(now), len(view.jobs), tuple(items), len(kinds), dict(counts))


def _scheduler(context: Context, now: Instant) -> Iterator[AttentionItem]:
    report = context.report()
    if report is None:
        if not context.is_scheduler_running():
            yield AttentionItem(AttentionKind.NO_SCHEDULER, None, None, 1, "")
        return
    if report.lag_seconds is not None and report.lag_seconds > LAG_MIN_SECONDS:
        yield AttentionItem(AttentionKind.LAGGING, None, None, 1, "", node=report.node, seconds=report.lag_seconds)
    if report.integrity == CheckState.DAMAGED:
        yield AttentionItem(AttentionKind.LEDGER_DAMAGED, None, None, 1, report.integrity_finding, node=report.node)
    jump = report.clock_jump
    if jump is not None and now - from_text(jump.at) < JUMP_SHOWN_US:
        yield AttentionItem(
            AttentionKind.CLOCK,
            AttentionAction.SHOW_SKIPPED,
            moment(from_text(jump.at)),
            jump.count,
            "",
            node=report.node,
            seconds=jump.seconds,
        )


def _failing(context: Context, view: View) -> Iterator[AttentionItem]:
    ids = [
        job_id
        for job_id, record in view.records.items()
        if record.has_failed and record.retired_at is None and not is_held(view.jobs.get(job_id), None)
    ]
    newest = context.store.newest(ids, LOOKED_BACK) if ids else {}
    failing = [(rows[0], rows) for rows in newest.values() if rows and rows[0].state in BAD]
    failing.sort(key=lambda one: -(one[0].finished_at or one[0].key.scheduled_for))
    for number, (last, rows) in enumerate(failing):
        context.breathe()
        in_a_row = next((count for count, row in enumerate(rows) if row.state not in BAD), len(rows))
        job = view.jobs.get(last.key.job_id)
        yield AttentionItem(
            AttentionKind.FAILING,
            _retry(job),
            moment(rows[in_a_row - 1].finished_at),
            in_a_row,
            error_line(context, last) if number < SHOWN else last.detail,
            **_of_job(last.key.job_id, job),
            run=last.key.run_id,
            state=last.state,
            active=len(view.of(last.key.job_id, *ACTIVE)),
        )


def _past_deadline(context: Context, view: View) -> Iterator[AttentionItem]:
    """Jobs that have not succeeded since a deadline; one whose last run failed is shown for that."""
    late = [
        (record.late_since, job_id)
        for job_id, record in view.records.items()
        if record.late_since is not None and not record.has_failed and not is_held(view.jobs.get(job_id), record)
    ]
    for since, job_id in sorted(late):
        context.breathe()
        job, record = view.jobs.get(job_id), view.records[job_id]
        active = view.of(job_id, *ACTIVE)
        expected = job.policy.expectation if job is not None else None
        yield AttentionItem(
            AttentionKind.PAST_DEADLINE,
            AttentionAction.SHOW_RUN if active else AttentionAction.RUN,
            moment(since),
            1,
            f"expected {expected}" if expected is not None else "",
            **_of_job(job_id, job),
            run=active[0].key.run_id if active else RunKey(job_id, record.deadlines_through).run_id,
            active=len(active),
        )


def _retry(job: Job | None) -> AttentionAction:
    if job is None:
        return AttentionAction.SHOW_RUN
    return AttentionAction.RETRY_FAILED if len(job.steps) > 1 else AttentionAction.RETRY


def _stuck(view: View, now: Instant) -> Iterator[AttentionItem]:
    """Runs that have been due for a while and have not started, by job and by what they wait for."""
    found: dict[tuple[str, str, str], list[LedgerRow]] = defaultdict(list)
    for row in view.snapshot.open_runs:
        if row.state not in (PLANNED, WAITING, LAUNCHING) or row.started_at is not None or _due(row) > now - STUCK_US:
            continue
        if row.state is not LAUNCHING and is_held(view.jobs.get(row.key.job_id), view.records.get(row.key.job_id)):
            continue
        waits = read_facts(row.facts).waits
        if waits and waits[-1].kind in _MEANT_WAITS:
            continue
        found[(row.key.job_id, waits[-1].kind if waits else "", waits[-1].name if waits else "")].append(row)
    groups = sorted(((min(rows, key=_due), rows) for rows in found.values()), key=lambda one: _due(one[0]))
    for row, rows in groups:
        waits = read_facts(row.facts).waits
        wait = waits[-1] if waits else None
        other = next(iter(wait.runs), None) if wait else None
        yield AttentionItem(
            AttentionKind.STUCK,
            _way_out(wait.kind if wait else None),
            moment(_due(row)),
            len(rows),
            row.detail,
            **_of_job(row.key.job_id, view.jobs.get(row.key.job_id)),
            run=row.key.run_id,
            other_run=other,
            state=row.state,
            wait=wait_of(wait) if wait else None,
        )


def _due(row: LedgerRow) -> Instant:
    """Since when a run could have started: a requested one for a time in the past is as old as its request."""
    return max(row.key.scheduled_for, row.decided_at) if row.key.origin else starts_at_of(row)


def _way_out(kind: WaitKind | None) -> AttentionAction:
    return AttentionAction.SHOW_EXECUTORS if kind is WaitKind.EXECUTOR else AttentionAction.SHOW_RUN


def _skipping(context: Context, view: View, now: Instant) -> Iterator[AttentionItem]:
    """Jobs whose last occurrences were all skipped without being paused or disabled."""
    many = [job_id for job_id in _often_skipped(context, now) if job_id in view.jobs]
    for job_id in _last_skipped(context, many[: 2 * SHOWN]):
        context.breathe()
        if is_held(view.jobs[job_id], view.records.get(job_id)):
            continue
        page = context.store.query(RunFilter(job_ids=[job_id], until=now + 1, occurrences_only=True), limit=LOOKED_BACK)
        skips = _leading_skips(row for row in page.rows if row.state is not PLANNED)
        count = sum(row.occurrences for row in skips)
        if count < SKIPS_MIN or any(row.reason in _MEANT for row in skips[:1]):
            continue
        last, other = skips[0], read_facts(skips[0].facts).other
        yield AttentionItem(
            AttentionKind.SKIPPING,
            _against(last.reason, has_other=bool(other)),
            moment(skips[-1].key.scheduled_for),
            count,
            last.detail,
            **_of_job(job_id, view.jobs[job_id]),
            run=last.key.run_id,
            other_run=other or None,
            reason=last.reason,
            active=len(view.of(job_id, *ACTIVE)),
        )


def _often_skipped(context: Context, now: Instant) -> Sequence[str]:
    """Jobs with several unintended skips in the last days, those with most first.

    To count them by job takes as long as there are skips. The counts by hour say whether there are any, and with the
    counters, which only grow, whether there is a new one since they were counted last.
    """
    since, until = (now - SKIPS_OF_US) // HOUR * HOUR, (now // HOUR + 1) * HOUR
    by_hour = [one for one in context.store.outcomes([since, until]) if one.state is SKIPPED and one.reason in _UNMEANT]
    if sum(one.occurrences for one in by_hour) < SKIPS_MIN:
        return ()
    counters = context.store.counters()
    ever = tuple(counters.get(f"skipped.{reason}", 0) for reason in _UNMEANT)
    seen = (since, tuple((one.trigger, one.reason, one.occurrences) for one in by_hour), ever)
    if context.kept_skipped is not None and context.kept_skipped[0] == seen:
        return context.kept_skipped[1]
    counts: Counter[str] = Counter()
    where = RunFilter(states=[SKIPPED], reasons=_UNMEANT, since=now - SKIPS_OF_US, until=now + 1)
    for one in context.store.tally(where, SKIPS_OF_US + 1, by_job=True):
        counts[one.job_id] += one.occurrences
    many = tuple(job_id for job_id, count in counts.most_common() if count >= SKIPS_MIN)
    context.kept_skipped = (seen, many)
    return many


def _last_skipped(context: Context, job_ids: Sequence[str]) -> list[str]:
    """Those of some jobs whose last occurrence may be a skip; of most jobs it ran, which one query shows."""
    newest = context.store.newest(job_ids, with_skips=True) if job_ids else {}
    # Behind a requested run there may be a skip.
    return [one for one in job_ids if one not in newest or newest[one][0].state is SKIPPED or newest[one][0].key.origin]


def _leading_skips(rows: Iterable[LedgerRow]) -> list[LedgerRow]:
    found = []
    for row in rows:
        if row.state is not SKIPPED:
            break
        found.append(row)
    return found


def _against(reason: SkipReason | None, *, has_other: bool) -> AttentionAction:
    match reason:
        case SkipReason.NO_EXECUTOR | SkipReason.SATURATED:
            return AttentionAction.SHOW_EXECUTORS
        case SkipReason.MISSED | SkipReason.LATE | SkipReason.CAP:
            return AttentionAction.BACKFILL
        case _:
            return AttentionAction.SHOW_RUN if has_other else AttentionAction.RUN


def _nodes(context: Context, view: View) -> Iterator[AttentionItem]:
    for node in nodes_with(context, view.open_rows).items:
        if not node.is_alive and node.awaited_until is not None and node.active:
            yield AttentionItem(
                AttentionKind.NODE_AWAY, AttentionAction.SHOW_EXECUTORS, None, node.active, "", node=node.node
            )


def _members(context: Context) -> Iterator[AttentionItem]:
    report = context.report()
    for name, one in sorted(report.executors.items()) if report is not None else ():
        executor, is_member = one.kind or name, one.kind is not None and one.member not in (None, one.kind)
        where: _Place = {
            "executor": executor if is_member else name,
            "member": one.member if is_member else None,
        }
        member = one.state
        if not member.is_healthy and (member.is_expected or not is_member or member.running):
            yield AttentionItem(
                *(AttentionKind.MEMBER_AWAY, AttentionAction.SHOW_EXECUTORS, member.seen_at, 1, ""), **where
            )
        elif member.is_healthy and is_member and not member.is_open:
            action = AttentionAction.UNDRAIN if member.closed is Closed.CORDONED else AttentionAction.SHOW_EXECUTORS
            yield AttentionItem(
                *(AttentionKind.MEMBER_CLOSED, action, member.seen_at, 1, ""), **where, closed=member.closed
            )


def _files(view: View) -> Iterator[AttentionItem]:
    by_file = {job.file: job for job in view.jobs.values() if job.file}
    for file, errors in view.folder.errors.items():
        if errors:
            job = by_file.get(file)
            yield AttentionItem(
                AttentionKind.INVALID_FILE,
                AttentionAction.SHOW_JOB,
                None,
                len(errors),
                errors[0].reason,
                **(_of_job(job.id, job) if job else _OF_NO_JOB),
                file=errors[0].file or file,
                line=errors[0].line,
            )


class _Place(TypedDict):
    executor: str
    member: str | None


class _JobFields(TypedDict, total=False):
    job: str
    job_name: str
    timezone: str


_OF_NO_JOB: _JobFields = {}


def _of_job(job_id: str, job: Job | None) -> _JobFields:
    zone = zone_of(job, job.schedules) if job else "UTC"
    return {"job": job_id, "job_name": name_of(job_id, job), "timezone": zone}
