"""The library's queries and commands on the ledger, with typed values."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from evertick.errors import NotFound
from evertick.library.results import Backfill, Explanation, Proof, Run, Schedule, Upcoming, made_of, run_of
from evertick.model.ids import digest, origin_of
from evertick.model.instant import from_datetime, from_text, to_text
from evertick.model.job import Job
from evertick.model.run import RunKey
from evertick.operations.context import folder_of
from evertick.operations.local import LocalOperations
from evertick.operations.plain import PlainOperations
from evertick.operations.time_text import moment_text
from evertick.store import Store

PAGE = 1_000


class Ledger:
    """Asks one question at a time; any thread may call."""

    def __init__(
        self,
        store: Store,
        jobs: Callable[[], Mapping[str, Job]],
        *,
        by: str,
        is_anyone_running: Callable[[Store], bool],
        poke: Callable[[], None],
    ) -> None:
        self._store, self._poke = store, poke
        self._operations = PlainOperations(
            LocalOperations(
                store, lambda: folder_of(jobs()), by=by, is_scheduler_running=lambda: is_anyone_running(store)
            )
        )
        self._lock = threading.RLock()

    # Looking

    def list_schedules(self) -> list[Schedule]:
        found: list[Schedule] = []
        after = None
        while True:
            with self._lock:
                page = self._operations.list_jobs(limit=PAGE, after=after)
            found += [made_of(Schedule, one) for one in page["items"]]
            after = page["next"]
            if after is None:
                return found

    def get_schedule(self, job_id: str) -> Schedule | None:
        try:
            with self._lock:
                return made_of(Schedule, self._operations.job(job_id))
        except NotFound:
            return None

    def upcoming(self, job_id: str | None, limit: int, until: datetime | None) -> list[Upcoming]:
        with self._lock:
            found = self._operations.upcoming(job_id, limit, _written(until))
        return [made_of(Upcoming, fire) for fire in found["items"] if fire["action"] == "start"]

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
        # What is entered ahead of its time has no history yet.
        end = _written(until) or to_text(self._operations.now() + 1)
        with self._lock:
            page = self._operations.list_runs(job_id, states, triggers, since=_written(since), until=end, limit=limit)
        return [run_of(one) for one in page["items"]]

    def run(self, run_id: str) -> Run:
        with self._lock:
            return run_of(self._operations.run(run_id))

    def why(self, target: str, at: datetime | str | None) -> Explanation:
        with self._lock:
            answer = self._operations.why(target, _written(at) if isinstance(at, datetime) else at)
        shown = moment_text(from_text(answer["scheduled_for"]), answer["timezone"])
        head = f"{answer['job']}  {shown} {answer['timezone']}   {answer['verdict']}"
        text = "\n".join([head, *(f"  {sentence}" for sentence in answer["sentences"])])
        return made_of(Explanation, {**answer, "text": text})

    def verify(self) -> Proof:
        with self._lock:
            return made_of(Proof, self._operations.verify())

    @property
    def is_anyone_running(self) -> bool:
        with self._lock:
            return self._operations.is_scheduler_running()

    # Asking

    def trigger(self, job_id: str, params: Mapping[str, Any], trigger: str) -> str:
        """Ask for a run; answers its id."""
        given = {name: _text(value) for name, value in params.items()}
        request = self._asked(
            lambda operations, request_id: operations.trigger(job_id, given, trigger, request_id=request_id)
        )
        with self._lock:
            (found,) = self._store.requests([request])
        return RunKey(job_id, found.submitted_at, origin_of(request)).run_id

    def pause(self, job_id: str, note: str) -> str:
        return self._asked(lambda operations, request_id: operations.pause(job_id, note, request_id=request_id))

    def resume(self, job_id: str, keep: str | None) -> str:
        return self._asked(lambda operations, request_id: operations.resume(job_id, keep, request_id=request_id))

    def cancel(self, target: str) -> str:
        return self._asked(lambda operations, request_id: operations.cancel(target, request_id=request_id))

    def backfill(
        self,
        job_id: str,
        start: datetime,
        end: datetime,
        *,
        only_missing: bool,
        overlap: str,
        rate: float,
        preview: bool,
    ) -> Backfill:
        first, last = to_text(from_datetime(start)), to_text(from_datetime(end))
        with self._lock:
            told = self._operations.backfill(
                job_id, first, last, only_missing, overlap, rate, preview, request_id=_id()
            )
        self._poke()
        chosen = [datetime.fromisoformat(one["scheduled_for"]) for one in told["candidates"] if one["is_chosen"]]
        left = [
            (datetime.fromisoformat(one["scheduled_for"]), one["why"])
            for one in told["candidates"]
            if not one["is_chosen"]
        ]
        return Backfill(job_id, told["request"], tuple(chosen), tuple(left))

    # Waiting

    def answer(self, request_id: str) -> dict[str, Any] | None:
        """What a request was answered; None until it is. A refusal is raised."""
        with self._lock:
            told = self._operations.answer(request_id)
        found: dict[str, Any] | None = told["answer"]
        return found

    def ended_run(self, run_id: str) -> Run | None:
        """The run, once it has ended; a request that was refused is raised."""
        try:
            found = self.run(run_id)
        except NotFound:
            self.answer(RunKey.from_run_id(run_id).origin)
            return None
        return found if found.has_ended else None

    def ended_backfill(self, backfill: Backfill) -> tuple[Run, ...] | None:
        assert backfill.request is not None
        with self._lock:
            progress = self._operations.backfill_progress(backfill.job, backfill.request)
        if not progress["is_answered"]:
            self.answer(backfill.request)
            return None
        if not progress["is_over"]:
            return None
        keys = [RunKey(backfill.job, from_datetime(at), origin_of(backfill.request)) for at in backfill.chosen]
        return tuple(self.run(key.run_id) for key in keys)

    def close(self) -> None:
        with self._lock:
            self._store.close()

    def _asked(self, ask: Callable[[PlainOperations, str], Mapping[str, Any]]) -> str:
        request_id = _id()
        with self._lock:
            ask(self._operations, request_id)
        self._poke()
        return request_id


def _written(at: datetime | None) -> str | None:
    return None if at is None else to_text(from_datetime(at))


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _id() -> str:
    return f"py-{digest(secrets.token_hex(16))}"
