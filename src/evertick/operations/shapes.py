"""The fields in which jobs, answers and previews are returned: the same names on every surface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evertick.errors import DefinitionError
from evertick.model.duration import format_duration
from evertick.model.instant import Instant, to_text
from evertick.model.job import Job
from evertick.model.ledger import JobRecord
from evertick.model.lifecycle import (
    CANCELLED,
    FAILED,
    LAUNCHING,
    LOST,
    PLANNED,
    RETRYING,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    TIMED_OUT,
    WAITING,
    JobStatus,
    RunState,
    Trigger,
)
from evertick.model.run import LedgerRow
from evertick.model.schedule import AtSpec, CronSpec, EverySpec, ScheduleSpec
from evertick.model.work import (
    Command,
    Env,
    HttpCall,
    Kind,
    Param,
    Pipeline,
    Pod,
    PythonCall,
    Script,
    Secret,
    Step,
    SubJob,
)
from evertick.operations.data import lateness_seconds, run_data, text_or_none
from evertick.operations.jobs import last_success_of, name_of
from evertick.operations.reasons import Why
from evertick.operations.time_text import local_text, offset_text
from evertick.planning.verify import Report
from evertick.store import Tally

_OUTCOMES = {
    SUCCEEDED: "succeeded",
    **dict.fromkeys((FAILED, TIMED_OUT, LOST), "failed"),
    SKIPPED: "skipped",
    CANCELLED: "cancelled",
    **dict.fromkeys((LAUNCHING, RUNNING, RETRYING), "running"),
    **dict.fromkeys((PLANNED, WAITING), "waiting"),
}

SUMMARY_MAX = 200
"""Characters of a command or script where many steps are shown."""

BAD = (FAILED, TIMED_OUT, LOST)

Data = dict[str, Any]


def job_data(
    job_id: str,
    job: Job | None,
    record: JobRecord | None,
    *,
    status: JobStatus,
    zone: str,
    specs: Sequence[ScheduleSpec],
    next_at: Instant | None,
    watermark: Instant | None,
    active: int = 0,
    waiting: int = 0,
    last: LedgerRow | None = None,
    skips: Mapping[str, int] | None = None,
) -> Data:
    """How a job stands; a job that only the ledger knows has no name, tags or file."""
    known = record or JobRecord(job_id, 0)
    return {
        "job": job_id,
        "name": name_of(job_id, job),
        "description": job.description if job else "",
        "tags": list(job.tags) if job else [],
        "file": job.file if job else None,
        "is_defined": job is not None,
        "enabled": job.enabled if job else None,
        "queue": job.queue if job else None,
        "priority": job.priority if job else 0,
        "status": str(status),
        "next_at": text_or_none(next_at),
        "timezone": zone,
        "schedules": [str(spec) for spec in specs],
        "watermark": text_or_none(watermark),
        "active": active,
        "waiting": waiting,
        "last": None if last is None else brief_run(last),
        "skips": dict(skips or {}),
        "last_success_for": text_or_none(last_success_of(record, last)),
        "paused_at": text_or_none(known.paused_at),
        "pause_note": known.pause_note,
        "error": known.error,
        "retired_at": text_or_none(known.retired_at),
    }


def brief_run(row: LedgerRow) -> Data:
    """A run where many are told of: without its steps."""
    data = run_data(row)
    del data["steps"]
    return data


def spec_data(spec: ScheduleSpec) -> Data:
    match spec:
        case CronSpec(text, timezone):
            return {"cron": text, "timezone": timezone}
        case EverySpec(period_us):
            return {"every": format_duration(period_us)}
        case AtSpec(instant):
            return {"at": to_text(instant)}


def definition_data(job: Job) -> Data:
    """What a job's definition says, without the values of its environment."""
    work = job.work
    return {
        "start": [spec_data(spec) for spec in job.schedules],
        "stop": [spec_data(spec) for spec in job.stops],
        "restart": [spec_data(spec) for spec in job.restarts],
        "after": None if job.after is None else {"jobs": list(job.after.jobs), "mode": str(job.after.mode)},
        "params": params_schema(work.params),
        "env": _env_names(work.env),
        "timeout_seconds": _seconds(work.timeout_us),
        "steps": [step_data(step) for step in job.steps],
        "handlers": {name: step_data(step) for name, step in work.handler_steps.items()},
        "constraints": [type(one).__name__ for one in job.constraints],
        "notify": len(job.notify),
    }


def params_schema(params: Sequence[Param]) -> Data:
    """The parameters of a job as one JSON Schema, from which a form can be made."""
    return {
        "type": "object",
        "properties": {
            one.name: {
                **({} if one.default is None else {"default": one.default}),
                **({"description": one.description} if one.description else {}),
                **dict(one.schema),
            }
            for one in params
        },
        "required": [one.name for one in params if one.default is None],
    }


def step_data(step: Step) -> Data:
    kind, summary = kind_words(step.kind)
    return {
        "name": step.name,
        "kind": kind,
        "summary": summary,
        "depends": list(step.depends),
        "env": _env_names(step.env),
        "timeout_seconds": _seconds(step.timeout_us),
        "max_retries": step.retry.max_retries,
        "output": step.output,
    }


def kind_words(kind: Kind) -> tuple[str, str]:
    """What sort of step it is, and what it does in a line."""
    match kind:
        case Command(words):
            return "command", _short(" ".join(words))
        case Script(text):
            return "script", _short(text.strip().partition("\n")[0])
        case PythonCall(target):
            return "python", target
        case HttpCall(url, method):
            return "http", _short(f"{method} {url.partition('?')[0]}")
        case Pipeline(data):
            return "pipeline", _short(str(data.get("name", "")))
        case SubJob(job_id):
            return "job", job_id
        case Pod(image, words):
            return "kubernetes", _short(f"{image} {' '.join(words)}".strip())


def why_data(answer: Why) -> Data:
    return {
        "job": answer.job_id,
        "scheduled_for": to_text(answer.at),
        "local": local_text(answer.at, answer.zone),
        "timezone": answer.zone,
        "outcome": answer.outcome,
        "reason": None if answer.reason is None else str(answer.reason),
        "verdict": answer.verdict,
        "sentences": list(answer.sentences),
        "run": None if answer.row is None else brief_run(answer.row),
        "other_run": None if answer.other is None else brief_run(answer.other),
        "policy": answer.ruling.rule or None,
        "policy_from": answer.ruling.origin or None,
        "advice": answer.ruling.advice or None,
        "nearest_before": text_or_none(answer.before),
        "nearest_after": text_or_none(answer.after),
    }


def fire_data(
    at: Instant, job_id: str, name: str, zone: str, now: Instant, action: str, held: str | None, detail: str
) -> Data:
    """A time at which a job is due, and what would come of it."""
    return {
        "job": job_id,
        "job_name": name,
        "action": action,
        "scheduled_for": to_text(at),
        "local": local_text(at, zone),
        "offset": offset_text(at, zone),
        "timezone": zone,
        "wait_seconds": (at - now) / 1_000_000,
        "what": "run" if held is None else f"skip: {held}",
        "reason": held,
        "detail": detail,
    }


def problem_data(error: DefinitionError) -> Data:
    return {
        "file": error.file,
        "line": error.line,
        "column": error.column,
        "field": error.field,
        "reason": error.reason,
        "hint": error.hint,
        "text": str(error),
    }


def problems_data(errors: Mapping[str, Sequence[DefinitionError]]) -> list[Data]:
    return [problem_data(error) for told in errors.values() for error in told]


def report_data(report: Report) -> Data:
    """What `verify` found; what was lost first."""
    sentences = (
        ("duplicate", report.duplicates, "another line speaks of this occurrence already"),
        ("miscounted", report.miscounted, "the gap that begins here says another number of occurrences than there are"),
        ("stray", report.strays, "no schedule of the job was ever due then"),
        ("stuck", report.stuck, "it is overdue, waits for nothing, and does not move"),
    )
    lost = [{"kind": "lost", "job": one.job_id, "text": f"lost: {one}"} for one in report.lost]
    told = [
        {"kind": kind, "job": key.job_id, "text": f"{kind}: {key.run_id}: {sentence}"}
        for kind, keys, sentence in sentences
        for key in keys
    ]
    return {
        "is_sound": report.is_sound,
        "occurrences": report.occurrences,
        "runs": report.runs,
        "skips": dict(report.skips),
        "gaps": report.gaps,
        "lost": sum(one.occurrences for one in report.lost),
        "duplicates": len(report.duplicates),
        "miscounted": len(report.miscounted),
        "strays": len(report.strays),
        "stuck": len(report.stuck),
        "findings": [*lost, *told],
    }


def mark_data(row: LedgerRow) -> Data:
    """A line of the ledger as a mark in a picture: little, because there are many."""
    started, finished = row.started_at, row.finished_at
    return {
        "run": row.key.run_id,
        "at": to_text(row.key.scheduled_for),
        "state": str(row.state),
        "trigger": str(row.trigger),
        "reason": None if row.reason is None else str(row.reason),
        "started_at": text_or_none(started),
        "finished_at": text_or_none(finished),
        "lateness_seconds": lateness_seconds(row),
        "attempt": row.attempt,
    }


def point_data(row: LedgerRow) -> Data:
    """A run as a point of a chart."""
    started, finished = row.started_at, row.finished_at
    return {
        "run": row.key.run_id,
        "scheduled_for": to_text(row.key.scheduled_for),
        "state": str(row.state),
        "trigger": str(row.trigger),
        "duration_seconds": None if started is None or finished is None else (finished - started) / 1_000_000,
        "lateness_seconds": lateness_seconds(row),
    }


def gap_data(row: LedgerRow) -> Data:
    return {
        "run": row.key.run_id,
        "job": row.key.job_id,
        "at": to_text(row.key.scheduled_for),
        "through": text_or_none(row.through),
        "occurrences": row.occurrences,
        "reason": None if row.reason is None else str(row.reason),
        "detail": row.detail,
        "decided_at": to_text(row.decided_at),
    }


def success_rate(states: Mapping[RunState, int]) -> float | None:
    """The share of runs that succeeded among those that came to an end of their own: a cancelled one says nothing."""
    decided = states.get(SUCCEEDED, 0) + sum(states.get(state, 0) for state in BAD)
    return states.get(SUCCEEDED, 0) / decided if decided else None


def counts_of(states: Mapping[RunState, int]) -> dict[str, int]:
    return {str(state): states[state] for state in RunState if states.get(state)}


def outcome_counts(tallies: Sequence[Tally]) -> Data:
    """How a stretch of time went: every occurrence counts once, by what became of it or how it stands."""
    found = dict.fromkeys((*dict.fromkeys(_OUTCOMES.values()), "caught_up", "backfilled"), 0)
    for one in tallies:
        found[_OUTCOMES[one.state]] += one.occurrences
        if one.trigger is Trigger.CATCHUP and one.state is not SKIPPED:
            found["caught_up"] += one.lines
        elif one.trigger is Trigger.BACKFILL:
            found["backfilled"] += one.lines
    return {**found, "count": sum(one.occurrences for one in tallies)}


def _env_names(env: Env) -> list[Data]:
    """The values stay where they are: a secret's reference may be shown, a plain value may be a secret after all."""
    return [
        {"name": name, "from": f"{value.source}:{value.name}" if isinstance(value, Secret) else None}
        for name, value in env
    ]


def _short(text: str) -> str:
    return text if len(text) <= SUMMARY_MAX else f"{text[:SUMMARY_MAX]}…"


def _seconds(span_us: int | None) -> float | None:
    return None if span_us is None else span_us / 1_000_000
