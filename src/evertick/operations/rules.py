"""The rules of a job, and where each of them is set."""

from __future__ import annotations

from typing import Final, NamedTuple

from evertick.model.definition import sandbox_text
from evertick.model.duration import format_duration
from evertick.model.job import DEFAULT_ORIGIN, Job, Origin
from evertick.model.lifecycle import SkipReason
from evertick.model.policy import Missed, OverlapKind
from evertick.model.resources import resources_text
from evertick.model.schedule import rule_of, written_spec
from evertick.model.work import Step
from evertick.operations.results.jobs import Rule
from evertick.planning.items import matrix_size

FIELDS: Final = {
    "catchup_window": "catchupWindow",
    "max_delay": "window",
    "skip_if_successful": "skipIfSuccessful",
    "expect_by": "expectBy",
    "expect_within": "expectWithin",
    "retry.max_retries": "retryPolicy.maxRetries",
    "retry.delay": "retryPolicy.retryDelay",
    "retry.backoff": "retryPolicy.backoff",
    "retry.max_delay": "retryPolicy.maxDelay",
    "retry.jitter": "retryPolicy.jitter",
    "runs_on": "runsOn",
    "on_executor_lost": "onExecutorLost",
    "backlog_max": "jobs.backlog",
    "log_retention": "logRetention",
}
"""The field of a job file, or the setting, behind a rule of another name."""

_RUN_ALL = (OverlapKind.WAIT, OverlapKind.PARALLEL)


def explain(job: Job) -> list[Rule]:
    """Every value that decides when and how the job runs."""
    policy, retry, expected = job.policy, job.policy.retry, job.policy.expectation
    values = {
        "enabled": _yes(job.enabled),
        "timezone": job.timezone,
        **{f"start.{index}": str(written_spec(spec)) for index, spec in enumerate(job.schedules)},
        "calendar": str(rule_of(job.schedules) or ""),
        **{f"stop.{index}": str(spec) for index, spec in enumerate(job.stops)},
        **{f"restart.{index}": str(spec) for index, spec in enumerate(job.restarts)},
        **{f"blackout.{index}": one.window_text for index, one in enumerate(job.blackouts)},
        "after": str(job.after) if job.after else "",
        "missed": str(policy.missed),
        "catchup_window": _span(policy.catchup_window_us, "no limit"),
        "overlap": str(policy.overlap),
        "scope": str(policy.overlap.scope),
        "grace": format_duration(policy.grace_us),
        "jitter": format_duration(policy.jitter_us) if policy.jitter_us else "",
        "max_delay": _span(policy.max_delay_us, "no limit"),
        "skip_if_successful": _yes(policy.skip_if_successful),
        "expect_by": f"{expected.by} ({expected.timezone})" if expected and expected.by else "",
        "expect_within": format_duration(expected.within_us) if expected and expected.within_us else "",
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
        "timeout": _span(job.work.timeout_us, "no limit"),
        "log_retention": _span(job.log_retention_us, "the setting retention.logs"),
        "constraints": ", ".join(type(one).__name__ for one in job.constraints),
        "steps": ", ".join(map(_step_words, job.steps)),
    }
    return [_rule(FIELDS.get(name, name), value, origin_of(job, name)) for name, value in values.items() if value]


def _added_blackout(job: Job, name: str) -> Origin | None:
    group, _, index = name.partition(".")
    one = job.blackouts[int(index)] if group == "blackout" else None
    return Origin(note=f"added at run time as {one.id}") if one is not None and one.id else None


def _step_words(step: Step) -> str:
    """`list, render (for each value of list)`."""
    if step.each is None:
        return step.name
    if step.each.from_step is not None:
        return f"{step.name} (for each value of {step.each.from_step})"
    count = matrix_size(step.each.matrix) if step.each.matrix else len(step.each.values)
    return f"{step.name} (for {count} {'value' if count == 1 else 'values'})"


def _rule(name: str, value: str, origin: Origin) -> Rule:
    return Rule(name, value, str(origin), origin.file, origin.line)


def origin_of(job: Job, name: str) -> Origin:
    group = name.partition(".")[0]
    fallback = job.origins.get("schedule") if group in ("start", "stop", "restart") else None
    return job.origins.get(name) or fallback or _added_blackout(job, name) or _unwritten(job, name)


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


class Ruling(NamedTuple):
    rule: str = ""
    """As it is written in the job file; empty: no rule of the job."""
    origin: Origin | None = None
    advice: str = ""
    lines: tuple[str, ...] = ()
    """Of a job file, that would have let it run."""


NO_RULING = Ruling()


def ruling_on(reason: SkipReason, job: Job, *, was_missed: bool) -> Ruling:
    """The rule behind a skip. `was_missed` tells a skip at a start from one while the job was active."""
    policy = job.policy
    match reason:
        case SkipReason.OVERLAP | SkipReason.SUPERSEDED if not was_missed:
            return Ruling(
                overlap_words(job),
                origin_of(job, "overlap"),
                f"to run every occurrence {_one_by_one(job)}",
                _all_lines(job),
            )
        case SkipReason.MISSED if policy.catchup_window_us is not None and policy.missed is not Missed.NONE:
            window = format_duration(policy.catchup_window_us)
            return Ruling(
                f"catchupWindow: {window}",
                origin_of(job, "catchup_window"),
                f"to run older ones: set a catchupWindow longer than {window}",
            )
        case SkipReason.OVERLAP | SkipReason.SUPERSEDED | SkipReason.MISSED | SkipReason.PAUSED:
            return Ruling(
                missed_words(job),
                origin_of(job, "missed"),
                f"to run missed occurrences: {_keep_all(job)}",
                _all_lines(job),
            )
        case SkipReason.LATE:
            delay = "no bound" if policy.max_delay_us is None else str(policy.max_delay_us // 60_000_000)
            return Ruling(
                f"maxDelayMinutes: {delay}",
                origin_of(job, "max_delay"),
                "to allow later starts: increase maxDelayMinutes",
            )
        case SkipReason.ALREADY_SUCCEEDED:
            return Ruling(
                "skipIfSuccessful: true",
                origin_of(job, "skip_if_successful"),
                "to run it anyway: skipIfSuccessful: false",
                ("skipIfSuccessful: false",),
            )
        case SkipReason.CAP:
            return Ruling(
                f"at most {policy.backlog_max:,} runs wait",
                origin_of(job, "backlog_max"),
                "to reduce the backlog: shorten catchupWindow, or write missed: latest",
            )
        case SkipReason.CALENDAR:
            rule = rule_of(job.schedules)
            advice = "to run on such a day: remove the calendar from the job, or the day from the calendar"
            if not rule:  # it was removed since
                return Ruling(advice="to run it: backfill that time; the job no longer has a calendar")
            return Ruling(f"calendar: {rule}", origin_of(job, "calendar"), advice)
        case SkipReason.DISABLED:
            return Ruling(
                f"enabled: {str(job.enabled).lower()}",
                origin_of(job, "enabled"),
                "to run it: enabled: true",
                ("enabled: true",),
            )
        case SkipReason.CONDITION:
            origin = origin_of(job, "constraints") if job.constraints else Origin(job.file)
            return Ruling("a condition of the job", origin, "to run without it: remove the condition")
        case SkipReason.NO_EXECUTOR | SkipReason.SATURATED:
            return Ruling(advice="to run it: start an executor, or add capacity")


def _one_by_one(job: Job) -> str:
    return "one after another: " + (_keep_all(job) if is_overlap_policy(job) else "overlap: wait")


def _all_lines(job: Job) -> tuple[str, ...]:
    """What to write so that every occurrence runs, one after another."""
    wait = () if job.policy.overlap.kind in _RUN_ALL else ("overlap: wait",)
    return ("missed: all", *wait) if is_overlap_policy(job) or not wait else wait


def _keep_all(job: Job) -> str:
    rule = "missed: all" if job.policy.overlap.kind in _RUN_ALL else "missed: all and overlap: wait"
    return f"replace overlapPolicy with {rule}" if is_overlap_policy(job) and "missed" in job.written else rule


def _unwritten(job: Job, name: str) -> Origin:
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
    if is_default:
        return DEFAULT_ORIGIN
    return Origin(job.file, note="its definition")


def _span(span_us: int | None, without: str) -> str:
    return without if span_us is None else format_duration(span_us)


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"
