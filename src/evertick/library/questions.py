"""What a program can ask a scheduler, and ask it to do: through the ledger, so that any process of it may answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from evertick.errors import Conflict
from evertick.library.backoff import waits
from evertick.library.results import Backfill, Explanation, Proof, Run, Schedule, Upcoming

if TYPE_CHECKING:
    from evertick.library.ledger import Ledger

ANSWER_SECONDS = 15.0

T = TypeVar("T")


class Questions(Protocol):
    """Usable before a start too: what is there is read, and what is asked for waits in the ledger."""

    def _asked(self) -> Ledger: ...

    @property
    def _is_somebody_here(self) -> bool:
        """Whether this process schedules, or stands by for one that does."""
        ...

    # --- jobs

    async def list_schedules(self) -> list[Schedule]:
        """Every job with its status."""
        return await asyncio.to_thread(self._asked().list_schedules)

    async def get_schedule(self, job: str) -> Schedule | None:
        """How a job stands; None when there is none of that id."""
        return await asyncio.to_thread(self._asked().get_schedule, job)

    async def trigger_now(
        self,
        job: str,
        params: Mapping[str, Any] | None = None,
        *,
        wait: bool = True,
        timeout: float | None = None,
        trigger: str = "manual",
    ) -> Run:
        """Run a job now, and answer how it ended; with `wait=False` as soon as it is asked for.

        The run meets the job's overlap rule like any other: it may wait, or be skipped. `TimeoutError` when it has not
        ended in time; it goes on then.
        """
        ledger = self._asked()
        if wait:
            await self._require_somebody(ledger)
        run_id = await asyncio.to_thread(ledger.trigger, job, params or {}, trigger)
        if not wait:
            return _asked_run(run_id, job, trigger)
        return await _until(lambda: ledger.ended_run(run_id), timeout, f"the run {run_id}")

    async def pause(self, job: str, note: str = "") -> None:
        """Plan nothing more for a job until it is resumed; what runs goes on."""
        await self._request(lambda ledger: ledger.pause(job, note))

    async def resume(self, job: str, catchup: str | None = None) -> None:
        """Plan again; `catchup` is `all`, `latest`, `first` or `none` in place of the job's own policy."""
        await self._request(lambda ledger: ledger.resume(job, catchup))

    async def cancel(self, job_or_run: str, timeout: float | None = ANSWER_SECONDS) -> list[str]:
        """End the open runs of a job, or one run by its id; answers which. Returns when they have ended."""
        answer = await self._request(lambda ledger: ledger.cancel(job_or_run), timeout)
        runs = list(answer.get("runs", ()))
        ledger = self._asked()
        for run in runs:  # the answer may be in the ledger a moment before the end is
            await _until(lambda run=run: ledger.ended_run(run), timeout, f"the run {run}")  # type: ignore[misc]
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
        """Run the occurrences from `start` up to and without `end`: those without a good run, or all of them.

        `rate` is the least number of seconds between two starts.
        """
        ledger = self._asked()
        asked = await asyncio.to_thread(
            lambda: ledger.backfill(
                job, start, end, only_missing=only_missing, overlap=overlap, rate=rate, preview=preview
            )
        )
        if not wait or asked.request is None:
            return asked
        runs = await _until(lambda: ledger.ended_backfill(asked), timeout, f"the backfill {asked.request}")
        return replace(asked, runs=runs)

    # --- questions

    async def get_upcoming(
        self, limit: int = 10, *, job: str | None = None, until: datetime | None = None
    ) -> list[Upcoming]:
        """What is due next, of all jobs or of one."""
        return await asyncio.to_thread(self._asked().upcoming, job, limit, until)

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
        """Lines of the ledger, newest first: runs, and skips with their reasons."""
        ledger = self._asked()
        return await asyncio.to_thread(
            lambda: ledger.history(job, limit, states=states, triggers=triggers, since=since, until=until)
        )

    async def get_run(self, run: str) -> Run:
        """One run by its id."""
        return await asyncio.to_thread(self._asked().run, run)

    async def why(self, job_or_run: str, at: datetime | str | None = None) -> Explanation:
        """What became of the occurrence of that time, and why; without a time, of the newest."""
        return await asyncio.to_thread(self._asked().why, job_or_run, at)

    async def verify(self) -> Proof:
        """Prove from the ledger that no occurrence was lost and none decided twice."""
        return await asyncio.to_thread(self._asked().verify)

    async def _request(self, ask: Callable[[Ledger], str], timeout: float | None = ANSWER_SECONDS) -> dict[str, Any]:
        ledger = self._asked()
        await self._require_somebody(ledger)
        request = await asyncio.to_thread(ask, ledger)
        return await _until(lambda: ledger.answer(request), timeout, f"the request {request}")

    async def _require_somebody(self, ledger: Ledger) -> None:
        if not self._is_somebody_here and not await asyncio.to_thread(lambda: ledger.is_anyone_running):
            raise Conflict("no scheduler works on this ledger, and an answer would never come. Next: await start()")


async def _until(look: Callable[[], T | None], timeout: float | None, what: str) -> T:
    for pause in waits(timeout, what):
        found = await asyncio.to_thread(look)
        if found is not None:
            return found
        await asyncio.sleep(pause)
    raise AssertionError("it waits until it raises")


def _asked_run(run_id: str, job: str, trigger: str) -> Run:
    at = run_id.partition("@")[2].partition("~")[0]
    return Run(run_id, job, datetime.fromisoformat(at), "planned", trigger)
