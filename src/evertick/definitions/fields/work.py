"""What a job does when it runs: one command, steps, or a pipeline, and what surrounds them."""

from __future__ import annotations

from typing import Final

from evertick.definitions.catalogue.job import PIPELINE
from evertick.definitions.catalogue.limits import STEPS_MAX
from evertick.definitions.fields.command_place import CommandPlace, move_command, read_place, report_unused_place
from evertick.definitions.fields.conditions import read_conditions
from evertick.definitions.fields.confinement import read_sandbox, read_user
from evertick.definitions.fields.constraints import JobConstraints
from evertick.definitions.fields.environment import read_dotenv, read_env
from evertick.definitions.fields.kubernetes import read_pod, report_secrets
from evertick.definitions.fields.params import read_params
from evertick.definitions.fields.steps import ONLY_STEP, read_folder, read_handlers, read_steps
from evertick.definitions.fields.values import duration_of, integer_of, read_command
from evertick.definitions.nodes import plain_data
from evertick.definitions.report import Report, Section
from evertick.model.constraint import PostRunHook, PreRunHook
from evertick.model.work import NOTHING, Condition, Container, Env, Pipeline, Pod, Secret, Step, Work

PIPELINE_STEP: Final = "pipeline"
PIPELINE_RESULT: Final = "PIPELINE_RESULT"
"""The variable in which its handlers find the path of the result and the number of items."""
# Fields of a step that people write at the job if it has a single command.
_OF_A_STEP: Final = (
    "script",
    "python",
    "http",
    "depends",
    "each",
    "matrix",
    "output",
    "repeat",
    "continueOn",
    "continueOnFailure",
)


def read_work(
    section: Section, block: Section | None, is_pipeline: bool, constrained: JobConstraints, job_id: str, report: Report
) -> Work:
    place = read_place(section, report)
    steps = _read_steps(section, is_pipeline, job_id, place, report)
    pod = next((step.kind for step in steps if isinstance(step.kind, Pod) and "kubernetes" in section), None)
    env, params, active = section.take("env"), section.take("params"), section.take("maxActiveSteps")
    timeout = section.take("timeout")
    timeout_us = duration_of(timeout, "timeout", report) if timeout else None
    work = Work(
        steps=steps,
        dotenv=read_dotenv(section, report),
        env=_with_key(read_env(env, "env", report) if env else (), steps),
        params=read_params(params, report) if params else (),
        working_dir=read_folder(section, "workingDir", report),
        user=read_user(section, pod or place, report),
        sandbox=read_sandbox(section, pod or place, report),
        timeout_us=constrained.timeout(timeout_us, section, report),
        max_active_steps=integer_of(active, "maxActiveSteps", report, 1, STEPS_MAX) if active else None,
        preconditions=_read_conditions(section, block, report),
        pre_run_hooks=constrained.hooks(PreRunHook),
        post_run_hooks=constrained.hooks(PostRunHook),
        handlers=read_handlers(section, report, place),
    )
    report_unused_place(section, place, work.all_steps, report)
    _report_twice_named(work, section, report)
    section.contradict("kubernetes", "dotenv", "everyone who can see a pod can read its variables")
    if "kubernetes" in section and "env" in section:
        report_secrets(work.env, section.key("env"), "env", report)
    return NOTHING if work == NOTHING else work


def _with_key(env: Env, steps: tuple[Step, ...]) -> Env:
    """A pipeline that names the variable of its invoker's key gets it from the scheduler, as a secret."""
    for step in steps:
        match step.kind:
            case Pipeline({"invoker": {"http": {"keyEnv": str(name)}}}) if name.isidentifier() and name.isascii():
                if name not in dict(env):
                    env = (*env, (name, Secret("env", name)))
    return env


def mentions_work(section: Section) -> bool:
    return any(name in section for name in ("command", "steps", "kubernetes", "docker", "ssh", *PIPELINE))


def _read_steps(
    section: Section, is_pipeline: bool, job_id: str, place: CommandPlace | None, report: Report
) -> tuple[Step, ...]:
    command, several = section.take("command"), section.take("steps")
    single = read_command(command, "command", report) if command else None
    steps = read_steps(several, job_id, report, place) if several else ()
    if single is not None:
        key = section.key("command")
        steps = (Step(ONLY_STEP, single if place is None else move_command(single, place, key, "command", report)),)
    elif isinstance(place, Container) and "command" not in section and "steps" not in section:
        steps = (Step(ONLY_STEP, place),)
    container = section.take("kubernetes")
    for other in ("command", "steps"):
        section.contradict("kubernetes", other, "the job is one container, or it runs here")
    pod = read_pod(container, "kubernetes", report) if container else None
    if pod is not None:
        steps = (Step(ONLY_STEP, pod),)
    for name in _OF_A_STEP:
        reason = f"'{name}' belongs to a step."
        section.refuse(name, reason, f"Write 'steps:' and '- {{name: main, {name}: ...}}' below it.")
    pipeline = _read_pipeline(section, is_pipeline, bool(steps), report)
    return steps if pipeline is None else (Step(PIPELINE_STEP, pipeline, output=PIPELINE_RESULT),)


def _read_pipeline(section: Section, is_pipeline: bool, has_steps: bool, report: Report) -> Pipeline | None:
    """What a pipeline says about its items is kept as it is; the process that runs it reads it."""
    written = [name for name in PIPELINE if name in section]
    if written and not is_pipeline:
        for name in written:
            reason = f"'{name}' belongs to a pipeline, and this file is not one."
            section.refuse(name, reason, "Move it to a folder of its own, as <name>/pipeline.yaml.")
        return None
    if written and has_steps:
        key = section.key(written[0])
        reason = f"'{written[0]}' on line {key.line} contradicts the steps of this job: a pipeline has none."
        report.error(key, written[0], reason, "Split it into two jobs.")
    taken = {name: section.take(name) for name in PIPELINE}
    data = {name: plain_data(node) for name, node in taken.items() if node is not None}
    return Pipeline(data) if data else None


def _read_conditions(section: Section, block: Section | None, report: Report) -> tuple[Condition, ...]:
    """`preconditions` and `condition` of the job, and `condition` of its schedule block: all must hold."""
    found: list[Condition] = []
    for scope, name in ((section, "preconditions"), (section, "condition"), (block, "condition")):
        node = scope.take(name) if scope else None
        if scope is not None and node is not None:
            found += read_conditions(node, scope.field(name), report)
    return tuple(dict.fromkeys(found))


def _report_twice_named(work: Work, section: Section, report: Report) -> None:
    """A parameter arrives as an environment variable, so the job cannot set it too."""
    params = {param.name for param in work.params}
    for name, _value in work.env:
        if name in params:
            section_keys = sorted((section.key("env"), section.key("params")), key=lambda key: key.line)
            lines = " and on line ".join(str(key.line) for key in section_keys)
            reason = f"'{name}' is an environment variable and a parameter (see line {lines})."
            report.error(section_keys[1], section_keys[1].text, reason, "Keep one of them.")
