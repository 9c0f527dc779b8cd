"""What a keeper is told to do: an attempt as it travels, with the work of its job ready to be sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from evertick.executor import Attempt
from evertick.executors.wire import Order
from evertick.executors.works import encode_work, variables_of
from evertick.model.job import Job

JOBS_KEPT = 20_000
"""Jobs whose work is kept ready to be sent."""


class _Ready(NamedTuple):
    """A job's work, ready to be sent."""

    job: Job
    work: str
    secrets: tuple[str, ...]
    """Names of the variables of the scheduler that it needs."""


class Orders:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._jobs: dict[str, _Ready] = {}

    def order_of(self, attempt: Attempt, valid_until: int | None = None) -> Order:
        """`valid_until` is in microseconds since boot, and for keepers of this machine only."""
        ready = self._jobs.get(attempt.job.id)
        if ready is None or ready.job is not attempt.job:
            work = attempt.job.work
            names = variables_of(work)
            if len(self._jobs) >= JOBS_KEPT:
                self._jobs.clear()
            ready = self._jobs[attempt.job.id] = _Ready(attempt.job, encode_work(work), names)
        secrets = {name: self._environ[name] for name in ready.secrets if name in self._environ}
        return Order(
            attempt.key,
            attempt.attempt,
            attempt.fence,
            str(attempt.trigger),
            attempt.params,
            attempt.previous_success_at,
            ready.work,
            secrets,
            valid_until,
            attempt.is_confirmed,
        )
