"""Checks the references between the jobs of a folder: which job starts which, and that no chain is endless."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evertick.errors import DefinitionError
from evertick.model.constraint import ActionKind, RequirePreviousSuccess
from evertick.model.job import Job, Origin
from evertick.model.policy import OverlapKind
from evertick.model.work import SubJob

SUGGESTED_MAX = 200
"""With more jobs than this, no nearest name is suggested: the search would take too long."""

WAY_MAX = 10


def find_circles(jobs: Mapping[str, Job]) -> dict[str, DefinitionError]:
    """By job id: the error of every job that would start itself again through others, or wait for itself."""
    following = _following(jobs)
    errors: dict[str, DefinitionError] = {}
    for circle in _circles(following):
        for place, job_id in enumerate(circle):
            way = _way(circle, place)
            reason = (
                f"job '{job_id}' is part of a cycle of jobs that start or wait for each other: {way}. "
                "None of them is loaded."
            )
            hint = "Remove one of these 'after' or 'job' fields."
            errors.setdefault(job_id, _told(jobs[job_id], "after", reason, hint))
    return errors


def find_strangers(jobs: Mapping[str, Job]) -> dict[str, list[DefinitionError]]:
    """By job id: a warning for every job that is named and that no file here defines."""
    warnings: dict[str, list[DefinitionError]] = {}
    for job in jobs.values():
        for field, other in dict.fromkeys(_named(job)):
            if other not in jobs:
                from evertick.definitions.report import nearest

                near = nearest(other, jobs) if len(jobs) <= SUGGESTED_MAX else None
                hint = f"Did you mean '{near}'?" if near else "The job waits until a file defines it."
                reason = f"'{field}' names the job '{other}', which no file here defines."
                warnings.setdefault(job.id, []).append(_told(job, field, reason, hint))
    return warnings


def find_crowds(jobs: Mapping[str, Job]) -> dict[str, list[DefinitionError]]:
    """By job id: a warning for every step whose items run another job at once, which would drop most of these runs."""
    warnings: dict[str, list[DefinitionError]] = {}
    for job in jobs.values():
        for step in job.work.steps:
            if step.each is None or not isinstance(step.kind, SubJob) or step.kind.job_id not in jobs:
                continue
            overlap = jobs[step.kind.job_id].policy.overlap
            is_alone = step.each.max_parallel == 1 and step.kind.waits
            if is_alone or overlap.kind in (OverlapKind.WAIT, OverlapKind.PARALLEL):
                continue
            reason = (
                f"step '{step.name}' runs job '{step.kind.job_id}' for several items at once, and that job has overlap "
                f"'{overlap}', which does not run all of them."
            )
            hint = f"Write 'overlap: parallel({step.each.max_parallel})' in job '{step.kind.job_id}'."
            warnings.setdefault(job.id, []).append(_told(job, "steps", reason, hint))
    return warnings


def _following(jobs: Mapping[str, Job]) -> dict[str, list[str]]:
    """By job id: the jobs that a run of it leads to, as a step or because they come after it."""
    following: dict[str, list[str]] = {}
    for job in jobs.values():
        for other in _sub_jobs(job):
            if other in jobs:
                following.setdefault(job.id, []).append(other)
        for other in job.after.jobs if job.after else ():
            if other in jobs:
                following.setdefault(other, []).append(job.id)
    return following


def _sub_jobs(job: Job) -> Iterator[str]:
    """The jobs that its steps and handlers run."""
    for step in job.work.all_steps:
        if isinstance(step.kind, SubJob):
            yield step.kind.job_id


def _circles(following: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """A path back for every edge that leads back: each cycle shares a job with one of them."""
    done: set[str] = set()
    for root in following:
        if root in done:
            continue
        path, on_path = [root], {root}
        stack = [iter(following[root])]
        while stack:
            other = next(stack[-1], None)
            if other is None:
                stack.pop()
                on_path.discard(path[-1])
                done.add(path.pop())
            elif other in on_path:
                yield tuple(path[path.index(other) :])
            elif other in following and other not in done:
                path.append(other)
                on_path.add(other)
                stack.append(iter(following[other]))


def _way(circle: Sequence[str], place: int) -> str:
    """The way round from one of its jobs; the middle of a long one is left out."""
    shown = [circle[(place + number) % len(circle)] for number in range(min(len(circle), WAY_MAX))]
    return " -> ".join([*shown, *(["..."] if len(circle) > WAY_MAX else []), circle[place]])


def _named(job: Job) -> Iterator[tuple[str, str]]:
    if job.after is not None:
        yield from (("after", other) for other in job.after.jobs)
    yield from (("steps", other) for other in _sub_jobs(job))
    for constraint in job.constraints:
        if isinstance(constraint, RequirePreviousSuccess):
            yield from (("constraints", other) for other in constraint.jobs)
        for action in constraint.on_violation:
            if action.kind is ActionKind.START_JOB:
                yield "constraints", action.job_id


def _told(job: Job, field: str, reason: str, hint: str) -> DefinitionError:
    origin = job.origins.get(field) or job.origins.get("steps") or Origin()
    return DefinitionError(reason, hint=hint, field=field, file=job.file, line=origin.line or 1, column=1)
