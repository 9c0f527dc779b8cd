"""Converts job definitions, and the errors in them, to results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evertick.errors import DefinitionError
from evertick.model.duration import format_duration
from evertick.model.instant import to_text
from evertick.model.job import Job
from evertick.model.schedule import AtSpec, CalendarSpec, CronSpec, EverySpec, ScheduleSpec
from evertick.model.work import (
    Command,
    Container,
    Env,
    HttpCall,
    Kind,
    Param,
    Pipeline,
    Pod,
    PythonCall,
    Script,
    Secret,
    SshCommand,
    Step,
    SubJob,
)
from evertick.operations.results.jobs import (
    AfterJobs,
    Definition,
    DefinitionProblem,
    EnvVariable,
    Graph,
    GraphNode,
    StepDefinition,
)

SUMMARY_MAX = 200
"""Characters of a command or script where many steps are shown."""


def definition_of(job: Job) -> Definition:
    work = job.work
    return Definition(
        start=tuple(map(_schedule, job.schedules)),
        stop=tuple(map(_schedule, job.stops)),
        restart=tuple(map(_schedule, job.restarts)),
        after=None if job.after is None else AfterJobs(tuple(job.after.jobs), str(job.after.mode), str(job.after.on)),
        params=params_schema(work.params),
        env=_env(work.env),
        timeout_seconds=_seconds(work.timeout_us),
        steps=tuple(map(_step, job.steps)),
        handlers={name: _step(step) for name, step in work.handler_steps.items()},
        constraints=tuple(type(one).__name__ for one in job.constraints),
        notify=len(job.notify),
    )


def graph_of(job: Job, jobs: Mapping[str, Job]) -> Graph:
    named = [(step, None) for step in job.steps]
    handlers = [(step, name) for name, step in job.work.handler_steps.items()]
    return Graph(
        job=job.id,
        nodes=tuple(
            GraphNode(step.name, *summary_of(step.kind), tuple(step.depends), handler)
            for step, handler in (*named, *handlers)
        ),
        after=tuple(job.after.jobs) if job.after else (),
        before=tuple(sorted(other.id for other in jobs.values() if other.after and job.id in other.after.jobs)),
    )


def params_schema(params: Sequence[Param]) -> dict[str, object]:
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


def summary_of(kind: Kind) -> tuple[str, str]:
    """The kind of a step, and what it does in one line."""
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
        case Container(image, words, _is_shell, args):
            return "docker", _short(" ".join((image, *words, *args)))
        case SshCommand(host, words):
            return "ssh", _short(f"{host}: {' '.join(words)}")


def problem_of(error: DefinitionError) -> DefinitionProblem:
    return DefinitionProblem(
        file=error.file,
        line=error.line,
        column=error.column,
        field=error.field,
        reason=error.reason,
        hint=error.hint,
        text=str(error),
    )


def problems_of(errors: Mapping[str, Sequence[DefinitionError]]) -> tuple[DefinitionProblem, ...]:
    return tuple(problem_of(error) for found in errors.values() for error in found)


def _schedule(spec: ScheduleSpec) -> Mapping[str, str]:
    match spec:
        case CronSpec(text, timezone):
            return {"cron": text, "timezone": timezone}
        case EverySpec(period_us):
            return {"every": format_duration(period_us)}
        case AtSpec(instant):
            return {"at": to_text(instant)}
        case CalendarSpec(schedule, rule):
            return {**_schedule(schedule), "calendar": str(rule)}


def _step(step: Step) -> StepDefinition:
    kind, summary = summary_of(step.kind)
    return StepDefinition(
        name=step.name,
        kind=kind,
        summary=summary,
        depends=tuple(step.depends),
        env=_env(step.env),
        timeout_seconds=_seconds(step.timeout_us),
        max_retries=step.retry.max_retries,
        output=step.output,
    )


def _env(env: Env) -> tuple[EnvVariable, ...]:
    """The names only: the reference of a secret may be shown, but a plain value may be a secret too."""
    return tuple(
        EnvVariable(name, f"{value.source}:{value.name}" if isinstance(value, Secret) else None) for name, value in env
    )


def _short(text: str) -> str:
    return text if len(text) <= SUMMARY_MAX else f"{text[:SUMMARY_MAX]}…"


def _seconds(span_us: int | None) -> float | None:
    return None if span_us is None else span_us / 1_000_000
