"""The operations of a scheduler for its own program: on the ledger, so any process of the program can answer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from evertick.errors import Conflict, NotFound
from evertick.library.events import CommitNews
from evertick.model.instant import to_datetime
from evertick.model.lifecycle import PLANNED, RunState, Trigger
from evertick.model.policy import Missed
from evertick.model.run import RunKey
from evertick.operations.protocol import RunQuery, enum_of, enums_of

if TYPE_CHECKING:
    from evertick.library.ledger import Ledger
    from evertick.operations.local import LocalOperations
    from evertick.operations.results.blackouts import Blackout, BlackoutChange
    from evertick.operations.results.jobs import Job
    from evertick.operations.results.requests import Backfill, RequestAnswer, Why
    from evertick.operations.results.runs import Run
    from evertick.operations.results.schedule import Fire
    from evertick.operations.results.system import Verification

ANSWER_SECONDS = 15.0
PAGE = 1_000
# Another process may be the one that answers, and its ledger sends no notification.
POLL_FIRST_SECONDS = 0.01
POLL_MAX_SECONDS = 0.5

T = TypeVar("T")


class AsyncOperations(Protocol):
    """Usable before `start` too: queries read the ledger, and requests wait in it."""

    _news: CommitNews
    """What this process, if it schedules, has written to the ledger."""

    def _open_ledger(self) -> Ledger: ...

    @property
    def _is_started(self) -> bool:
        """Whether this process schedules, or stands by for one that does."""
        ...

    # --- jobs

    async def list_schedules(self) -> list[Job]:
        """Every job with its status."""

        def query(operations: LocalOperations) -> list[Job]:
            page = operations.list_jobs(limit=PAGE)
            found: list[Job] = [*page.items]
            while page.next is not None:
                page = operations.list_jobs(limit=PAGE, after=page.next)
                found += page.items
            return found

        return await self._call(query)

    async def get_schedule(self, job: str) -> Job | None:
        """The status of a job; None if it does not exist."""
        try:
            return await self._call(lambda operations: operations.job(job))
        except NotFound:
            return None

    async def trigger_now(
        self,
        job: str,
        params: Mapping[str, object] | None = None,
        *,
        wait: bool = True,
        timeout: float | None = None,
        trigger: str = Trigger.MANUAL,
    ) -> Run:
        """Run a job now, and return the run when it has ended; with `wait=False` as soon as it is requested.

        The job's overlap rule applies: the run may wait, or be skipped. `TimeoutError` if it has not ended in time;
        the run continues then.
        """
        ledger = self._open_ledger()
        if wait:
            await self._require_scheduler(ledger)
        given = param_texts(params)
        kind = enum_of("trigger", trigger, Trigger)
        request, _ = await asyncio.to_thread(
            ledger.submit, lambda operations, own: operations.trigger(job, given, kind, request_id=own)
        )
        run_id = await asyncio.to_thread(ledger.run_id_of, job, request)
        if not wait:
            return _requested_run(run_id, job, kind, request)
        with self._news.of(job) as ended:
            return await _until(lambda: ledger.ended_run(run_id), timeout, f"The run {run_id}", ended)

    async def pause(self, job: str, note: str = "") -> None:
        """Pause a job; its active runs continue."""
        await self._request(lambda operations, own: operations.pause(job, note, request_id=own))

    async def resume(self, job: str, catchup: str | None = None) -> None:
        """Resume a job; `catchup` is `all`, `latest`, `first` or `none` instead of the job's own policy."""
        keep = None if catchup is None else enum_of("catchup", catchup, Missed)
        await self._request(lambda operations, own: operations.resume(job, keep, request_id=own))

    async def cancel(self, job_or_run: str, timeout: float | None = ANSWER_SECONDS) -> list[str]:
        """Cancel the open runs of a job, or one run; returns their ids when they have ended."""
        answer = await self._request(lambda operations, own: operations.cancel(job_or_run, request_id=own), timeout)
        runs = list(answer.cancelled or ())
        ledger = self._open_ledger()
        for run in runs:  # the answer may be in the ledger a moment before the end is
            with self._news.of(RunKey.from_run_id(run).job_id) as ended:
                await _until(partial(ledger.ended_run, run), timeout, f"The run {run}", ended)
        return runs

    async def backfill(
        self,
        job: str,
        start: datetime,
        end: datetime,
        *,
        only_missing: bool = True,
        overlap: str = "wait",
        rate: float = 0.0,
        preview: bool = False,
        wait: bool = False,
        timeout: float | None = None,
    ) -> Backfill:
        """Run the occurrences from `start` until before `end`: those without a successful run, or all of them.

        `rate` is the least number of seconds between two starts. With `wait`, it returns when all runs have ended;
        `run_ids` of the result names them.
        """
        ledger = self._open_ledger()

        def command(operations: LocalOperations, own: str) -> Backfill:
            return operations.backfill(job, start, end, only_missing, overlap, rate, preview, request_id=own)

        _, asked = await asyncio.to_thread(ledger.submit, command)
        request = asked.request
        if wait and request is not None:
            with self._news.of(job) as ended:
                await _until(lambda: ledger.ended_backfill(job, request), timeout, f"The backfill {request}", ended)
        return asked

    async def add_blackout(
        self,
        start: datetime | str,
        end: datetime | str,
        *,
        jobs: Sequence[str] = (),
        tags: Sequence[str] = (),
        all_jobs: bool = False,
        reason: str = "",
        preview: bool = False,
    ) -> BlackoutChange:
        """Plan nothing for some jobs from `start`, or now if that is later, until before `end`.

        It is in the ledger when this returns, so that it survives a restart and concerns every process. With
        `preview` nothing changes, and the answer says which occurrences would be in it.
        """
        concerned = (tuple(jobs), tuple(tags), all_jobs, reason, None, preview)

        def command(operations: LocalOperations, own: str) -> BlackoutChange:
            return operations.add_blackout(start, end, *concerned, request_id=own)

        _, change = await asyncio.to_thread(self._open_ledger().submit, command)
        return change

    async def remove_blackout(self, blackout: str, *, preview: bool = False) -> BlackoutChange:
        """Remove a blackout that was added; if it lasts, it ends now, by the rules of a resume."""

        def command(operations: LocalOperations, _own: str) -> BlackoutChange:
            return operations.remove_blackout(blackout, preview)

        _, change = await asyncio.to_thread(self._open_ledger().submit, command)
        return change

    # --- queries

    async def list_blackouts(self, *, over: bool = False) -> list[Blackout]:
        """The blackouts of the settings and those that were added; with `over` also those that are over."""
        return list(await self._call(lambda operations: operations.blackouts(over).items))

    async def get_upcoming(
        self, limit: int = 10, *, job: str | None = None, until: datetime | None = None, excluded: bool = False
    ) -> list[Fire]:
        """The next runs, of all jobs or of one; with `excluded` also occurrences that a calendar excludes."""

        def query(operations: LocalOperations) -> Sequence[Fire]:
            if job is None:
                return operations.upcoming(limit, until, excluded=excluded).items
            return operations.job_upcoming(job, limit, until, excluded=excluded).items

        return [fire for fire in await self._call(query) if fire.action == "start"]

    async def get_history(
        self,
        job: str | None = None,
        limit: int = 50,
        *,
        states: Sequence[str] = (),
        triggers: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Run]:
        """Runs and skipped occurrences, newest first."""
        chosen = (enums_of("state", states, RunState), enums_of("trigger", triggers, Trigger))

        def query(operations: LocalOperations) -> Sequence[Run]:
            # An occurrence that is entered ahead of its time is not history yet.
            end = until or to_datetime(operations.now() + 1)
            return operations.list_runs(RunQuery(job, *chosen, since=since, until=end), limit).items

        return list(await self._call(query))

    async def get_run(self, run: str) -> Run:
        """One run by its id."""
        return await self._call(lambda operations: operations.run(run))

    async def why(self, job_or_run: str, at: datetime | str | None = None) -> Why:
        """Why the occurrence of a time ran, was skipped or waits; without a time, the newest one. `print()` it."""
        return await self._call(lambda operations: operations.why(job_or_run, at))

    async def verify(self) -> Verification:
        """Check that the ledger holds every occurrence exactly once."""
        return await self._call(lambda operations: operations.verify())

    # --- inside

    async def _call(self, operation: Callable[[LocalOperations], T]) -> T:
        return await asyncio.to_thread(self._open_ledger().call, operation)

    async def _request(
        self, command: Callable[[LocalOperations, str], object], timeout: float | None = ANSWER_SECONDS
    ) -> RequestAnswer:
        ledger = self._open_ledger()
        await self._require_scheduler(ledger)
        request, _ = await asyncio.to_thread(ledger.submit, command)
        with self._news.of(request) as answered:
            return await _until(lambda: ledger.answer(request), timeout, f"The request {request}", answered)

    async def _require_scheduler(self, ledger: Ledger) -> None:
        if not self._is_started and not await asyncio.to_thread(lambda: ledger.is_scheduler_running):
            raise Conflict("no scheduler is running on this ledger, so no answer would come. Next: await start()")


async def _until(look: Callable[[], T | None], timeout: float | None, what: str, news: asyncio.Event) -> T:
    """The first result of `look` that is not None; `TimeoutError` if there is none in time.

    It looks again as soon as there is news, and after a pause in any case.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = POLL_FIRST_SECONDS
    while True:
        found = await asyncio.to_thread(look)
        if found is not None:
            return found
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"{what} has not ended after {timeout:g}s. It continues.")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), pause)
        news.clear()  # before the look: what comes during it is news again
        pause = min(pause * 1.5, POLL_MAX_SECONDS)


def param_texts(params: Mapping[str, object] | None) -> dict[str, str]:
    """Parameters as a request carries them."""
    return {
        name: ("true" if value else "false") if isinstance(value, bool) else str(value)
        for name, value in (params or {}).items()
    }


def _requested_run(run_id: str, job: str, trigger: Trigger, request: str) -> Run:
    """A run that no scheduler has seen yet."""
    from evertick.model.run import RunKey
    from evertick.operations.results.runs import Run

    at = to_datetime(RunKey.from_run_id(run_id).scheduled_for)
    return Run(
        run=run_id,
        job=job,
        scheduled_for=at,
        starts_at=None,
        state=PLANNED,
        reason=None,
        trigger=trigger,
        attempt=0,
        started_at=None,
        finished_at=None,
        duration_seconds=None,
        lateness_seconds=None,
        exit_code=None,
        detail="",
        loss=None,
        missed_by=None,
        other_run=None,
        executor="",
        decided_at=at,
        decided_by="",
        through=None,
        occurrences=1,
        request=request,
        params=None,
        resumed_from=None,
        waits=(),
        running_steps=(),
        parents=(),
        job_name=job,
        timezone="UTC",
    )
