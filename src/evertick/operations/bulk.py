"""One action on many jobs or runs: what it would do to each, and the requests that do it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from evertick.errors import Conflict, EvertickError, InvalidArgument, NotFound
from evertick.model.ids import digest
from evertick.model.lifecycle import ACTIVE, TERMINAL, WAITING
from evertick.model.run import LedgerRow
from evertick.operations import commands
from evertick.operations.context import Context
from evertick.operations.figures import BAD
from evertick.operations.ledger_rows import moment_of
from evertick.operations.preview import preview_catchup
from evertick.operations.protocol import Moment
from evertick.operations.results.bulk import Bulk, BulkAction, BulkItem, BulkObstacle
from evertick.operations.resume_point import resume_params
from evertick.operations.run_queries import has_failed_step
from evertick.store import RunFilter

ITEMS_MAX = 500
_ON_JOBS = (BulkAction.RUN, BulkAction.PAUSE, BulkAction.RESUME, BulkAction.BACKFILL)
_RETRIES = (BulkAction.RETRY, BulkAction.RETRY_FAILED)

Audit = Callable[[BulkItem], None]


def bulk(
    context: Context,
    action: BulkAction,
    jobs: Collection[str] = (),
    runs: Collection[str] = (),
    start: Moment | None = None,
    end: Moment | None = None,
    note: str = "",
    preview: bool = False,
    *,
    request_id: str = "",
    by: str = "",
    audit: Audit = lambda _: None,
) -> Bulk:
    """`audit` is called with each item for which a request was submitted or refused."""
    period = _period(context, action, jobs, runs, start, end)
    if action in _ON_JOBS:
        items = [_of_job(context, action, job_id, start, end) for job_id in dict.fromkeys(jobs)]
    else:
        items = [_of_run(context, action, row) for row in _rows(context, action, jobs, runs, period)]
    if len(items) > ITEMS_MAX:
        raise InvalidArgument(f"{len(items):,} are selected.", hint=f"Select at most {ITEMS_MAX:,} at once.")
    if not preview:
        base = request_id or secrets.token_hex(16)
        items = [_submitted(context, action, item, start, end, note, base, by, audit) for item in items]
    chosen = [item for item in items if item.obstacle is None]
    return Bulk(
        action=action,
        is_preview=preview,
        chosen=len(chosen),
        runs=sum(item.count for item in chosen),
        items=tuple(items),
        is_scheduler_running=context.is_scheduler_running(),
    )


def _period(
    context: Context,
    action: BulkAction,
    jobs: Collection[str],
    runs: Collection[str],
    start: Moment | None,
    end: Moment | None,
) -> tuple[int, int] | None:
    if action in _ON_JOBS and runs:
        raise InvalidArgument(f"'{action}' is for jobs, not for runs.", hint="Name jobs.", field="runs")
    if max(len(jobs), len(runs)) > ITEMS_MAX:
        raise InvalidArgument(f"more than {ITEMS_MAX:,} are selected.", hint="Select fewer.", field="jobs")
    if (start is None) != (end is None):
        raise InvalidArgument("a period needs both ends.", hint="Write from and to.", field="from")
    if start is None or end is None:
        if action is BulkAction.BACKFILL or (jobs and action in _RETRIES):
            raise InvalidArgument(f"'{action}' of jobs needs a period.", hint="Write from and to.", field="from")
        return None
    return context.instant(start), context.instant(end)


def _of_job(context: Context, action: BulkAction, job_id: str, start: Moment | None, end: Moment | None) -> BulkItem:
    active = len(context.view().of(job_id, *ACTIVE))
    item = BulkItem(job_id, context.name_of(job_id), None, None, None, 0, active, None, "", None)
    try:
        record = context.require(job_id)
    except NotFound as error:
        return replace(item, obstacle=BulkObstacle.UNKNOWN, detail=str(error))
    job, is_paused = context.jobs.get(job_id), record is not None and record.paused_at is not None
    if job is None:
        return replace(item, obstacle=BulkObstacle.DELETED)
    match action:
        case BulkAction.RUN:
            return replace(item, count=1)
        case BulkAction.PAUSE:
            return replace(item, obstacle=BulkObstacle.PAUSED_ALREADY) if is_paused else item
        case BulkAction.RESUME if not is_paused:
            return replace(item, obstacle=BulkObstacle.NOT_PAUSED)
        case BulkAction.RESUME:
            return replace(item, count=preview_catchup(context.store, job, context.now(), None).kept)
        case _:
            assert start is not None
            assert end is not None
            try:
                found = commands.backfill(context, job_id, start, end, preview=True)
            except EvertickError as error:
                return replace(item, obstacle=BulkObstacle.REFUSED, detail=str(error))
            return replace(item, count=found.chosen, obstacle=None if found.chosen else BulkObstacle.NOTHING_TO_RUN)


def _rows(
    context: Context,
    action: BulkAction,
    jobs: Collection[str],
    runs: Collection[str],
    period: tuple[int, int] | None,
) -> Sequence[LedgerRow]:
    named = [context.find_run(run) for run in dict.fromkeys(runs)]
    if not jobs:
        return named
    states = BAD if action in _RETRIES else (WAITING,)
    since, until = period or (None, None)
    where = RunFilter(job_ids=list(jobs), states=states, since=since, until=until, gaps=False, oldest_first=True)
    return [*named, *context.store.query(where, limit=ITEMS_MAX + 1).rows]


def _of_run(context: Context, action: BulkAction, row: LedgerRow) -> BulkItem:
    key, is_over = row.key, row.state in TERMINAL
    obstacle, detail = None, row.detail
    if action is BulkAction.CANCEL and is_over:
        obstacle = BulkObstacle.ENDED
    elif action in _RETRIES and not is_over:
        obstacle = BulkObstacle.NOT_ENDED
    elif action in _RETRIES and row.occurrences > 1:
        obstacle = BulkObstacle.IS_GAP
    elif action is BulkAction.RETRY_FAILED and not has_failed_step(row):
        obstacle = BulkObstacle.NO_FAILED_STEP
    elif action is BulkAction.RETRY_FAILED:
        try:
            resume_params(row, context.written_jobs.get(key.job_id))
        except Conflict as error:
            obstacle, detail = BulkObstacle.REFUSED, str(error)
    name, at = context.name_of(key.job_id), moment_of(key.scheduled_for)
    return BulkItem(key.job_id, name, key.run_id, at, row.state, int(obstacle is None), 0, obstacle, detail, None)


def _submitted(
    context: Context,
    action: BulkAction,
    item: BulkItem,
    start: Moment | None,
    end: Moment | None,
    note: str,
    base: str,
    by: str,
    audit: Audit,
) -> BulkItem:
    """The item with its request; a refused one does not affect the others."""
    if item.obstacle is not None:
        return item
    request_id = f"bulk-{digest(chr(10).join((base, action, item.job, item.run or '')))}"
    try:
        match action:
            case BulkAction.RUN:
                commands.trigger(context, item.job, request_id=request_id, by=by)
            case BulkAction.PAUSE:
                commands.pause(context, item.job, note, request_id=request_id, by=by)
            case BulkAction.RESUME:
                commands.resume(context, item.job, request_id=request_id, by=by)
            case BulkAction.RETRY | BulkAction.RETRY_FAILED:
                from_failed = action is BulkAction.RETRY_FAILED
                commands.retry(context, item.run or "", from_failed, request_id=request_id, by=by)
            case BulkAction.CANCEL:
                commands.cancel_run(context, item.run or "", request_id=request_id, by=by)
            case BulkAction.BACKFILL:
                assert start is not None
                assert end is not None
                commands.backfill(context, item.job, start, end, request_id=request_id, by=by)
    except EvertickError as error:
        found = replace(item, obstacle=BulkObstacle.REFUSED, detail=str(error), count=0)
    else:
        found = replace(item, request=request_id)
    audit(found)
    return found
