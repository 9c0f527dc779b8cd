"""Which HTTP route carries each operation: method, path, parameters and result.

`api/` serves these routes and `evertick.Client` calls them, so a path is written once. Results are named by module and
class, because importing all of them takes longer than most commands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date, datetime
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

from evertick.errors import InvalidArgument
from evertick.model.instant import from_datetime, to_text

if TYPE_CHECKING:
    from evertick.operations.results.attention import Attention
    from evertick.operations.results.base import Result
    from evertick.operations.results.blackouts import BlackoutChange, Blackouts
    from evertick.operations.results.bulk import Bulk
    from evertick.operations.results.jobs import Durations, Graph, JobDetail, JobPage, Rules, StepHistory
    from evertick.operations.results.requests import (
        Backfill,
        BackfillProgress,
        Backfills,
        CancelledBackfill,
        Catchup,
        RequestStatus,
        Why,
    )
    from evertick.operations.results.runs import (
        GapPage,
        LogFiles,
        LogHits,
        LogText,
        LogTimes,
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
        Upcoming,
    )
    from evertick.operations.results.system import Executors, ForgottenNode, Nodes, Queues, Status, Verification

    R_co = TypeVar("R_co", bound=Result, covariant=True)
else:
    R_co = TypeVar("R_co", covariant=True)

PREFIX: Final = "/api/v1"
WAIT_SECONDS_MAX: Final = 60.0
"""How long the API waits for the scheduler's answer to a request."""
COUNT_MAX: Final = 1_000
"""Items of one response."""

Method = Literal["GET", "POST", "DELETE"]


class Route(Generic[R_co]):
    """A parameter in the path is a segment of the URL, one in `query` a query parameter, any other a body member."""

    __slots__ = ("method", "path", "query", "result")

    def __init__(self, method: Method, path: str, result: str, *query: str) -> None:
        self.method: Final = method
        self.path: Final = path
        self.result: Final = result
        """Module and class in `operations.results`."""
        self.query: Final = query

    @property
    def result_type(self) -> type[R_co]:
        module, _, name = self.result.partition(".")
        found: type[R_co] = getattr(import_module(f"evertick.operations.results.{module}"), name)
        return found


_PERIOD = ("from", "to")
_PAGE = ("limit", "cursor")

# --- jobs

LIST_JOBS: Route[JobPage] = Route("GET", "/jobs", "jobs.JobPage", "search", "tag", "state", "gone", "sparkline", *_PAGE)
JOB: Route[JobDetail] = Route("GET", "/jobs/{job}", "jobs.JobDetail")
EXPLAIN: Route[Rules] = Route("GET", "/jobs/{job}/explain", "jobs.Rules")
GRAPH: Route[Graph] = Route("GET", "/jobs/{job}/graph", "jobs.Graph")
DURATIONS: Route[Durations] = Route("GET", "/jobs/{job}/durations", "jobs.Durations", "limit")
STEP_HISTORY: Route[StepHistory] = Route("GET", "/jobs/{job}/steps", "jobs.StepHistory", "limit")
CATCHUP: Route[Catchup] = Route("GET", "/jobs/{job}/catchup", "requests.Catchup", "keep")
WHY: Route[Why] = Route("GET", "/jobs/{job}/why", "requests.Why", "at")

# --- runs

LIST_RUNS: Route[RunPage] = Route(
    *("GET", "/runs", "runs.RunPage"), "job", "state", "trigger", "reason", "tag", *_PERIOD, "executor", *_PAGE
)
GAPS: Route[GapPage] = Route("GET", "/ledger/gaps", "runs.GapPage", "job", *_PERIOD, *_PAGE)
RUN: Route[RunDetail] = Route("GET", "/runs/{run}", "runs.RunDetail")
RUN_DEFINITION: Route[RunDefinition] = Route("GET", "/runs/{run}/definition", "runs.RunDefinition", "attempt")
WHY_RUN: Route[Why] = Route("GET", "/runs/{run}/why", "requests.Why")
LIST_LOGS: Route[LogFiles] = Route("GET", "/runs/{run}/logs", "runs.LogFiles")
READ_LOG: Route[LogText] = Route(
    *("GET", "/runs/{run}/logs/{attempt}/{step}", "runs.LogText"), "offset", "limit", "lines", "download"
)
LOG_TIMES: Route[LogTimes] = Route("GET", "/runs/{run}/logs/{attempt}/{step}/times", "runs.LogTimes", "offset")
SEARCH_LOG: Route[LogHits] = Route(
    *("GET", "/runs/{run}/logs/{attempt}/{step}/search", "runs.LogHits"), "text", "errors", "line"
)

# --- time

ATTENTION: Route[Attention] = Route("GET", "/attention", "attention.Attention")
OVERVIEW: Route[Overview] = Route("GET", "/overview", "schedule.Overview")
TIMELINE: Route[Timeline] = Route(
    *("GET", "/timeline", "schedule.Timeline", *_PERIOD),
    *("offset", "limit", "search", "tag", "state", "cells", "sort", "group", "open"),
)
UPCOMING: Route[Upcoming] = Route("GET", "/upcoming", "schedule.Upcoming", "limit", "to", "once", "excluded")
JOB_UPCOMING: Route[JobUpcoming] = Route(
    "GET", "/jobs/{job}/upcoming", "schedule.JobUpcoming", "count", "to", "excluded"
)
PLAN: Route[Plan] = Route("GET", "/plan", "schedule.Plan", "to", "job", "limit")
LOAD: Route[Load] = Route("GET", "/load", "schedule.Load", "to")
CRON: Route[CronPreview] = Route(
    *("GET", "/cron", "schedule.CronPreview"), "expression", "timezone", "count", "after", "name"
)
CALENDAR: Route[Calendar] = Route("GET", "/calendar", "schedule.Calendar", *_PERIOD, "zone")
JOB_CALENDAR: Route[Calendar] = Route("GET", "/jobs/{job}/calendar", "schedule.Calendar", *_PERIOD, "zone")

BLACKOUTS: Route[Blackouts] = Route("GET", "/blackouts", "blackouts.Blackouts", "over")
ADD_BLACKOUT: Route[BlackoutChange] = Route("POST", "/blackouts", "blackouts.BlackoutChange")
REMOVE_BLACKOUT: Route[BlackoutChange] = Route("DELETE", "/blackouts/{blackout}", "blackouts.BlackoutChange", "preview")

# --- the system

STATUS: Route[Status] = Route("GET", "/status", "system.Status")
EXECUTORS: Route[Executors] = Route("GET", "/executors", "system.Executors")
QUEUES: Route[Queues] = Route("GET", "/queues", "system.Queues")
NODES: Route[Nodes] = Route("GET", "/nodes", "system.Nodes")
FORGET_NODE: Route[ForgottenNode] = Route("POST", "/nodes/{node}/forget", "system.ForgottenNode")
VERIFY: Route[Verification] = Route("GET", "/ledger/verify", "system.Verification")

# --- commands

TRIGGER: Route[RequestStatus] = Route("POST", "/jobs/{job}/trigger", "requests.RequestStatus", "wait")
CANCEL_JOB: Route[RequestStatus] = Route("POST", "/jobs/{job}/cancel", "requests.RequestStatus", "wait")
CANCEL_RUN: Route[RequestStatus] = Route("POST", "/runs/{run}/cancel", "requests.RequestStatus", "wait")
RETRY: Route[RequestStatus] = Route("POST", "/runs/{run}/retry", "requests.RequestStatus", "wait")
PAUSE: Route[RequestStatus] = Route("POST", "/jobs/{job}/pause", "requests.RequestStatus", "wait")
RESUME: Route[RequestStatus] = Route("POST", "/jobs/{job}/resume", "requests.RequestStatus", "wait")
BACKFILL: Route[Backfill] = Route("POST", "/jobs/{job}/backfill", "requests.Backfill", "wait")
BACKFILLS: Route[Backfills] = Route("GET", "/jobs/{job}/backfill", "requests.Backfills", "limit")
BACKFILL_PROGRESS: Route[BackfillProgress] = Route("GET", "/jobs/{job}/backfill/{request}", "requests.BackfillProgress")
CANCEL_BACKFILL: Route[CancelledBackfill] = Route(
    "DELETE", "/jobs/{job}/backfill/{request}", "requests.CancelledBackfill", "wait"
)
BULK: Route[Bulk] = Route("POST", "/bulk", "bulk.Bulk")
ANSWER: Route[RequestStatus] = Route("GET", "/requests/{request}", "requests.RequestStatus", "wait")


# --- how the parameters of a call are sent


def target_of(route: Route[Result], parameters: Mapping[str, object]) -> str:
    """The path and the query of a call."""
    segments = {name: _segment(value) for name, value in parameters.items() if _is_in_path(name, route)}
    given = {name: parameters.get(name) for name in route.query}
    query = {name: _query_text(value) for name, value in given.items() if not _is_absent(value)}
    return PREFIX + route.path.format_map(segments) + (f"?{urlencode(query, doseq=True)}" if query else "")


def body_of(route: Route[Result], parameters: Mapping[str, object]) -> dict[str, object]:
    """The members of a call's body."""
    others = {name: value for name, value in parameters.items() if name not in route.query}
    return {name: _plain(value) for name, value in others.items() if not _is_in_path(name, route)}


def _is_in_path(name: str, route: Route[Result]) -> bool:
    return f"{{{name}}}" in route.path


def _is_absent(value: object) -> bool:
    return value is None or (isinstance(value, Collection) and not value)


def _plain(value: object) -> object:
    """A parameter as JSON has it: times and enums as text."""
    if isinstance(value, datetime):
        return to_text(from_datetime(value))
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Enum) else value


def _query_text(value: object) -> object:
    """A query parameter: text, or several of them."""
    if isinstance(value, Collection) and not isinstance(value, str):
        return [_query_text(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else _plain(value)


def _segment(value: object) -> str:
    """A name as one segment of a path: nothing in it leads elsewhere."""
    name = str(value)
    if name in ("", ".", ".."):
        raise InvalidArgument(f"'{name}' is not a valid name.")
    return quote(name, safe="", errors="surrogateescape")
