"""Health, readiness and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response

from evertick.api.app_state import AppState
from evertick.api.problems import problem
from evertick.api.route_decorators import At, Routes
from evertick.dispatch.integrity import CheckState
from evertick.errors import StoreError
from evertick.model.plain_json import Json, number_in, object_in
from evertick.operations.results.base import Result
from evertick.operations.results.system import KeeperState
from evertick.operations.scheduler_report import read_report
from evertick.operations.tokens import Role


@dataclass(frozen=True, slots=True)
class Health(Result):
    status: str
    reasons: tuple[str, ...]


routes = Routes("health", prefix="")

LAG_MAX_SECONDS = 30.0
"""A planner that lags by more than this is not ready."""


@routes.get("/healthz", None)
async def get_health() -> Health:
    """Get whether this server responds."""
    return Health("ok", ())


@routes.get("/readyz", None)
def get_readiness(at: At) -> Health | Response:
    """Get whether the ledger and the scheduler respond and planning is on time."""
    reasons = unready(at)
    if reasons:
        return problem(503, "; ".join(reasons), reasons=reasons, headers={"retry-after": "5"})
    return Health("ok", ())


@routes.get(
    "/metrics",
    Role.VIEWER,
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def get_metrics(at: At) -> Response:
    """Get the metrics for Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Collector(at))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def unready(at: AppState) -> list[str]:
    """Why the server is not ready, in sentences; empty: it is ready."""
    try:
        at.operations.store.counters()
    except StoreError:
        return ["the ledger does not respond"]
    status = at.operations.raw_report()
    if status is None:
        return ["the scheduler does not respond"]
    planner = object_in(status, "planner")
    reasons = []
    lag, since_turn = number_in(planner, "lag_seconds") or 0.0, number_in(planner, "seconds_since_turn") or 0.0
    if max(lag, since_turn) > LAG_MAX_SECONDS:
        reasons.append(f"planning lags by {max(lag, since_turn):.0f} s")
    stuck = number_in(object_in(status, "stuck"), "now")
    if stuck:
        reasons.append(f"stuck entries: {stuck:,}; run evertick verify")
    if _is_damaged(status):
        reasons.append("the ledger is damaged; run evertick db check")
    silent = [keeper for keeper in _keepers(status) if keeper.is_silent]
    if silent:
        longest = max(keeper.silent_seconds for keeper in silent)
        reasons.append(
            f"keepers that do not respond: {len(silent)}, the longest for {longest:.0f} s; they will be replaced"
        )
    if status.get("is_stopping"):
        reasons.append("the scheduler is stopping")
    return reasons


def _is_damaged(status: Mapping[str, Json]) -> bool:
    return object_in(status, "integrity").get("state") == CheckState.DAMAGED


def _keepers(status: Mapping[str, Json]) -> list[KeeperState]:
    return [keeper for one in read_report(status).executors.values() for keeper in one.keepers or ()]


class _Collector:
    def __init__(self, app_state: AppState) -> None:
        self._app_state = app_state

    def collect(self) -> Iterable[Metric]:
        status = self._app_state.operations.raw_report() or {}
        yield _gauge("evertick_up", "Whether the scheduler responds.", int(bool(status)))
        try:
            yield from _from_counters(self._app_state.operations.store.counters())
        except StoreError:
            yield _gauge("evertick_ledger_up", "Whether the ledger responds.", 0)
        else:
            yield _gauge("evertick_ledger_up", "Whether the ledger responds.", 1)
        yield _gauge("evertick_api_listeners", "Clients connected to the event stream.", self._app_state.feed.listeners)
        if status:
            yield from _from_status(status)


def _from_counters(counters: Mapping[str, int]) -> Iterator[Metric]:
    """What the whole ledger has counted since it was created, over all nodes."""
    outcomes = CounterMetricFamily(
        "evertick_occurrences", "Occurrences and requested runs that ended, by outcome.", labels=["outcome"]
    )
    skips = CounterMetricFamily("evertick_skipped", "Occurrences that were skipped, by reason.", labels=["reason"])
    entries = CounterMetricFamily("evertick_entries", "Entries added to the ledger, by trigger.", labels=["trigger"])
    skipped = 0
    for name, value in sorted(counters.items()):
        kind, _, word = name.partition(".")
        match kind:
            case "ended":
                outcomes.add_metric([word], value)
            case "skipped":
                skips.add_metric([word], value)
                skipped += value
            case "entries":
                entries.add_metric([word], value)
    outcomes.add_metric(["skipped"], skipped)
    yield from (outcomes, skips, entries)


def _from_status(status: Mapping[str, Json]) -> Iterator[Metric]:
    """What the scheduler of this node reports."""
    planner, ownership = object_in(status, "planner"), object_in(status, "ownership")
    yield _gauge("evertick_planner_lag_seconds", "How far planning lags behind.", number_in(planner, "lag_seconds"))
    yield from _histogram(
        "evertick_tick_seconds", "Duration of one turn of the scheduling loop.", planner.get("turn_seconds")
    )
    yield from _histogram(
        "evertick_start_lateness_seconds",
        "Delay between due time and start, for occurrences that neither wait nor are caught up.",
        status.get("lateness_seconds"),
    )
    yield from _histogram(
        "evertick_request_delay_seconds",
        "Delay between request and start of a requested run.",
        status.get("request_delay_seconds"),
    )
    runs = GaugeMetricFamily("evertick_runs", "Runs that have not ended, by state.", labels=["state"])
    open_runs = object_in(status, "runs")
    for state in sorted(open_runs):
        runs.add_metric([state], number_in(open_runs, state) or 0)
    yield runs
    yield _counter("evertick_leases_lost", "Buckets of jobs that this node lost.", number_in(ownership, "buckets_lost"))
    yield _counter(
        "evertick_batches_fenced",
        "Commits rejected because another node owns the bucket.",
        number_in(ownership, "batches_fenced"),
    )
    yield _gauge("evertick_buckets", "Buckets of jobs that this node owns.", number_in(ownership, "buckets"))
    stuck = object_in(status, "stuck")
    yield _gauge(
        "evertick_stuck_runs", "Overdue entries that wait for nothing and do not move.", number_in(stuck, "now")
    )
    yield _counter(
        "evertick_runs_repaired", "Stuck entries that the scheduler has resumed.", number_in(stuck, "repaired")
    )
    deadlines = object_in(status, "deadlines")
    yield _counter(
        "evertick_deadlines_missed", "Deadlines that passed without success.", number_in(deadlines, "missed")
    )
    yield _gauge(
        "evertick_jobs_past_deadline",
        "Jobs of which a deadline has passed and that have not succeeded since.",
        number_in(deadlines, "late_jobs"),
    )
    yield _gauge(
        "evertick_ledger_damaged", "Whether the last full check found the ledger damaged.", int(_is_damaged(status))
    )
    keepers = _keepers(status)
    yield _gauge("evertick_keepers_silent", "Keepers that do not respond.", sum(one.is_silent for one in keepers))
    replaced = sum(one.replaced for one in keepers)
    yield _counter("evertick_keepers_replaced", "Keepers that were killed because they did not respond.", replaced)
    yield _gauge("evertick_ring_size", "Occurrences that are planned and not yet due.", number_in(status, "ring"))
    yield _gauge(
        "evertick_inbox_depth",
        "Messages queued for the scheduling loop.",
        number_in(object_in(status, "inbox"), "waiting"),
    )
    yield _gauge(
        "evertick_writer_backlog", "Writes queued for the ledger.", number_in(object_in(status, "writer"), "backlog")
    )
    queues = GaugeMetricFamily("evertick_queue_depth", "Runs waiting in a named queue.", labels=["queue"])
    known = object_in(status, "queues")
    for name in sorted(known):
        queues.add_metric([name], number_in(object_in(known, name), "waiting") or 0)
    yield queues
    time = object_in(status, "time")
    yield _counter("evertick_clock_jumps", "Clock jumps.", number_in(time, "clock_jumps"))
    yield _counter("evertick_stalls", "Stalls of the scheduling loop.", number_in(time, "stalls"))


def _gauge(name: str, about: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=float(value or 0))


def _counter(name: str, about: str, value: float | None) -> CounterMetricFamily:
    return CounterMetricFamily(name, about, value=float(value or 0))


def _histogram(name: str, about: str, told: object) -> Iterator[Metric]:
    if not isinstance(told, Mapping):
        return
    bounds: Sequence[Sequence[float]] = told.get("buckets") or ()
    buckets = [(f"{bound:g}", float(count)) for bound, count in bounds]
    yield HistogramMetricFamily(name, about, buckets=[*buckets, ("+Inf", float(told["count"]))], sum_value=told["sum"])
