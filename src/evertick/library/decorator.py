"""How a function becomes a job: the decorator, its arguments, and the calls that add and change jobs at run time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, time
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from evertick.errors import InvalidArgument
from evertick.executors.callable_reference import NotImportable, find_target
from evertick.library.definition import Duration
from evertick.library.registry import JobLedger, JobRegistry

_NOT_OPTIONS = ("self", "isolation")

P = ParamSpec("P")
R = TypeVar("R")


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
        jitter: Duration | None = None,
        skip_if_successful: bool | None = None,
        expect_by: str | time | None = None,
        expect_within: Duration | None = None,
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
            self._registry.define(call, options, isolation)
            return call

        return decorate

    def add(
        self,
        call: Callable[..., Any] | str,
        *,
        persist: bool | None = None,
        replace_existing: bool = False,
        **options: Any,
    ) -> str:
        """Make a callable a job, also while the scheduler runs; returns the id of the job.

        The callable may be a function, a method, a `functools.partial`, an object with `__call__`, or its name,
        `"module:function"`. The options are the arguments of `job`. The ledger keeps the job, so that the next start
        finds it; with `persist=False`, or a ledger in memory, it ends with the program. To add the same job again
        changes nothing; another one with the same id is an error unless it is to `replace_existing`.
        """
        isolation = options.pop("isolation", None)
        unknown = next((name for name in options if name not in NO_OPTIONS), None)
        if unknown is not None:
            near = get_close_matches(unknown, [*NO_OPTIONS, "persist", "replace_existing"], n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "See the arguments of Scheduler.job."
            raise InvalidArgument(f"unknown option '{unknown}' of a job.", hint=hint)
        return self._registry.add(
            _named(call) if isinstance(call, str) else call,
            {**NO_OPTIONS, **options},
            isolation,
            is_stored=self._keeps_jobs if persist is None else persist and self._keeps_jobs,
            replaces=replace_existing,
            ledger=self._job_ledger(),
        )

    def modify(self, job: str, **changes: Any) -> None:
        """Change options of a job of this program; its future entries are planned again."""
        self._registry.modify(job, changes, self._job_ledger(job))

    def reschedule(self, job: str, **schedule: Any) -> None:
        """Replace the schedule of a job of this program: `cron`, `every` or `at`."""
        if not schedule or not set(schedule) <= {"cron", "every", "at"}:
            raise InvalidArgument(
                "a new schedule is cron, every or at.", hint="Write for example reschedule('report', every='10m')."
            )
        self.modify(job, **{"cron": None, "every": None, "at": None, **schedule})

    def remove(self, job: str) -> None:
        """Remove a job of this program: nothing more starts, its active runs continue, and its history stays."""
        self._registry.remove(job, self._job_ledger(job))


def _named(target: str) -> Callable[..., Any]:
    try:
        return find_target(target)
    except NotImportable as error:
        raise InvalidArgument(
            f"{error}.", hint="Write the name of a function at the top level of a module: 'reports:send'."
        ) from None


NO_OPTIONS: Final[Mapping[str, None]] = dict.fromkeys(
    name for name in signature(JobDecorator.job).parameters if name not in _NOT_OPTIONS
)
"""The arguments of `job`, each as if it was not given."""
