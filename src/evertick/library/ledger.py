"""What a program asks of the ledger, and how it is answered: the operations, with typed values around them."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from evertick import operations
from evertick.errors import NotFound
from evertick.library.results import Backfill, Explanation, Run, Schedule, Upcoming, run_of
from evertick.model.instant import DAY, SECOND, Instant, from_datetime, to_datetime, to_text
from evertick.model.job import Job
from evertick.model.ledger import Request
from evertick.model.lifecycle import RunState, Trigger
from evertick.model.policy import Missed
from evertick.model.run import RunKey
from evertick.operations.backfill import find_backfill, progress_of
from evertick.operations.jobs import JobStanding
from evertick.operations.proof import every_line
from evertick.planning.verify import Report
from evertick.store import RunFilter, Store

POLL_FIRST_SECONDS = 0.01
POLL_MAX_SECONDS = 0.5
YEAR_US = 366 * DAY


class Ledger:
    """Asks one question at a time; any thread may call."""

    def __init__(
        self,
        store: Store,
        jobs: Callable[[], Mapping[str, Job]],
        *,
        by: str,
        poke: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._jobs, self._by, self._poke = store, jobs, by, poke
        self._lock = threading.RLock()

    # Looking

    def list_schedules(self) -> list[Schedule]:
        jobs = self._jobs()
        with self._lock:
            found = operations.list_standings(self._store, jobs, _now())
        return [_schedule(one, jobs.get(one.job_id)) for one in found if one.retired_at is None]

    def get_schedule(self, job_id: str) -> Schedule | None:
        jobs = self._jobs()
        try:
            with self._lock:
                found = operations.standing_of(self._store, job_id, jobs, _now())
        except NotFound:
            return None
        return _schedule(found, jobs.get(job_id))

    def upcoming(self, job_id: str | None, limit: int, until: datetime | None) -> list[Upcoming]:
        jobs, now = self._jobs(), _now()
        with self._lock:
            records = {record.job_id: record for record in self._store.load().jobs}
        chosen = jobs if job_id is None else {job_id: self._known(job_id)}
        end = now + YEAR_US if until is None else from_datetime(until)
        fires = islice(operations.fires_until(chosen, records, now, end), limit)
        return [
            Upcoming(fire.job_id, to_datetime(fire.at), fire.zone, None if fire.held is None else str(fire.held))
            for fire in fires
        ]

    def history(
        self,
        job_id: str | None,
        limit: int,
        *,
        states: Sequence[str],
        triggers: Sequence[str],
        since: datetime | None,
        until: datetime | None,
    ) -> list[Run]:
        with self._lock:
            if job_id is not None:
                operations.find_record(self._store, job_id, self._jobs())
            page = operations.history(
                self._store,
                job_id,
                states=[RunState(state) for state in states],
                triggers=[Trigger(trigger) for trigger in triggers],
                since=None if since is None else from_datetime(since),
                # What is entered ahead of its time has no history yet.
                until=_now() + 1 if until is None else from_datetime(until),
                limit=limit,
            )
        return [run_of(operations.run_data(row)) for row in page.rows]

    def run(self, run_id: str) -> Run:
        with self._lock:
            row = operations.require_run(self._store, operations.read_run_id(run_id))
        return run_of(operations.run_data(row))

    def why(self, job_id: str, at: datetime | str | None) -> Explanation:
        when: str | RunKey | None = to_text(from_datetime(at)) if isinstance(at, datetime) else at
        if "@" in job_id and at is None:
            when = operations.read_run_id(job_id)
            job_id = when.job_id
        with self._lock:
            answer = operations.why(self._store, job_id, when, self._jobs(), _now())
        shown = operations.moment_text(answer.at, answer.zone)
        lines = [f"{answer.job_id}  {shown} {answer.zone}   {answer.verdict}"]
        lines += [f"  {sentence}" for sentence in answer.sentences]
        return Explanation(
            answer.job_id,
            to_datetime(answer.at),
            answer.zone,
            answer.outcome,
            None if answer.reason is None else str(answer.reason),
            answer.sentences,
            None if answer.row is None else run_of(operations.run_data(answer.row)),
            "\n".join(lines),
        )

    def verify(self) -> Report:
        with self._lock:
            return operations.verify(self._store)

    # Asking

    def trigger(self, job_id: str, params: Mapping[str, Any], trigger: str) -> str:
        """Ask for a run; answers its id, which is the ledger's."""
        given = {name: _text(value) for name, value in params.items()}
        jobs = self._jobs()
        with self._lock:
            operations.find_record(self._store, job_id, jobs)
        text = operations.params_text(jobs.get(job_id), given)
        request = operations.trigger_request(_id(), job_id, _now(), by=self._by, params=text, trigger=Trigger(trigger))
        self._submit(request)
        return RunKey(job_id, request.submitted_at, request.id).run_id

    def pause(self, job_id: str, note: str) -> str:
        self._known_anywhere(job_id)
        return self._submit(operations.pause_request(_id(), job_id, _now(), note=note, by=self._by))

    def resume(self, job_id: str, catchup: str | None) -> str:
        self._known_anywhere(job_id)
        keep = None if catchup is None else Missed(catchup)
        return self._submit(operations.resume_request(_id(), job_id, _now(), keep=keep, by=self._by))

    def cancel(self, job_or_run: str) -> str:
        is_run = "@" in job_or_run
        job_id = operations.read_run_id(job_or_run).job_id if is_run else job_or_run
        self._known_anywhere(job_id)
        run_id = job_or_run if is_run else None
        return self._submit(operations.cancel_request(_id(), job_id, _now(), run_id=run_id, by=self._by))

    def backfill(
        self,
        job_id: str,
        start: datetime,
        end: datetime,
        *,
        only_missing: bool,
        overlap: str,
        gap_seconds: float,
        preview: bool,
    ) -> Backfill:
        now = _now()
        rule = operations.read_overlap(overlap)
        with self._lock:
            found = operations.plan_backfill(
                self._store,
                job_id,
                self._jobs(),
                from_datetime(start),
                from_datetime(end),
                now,
                only_missing=only_missing,
            )
        chosen = [one.at for one in found if one.is_chosen]
        left = tuple((to_datetime(one.at), one.why) for one in found if not one.is_chosen)
        request = None
        if chosen and not preview:
            gap_us = int(gap_seconds * SECOND)
            request = self._submit(
                operations.backfill_request(_id(), job_id, now, chosen, overlap=rule, gap_us=gap_us, by=self._by)
            )
        return Backfill(job_id, request, tuple(map(to_datetime, chosen)), left)

    # Waiting

    def answer(self, request_id: str) -> dict[str, Any] | None:
        with self._lock:
            return operations.answer_to(self._store, request_id)

    def ended_run(self, run_id: str) -> Run | None:
        """The run, once it has ended; a request that was refused is raised."""
        key = operations.read_run_id(run_id)
        with self._lock:
            row = operations.find_run(self._store, key)
            if row is None:
                operations.answer_to(self._store, key.origin)
                return None
        found = run_of(operations.run_data(row))
        return found if found.has_ended else None

    def ended_backfill(self, backfill: Backfill) -> tuple[Run, ...] | None:
        assert backfill.request is not None
        with self._lock:
            if operations.answer_to(self._store, backfill.request) is None:
                return None
            if not progress_of(self._store, find_backfill(self._store, backfill.job, backfill.request)).is_over:
                return None
            where = RunFilter(
                job_ids=[backfill.job],
                triggers=[Trigger.BACKFILL],
                since=from_datetime(backfill.chosen[0]),
                until=from_datetime(backfill.chosen[-1]) + 1,
                oldest_first=True,
            )
            rows = [row for row in every_line(self._store, where) if row.key.origin == backfill.request]
        return tuple(run_of(operations.run_data(row)) for row in rows)

    def close(self) -> None:
        with self._lock:
            self._store.close()

    def _submit(self, request: Request) -> str:
        with self._lock:
            operations.submit(self._store, request)
        self._poke()
        return request.id

    def _known(self, job_id: str) -> Job:
        jobs = self._jobs()
        if job_id not in jobs:
            raise operations.no_such_job(job_id, jobs)
        return jobs[job_id]

    def _known_anywhere(self, job_id: str) -> None:
        with self._lock:
            operations.find_record(self._store, job_id, self._jobs())


def _schedule(one: JobStanding, job: Job | None) -> Schedule:
    return Schedule(
        job=one.job_id,
        name=(job.name if job else "") or one.job_id,
        status=str(one.status),
        timezone=one.zone,
        schedules=tuple(map(str, one.specs)),
        next=_moment(one.next_at),
        last=None if one.last is None else run_of(operations.run_data(one.last)),
        active=tuple(run_of(operations.run_data(row)) for row in one.active),
        waiting=len(one.waiting),
        watermark=_moment(one.watermark),
        last_success_for=_moment(one.last_success_at),
        paused_at=_moment(one.paused_at),
        pause_note=one.pause_note,
        error=one.error,
        file=job.file if job else None,
        description=job.description if job else "",
        tags=job.tags if job else (),
    )


def _moment(at: Instant | None) -> datetime | None:
    return None if at is None else to_datetime(at)


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _id() -> str:
    return f"py-{secrets.token_hex(6)}"


def _now() -> Instant:
    return time.time_ns() // 1_000


def waits(timeout: float | None, what: str) -> Iterator[float]:
    """Pauses between two looks, a little longer each time; `TimeoutError` when there is no time left."""
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = POLL_FIRST_SECONDS
    while True:
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"{what} had not ended after {timeout:g} s; it goes on.")
        yield pause
        pause = min(pause * 1.5, POLL_MAX_SECONDS)
