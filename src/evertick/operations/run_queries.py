"""Queries about runs: history, gaps, one run with its attempts, and the definition it was launched with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from evertick.errors import NotFound
from evertick.model.attempts import AttemptRecord, read_attempts
from evertick.model.definition import definition_text
from evertick.model.facts import read_facts
from evertick.model.lifecycle import ACTIVE, RETRYING, TERMINAL, WAITING, Trigger
from evertick.model.loss import read_loss
from evertick.model.run import LedgerRow, RunKey
from evertick.model.steps import FAILED, LOST, RUNNING, StepRecord, read_steps
from evertick.operations.context import Context, bounded
from evertick.operations.ledger_rows import gap_of, loss_of, moment, moment_of, run_of, step_of
from evertick.operations.list_order import behind, sort_runs
from evertick.operations.log_queries import find_logs
from evertick.operations.protocol import Moment, RunQuery
from evertick.operations.results.base import fields_of
from evertick.operations.results.runs import (
    Attempt,
    AttemptStep,
    DefinitionChange,
    GapPage,
    LogFile,
    RelatedRun,
    Run,
    RunDefinition,
    RunDetail,
    RunPage,
    RunSort,
    StepBase,
)
from evertick.operations.submission import read_run_id
from evertick.operations.waits import find_waits
from evertick.store import Page, RunFilter

RUNS_MAX = 1_000
COMPARED_MAX = 5_000
"""Entries that are read to find the longest or the latest: the ledger is in order of time, and may have millions."""
ALL_RUNS = RunQuery()
CHILDREN_LOOKED_AT = 200
"""Runs of each kind that are searched for the children of a run, newest first."""


def list_runs(context: Context, query: RunQuery = ALL_RUNS, limit: int = 100, after: str | None = None) -> RunPage:
    bounded("limit", limit, 1, RUNS_MAX)
    where = RunFilter(
        states=query.states,
        triggers=query.triggers,
        reasons=query.reasons,
        since=context.instant_or_none(query.since, query.job),
        until=context.instant_or_none(query.until, query.job),
        executors=[query.executor] if query.executor else (),
    )
    if query.sort not in (None, RunSort.DUE):
        return _sorted_page(context, query, query.sort, where, limit, after)
    page = _page(context, query.job, query.tags, replace(where, oldest_first=query.is_reversed), limit, after)
    return RunPage(context.runs(page.rows), page.after.run_id if page.after else None)


def _sorted_page(
    context: Context, query: RunQuery, sort: RunSort, where: RunFilter, limit: int, after: str | None
) -> RunPage:
    found = _page(context, query.job, query.tags, where, COMPARED_MAX, None).rows
    ordered = sort_runs(found, sort, is_reversed=query.is_reversed)
    keys = [row.key for row in ordered]
    start = len(keys) - len(behind(keys, read_run_id(after) if after else None))
    end = start + limit
    return RunPage(context.runs(ordered[start:end]), keys[end - 1].run_id if end < len(keys) else None, len(found))


def gaps(
    context: Context,
    job: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int = 100,
    after: str | None = None,
) -> GapPage:
    bounded("limit", limit, 1, RUNS_MAX)
    start, end = context.instant_or_none(since, job), context.instant_or_none(until, job)
    page = _page(context, job, (), RunFilter(since=start, until=end, gaps=True), limit, after)
    return GapPage(tuple(map(gap_of, page.rows)), page.after.run_id if page.after else None)


def run(context: Context, run_id: str) -> RunDetail:
    row = context.find_run(run_id)
    job, is_over, is_one = context.jobs.get(row.key.job_id), row.state in TERMINAL, row.occurrences == 1
    logs, absent = find_logs(context, row)
    steps, is_item = read_steps(row.steps), row.trigger is Trigger.ITEM
    return RunDetail(
        **fields_of(Run, run_of(row, job)),
        steps=tuple(map(step_of, steps)),
        attempts=attempts_of(row, steps, logs),
        depends={} if job is None else {step.name: tuple(step.depends) for step in job.steps},
        logs=logs,
        absent_logs=absent,
        definition=row.definition or None,
        is_definition_current=None if job is None or not row.definition else job.definition == row.definition,
        can_cancel=not is_over,
        can_retry=is_over and is_one and not is_item,
        can_retry_failed=is_over and is_one and not is_item and has_failed_step(row),
        blocked_by=find_waits(context.store, row, context.jobs).blockers if row.state is WAITING else (),
        children=_children(context, row) if row.started_at is not None else (),
    )


def has_failed_step(row: LedgerRow) -> bool:
    """Whether a retry can begin at a step: at the first that failed or was lost."""
    return any(step.state in (FAILED, LOST) for step in read_steps(row.steps))


def _children(context: Context, row: LedgerRow) -> tuple[RelatedRun, ...]:
    """The runs that followed from a run, by the parents that they name."""
    own, run_id = row.key.job_id, row.key.run_id
    after = [job.id for job in context.jobs.values() if job.after is not None and own in job.after.jobs]
    subs = sorted({RunKey.from_run_id(step.sub_run).job_id for step in read_steps(row.steps) if step.sub_run})
    rows: list[LedgerRow] = []
    for jobs, trigger in (([own], Trigger.RETRY), (after, Trigger.CHAINED), (subs, Trigger.SUBJOB)):
        if jobs:
            where = RunFilter(job_ids=jobs, triggers=[trigger], since=row.key.scheduled_for)
            rows += context.store.query(where, limit=CHILDREN_LOOKED_AT).rows
    return tuple(
        RelatedRun(
            child.key.run_id,
            child.key.job_id,
            context.name_of(child.key.job_id),
            child.state,
            child.trigger,
            moment_of(child.key.scheduled_for),
        )
        for child in rows
        if any(parent.run == run_id for parent in read_facts(child.facts).parents)
    )


def attempts_of(row: LedgerRow, steps: Sequence[StepRecord], logs: Sequence[LogFile]) -> tuple[Attempt, ...]:
    """The attempts of a run, oldest first; of attempts that the row has no record of, only the logs are known."""
    sizes = {(log.attempt, log.step): log.size for log in logs}
    # The ledger learns of a step when its attempt ends; until then an open log says that it runs.
    is_running = row.state in ACTIVE
    under_way = {(log.attempt, log.step) for log in logs if not log.is_complete} if is_running else set()
    known = {one.attempt: one for one in read_attempts(row.earlier)}
    found = []
    for number in range(1, row.attempt + 1):
        own = [step for step in steps if step.attempt == number]
        if number != row.attempt or (row.state is RETRYING and number in known):
            record = known.get(number, AttemptRecord(number, "ended"))
            own = own or list(record.steps)
        else:
            times = (row.started_at, row.finished_at, row.exit_code, row.detail, row.executor, row.definition)
            record = AttemptRecord(number, str(row.state), *times, loss=loss_of(row) or "")
            if record.started_at == (known[number - 1].started_at if number - 1 in known else None):
                record = record._replace(started_at=None)  # until it starts, the row has the start of the one before
        names = {step.name for step in own}
        fresh = [name for attempt, name in sizes if attempt == number and name not in names]
        own += [StepRecord(name, RUNNING if (number, name) in under_way else "", number) for name in fresh]
        found.append(
            Attempt(
                attempt=number,
                state=record.state,
                started_at=moment(record.started_at),
                finished_at=moment(record.finished_at),
                exit_code=record.exit_code,
                detail=record.detail,
                loss=read_loss(record.loss),
                executor=record.executor,
                definition=record.definition or None,
                steps=tuple(
                    AttemptStep(
                        **fields_of(StepBase, step_of(step)),
                        state=step.state or None,
                        log_bytes=sizes.get((number, step.name)),
                    )
                    for step in own
                ),
            )
        )
    return tuple(found)


def run_definition(context: Context, run_id: str, attempt: int | None = None) -> RunDefinition:
    row = context.find_run(run_id)
    number = row.attempt if attempt is None else attempt
    bounded("attempt", number, 0, 1 << 30)
    earlier = {one.attempt: one.definition for one in read_attempts(row.earlier)}
    digest = row.definition if number == row.attempt else earlier.get(number, "")
    text = context.store.definition(row.key.job_id, digest) if digest else None
    if text is None:
        raise NotFound(_why_no_definition(row, number, digest))
    job = context.jobs.get(row.key.job_id)
    return RunDefinition(
        run=row.key.run_id,
        job=row.key.job_id,
        attempt=number,
        digest=digest,
        text=text,
        is_current=None if job is None else job.definition == digest,
        changes=() if job is None else line_changes(text, definition_text(job)),
    )


def _why_no_definition(row: LedgerRow, attempt: int, digest: str) -> str:
    run_id = row.key.run_id
    if not row.attempt:
        return f"the run {run_id} never started, so it has no definition."
    if digest:
        return f"the definition of {run_id} in attempt {attempt} is no longer kept."
    return f"the definition of {run_id} in attempt {attempt} was not recorded."


def line_changes(before: str, after: str) -> tuple[DefinitionChange, ...]:
    """Two texts as one list of lines, each kept, only before, or only after."""
    old, new = before.splitlines(), after.splitlines()
    found: list[DefinitionChange] = []
    for what, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            found += [DefinitionChange("both", line) for line in old[first:last]]
        else:
            found += [DefinitionChange("before", line) for line in old[first:last]]
            found += [DefinitionChange("after", line) for line in new[begin:end]]
    return tuple(found)


def _page(
    context: Context, job: str | None, tags: Collection[str], where: RunFilter, limit: int, after: str | None
) -> Page:
    mark = read_run_id(after) if after else None
    if job is not None:
        context.require_job(job)
    chosen = _tagged(context, job, tags)
    if chosen is not None and not chosen:
        return Page((), None)
    return context.store.query(replace(where, job_ids=chosen or ()), mark, limit)


def _tagged(context: Context, job: str | None, tags: Collection[str]) -> list[str] | None:
    """The jobs that match; None: any."""
    if not tags:
        return None if job is None else [job]
    found = [one.id for one in context.jobs.values() if all(tag in one.tags for tag in tags)]
    return [one for one in found if job in (None, one)]
