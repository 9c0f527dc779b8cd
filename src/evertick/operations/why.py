"""Explains why an occurrence ran, was skipped, or waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from evertick.errors import InvalidArgument, NotFound
from evertick.model.bucket import bucket_of
from evertick.model.duration import duration_text
from evertick.model.facts import Facts, read_facts
from evertick.model.instant import MILLISECOND, SECOND, Instant, from_datetime, to_datetime, to_text
from evertick.model.job import Job
from evertick.model.ledger import JobRecord, ScheduleLine, nodes_alive, runs_held
from evertick.model.lifecycle import (
    ACTIVE,
    CANCELLED,
    LAUNCHING,
    PLANNED,
    RETRYING,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    WAITING,
    SkipReason,
    Trigger,
)
from evertick.model.loss import LOSS_WORDS
from evertick.model.policy import Missed
from evertick.model.run import LedgerRow, RunKey
from evertick.model.schedule import ScheduleSpec, specs_from_text
from evertick.operations import next_steps
from evertick.operations.context import Context
from evertick.operations.deadlines import deadline_sentences
from evertick.operations.jobs import delayed_start, specs_of, watermark_of, zone_of
from evertick.operations.ledger_rows import loss_of, moment, node_of, run_summary
from evertick.operations.preview import in_blackout
from evertick.operations.protocol import Moment
from evertick.operations.results.requests import NextStep, Why
from evertick.operations.rules import NO_RULING, Ruling, missed_words, origin_of, ruling_on
from evertick.operations.submission import find_record, find_run, lines_at, read_run_id
from evertick.operations.time_text import clock_text, is_due, local_text, moment_text, read_moment, time_text
from evertick.operations.waits import find_waits, parent_sentences, waited_sentences
from evertick.planning.calendar import Exclusion
from evertick.planning.schedules import Schedule, compile_all, compile_occurrences, exclusion_of, next_of, previous_of
from evertick.planning.stuck import is_stuck
from evertick.store import RunFilter, Store

_NOBODY = "no scheduler was running when it was due"
_NOT_KEPT = {
    Missed.NONE: f"{_NOBODY}, and the job does not run missed occurrences",
    Missed.FIRST: f"{_NOBODY}; only the first missed occurrence runs",
    Missed.LATEST: f"{_NOBODY}; only the latest missed occurrence runs",
}
"""Why a missed occurrence was not kept, where the rule alone decided it."""
_OVERDUE_US = 5 * SECOND
_AWAY_US = 30 * SECOND
"""A scheduler that has not planned for this long is not running."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The facts, with the rows they come from, and the sentences made of them."""

    job_id: str
    at: Instant
    zone: str
    outcome: str
    """A state of a run, or `due`, `excluded`, `undecided`, `missing`, `unknown`, `no occurrence`."""
    sentences: tuple[str, ...] = ()
    next_steps: tuple[NextStep, ...] = ()
    reason: SkipReason | None = None
    row: LedgerRow | None = None
    other: LedgerRow | None = None
    """The run that was in the way, or that replaced it."""
    ruling: Ruling = NO_RULING
    before: Instant | None = None
    after: Instant | None = None
    starts_at: Instant | None = None
    """When its run starts, or was to start, by the job's jitter; None: at its time."""

    @property
    def verdict(self) -> str:
        return f"{self.outcome}: {self.reason}" if self.reason else self.outcome


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
    row = _chosen(lines, when.origin if isinstance(when, RunKey) else "")
    answer = Explanation(job_id, at, zone, "", row=row)
    if row is not None:
        if row.through is not None and not _is_inside(store, row, at, schedules):
            return _no_occurrence(replace(answer, row=None), schedules)
        return _with_deadline(store, _decided(store, answer, row, jobs, now), job, now)
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


# --- what the ledger has a line for


def _decided(store: Store, answer: Explanation, row: LedgerRow, jobs: Mapping[str, Job], now: Instant) -> Explanation:
    job = jobs.get(row.key.job_id)
    answer = replace(
        answer, outcome=str(row.state), reason=row.reason, starts_at=read_facts(row.facts).starts_at or None
    )
    if row.state is SKIPPED:
        return _skipped(store, answer, row, job)
    sentences = [_decision(answer, row, row.decided_at, _trigger_words(row)), *parent_sentences(store, row)]
    sentences += _jitter_words(answer)
    if row.state is not WAITING:
        sentences += waited_sentences(row, answer.zone, answer.at)
    awaited, steps = _awaited_node(store, answer, row, now)
    sentences += [*_course(answer, row, now), *_loss(row), *awaited]
    if row.trigger is Trigger.CATCHUP and job is not None:
        answer = replace(answer, ruling=Ruling(missed_words(job), origin_of(job, "missed")))
        sentences += _ruling_words(answer.ruling, job, is_wanted=False)
    if row.state is WAITING:
        waiting = find_waits(store, row, jobs)
        sentences += [one.text for one in waiting.blockers]
        answer = replace(answer, other=waiting.other, ruling=waiting.ruling)
    elif row.state is PLANNED:
        still, look = _still_planned(store, answer, row, job, now)
        sentences.append(still)
        steps += look
    elif row.state is RETRYING or (row.finished_at is not None and row.state is not SUCCEEDED):
        if job is not None and row.attempt > job.policy.retry.max_retries > 0:
            origin = origin_of(job, "retry.max_retries")
            answer = replace(answer, ruling=Ruling(f"maxRetries: {job.policy.retry.max_retries}", origin))
        if row.finished_at is not None:
            steps.append(next_steps.retry(row))
    told = [one for one in _ruling_words(answer.ruling, job, is_wanted=False) if one not in sentences]
    if row.started_at is not None and row.finished_at is not None:
        steps.insert(0, next_steps.read_log(row))
    return replace(answer, sentences=(*sentences, *told), next_steps=tuple(steps))


def _skipped(store: Store, answer: Explanation, row: LedgerRow, job: Job | None) -> Explanation:
    assert row.reason is not None, "a skip is a result, with a reason"
    facts = read_facts(row.facts)
    other = find_run(store, RunKey.from_run_id(facts.other)) if facts.other else None
    words = _skip_words(answer, row, facts, other)
    # Entered ahead as a run to be, and skipped when its time came: that is when it was decided.
    sentences = [_decision(answer, row, max(row.decided_at, row.changed_at), words), *parent_sentences(store, row)]
    sentences += waited_sentences(row, answer.zone, answer.at)
    if row.occurrences > 1 and row.through is not None:
        first, last = (moment_text(at, answer.zone) for at in (row.key.scheduled_for, row.through))
        sentences.append(f"one of {row.occurrences:,} occurrences skipped together, from {first} to {last}")
    ruling = ruling_on(row.reason, job, was_missed=bool(facts.missed_by)) if job is not None else NO_RULING
    sentences += _ruling_words(ruling, job, is_wanted=True)
    steps = [next_steps.name_folder(answer.job_id)] if job is None else []
    if row.reason is SkipReason.PAUSED and not facts.held_until:
        steps.append(next_steps.resume_all(answer.job_id))
    is_requested = bool(row.key.origin)
    run_it = next_steps.run_again(row) if is_requested else _run_occurrence(answer)
    return replace(answer, other=other, ruling=ruling, sentences=tuple(sentences), next_steps=(*steps, run_it))


def _run_occurrence(answer: Explanation) -> NextStep:
    return next_steps.run_occurrence(answer.job_id, answer.at, answer.zone)


def _skip_words(answer: Explanation, row: LedgerRow, facts: Facts, other: LedgerRow | None) -> str:
    """Why it was skipped."""
    if facts.other:
        name = _run_words(answer, other, facts.other)
        if facts.other_state:
            state = "active" if facts.other_state in ACTIVE else facts.other_state
            return f"{name} was still {state}{'' if other is None else _extent(answer, other)}"
        if facts.missed_by:
            return f"missed; superseded by the newer occurrence of {_clock_of(answer, facts.other)}"
        return f"the newer run of {_clock_of(answer, facts.other)} replaced it"
    if facts.held_since and not facts.held_until:
        return f"the job had been {row.reason} since {time_text(facts.held_since, answer.zone, answer.at)}"
    if facts.success_for:
        return f"a run has already succeeded for {time_text(facts.success_for, answer.zone, answer.at)}"
    if facts.missed_by and row.reason in (SkipReason.MISSED, SkipReason.OVERLAP):
        words = _NOT_KEPT.get(Missed(facts.missed_by))
        # Beyond the window its age is the reason, and what the rule keeps is not.
        if words is not None and not (row.reason is SkipReason.MISSED and facts.missed_by != Missed.NONE):
            return words
    return row.detail or f"skipped: {row.reason}"


def _decision(answer: Explanation, row: LedgerRow, at: Instant, words: str) -> str:
    node = f" on node {node_of(row)}" if node_of(row) else ""
    return f"decided {time_text(at, answer.zone, answer.at)}{node}; {words}"


def _trigger_words(row: LedgerRow) -> str:
    match row.trigger:
        case "scheduler":
            return "an occurrence of its schedule"
        case "catchup":
            return "caught up: it was missed, and the job's catch-up rule runs it"
        case _:
            return f"requested ({row.trigger})"


def _course(answer: Explanation, row: LedgerRow, now: Instant) -> list[str]:
    """How a run went, as far as it has."""
    if row.started_at is None:
        return [row.detail] if row.detail and row.state not in (PLANNED, WAITING) else []
    late_us = row.started_at - (answer.starts_at or row.key.scheduled_for)
    started = time_text(row.started_at, answer.zone, answer.at)
    late = f", {duration_text(late_us)} late" if late_us >= MILLISECOND and not row.key.origin else ""
    again = f", attempt {row.attempt}" if row.attempt > 1 else ""
    executor = f" on {row.executor}" if row.executor else ""
    sentences = [f"started {started}{executor}{late}{again}"]
    if row.finished_at is not None:
        code = f", exit code {row.exit_code}" if row.exit_code is not None else ""
        ended = time_text(row.finished_at, answer.zone, answer.at)
        took = duration_text(max(row.finished_at - row.started_at, 0))
        sentences.append(f"ended {ended} after {took}{code}")
    elif row.state is RETRYING:
        again_at = "" if row.retry_at is None else f" at {time_text(row.retry_at, answer.zone, answer.at)}"
        sentences.append(f"the attempt failed and is retried{again_at}")
    elif row.state in ACTIVE:
        sentences.append(f"active for {duration_text(max(now - row.started_at, 0))}")
    if row.detail and row.state is not SUCCEEDED and row.detail != f"exit code {row.exit_code}":
        # A running attempt has no result yet: this detail belongs to the previous one.
        whose = "previous attempt: " if row.state in (LAUNCHING, RUNNING) and row.attempt > 1 else ""
        replaced_by = read_facts(row.facts).other if row.state is CANCELLED else ""
        words = f"replaced by the run of {_clock_of(answer, replaced_by)}" if replaced_by else row.detail
        sentences.append(whose + words)
    return sentences


def _jitter_words(answer: Explanation) -> list[str]:
    """How much later than its time it starts."""
    if answer.starts_at is None:
        return []
    delay, start = duration_text(answer.starts_at - answer.at), time_text(answer.starts_at, answer.zone, answer.at)
    return [f"jitter delays its start by {delay}, to {start}"]


def _loss(row: LedgerRow) -> list[str]:
    """Why the newest attempt was lost, where it was."""
    loss = loss_of(row)
    return [] if loss is None else [f"lost ({loss}): {LOSS_WORDS[loss]}"]


def _awaited_node(store: Store, answer: Explanation, row: LedgerRow, now: Instant) -> tuple[list[str], list[NextStep]]:
    """Whether a run is on a node that does not respond, and until when the other nodes leave it there."""
    node = row.executor.partition("@")[2]
    if row.state not in (LAUNCHING, RUNNING) or not node:
        return [], []
    leases = store.lease((), "", 0, now)
    held = runs_held(leases).get(node)
    if held is None or node in nodes_alive(leases):
        return [], []
    until = time_text(held.until, answer.zone, answer.at)
    if held.is_stopped:
        told = f"node {node} was stopped; unless it is back by {until}, its machine stops the run"
    else:
        told = f"node {node} does not respond; unless it is back by {until}, its machine stops the run"
    return [told], [next_steps.forget_node(node)]


def _still_planned(
    store: Store, answer: Explanation, row: LedgerRow, job: Job | None, now: Instant
) -> tuple[str, list[NextStep]]:
    due = answer.starts_at or row.key.scheduled_for
    if due > now:
        return f"{'due' if answer.starts_at is None else 'starts'} in {duration_text(due - now)}", []
    if now - due < _OVERDUE_US:
        return "due now", []
    late = f"it was due {duration_text(now - due)} ago"
    snapshot = store.load([bucket_of(row.key.job_id)])
    worked_until = snapshot.floors.get(bucket_of(row.key.job_id), 0)
    if now - worked_until > _AWAY_US:
        return f"{late}; no scheduler has planned this job since {to_text(worked_until)}", []
    record = next((one for one in snapshot.jobs if one.job_id == row.key.job_id), None)
    if record is not None and record.held:
        return f"{late}; no node plans this job", [next_steps.show_job(row.key.job_id)]
    rows = [one for one in snapshot.open_runs if one.key.job_id == row.key.job_id]
    if is_stuck(row, rows, record, snapshot.floors, job, now):
        return f"{late}; it is stuck and waits for nothing; the scheduler retries it within minutes", []
    return f"{late}; the scheduler is running and starts it next", []


def _run_words(answer: Explanation, row: LedgerRow | None, run_id: str) -> str:
    asked = f" ({row.trigger})" if row is not None and row.key.origin else ""
    return f"the run of {_clock_of(answer, run_id)}{asked}"


def _clock_of(answer: Explanation, run_id: str) -> str:
    return clock_text(RunKey.from_run_id(run_id).scheduled_for, answer.zone)


def _extent(answer: Explanation, row: LedgerRow) -> str:
    if row.started_at is None:
        return ""
    start = time_text(row.started_at, answer.zone, answer.at)
    # Skipped because of one that waited itself: it began after.
    which = f"its attempt {row.attempt}" if row.attempt > 1 else "it"
    before = f"{which} ran " if row.started_at > answer.at else ""
    if row.finished_at is None:
        return f" ({before or 'since '}{start}{' on' if before else ''})"
    return f" ({before}{start} to {time_text(row.finished_at, answer.zone, answer.at)})"


def _ruling_words(ruling: Ruling, job: Job | None, *, is_wanted: bool) -> list[str]:
    if job is None and is_wanted:
        return ["rule: unknown, because the job file was not found"]
    rule = [f"rule: {ruling.rule}, from {ruling.origin}"] if ruling.rule else []
    return [*rule, ruling.advice] if ruling.advice else rule


# --- what it has no line for


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
    return replace(answer, outcome="due", sentences=(sentence, *_jitter_words(answer)), next_steps=steps)


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
        return replace(answer, outcome="unknown", sentences=(told,), next_steps=(_run_occurrence(answer),))
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
    return replace(
        answer, outcome="missing", sentences=(told,), next_steps=(next_steps.verify(), _run_occurrence(answer))
    )


def _no_occurrence(answer: Explanation, schedules: tuple[Schedule, ...]) -> Explanation:
    before, after = previous_of(schedules, answer.at), next_of(schedules, answer.at)
    near = [
        f"{word} {moment_text(at, answer.zone)}"
        for word, at in (("before", before), ("after", after))
        if at is not None
    ]
    told = f"the job is not due then; the nearest: {', '.join(near)}" if near else "the job is never due"
    return replace(answer, outcome="no occurrence", before=before, after=after, sentences=(told,))
