"""Runs as traces: the occurrence, its run, its attempts, their steps.

A trace is made from the ledger when a run has ended, so it is complete and does not delay the run. Only if the
environment names a receiver (OTEL_EXPORTER_OTLP_ENDPOINT) and `evertick[otel]` is installed.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from evertick.errors import EvertickError
from evertick.model.instant import from_datetime
from evertick.model.lifecycle import SKIPPED, SUCCEEDED, TERMINAL
from evertick.operations.results.runs import Attempt, RunDetail

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

log = logging.getLogger("evertick.api")

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
WAITING_MAX: Final = 1_000
LOOKS: Final = 20
LOOK_SECONDS: Final = 0.25
_TERMINAL: Final = frozenset(map(str, TERMINAL))

Look = Callable[[str], RunDetail]
"""Reads a run by its id."""


class Traces:
    """Sends a trace of each ended run. If too many are queued, traces are dropped and counted."""

    def __init__(self, look: Look, exporter: SpanExporter, node: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._look = look
        self._provider = TracerProvider(resource=Resource({"service.name": "evertick", "service.instance.id": node}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("evertick")
        self._waiting: queue.Queue[str | None] = queue.Queue(WAITING_MAX)
        self._thread = threading.Thread(target=self._run, name="evertick-traces", daemon=True)
        self.dropped = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self, patience: float = 5.0) -> None:
        self._waiting.put(None)
        self._thread.join(patience)
        self._provider.shutdown()

    def receive(self, event: Mapping[str, object]) -> None:
        """An event of the feed; called by the thread that follows it, which never waits here."""
        if event.get("kind") == "run" and event.get("state") in _TERMINAL and "run" in event:
            try:
                self._waiting.put_nowait(str(event["run"]))
            except queue.Full:
                self.dropped += 1

    def _run(self) -> None:
        while (run_id := self._waiting.get()) is not None:
            try:
                found = self._ended(run_id)
                if found is not None:
                    trace_run(self._tracer, found)
            except Exception:
                log.exception("traces.failed run=%s", run_id)

    def _ended(self, run_id: str) -> RunDetail | None:
        """The run as in the ledger; its entry may be a moment later than the event."""
        for _ in range(LOOKS):
            try:
                found = self._look(run_id)
            except EvertickError:
                found = None
            if found is not None and found.state in TERMINAL:
                return found
            threading.Event().wait(LOOK_SECONDS)
        return None


def trace_run(tracer: Tracer, run: RunDetail) -> None:
    """The spans of one run that has ended."""
    began = run.scheduled_for if run.request is None else run.started_at or run.scheduled_for
    ended = run.finished_at or run.decided_at
    known = {
        "job": run.job,
        "run": run.run,
        "state": str(run.state),
        "reason": None if run.reason is None else str(run.reason),
        "trigger": str(run.trigger),
        "executor": run.executor,
        "occurrences": run.occurrences,
    }
    occurrence = _span(tracer, f"occurrence {run.job}", began, None, known)
    if run.state is not SKIPPED and run.started_at is not None:
        # The row has the start of the newest attempt; the run began with the first one that is known.
        starts = [attempt.started_at for attempt in run.attempts if attempt.started_at is not None]
        whole = _span(tracer, "run", min([run.started_at, *starts]), occurrence, {**known, "attempt": run.attempt})
        for attempt in run.attempts:
            _trace_attempt(tracer, attempt, whole)
        _end(whole, ended, run.state, run.detail)
    _end(occurrence, ended, run.state, run.detail)


def _trace_attempt(tracer: Tracer, attempt: Attempt, parent: Span) -> None:
    if attempt.started_at is None:
        return  # an early one of many, whose times the ledger does not keep
    known = {
        "attempt": attempt.attempt,
        "exit_code": attempt.exit_code,
        "executor": attempt.executor,
        "definition": attempt.definition,
    }
    span = _span(tracer, f"attempt {attempt.attempt}", attempt.started_at, parent, known)
    for step in attempt.steps:
        if step.started_at is not None:
            figures = {
                "tries": step.tries,
                "exit_code": step.exit_code,
                "cpu_seconds": step.cpu_seconds,
                "max_rss_bytes": step.max_rss_bytes,
                "sub_run": step.sub_run,
            }
            inner = _span(tracer, f"step {step.name}", step.started_at, span, figures)
            _end(inner, step.finished_at or attempt.finished_at, str(step.state), step.detail)
    _end(span, attempt.finished_at, attempt.state, attempt.detail)


def _span(
    tracer: Tracer, name: str, at: datetime, parent: Span | None, known: Mapping[str, str | float | None]
) -> Span:
    from opentelemetry.trace import set_span_in_context

    context = None if parent is None else set_span_in_context(parent)
    attributes = {f"evertick.{key}": value for key, value in known.items() if value is not None and value != ""}
    return tracer.start_span(name, context, attributes=attributes, start_time=_nanoseconds(at))


def _end(span: Span, at: datetime | None, state: str, detail: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    if state not in (SUCCEEDED, SKIPPED):
        span.set_status(Status(StatusCode.ERROR, f"{state}: {detail}" if detail else state))
    span.end(None if at is None else _nanoseconds(at))


def _nanoseconds(at: datetime) -> int:
    return from_datetime(at) * 1_000


def traces_of(look: Look, node: str, environ: Mapping[str, str] = os.environ) -> Traces | None:
    """The sender of traces, if the environment asks for it."""
    if not any(environ.get(name) for name in ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        log.warning("tracing is enabled, but OpenTelemetry is not installed. Next: pip install 'evertick[otel]'")
        return None
    return Traces(look, OTLPSpanExporter(), node)
