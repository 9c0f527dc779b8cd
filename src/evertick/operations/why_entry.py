"""Explains an entry of the ledger: why it ran as it did, was skipped, or waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evertick.model.duration import duration_text
from evertick.model.facts import Facts, read_facts
from evertick.model.instant import MILLISECOND, SECOND, Instant, to_text
from evertick.model.job import Job
from evertick.model.ledger import bucket_of, nodes_alive, runs_held
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
    beyond_exit_code,
)
from evertick.model.loss import LOSS_WORDS
from evertick.model.policy import Missed
from evertick.model.run import LedgerRow, RunKey
from evertick.operations import next_steps
from evertick.operations.explanation import Explanation, jitter_words, run_it_now
from evertick.operations.ledger_rows import loss_of, node_of
from evertick.operations.results.requests import NextStep
from evertick.operations.rules import NO_RULING, Ruling, missed_words, origin_of, ruling_on
from evertick.operations.submission import find_run
from evertick.operations.time_text import clock_text, moment_text, time_text
from evertick.operations.waits import find_waits, parent_sentences, waited_sentences
from evertick.planning.stuck import is_stuck
from evertick.store import Store

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


def explain_entry(
    store: Store, answer: Explanation, row: LedgerRow, jobs: Mapping[str, Job], now: Instant
) -> Explanation:
    job = jobs.get(row.key.job_id)
    answer = replace(
        answer, outcome=str(row.state), reason=row.reason, starts_at=read_facts(row.facts).starts_at or None
    )
    if row.state is SKIPPED:
        return _skipped(store, answer, row, job)
    sentences = [_decision(answer, row, row.decided_at, _trigger_words(row)), *parent_sentences(store, row)]
    sentences += jitter_words(answer)
    if row.state is not WAITING:
        sentences += waited_sentences(row, answer.zone, answer.at)
    awaited, steps = _awaited_node(store, answer, row, now)
    sentences += [*_course(answer, row, now), *_loss(row), *awaited]
    if row.trigger is Trigger.CATCHUP and job is not None:
        answer = replace(answer, ruling=Ruling(missed_words(job), origin_of(job, "missed")))
        sentences += _ruling_words(answer.ruling, job, is_wanted=False)
    caught_up_by = answer.ruling
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
    told = [] if answer.ruling == caught_up_by else _ruling_words(answer.ruling, job, is_wanted=False)
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
    run_it = next_steps.run_again(row) if is_requested else run_it_now(answer)
    return replace(answer, other=other, ruling=ruling, sentences=tuple(sentences), next_steps=(*steps, run_it))


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
    if row.state is not SUCCEEDED and beyond_exit_code(row.detail, row.exit_code):
        # A running attempt has no result yet: this detail belongs to the previous one.
        whose = "previous attempt: " if row.state in (LAUNCHING, RUNNING) and row.attempt > 1 else ""
        replaced_by = read_facts(row.facts).other if row.state is CANCELLED else ""
        words = f"replaced by the run of {_clock_of(answer, replaced_by)}" if replaced_by else row.detail
        sentences.append(whose + words)
    return sentences


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
