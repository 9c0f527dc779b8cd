"""How a function becomes a job: the decorator, its arguments, and the calls that add and change jobs at run time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import ParamSpec, TypedDict, TypeVar, Unpack

from evertick.errors import InvalidArgument
from evertick.executors.callable_reference import NotImportable, find_target
from evertick.library.options import FIELD_NAMES, Duration, JobOptions
from evertick.library.registry import JobLedger, JobRegistry

P = ParamSpec("P")
R = TypeVar("R")


class _Schedule(TypedDict, total=False):
    cron: str | Sequence[str]
    every: Duration | Sequence[Duration]
    at: datetime | str | Sequence[datetime | str]
    timezone: str


def _lists_options(method: Callable[P, R]) -> Callable[P, R]:
    """Let `help` name each option, as a type checker does."""
    shown = signature(method)
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in JobOptions.__annotations__.items()
    ]
    parameters = [*list(shown.parameters.values())[:1], *options]
    method.__dict__["__signature__"] = shown.replace(parameters=parameters)
    return method


class JobDecorator:
    """Provides the decorator `job` to everything that has a registry of jobs."""

    _registry: JobRegistry

    @property
    @abstractmethod
    def _keeps_jobs(self) -> bool:
        """Whether the ledger outlives the process."""

    @abstractmethod
    def _job_ledger(self, job: str | None = None) -> JobLedger | None:
        """Where jobs are kept; None if it is not open yet. It is opened for a job that only it may know."""

    @_lists_options
    def job(self, **options: Unpack[JobOptions]) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Make a function a job; the function itself is unchanged and can still be called.

        `cron`, `every` and `at` set the schedule, and may be lists; without any of them the job runs only on request.
        The other options, which `evertick.library.options` lists, are the fields of a job file, with the same values
        and defaults. With `runs_on`, `resources`, `routing`, `bundle` or `executor="fleet"` a member of the fleet
        imports the function and calls it.
        """
        _check_names(options)
        isolation = options.pop("isolation", None)

        def decorate(call: Callable[P, R]) -> Callable[P, R]:
            self._registry.define(call, options, isolation)
            return call

        return decorate

    def add(
        self,
        call: Callable[..., object] | str,
        *,
        persist: bool | None = None,
        replace_existing: bool = False,
        **options: Unpack[JobOptions],
    ) -> str:
        """Make a callable a job, also while the scheduler runs; returns the id of the job.

        The callable may be a function, a method, a `functools.partial`, an object with `__call__`, or its name,
        `"module:function"`. The options are the arguments of `job`. The ledger keeps the job, so that the next start
        finds it; with `persist=False`, or a ledger in memory, it ends with the program. To add the same job again
        changes nothing; another one with the same id is an error unless it is to `replace_existing`.
        """
        _check_names(options, "persist", "replace_existing")
        isolation = options.pop("isolation", None)
        return self._registry.add(
            _named(call) if isinstance(call, str) else call,
            options,
            isolation,
            is_stored=self._keeps_jobs if persist is None else persist and self._keeps_jobs,
            replaces=replace_existing,
            ledger=self._job_ledger(),
        )

    def modify(self, job: str, **changes: Unpack[JobOptions]) -> None:
        """Change options of a job of this program; its future entries are planned again."""
        _check_names(changes)
        self._registry.modify(job, changes, self._job_ledger(job))

    def reschedule(self, job: str, **schedule: Unpack[_Schedule]) -> None:
        """Replace the schedule of a job of this program: `cron`, `every` or `at`; `timezone` changes with it."""
        times = set(schedule) - {"timezone"}
        if not times or not times <= {"cron", "every", "at"}:
            raise InvalidArgument(
                "a new schedule is cron, every or at, with a timezone if that changes too.",
                hint="Write for example reschedule('report', every='10m'); modify() changes other options.",
            )
        changes: JobOptions = {"cron": schedule.get("cron"), "every": schedule.get("every"), "at": schedule.get("at")}
        if "timezone" in schedule:
            changes["timezone"] = schedule["timezone"]
        self.modify(job, **changes)

    def remove(self, job: str) -> None:
        """Remove a job of this program: nothing more starts, its active runs continue, and its history stays."""
        self._registry.remove(job, self._job_ledger(job))


def _check_names(options: JobOptions, *others: str) -> None:
    known = [*FIELD_NAMES, "isolation", *others]
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        near = get_close_matches(unknown, known, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else "See the arguments of Scheduler.job."
        raise InvalidArgument(f"unknown option '{unknown}' of a job.", hint=hint)


def _named(target: str) -> Callable[..., object]:
    try:
        return find_target(target)
    except NotImportable as error:
        raise InvalidArgument(
            f"{error}.", hint="Write the name of a function at the top level of a module: 'reports:send'."
        ) from None
