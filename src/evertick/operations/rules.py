"""Under which rules a job runs, and where each of them was written."""

from __future__ import annotations

from typing import NamedTuple

from evertick.model.definition import sandbox_text
from evertick.model.duration import format_duration
from evertick.model.job import Job
from evertick.model.resources import resources_text


class Rule(NamedTuple):
    name: str
    value: str
    origin: str
    """`file:line`, a default of its form, or a setting."""


def explain(job: Job) -> list[Rule]:
    """Every value that decides when and how the job runs."""
    policy, retry = job.policy, job.policy.retry
    values = {
        "enabled": _yes(job.enabled),
        "timezone": job.timezone,
        **{f"start.{index}": str(spec) for index, spec in enumerate(job.schedules)},
        **{f"stop.{index}": str(spec) for index, spec in enumerate(job.stops)},
        **{f"restart.{index}": str(spec) for index, spec in enumerate(job.restarts)},
        "after": f"{job.after.mode} of {', '.join(job.after.jobs)}" if job.after else "",
        "missed": str(policy.missed),
        "catchup_window": _span(policy.catchup_window_us, "no bound"),
        "overlap": str(policy.overlap),
        "scope": str(policy.overlap.scope),
        "grace": format_duration(policy.grace_us),
        "max_delay": _span(policy.max_delay_us, "no bound"),
        "skip_if_successful": _yes(policy.skip_if_successful),
        "retry.max_retries": str(retry.max_retries),
        "retry.delay": format_duration(retry.delay_us),
        "retry.backoff": str(retry.backoff),
        "retry.max_delay": format_duration(retry.cap_us),
        "retry.jitter": f"{retry.jitter:g}",
        "executor": job.routing.executor,
        "routing": str(job.routing.strategy) if job.routing.has_members else "",
        "resources": resources_text(job.routing.resources),
        "bundle": job.routing.bundle,
        "runs_on": ", ".join(f"{name}={value}" for name, value in job.routing.labels),
        "on_executor_lost": str(policy.on_executor_lost),
        "backlog_max": f"{policy.backlog_max:,}",
        "priority": str(job.priority),
        "queue": job.queue or "",
        "user": job.work.user or "",
        "sandbox": sandbox_text(job.work.sandbox) if job.work.sandbox is not None else "",
        "timeout": _span(job.work.timeout_us, "no bound"),
        "log_retention": _span(job.log_retention_us, "as the settings say"),
        "constraints": ", ".join(type(one).__name__ for one in job.constraints),
        "steps": ", ".join(step.name for step in job.steps),
    }
    return [Rule(name, value, origin_of(job, name)) for name, value in values.items() if value]


def origin_of(job: Job, name: str) -> str:
    group = name.partition(".")[0]
    fallback = job.origins.get("schedule", "") if group in ("start", "stop", "restart") else ""
    return job.origins.get(name) or fallback or _unwritten(job, name)


def rule_words(job: Job, name: str, value: object) -> str:
    """A rule in the words it was written with, `overlapPolicy: all`; where it was not, by its own name and value."""
    return job.written.get(name) or f"{name}: {value}"


def overlap_words(job: Job) -> str:
    return rule_words(job, "overlap", job.policy.overlap)


def missed_words(job: Job) -> str:
    return rule_words(job, "missed", job.policy.missed)


def is_overlap_policy(job: Job) -> bool:
    """Whether one field says both which missed occurrences are kept and how they overlap."""
    return job.policy.catchup_window_us is not None and job.origins.get("overlap") == job.origins.get("missed")


def _unwritten(job: Job, name: str) -> str:
    is_default = {
        "queue": job.queue is None,
        "executor": not job.routing.is_remote,
        "routing": True,
        "resources": not job.routing.resources,
        "bundle": not job.routing.bundle,
        "timeout": job.work.timeout_us is None,
        "log_retention": job.log_retention_us is None,
        "backlog_max": True,
    }.get(name, False)
    return "default" if is_default else job.file or "its definition"


def _span(span_us: int | None, without: str) -> str:
    return without if span_us is None else format_duration(span_us)


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"
