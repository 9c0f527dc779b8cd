"""Builds the Job of a whole attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from evertick.executor import Attempt
from evertick.executors.keeper.environment import (
    add_plain_environment,
    parse_params,
    resolve_params,
    run_variables,
    step_variables,
    without_defaults,
)
from evertick.executors.protocol import launch_message
from evertick.kinds import StepError
from evertick.kinds.kubernetes.manifest import job_manifest
from evertick.kinds.kubernetes.names import ATTEMPT_ROLE, annotations_of, job_name, labels_of
from evertick.kinds.rendering import render_work
from evertick.model.plain_json import Document
from evertick.model.work import Pod, Secret, Step, Work
from evertick.planning.run_dates import dates_of, timetable_of


class AttemptManifest(NamedTuple):
    manifest: Document
    step: str
    log_max_bytes: int


def manifest_of(attempt: Attempt, instance: str, namespace: str) -> AttemptManifest:
    """Raises `StepError` if the attempt cannot run as one Job."""
    job, key = attempt.job, attempt.key
    dates = dates_of(job.id, timetable_of(job), key.scheduled_for, attempt.previous_success_at)
    work = render_work(job.work, dates.value_of)
    step = only_step(work)
    assert isinstance(step.kind, Pod)
    manifest = job_manifest(
        step.kind,
        name=job_name(instance, key, attempt.attempt),
        namespace=step.kind.namespace or namespace,
        labels=labels_of(instance, key, ATTEMPT_ROLE),
        annotations=annotations_of(key, attempt.attempt, attempt.fence),
        env=_environment(attempt, work, step, dates.variables()),
        working_dir=step.working_dir or work.working_dir,
        timeout_us=work.timeout_us if work.timeout_us is not None else step.timeout_us,
    )
    return AttemptManifest(manifest, step.name, work.log_max_bytes)


def only_step(work: Work) -> Step:
    if len(work.steps) == 1 and isinstance(work.steps[0].kind, Pod) and work.steps[0].each is None:
        return work.steps[0]
    raise StepError(
        "a run on the cluster is one container. Use 'kubernetes' with an image, or 'steps' to run on this node."
    )


def _environment(attempt: Attempt, work: Work, step: Step, dates: Mapping[str, str]) -> dict[str, str]:
    run_id = attempt.key.run_id
    run = run_variables(launch_message(attempt), run_id)
    run |= {**dates, **step_variables(run_id, attempt.attempt, step.name)}
    for name, value in (*work.env, *step.env):
        if isinstance(value, Secret):
            raise StepError(
                f"the variable {name!r} is a secret of the scheduler, and everyone who may see the pod could read it. "
                "Put it into a Secret of the cluster, and name that under 'kubernetes.secrets'."
            )
    given = without_defaults(parse_params(attempt.params), attempt.job.work.params)
    env = {**run, **resolve_params(work.params, given)}
    add_plain_environment((*work.env, *step.env), env)
    return {**env, **run}
