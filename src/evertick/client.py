"""All operations on a running scheduler, over its API: `with Client("https://evertick.example") as client: ...`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

from evertick.errors import SettingsError
from evertick.http_connection import TIMEOUT_SECONDS, HttpConnection, ReadAhead, find_token
from evertick.model.ids import digest
from evertick.model.lifecycle import JobStatus, Trigger
from evertick.operations import routes
from evertick.operations.codec import from_data
from evertick.operations.protocol import LOG_BYTES_MAX, Moment, RunQuery
from evertick.operations.routes import COUNT_MAX, PREFIX, WAIT_SECONDS_MAX, Route, body_of, target_of

if TYPE_CHECKING:
    from pathlib import Path

    from evertick.model.policy import Missed
    from evertick.operations.results.attention import Attention
    from evertick.operations.results.base import Result
    from evertick.operations.results.blackouts import BlackoutChange, Blackouts
    from evertick.operations.results.bulk import Bulk, BulkAction
    from evertick.operations.results.jobs import Durations, Graph, JobDetail, JobPage, JobSort, Rule, StepHistory
    from evertick.operations.results.requests import (
        Backfill,
        BackfillProgress,
        CancelledBackfill,
        Catchup,
        RequestStatus,
        Why,
    )
    from evertick.operations.results.runs import (
        GapPage,
        LogChunk,
        LogFile,
        LogHits,
        LogText,
        LogTime,
        RunDefinition,
        RunDetail,
        RunPage,
    )
    from evertick.operations.results.schedule import (
        Calendar,
        CronPreview,
        JobUpcoming,
        Load,
        Overview,
        Plan,
        Timeline,
        TimelineGroup,
        TimelineSort,
        Upcoming,
    )
    from evertick.operations.results.system import Executors, ForgottenNode, Nodes, Queues, Status, Verification

    R = TypeVar("R", bound=Result)

URL_VARIABLE: Final = "EVERTICK_SERVER"
ANY_RUN: Final = RunQuery()


class Client:
    """Operations on a server. Results are dataclasses; a refusal raises the same error as on a local ledger.

    The URL is `url`, else `EVERTICK_SERVER`. The token is `token`, else in `token_file`, else in the file that
    `EVERTICK_TOKEN_FILE` names, else `EVERTICK_TOKEN`. A command is sent with an idempotency key, so it runs once even
    if it is sent twice. `wait_seconds` is at most 60. Calls from several threads take turns. With `reads_ahead` the
    server answers the next page of a list while one is decoded.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        token_file: str | Path | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        reads_ahead: bool = False,
    ) -> None:
        if not (found := url or os.environ.get(URL_VARIABLE, "")):
            raise SettingsError(f"missing the server's URL. Pass it to Client, or set {URL_VARIABLE}.")
        self._http = HttpConnection(found, token or find_token(token_file), timeout_seconds)
        self._ahead = ReadAhead(self._http) if reads_ahead else None

    @property
    def url(self) -> str:
        return self._http.url

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        self._http.close()

    def ping(self) -> None:
        """Raise unless the server answers and accepts the token."""
        self._http.data_of(self._http.request("GET", f"{PREFIX}/session"))

    # --- jobs

    def list_jobs(
        self,
        search: str = "",
        tags: Collection[str] = (),
        statuses: Collection[JobStatus] = (),
        limit: int = 100,
        after: str | None = None,
        *,
        with_gone: bool = False,
        recent: int = 0,
        sort: JobSort | None = None,
        is_reversed: bool = False,
    ) -> JobPage:
        """A page of jobs, by id unless `sort` is given; pass `next` of a page as `after`."""
        return self._call(
            routes.LIST_JOBS,
            search=search,
            tag=tags,
            state=statuses,
            limit=limit,
            cursor=after,
            gone=with_gone or None,
            sparkline=recent or None,
            sort=sort,
            reverse=is_reversed or None,
        )

    def job(self, job_id: str) -> JobDetail:
        """The status of a job and its definition."""
        return self._call(routes.JOB, job=job_id)

    def explain(self, job_id: str) -> Sequence[Rule]:
        """Every policy of a job, and where it was set."""
        return self._call(routes.EXPLAIN, job=job_id).items

    def graph(self, job_id: str) -> Graph:
        """The steps of a job and their dependencies."""
        return self._call(routes.GRAPH, job=job_id)

    def durations(self, job_id: str, limit: int = 100) -> Durations:
        """How long the last runs of a job took, oldest first."""
        return self._call(routes.DURATIONS, job=job_id, limit=min(limit, COUNT_MAX))

    def step_history(self, job_id: str, limit: int = 40) -> StepHistory:
        """How each step did in the last runs of a job, oldest first, and how the job does by weekday."""
        return self._call(routes.STEP_HISTORY, job=job_id, limit=limit)

    def catchup(self, job_id: str, keep: Missed | None = None) -> Catchup:
        """What a start or a resume would catch up now."""
        return self._call(routes.CATCHUP, job=job_id, keep=keep)

    def why(self, target: str, at: Moment | None = None) -> Why:
        """Why an occurrence of a job, or a run, has its outcome; for a job without a time, the newest one."""
        if "@" in target and at is None:
            return self._call(routes.WHY_RUN, run=target)
        return self._call(routes.WHY, job=target, at=at)

    # --- runs

    def list_runs(self, query: RunQuery = ANY_RUN, limit: int = 100, after: str | None = None) -> RunPage:
        """A page of the ledger, newest first unless the query has another order; pass `next` of a page as `after`."""
        period = {"from": query.since, "to": query.until}
        return self._call(
            routes.LIST_RUNS,
            job=query.job,
            state=query.states,
            trigger=query.triggers,
            reason=query.reasons,
            tag=query.tags,
            executor=query.executor,
            limit=limit,
            cursor=after,
            sort=query.sort,
            reverse=query.is_reversed or None,
            **period,
        )

    def gaps(
        self,
        job: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> GapPage:
        """Occurrences that were skipped together, newest first."""
        return self._call(routes.GAPS, job=job, limit=limit, cursor=after, **{"from": since, "to": until})

    def run(self, run_id: str) -> RunDetail:
        """A run with its attempts, steps and logs: by id, by a unique prefix of it, or by job for its latest run."""
        return self._call(routes.RUN, run=run_id)

    def run_definition(self, run_id: str, attempt: int | None = None) -> RunDefinition:
        """The job's definition when an attempt started, compared with the current one."""
        return self._call(routes.RUN_DEFINITION, run=run_id, attempt=attempt)

    def list_logs(self, run_id: str) -> Sequence[LogFile]:
        """The logs of a run, by attempt and step."""
        return self._call(routes.LIST_LOGS, run=run_id).items

    def read_log(
        self, run_id: str, attempt: int, step: str, offset: int = 0, limit: int = LOG_BYTES_MAX, *, lines: bool = False
    ) -> LogText:
        """A part of a log as text. With `lines` it begins with a whole line and has its number."""
        place = {"run": run_id, "attempt": attempt, "step": step}
        return self._call(routes.READ_LOG, offset=offset, limit=limit, lines=lines or None, **place)

    def log_bytes(self, run_id: str, attempt: int, step: str, offset: int = 0, limit: int = LOG_BYTES_MAX) -> LogChunk:
        """A part of a log as bytes, exactly as the step printed it."""
        from evertick.operations.results.runs import LogChunk

        place = {"run": run_id, "attempt": attempt, "step": step}
        data = self._http.download(target_of(routes.READ_LOG, {**place, "download": True}), offset, limit)
        # Only the end of a log is worth another request: whether more can follow.
        is_complete = not data and self.read_log(run_id, attempt, step, offset, 1).is_complete
        return LogChunk(data, offset + len(data), is_complete)

    def log_times(self, run_id: str, attempt: int, step: str, offset: int = 0) -> Sequence[LogTime]:
        """When a log was written, from an offset on."""
        return self._call(routes.LOG_TIMES, run=run_id, attempt=attempt, step=step, offset=offset).items

    def search_log(
        self, run_id: str, attempt: int, step: str, text: str = "", *, errors: bool = False, line: int | None = None
    ) -> LogHits:
        """The lines of a log that contain a text (case is ignored), that look like errors, or that has a number."""
        place = {"run": run_id, "attempt": attempt, "step": step}
        return self._call(routes.SEARCH_LOG, text=text, errors=errors or None, line=line, **place)

    # --- time

    def attention(self) -> Attention:
        """What needs attention now, worst first, with the action that most likely helps."""
        return self._call(routes.ATTENTION)

    def overview(self) -> Overview:
        """What runs, waits, failed and comes next, and the figures of the last day."""
        return self._call(routes.OVERVIEW)

    def timeline(
        self,
        start: Moment,
        end: Moment,
        offset: int = 0,
        limit: int = 50,
        search: str = "",
        tags: Collection[str] = (),
        statuses: Collection[JobStatus] = (),
        cells: int = 240,
        *,
        sort: TimelineSort | None = None,
        group: TimelineGroup | None = None,
        unfolded: Collection[str] = (),
    ) -> Timeline:
        """The runs of jobs in a period, one lane per job; a lane with more than `cells` runs has counts instead."""
        jobs: dict[str, object] = {"offset": offset, "limit": limit, "search": search, "tag": tags, "state": statuses}
        jobs |= {"sort": sort, "group": group, "open": unfolded}
        return self._call(routes.TIMELINE, cells=cells, **jobs, **{"from": start, "to": end})

    def upcoming(
        self, count: int = 20, until: Moment | None = None, *, once: bool = False, excluded: bool = False
    ) -> Upcoming:
        """The next occurrences of all jobs, at most 1,000; with `once` only the first of each job.

        With `excluded` also those that a calendar excludes, with the reason and the name of the day.
        """
        flags = {"once": once or None, "excluded": excluded or None}
        return self._call(routes.UPCOMING, limit=min(count, COUNT_MAX), to=until, **flags)

    def job_upcoming(
        self, job_id: str, count: int = 20, until: Moment | None = None, *, excluded: bool = False
    ) -> JobUpcoming:
        """The next occurrences of a job, at most 1,000, and how changes of the clock affect them."""
        count = min(count, COUNT_MAX)
        return self._call(routes.JOB_UPCOMING, job=job_id, count=count, to=until, excluded=excluded or None)

    def plan(self, until: Moment, jobs: Collection[str] = (), limit: int = 100) -> Plan:
        """What would run or be skipped until a time, at most 10,000 occurrences."""
        return self._call(routes.PLAN, to=until, job=jobs, limit=min(limit, 10 * COUNT_MAX))

    def load(self, until: Moment) -> Load:
        """How many jobs start in each minute until a time."""
        return self._call(routes.LOAD, to=until)

    def cron(
        self,
        expression: str,
        timezone: str | None = None,
        count: int = 10,
        after: Moment | None = None,
        name: str = "",
    ) -> CronPreview:
        """What a cron expression means and when it is due; `name` is the job's id, from which `H` is computed."""
        return self._call(
            routes.CRON, expression=expression, timezone=timezone, count=min(count, COUNT_MAX), after=after, name=name
        )

    def calendar(
        self,
        job_id: str | None = None,
        start: date | str | None = None,
        end: date | str | None = None,
        zone: str | None = None,
    ) -> Calendar:
        """The outcomes of each day, of one job or of all, and what is still to come."""
        days = {"from": start, "to": end, "zone": zone}
        if job_id is None:
            return self._call(routes.CALENDAR, **days)
        return self._call(routes.JOB_CALENDAR, job=job_id, **days)

    def blackouts(self, over: bool = False) -> Blackouts:
        """The blackouts of the settings and those that were added at run time; with `over` also those that are over."""
        return self._call(routes.BLACKOUTS, over=over or None)

    def add_blackout(
        self,
        start: Moment,
        end: Moment,
        jobs: Collection[str] = (),
        tags: Collection[str] = (),
        is_for_all: bool = False,
        reason: str = "",
        timezone: str | None = None,
        preview: bool = False,
        *,
        request_id: str = "",
    ) -> BlackoutChange:
        """Plan nothing for some jobs from `start`, or now if that is later, until before `end`."""
        concerned = {"jobs": list(jobs), "tags": list(tags), "all": is_for_all}
        body = {"from": start, "to": end, **concerned, "reason": reason, "timezone": timezone, "preview": preview}
        return self._send(routes.ADD_BLACKOUT, body, idempotency_key=request_id or new_request_id())

    def remove_blackout(self, blackout_id: str, preview: bool = False) -> BlackoutChange:
        """Remove a blackout that was added at run time; if it lasts, it ends now, by the rules of a resume."""
        return self._call(routes.REMOVE_BLACKOUT, blackout=blackout_id, preview=preview or None)

    # --- the system

    def status(self) -> Status:
        """Whether a scheduler runs, and its own report."""
        return self._call(routes.STATUS)

    def executors(self) -> Executors:
        """The executors, their health and their runs."""
        return self._call(routes.EXECUTORS)

    def queues(self) -> Queues:
        """The queues that jobs share, and their runs."""
        return self._call(routes.QUEUES)

    def nodes(self) -> Nodes:
        """The nodes that schedule, and those whose return is awaited."""
        return self._call(routes.NODES)

    def forget_node(self, node: str, force: bool = False) -> ForgottenNode:
        """Give up a dead node: its runs are retried or lost now instead of when its lease ends."""
        return self._call(routes.FORGET_NODE, node=node, force=force)

    def verify(self) -> Verification:
        """Whether the ledger has every occurrence exactly once."""
        return self._call(routes.VERIFY)

    # --- commands

    def trigger(
        self,
        job_id: str,
        params: Mapping[str, str] | None = None,
        trigger: Trigger = Trigger.MANUAL,
        *,
        request_id: str = "",
        wait_seconds: float = 0.0,
    ) -> RequestStatus:
        """Run a job now; its overlap rule applies."""
        sent = {"job": job_id, "params": dict(params or {}), "trigger": trigger}
        return self._command(routes.TRIGGER, request_id, wait_seconds, sent)

    def cancel(self, target: str, *, request_id: str = "", wait_seconds: float = 0.0) -> RequestStatus:
        """Cancel a run, or every open run of a job."""
        if "@" in target:
            return self._command(routes.CANCEL_RUN, request_id, wait_seconds, {"run": target})
        return self._command(routes.CANCEL_JOB, request_id, wait_seconds, {"job": target})

    def retry(
        self, run_id: str, from_failed: bool = False, *, request_id: str = "", wait_seconds: float = 0.0
    ) -> RequestStatus:
        """Re-run a past run with its parameters; with `from_failed` the steps that succeeded are not repeated."""
        sent = {"run": run_id, "from_failed": from_failed}
        return self._command(routes.RETRY, request_id, wait_seconds, sent)

    def pause(self, job_id: str, note: str = "", *, request_id: str = "", wait_seconds: float = 0.0) -> RequestStatus:
        """Pause a job."""
        return self._command(routes.PAUSE, request_id, wait_seconds, {"job": job_id, "note": note})

    def resume(
        self, job_id: str, keep: Missed | None = None, *, request_id: str = "", wait_seconds: float = 0.0
    ) -> RequestStatus:
        """Resume a job; `keep` says which missed occurrences run, else the job's catch-up rule does."""
        return self._command(routes.RESUME, request_id, wait_seconds, {"job": job_id, "catchup": keep})

    def backfill(
        self,
        job_id: str,
        start: Moment,
        end: Moment,
        only_missing: bool = True,
        overlap: str = "wait",
        gap_seconds: float = 0.0,
        preview: bool = False,
        *,
        request_id: str = "",
        wait_seconds: float = 0.0,
    ) -> Backfill:
        """Run past occurrences from `start` until before `end`, at least `gap_seconds` apart."""
        sent = {
            "job": job_id,
            "from": start,
            "to": end,
            "only_missing": only_missing,
            "overlap": overlap,
            "gap_seconds": gap_seconds,
            "preview": preview,
        }
        return self._command(routes.BACKFILL, request_id, wait_seconds, sent)

    def backfills(self, job_id: str, limit: int = 10) -> Sequence[BackfillProgress]:
        """The backfills of a job: those in progress, then the newest."""
        return self._call(routes.BACKFILLS, job=job_id, limit=limit).items

    def backfill_progress(self, job_id: str, request: str) -> BackfillProgress:
        """The progress of a backfill."""
        return self._call(routes.BACKFILL_PROGRESS, job=job_id, request=request)

    def cancel_backfill(
        self, job_id: str, request: str, *, request_id: str = "", wait_seconds: float = 0.0
    ) -> CancelledBackfill:
        """Cancel the runs of a backfill that have not ended."""
        return self._command(routes.CANCEL_BACKFILL, request_id, wait_seconds, {"job": job_id, "request": request})

    def bulk(
        self,
        action: BulkAction,
        jobs: Collection[str] = (),
        runs: Collection[str] = (),
        start: Moment | None = None,
        end: Moment | None = None,
        note: str = "",
        preview: bool = False,
        *,
        request_id: str = "",
    ) -> Bulk:
        """Run, pause, resume or backfill many jobs, or retry or cancel many runs; at most 500.

        With jobs and a period, `retry` and `retry-failed` are for their failed runs, and `cancel` for those that wait.
        """
        names = {"jobs": list(jobs), "runs": list(runs), "from": start, "to": end}
        body = {"action": action, **names, "note": note, "preview": preview}
        return self._send(routes.BULK, body, idempotency_key=request_id or new_request_id())

    def answer(self, request_id: str, wait_seconds: float = 0.0) -> RequestStatus:
        """The status of a request."""
        wait = min(wait_seconds, WAIT_SECONDS_MAX)
        return self._send(routes.ANSWER, {"request": request_id, "wait": wait or None}, wait_seconds=wait)

    # --- inside

    def _call(self, route: Route[R], **parameters: object) -> R:
        return self._send(route, parameters)

    def _command(self, route: Route[R], request_id: str, wait_seconds: float, parameters: Mapping[str, object]) -> R:
        key, wait = request_id or new_request_id(), min(wait_seconds, WAIT_SECONDS_MAX)
        return self._send(route, {**parameters, "wait": wait or None}, idempotency_key=key, wait_seconds=wait)

    def _send(
        self, route: Route[R], parameters: Mapping[str, object], *, idempotency_key: str = "", wait_seconds: float = 0.0
    ) -> R:
        target, body = target_of(route, parameters), body_of(route, parameters) if route.method == "POST" else None
        response = (self._ahead and self._ahead.take(target)) or self._http.request(
            route.method, target, body, idempotency_key=idempotency_key, wait_seconds=wait_seconds
        )
        data = self._http.data_of(response)
        if self._ahead and "cursor" in route.query and isinstance(data, dict) and (following := data.get("next")):
            self._ahead.ask(target_of(route, {**parameters, "cursor": following}))
        return from_data(route.result_type, data)


def new_request_id() -> str:
    return f"client-{digest(secrets.token_hex(16))}"
