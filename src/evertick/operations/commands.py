"""Operations that change something: each is a durable request with its own id, so that repeating it is harmless."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping

from evertick.errors import Conflict, InvalidArgument, NotFound
from evertick.model.instant import DAY, to_text
from evertick.model.ledger import Request, RequestKind
from evertick.model.lifecycle import TERMINAL, Trigger
from evertick.model.policy import Missed
from evertick.operations.backfill import cancel_backfill, find_backfill, plan_backfill, progress_of, read_overlap
from evertick.operations.context import Context, bounded
from evertick.operations.job_queries import word_of
from evertick.operations.requests import (
    backfill_request,
    cancel_request,
    pause_request,
    resume_request,
    retry_request,
    trigger_request,
)
from evertick.operations.shapes import Data, counts_of
from evertick.operations.submission import answer_to, params_text, submit
from evertick.operations.time_text import local_text, read_moment
from evertick.planning.schedules import compile_all
from evertick.store import RunFilter

POLL_SECONDS = 0.05
WAITERS_MAX = 24
"""Those who wait for an answer at once; further ones are told what is known, so that nobody is kept out by them."""
BACKFILL_US = 10 * 366 * DAY
_waiters = threading.BoundedSemaphore(WAITERS_MAX)
RATE_MAX = 86_400.0
BACKFILLS_MAX = 50
LINES_LOOKED_AT = 1_000


class Commands(Context):
    """`request_id` is the caller's; `wait_seconds` is how long an answer is waited for, and 0 not at all."""

    def trigger(
        self,
        job_id: str,
        params: Mapping[str, str] | None = None,
        trigger: str = "manual",
        *,
        request_id: str,
        by: str = "",
        wait_seconds: float = 0.0,
    ) -> Data:
        """Run a job now; the run meets the job's overlap rule like any other."""
        self.require(job_id)
        text = params_text(self.jobs.get(job_id), params or {})
        kind = Trigger(word_of("trigger", trigger, [Trigger.MANUAL, Trigger.API, Trigger.WEBHOOK]))
        request = trigger_request(request_id, job_id, self.now(), by=by or self.by, params=text, trigger=kind)
        return self._ask(request, wait_seconds)

    def cancel(self, target: str, *, request_id: str, by: str = "", wait_seconds: float = 0.0) -> Data:
        """End a run, or every run of a job that has not ended."""
        if "@" not in target and self.is_job(target):
            return self._ask(cancel_request(request_id, target, self.now(), by=by or self.by), wait_seconds)
        return self.cancel_run(target, request_id=request_id, by=by, wait_seconds=wait_seconds)

    def cancel_run(self, reference: str, *, request_id: str, by: str = "", wait_seconds: float = 0.0) -> Data:
        """End one run."""
        row = self.find_run(reference)
        job_id, run_id = row.key.job_id, row.key.run_id
        if row.state in TERMINAL and self._known(request_id) is None:
            raise Conflict(f"the run {run_id} has ended: {row.state}. Nothing was changed.")
        return self._ask(cancel_request(request_id, job_id, self.now(), run_id=run_id, by=by or self.by), wait_seconds)

    def retry(
        self, run_id: str, from_failed: bool = False, *, request_id: str, by: str = "", wait_seconds: float = 0.0
    ) -> Data:
        """A new run for the time that another one was for, with the same parameters.

        With `from_failed` it does not repeat the steps that succeeded.
        """
        row = self.find_run(run_id)
        key, run_id = row.key, row.key.run_id
        if row.state not in TERMINAL:
            raise Conflict(f"the run {run_id} is {row.state}. Next: wait for its end, or cancel it.")
        if row.occurrences > 1:
            raise Conflict(f"{run_id} stands for {row.occurrences:,} skipped occurrences. Next: backfill them.")
        job = self.jobs.get(key.job_id)
        request = retry_request(request_id, row, self.now(), by=by or self.by, job=job, from_failed=from_failed)
        return self._ask(request, wait_seconds)

    def pause(self, job_id: str, note: str = "", *, request_id: str, by: str = "", wait_seconds: float = 0.0) -> Data:
        """Plan nothing more for a job until it is resumed."""
        self.require(job_id)
        return self._ask(pause_request(request_id, job_id, self.now(), note=note, by=by or self.by), wait_seconds)

    def resume(
        self, job_id: str, keep: str | None = None, *, request_id: str, by: str = "", wait_seconds: float = 0.0
    ) -> Data:
        """Plan a paused job again; `keep` says which of the pause's occurrences run, else its policy does."""
        self.require(job_id)
        chosen = Missed(word_of("choice", keep, list(Missed))) if keep else None
        return self._ask(resume_request(request_id, job_id, self.now(), keep=chosen, by=by or self.by), wait_seconds)

    def backfill(
        self,
        job_id: str,
        start: str,
        end: str,
        only_missing: bool = True,
        overlap: str = "wait",
        rate: float = 0.0,
        preview: bool = False,
        *,
        request_id: str = "",
        by: str = "",
        wait_seconds: float = 0.0,
    ) -> Data:
        """Run past occurrences, from a time up to another; `rate` is the least number of seconds between two starts."""
        self.require(job_id)
        if not 0 <= rate <= RATE_MAX:
            raise InvalidArgument(f"the rate is {rate:g} s.", hint=f"Write 0 to {RATE_MAX:,.0f}.", field="rate")
        rule, zone = read_overlap(overlap), self.zone(job_id)
        known = None if preview else self._known(request_id)
        if known is not None:
            return {**self._wait(known, wait_seconds), "chosen": len(json.loads(known.payload).get("instants", ()))}
        schedules = compile_all(self.specs(job_id))
        first, last = (read_moment(text, zone, schedules) for text in (start, end))
        if last - first > BACKFILL_US:
            raise InvalidArgument("the window of the backfill is longer than ten years.", hint="Split it into several.")
        found = plan_backfill(self.store, job_id, self.jobs, first, last, self.now(), only_missing=only_missing)
        chosen = [one.at for one in found if one.is_chosen]
        told: Data = {
            "job": job_id,
            "timezone": zone,
            "chosen": len(chosen),
            "total": len(found),
            "candidates": [
                {
                    "scheduled_for": to_text(one.at),
                    "local": local_text(one.at, zone),
                    "is_chosen": one.is_chosen,
                    "why": one.why,
                }
                for one in found
            ],
        }
        if preview or not chosen:
            return {"request": None, "is_answered": False, "answer": None, **told}
        gap_us = round(rate * 1_000_000)
        request = backfill_request(
            request_id, job_id, self.now(), chosen, overlap=rule, gap_us=gap_us, by=by or self.by
        )
        return {**told, **self._ask(request, wait_seconds)}

    def backfill_progress(self, job_id: str, request: str) -> Data:
        """How far a backfill has come."""
        return self._progress(find_backfill(self.store, job_id, request))

    def backfills(self, job_id: str, limit: int = 10) -> list[Data]:
        """The backfills of a job, those that go on first, then the newest; as far back as its newest lines tell."""
        bounded("limit", limit, 1, BACKFILLS_MAX)
        self.require(job_id)
        lines = self.store.query(RunFilter(job_ids=[job_id], triggers=[Trigger.BACKFILL]), limit=LINES_LOOKED_AT).rows
        going_on = [row for row in self.view().open_runs.get(job_id, ()) if row.trigger is Trigger.BACKFILL]
        asked = [one.id for one in self.store.claim(None, LINES_LOOKED_AT) if one.job_id == job_id]
        ids = dict.fromkeys([*asked, *(row.key.origin for row in (*going_on, *lines))])
        found = [one for one in self.store.requests(list(ids)) if one.kind is RequestKind.BACKFILL]
        newest = sorted(found, key=lambda one: -one.submitted_at)[: 2 * limit]
        return sorted(map(self._progress, newest), key=lambda one: bool(one["is_over"]))[:limit]

    def _progress(self, found: Request) -> Data:
        progress = progress_of(self.store, found)
        instants = json.loads(found.payload).get("instants") or [found.submitted_at]
        return {
            "request": found.id,
            "job": found.job_id,
            "submitted_at": to_text(found.submitted_at),
            "submitted_by": found.submitted_by,
            "first": to_text(min(instants)),
            "last": to_text(max(instants)),
            "is_answered": found.answer is not None,
            "total": progress.total,
            "ended": progress.ended,
            "is_over": progress.is_over,
            "states": counts_of(progress.states),
        }

    def cancel_backfill(
        self, job_id: str, request: str, *, request_id: str, by: str = "", wait_seconds: float = 0.0
    ) -> Data:
        """Cancel what is left of a backfill."""
        found = find_backfill(self.store, job_id, request)
        requests = cancel_backfill(self.store, found, request_id, self.now(), by=by or self.by)
        if not requests:
            return {"request": request_id, "job": job_id, "is_answered": True, "answer": {}, "cancelled": 0}
        *others, last = requests
        submit(self.store, *others)
        try:
            asked = self._ask(last, wait_seconds)
        except Conflict:
            # It has ended by itself meanwhile, and nothing of it is left.
            asked = {"job": job_id, "is_answered": True, "answer": {}, "run": None, "is_scheduler_running": True}
        return {**asked, "request": request_id, "cancelled": len(requests)}

    def answer(self, request_id: str, wait_seconds: float = 0.0) -> Data:
        """What became of a request; one that nobody made is `NotFound`."""
        known = self._known(request_id)
        if known is None:
            raise NotFound(f"there is no request '{request_id}'.")
        return self._wait(known, wait_seconds)

    def _known(self, request_id: str) -> Request | None:
        return next(iter(self.store.requests([request_id])), None)

    def _ask(self, request: Request, wait_seconds: float) -> Data:
        submit(self.store, request)
        if self.live is not None:
            self.live.look()
        self.forget()
        known = self._known(request.id)
        if known is not None and not _is_same(known, request):
            raise Conflict(
                f"the request id '{request.id}' was used for something else: {known.kind} of {known.job_id}. "
                "Next: take a new one, or another Idempotency-Key."
            )
        return self._wait(request, wait_seconds)

    def _wait(self, request: Request, wait_seconds: float) -> Data:
        answer = answer_to(self.store, request.id)
        is_running = self.is_scheduler_running() if wait_seconds > 0 else None
        if answer is None and is_running and _waiters.acquire(blocking=False):
            deadline = time.monotonic() + wait_seconds
            try:
                while answer is None and time.monotonic() < deadline:
                    time.sleep(POLL_SECONDS)
                    answer = answer_to(self.store, request.id)
            finally:
                _waiters.release()
        self.forget()
        if is_running is None:
            is_running = answer is not None or self.is_scheduler_running()
        return {
            "request": request.id,
            "job": request.job_id,
            "is_answered": answer is not None,
            "answer": answer,
            "run": None if answer is None else answer.get("run_id"),
            "is_scheduler_running": is_running,
        }


def _is_same(known: Request, asked: Request) -> bool:
    """Whether a request under the same id asks for the same; what a backfill chooses may change with time."""
    if (known.kind, known.job_id) != (asked.kind, asked.job_id):
        return False
    return known.kind is RequestKind.BACKFILL or known.payload == asked.payload
