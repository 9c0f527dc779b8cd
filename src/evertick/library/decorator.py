"""How a function becomes a job: the decorator, its arguments, and the jobs that code has defined."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from inspect import ismethod, signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from evertick.errors import DefinitionError, InvalidArgument, NotFound
from evertick.executors.function import Function
from evertick.library.definition import Duration, JobFunction, read_function
from evertick.model.job import Job
from evertick.settings import Settings

_NOT_OPTIONS = ("self", "isolation")

P = ParamSpec("P")
R = TypeVar("R")


class JobRegistry:
    """The jobs of code. Functions are added while modules are imported, before and after the scheduler starts."""

    def __init__(self, settings: Settings, on_change: Callable[[Sequence[Job], Sequence[str]], None]) -> None:
        """`on_change` receives the jobs that are new or changed, and the ids of those that were removed."""
        self._settings, self._on_change = settings, on_change
        self._functions: dict[str, JobFunction] = {}
        self._written: dict[str, tuple[Mapping[str, Any], str | None]] = {}
        """The options and the isolation that each job was defined with."""

    def jobs(self) -> Mapping[str, Job]:
        return {job_id: one.job for job_id, one in list(self._functions.items())}

    def find(self, job_id: str) -> Function | None:
        found = self._functions.get(job_id)
        return None if found is None else found.function

    def add(self, call: Callable[..., Any], options: Mapping[str, Any], isolation: str | None) -> Job:
        one = read_function(call, options, self._settings, isolation)
        other = self._functions.get(one.job.id)
        if other is not None and not _is_same(other.function.call, call):
            raise DefinitionError(
                f"the job id '{one.job.id}' is defined in {other.job.file} and in {one.job.file}.",
                hint="Give one of them another name.",
                field="name",
            )
        self._functions[one.job.id] = one
        self._written[one.job.id] = (options, isolation)
        self._on_change([one.job], ())
        return one.job

    def modify(self, job_id: str, changes: Mapping[str, Any]) -> Job:
        """Define a job again, with some options changed."""
        call = self._require(job_id).function.call
        options, isolation = self._written[job_id]
        unknown = [name for name in changes if name not in options and name != "isolation"]
        if unknown or "name" in changes:
            wrong = unknown[0] if unknown else "name"
            near = get_close_matches(wrong, options, n=1)
            hint = f"Did you mean '{near[0]}'?" if unknown and near else "See the arguments of Scheduler.job."
            raise DefinitionError(f"the job '{job_id}': '{wrong}' cannot be changed.", hint=hint, field=wrong)
        kept = {**options, "name": options["name"] or job_id, **changes}
        return self.add(call, {name: kept[name] for name in options}, kept.get("isolation", isolation))

    def remove(self, job_id: str) -> None:
        self._require(job_id)
        del self._functions[job_id], self._written[job_id]
        self._on_change((), [job_id])

    def _require(self, job_id: str) -> JobFunction:
        found = self._functions.get(job_id)
        if found is None:
            near = get_close_matches(job_id, self._functions, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "Jobs of files are changed in their files."
            raise NotFound(f"the program defines no job '{job_id}'. {hint}")
        return found


class JobDecorator:
    """Provides the decorator `job` to everything that has a registry of jobs."""

    _registry: JobRegistry

    def job(
        self,
        *,
        cron: str | Sequence[str] | None = None,
        every: Duration | Sequence[Duration] | None = None,
        at: datetime | str | Sequence[datetime | str] | None = None,
        timezone: str | None = None,
        calendar: Mapping[str, str | Sequence[str]] | None = None,
        name: str | None = None,
        isolation: str | None = None,
        catchup_window: Duration | None = None,
        missed: str | None = None,
        overlap: str | None = None,
        overlap_policy: str | None = None,
        misfire: str | None = None,
        retries: int | None = None,
        retry_delay: Duration | None = None,
        backoff: str | None = None,
        timeout: Duration | None = None,
        max_delay: Duration | int | None = None,
        grace: Duration | None = None,
        skip_if_successful: bool | None = None,
        on_executor_lost: str | None = None,
        after: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        executor: str | None = None,
        runs_on: Mapping[str, str | bool | int] | Sequence[str] | str | None = None,
        routing: str | None = None,
        resources: Mapping[str, str | int | float] | None = None,
        bundle: str | Path | None = None,
        queue: str | None = None,
        priority: int | None = None,
        tags: Sequence[str] | None = None,
        enabled: bool | None = None,
        description: str | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Make a function a job; the function itself is unchanged and can still be called.

        `cron`, `every` and `at` set the schedule, and may be lists; without any of them the job runs only on request.
        The other arguments are the fields of a job file, with the same values and defaults. With `runs_on`,
        `resources`, `routing`, `bundle` or `executor="fleet"` a member of the fleet imports the function and calls it.
        """
        options = {name: value for name, value in locals().items() if name not in _NOT_OPTIONS}

        def decorate(call: Callable[P, R]) -> Callable[P, R]:
            self._registry.add(call, options, isolation)
            return call

        return decorate

    def add(self, call: Callable[..., Any], **options: Any) -> str:
        """Make a callable a job, also while the scheduler runs; returns the id of the job.

        The options are the arguments of `job`. The callable may be a function, a method, a `functools.partial` or an
        object with `__call__`. The ledger keeps the history of the job, not the callable: add it again when the program
        starts.
        """
        isolation = options.pop("isolation", None)
        known = dict.fromkeys(name for name in signature(JobDecorator.job).parameters if name not in _NOT_OPTIONS)
        unknown = next((name for name in options if name not in known), None)
        if unknown is not None:
            near = get_close_matches(unknown, known, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "See the arguments of Scheduler.job."
            raise InvalidArgument(f"unknown option '{unknown}' of a job.", hint=hint)
        return self._registry.add(call, {**known, **options}, isolation).id

    def modify(self, job: str, **changes: Any) -> None:
        """Change options of a job of this program; its future entries are planned again."""
        self._registry.modify(job, changes)

    def reschedule(self, job: str, **schedule: Any) -> None:
        """Replace the schedule of a job of this program: `cron`, `every` or `at`."""
        if not schedule or not set(schedule) <= {"cron", "every", "at"}:
            raise InvalidArgument(
                "a new schedule is cron, every or at.", hint="Write for example reschedule('report', every='10m')."
            )
        self._registry.modify(job, {"cron": None, "every": None, "at": None, **schedule})

    def remove(self, job: str) -> None:
        """Remove a job of this program: nothing more starts, its active runs continue, and its history stays."""
        self._registry.remove(job)


def _is_same(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """A module that is read again defines its functions again; the methods of two objects are two jobs."""
    if one == other:
        return True
    if any(ismethod(call) and not isinstance(call.__self__, type) for call in (one, other)):
        return False
    if isinstance(one, functools.partial) and isinstance(other, functools.partial):
        is_bound_alike = (one.args, one.keywords) == (other.args, other.keywords)
        return is_bound_alike and _is_same(one.func, other.func)
    names = [(call.__module__, call.__qualname__) for call in (one, other) if hasattr(call, "__qualname__")]
    if len(names) < 2:  # an object with `__call__` is what it is
        return one is other
    return names[0] == names[1] and "<" not in names[0][1]
