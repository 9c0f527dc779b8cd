"""Temporary: operations with words as arguments and plain data as results, for callers that are not typed yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from evertick.errors import InvalidArgument
from evertick.model.lifecycle import JobStatus, RunState, SkipReason, Trigger
from evertick.model.policy import Missed
from evertick.model.run import LedgerRow
from evertick.model.steps import read_steps
from evertick.operations.codec import to_data
from evertick.operations.ledger_rows import run_summary, step_of
from evertick.operations.local import LocalOperations
from evertick.operations.protocol import RunQuery, enum_of

Data = dict[str, Any]


class PlainOperations:
    def __init__(self, operations: LocalOperations) -> None:
        self.typed = operations
        self.store, self.now, self.live = operations.store, operations.now, operations.live

    def __getattr__(self, name: str) -> Callable[..., Any]:
        verb = getattr(self.typed, name)
        return lambda *args, **known: to_data(verb(*args, **known))

    def is_scheduler_running(self) -> bool:
        return self.typed.is_scheduler_running()

    def status(self) -> Data | None:
        report = self.typed.raw_report()
        return None if report is None else dict(report)

    def list_jobs(
        self,
        search: str = "",
        tags: Collection[str] = (),
        states: Collection[str] = (),
        limit: int = 100,
        after: str | None = None,
        *,
        with_gone: bool = False,
        recent: int = 0,
    ) -> Any:
        statuses = [enum_of("status", word, JobStatus) for word in states]
        return to_data(self.typed.list_jobs(search, tags, statuses, limit, after, with_gone=with_gone, recent=recent))

    def list_runs(
        self,
        job: str | None = None,
        states: Collection[str] = (),
        triggers: Collection[str] = (),
        reasons: Collection[str] = (),
        tags: Collection[str] = (),
        since: str | None = None,
        until: str | None = None,
        executor: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Any:
        query = RunQuery(
            job=job,
            states=[enum_of("state", word, RunState) for word in states],
            triggers=[enum_of("trigger", word, Trigger) for word in triggers],
            reasons=[enum_of("reason", word, SkipReason) for word in reasons],
            tags=tags,
            since=since,
            until=until,
            executor=executor,
        )
        return to_data(self.typed.list_runs(query, limit, after))

    def log_bytes(self, *args: Any, **known: Any) -> tuple[bytes, int, bool]:
        return self.typed.log_bytes(*args, **known)

    def upcoming(self, job_id: str | None = None, count: int = 20, until: str | None = None) -> Any:
        if job_id is None:
            return to_data(self.typed.upcoming(count, until))
        return to_data(self.typed.job_upcoming(job_id, count, until))

    def catchup(self, job_id: str, keep: str | None = None) -> Any:
        return to_data(self.typed.catchup(job_id, enum_of("choice", keep, Missed) if keep else None))

    def trigger(
        self, job_id: str, params: Mapping[str, str] | None = None, trigger: str = "manual", **known: Any
    ) -> Any:
        if trigger not in set(Trigger):
            raise InvalidArgument(f"'{trigger}' is not a trigger.", field="trigger")
        return to_data(self.typed.trigger(job_id, params, Trigger(trigger), **known))

    def resume(self, job_id: str, keep: str | None = None, **known: Any) -> Any:
        return to_data(self.typed.resume(job_id, enum_of("choice", keep, Missed) if keep else None, **known))


def run_data(row: LedgerRow) -> Data:
    """A row with its steps."""
    return {**to_data(run_summary(row)), "steps": [to_data(step_of(step)) for step in read_steps(row.steps)]}
