"""Explains why an occurrence ran, was skipped, or waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from evertick.errors import InvalidArgument, NotFound
from evertick.model.duration import duration_text
from evertick.model.instant import Instant, from_datetime, to_datetime, to_text
from evertick.model.job import Job
from evertick.model.ledger import JobRecord, ScheduleLine, bucket_of
from evertick.model.lifecycle import SkipReason
from evertick.model.run import LedgerRow, RunKey
from evertick.model.schedule import ScheduleSpec, specs_from_text
from evertick.operations import next_steps
from evertick.operations.context import Context
from evertick.operations.deadlines import deadline_sentences
from evertick.operations.explanation import Explanation, jitter_words, run_it_now
from evertick.operations.jobs import delayed_start, specs_of, watermark_of, zone_of
from evertick.operations.ledger_rows import moment, run_summary
from evertick.operations.preview import in_blackout
from evertick.operations.protocol import Moment
from evertick.operations.results.requests import NextStep, Why
from evertick.operations.rules import origin_of
from evertick.operations.submission import find_record, lines_at, read_run_id
from evertick.operations.time_text import is_due, local_text, moment_text, read_moment
from evertick.operations.why_entry import explain_entry
from evertick.planning.calendar import Exclusion
from evertick.planning.schedules import Schedule, compile_all, compile_occurrences, exclusion_of, next_of, previous_of
from evertick.store import RunFilter, Store, find_line


def why(context: Context, target: str, at: Moment | None = None) -> Why:
    if "@" not in target and (at is not None or context.is_job(target)):
        when = to_text(from_datetime(at)) if isinstance(at, datetime) else at
        return result_of(explain_occurrence(context.store, target, when, context.jobs, context.now()))
    if at is not None:
        raise InvalidArgument("the id of a run includes its time.", hint="Leave out the second argument.")
    return why_run(context, target)


def why_run(context: Context, reference: str) -> Why:
    """Explain a run; a time that the ledger has no row for is explained as an occurrence of the job."""
    try:
        key = context.find_run(reference).key
    except NotFound:
        named = _key_of(reference)
        if named is None:
            raise
        key = named
    return result_of(explain_occurrence(context.store, key.job_id, key, context.jobs, context.now()))


def _key_of(reference: str) -> RunKey | None:
    """The occurrence that a complete id names; None if it is not one."""
    try:
        return read_run_id(reference)
    except InvalidArgument:
        return None


def result_of(found: Explanation) -> Why:
    origin = found.ruling.origin
    return Why(
        job=found.job_id,
        scheduled_for=to_datetime(found.at),
        starts_at=moment(found.starts_at),
        local=local_text(found.at, found.zone),
        timezone=found.zone,
        outcome=found.outcome,
        reason=found.reason,
        verdict=found.verdict,
        sentences=found.sentences,
        next_steps=found.next_steps,
        run=None if found.row is None else run_summary(found.row),
        other_run=None if found.other is None else run_summary(found.other),
        policy=found.ruling.rule or None,
        policy_from=None if origin is None else str(origin),
        policy_file=None if origin is None else origin.file,
        policy_line=None if origin is None else origin.line,
        advice=found.ruling.advice or None,
        lines=found.ruling.lines,
        nearest_before=moment(found.before),
        nearest_after=moment(found.after),
    )


def explain_occurrence(
    store: Store, job_id: str, when: str | RunKey | None, jobs: Mapping[str, Job], now: Instant
) -> Explanation:
    """Explains the occurrence of that time; without a time, the newest decided one."""
    record = find_record(store, job_id, jobs)
    specs = specs_of(store, job_id, jobs)
    job, schedules, zone = jobs.get(job_id), compile_all(specs), zone_of(jobs.get(job_id), specs)
    if isinstance(when, RunKey):
        at: Instant | None = when.scheduled_for
    else:
        at = _newest(store, job_id, now) if when is None else read_moment(when, zone, schedules, now=now)
    if at is None:
        at = next_of(schedules, now)
    if at is None:
        return Explanation(job_id, now, zone, "no occurrence", ("the job has no schedule and no runs yet",))
    lines = lines_at(store, job_id, at)
    # By its key first: runs of items are not among the lines of an instant.
    row = find_line(store, when) if isinstance(when, RunKey) else None
    row = row or _chosen(lines, when.origin if isinstance(when, RunKey) else "")
    answer = Explanation(job_id, at, zone, "", row=row)
    if row is not None:
        if row.through is not None and not _is_inside(store, row, at, schedules):
            return _no_occurrence(replace(answer, row=None), schedules)
        return _with_deadline(store, explain_entry(store, answer, row, jobs, now), job, now)
    if at > now:
        return _with_deadline(store, _future(answer, specs, job, record, now), job, now)
    watermark = watermark_of(record, store.load([bucket_of(job_id)]).floors)
    return _past(answer, store.schedules([job_id]), schedules, record, watermark, job)


def _with_deadline(store: Store, answer: Explanation, job: Job | None, now: Instant) -> Explanation:
    told = deadline_sentences(store, job, answer.at, answer.row, answer.zone, now)
    return replace(answer, sentences=(*answer.sentences, *told)) if told else answer


def _newest(store: Store, job_id: str, now: Instant) -> Instant | None:
    """The newest occurrence that is due, of a gap its last; otherwise the newest requested run."""
    for occurrences_only in (True, False):
        where = RunFilter(job_ids=[job_id], until=now + 1, occurrences_only=occurrences_only)
        for row in store.query(where, limit=1).rows:
            return row.through or row.key.scheduled_for
    return None


def _chosen(lines: Sequence[LedgerRow], origin: str) -> LedgerRow | None:
    """The line to explain: an occurrence rather than a requested run of the same instant."""
    exact = next((row for row in lines if row.key.origin == origin), None)
    return exact or next(iter(lines), None)


def _is_inside(store: Store, gap: LedgerRow, at: Instant, schedules: tuple[Schedule, ...]) -> bool:
    """Whether a gap holds an occurrence of that instant, and does not just reach past it."""
    if at in (gap.key.scheduled_for, gap.through) or is_due(schedules, at):
        return True
    lines = [line for line in store.schedules([gap.key.job_id]) if line.since < at and line.specs]
    return any(is_due(compile_occurrences(specs_from_text(line.specs)), at) for line in lines)


# --- what the ledger has no entry for


def _future(
    answer: Explanation, specs: tuple[ScheduleSpec, ...], job: Job | None, record: JobRecord | None, now: Instant
) -> Explanation:
    schedules = compile_all(specs)
    excluded = exclusion_of(specs, answer.at)
    if excluded is not None and is_due(compile_occurrences(specs), answer.at):
        words = _excluded_words(answer, excluded)
        return replace(answer, outcome="excluded", reason=SkipReason.CALENDAR, sentences=(f"it will not run: {words}",))
    if not is_due(schedules, answer.at):
        return _no_occurrence(answer, schedules)
    answer = replace(answer, starts_at=delayed_start(job, answer.at))
    sentence = f"it runs in {duration_text((answer.starts_at or answer.at) - now)}, if a scheduler is running then"
    steps: tuple[NextStep, ...] = ()
    if record is not None and record.paused_at is not None:
        note = f" ({record.pause_note})" if record.pause_note else ""
        since = moment_text(record.paused_at, answer.zone)
        due = duration_text(answer.at - now)
        sentence = f"it is due in {due}, but the job has been paused since {since}{note}"
        steps = (next_steps.resume(answer.job_id),)
    elif job is not None and not job.enabled:
        sentence = f"it is due then, but the job is disabled ({origin_of(job, 'enabled')})"
    elif job is not None and (words := in_blackout(job, answer.at)[1]):
        sentence = f"it is due then, {words}"
    return replace(answer, outcome="due", sentences=(sentence, *jitter_words(answer)), next_steps=steps)


def _excluded_words(answer: Explanation, excluded: Exclusion) -> str:
    moved = "" if excluded.moved_to is None else f"; it runs at {moment_text(excluded.moved_to, answer.zone)} instead"
    return f"{excluded._replace(moved_to=None)}{moved}"


def _past(
    answer: Explanation,
    lines: Sequence[ScheduleLine],
    schedules: tuple[Schedule, ...],
    record: JobRecord | None,
    watermark: Instant | None,
    job: Job | None,
) -> Explanation:
    in_force = [line for line in lines if line.since < answer.at]
    if not in_force or watermark is None:
        if not is_due(schedules, answer.at):
            return _no_occurrence(answer, schedules)
        since = f" before {moment_text(min(line.since for line in lines), answer.zone)}" if lines else ""
        told = f"the ledger has no entries for this job{since}: the job did not exist yet, or its history was deleted"
        return replace(answer, outcome="unknown", sentences=(told,), next_steps=(run_it_now(answer),))
    newest = max(in_force, key=lambda line: line.since)
    then = compile_occurrences(specs_from_text(newest.specs)) if newest.specs else ()
    if not is_due(then, answer.at):
        return _no_occurrence(answer, then)
    if answer.at > watermark:
        through = moment_text(watermark, answer.zone)
        if record is not None and record.paused_at is not None:
            since = moment_text(record.paused_at, answer.zone)
            told = f"the job has been paused since {since}; on resume, its catch-up rule decides"
        elif job is not None and (words := in_blackout(job, answer.at)[1]):
            told = f"it was due {words}"
        else:
            told = f"no scheduler has planned beyond {through}; the next one to start applies the job's catch-up rule"
        look = next_steps.preview_catchup(answer.job_id)
        return replace(answer, outcome="undecided", sentences=(told,), next_steps=(look,))
    told = "it was due, but the ledger has no entry for it and is complete up to a later time"
    return replace(answer, outcome="missing", sentences=(told,), next_steps=(next_steps.verify(), run_it_now(answer)))


def _no_occurrence(answer: Explanation, schedules: tuple[Schedule, ...]) -> Explanation:
    before, after = previous_of(schedules, answer.at), next_of(schedules, answer.at)
    near = [
        f"{word} {moment_text(at, answer.zone)}"
        for word, at in (("before", before), ("after", after))
        if at is not None
    ]
    told = f"the job is not due then; the nearest: {', '.join(near)}" if near else "the job is never due"
    return replace(answer, outcome="no occurrence", before=before, after=after, sentences=(told,))
