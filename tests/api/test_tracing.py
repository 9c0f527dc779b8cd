"""Is each run that ended a trace, from its occurrence to its steps?"""

from __future__ import annotations

import threading

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from evertick.api.tracing import Traces, traces_of
from evertick.model.attempts import AttemptRecord, with_attempt
from evertick.model.instant import MINUTE, SECOND
from evertick.model.ledger import Batch
from evertick.model.lifecycle import FAILED, RETRYING, SKIPPED, SUCCEEDED, SkipReason
from evertick.model.steps import StepRecord, steps_text
from evertick.operations.context import folder_of
from evertick.operations.local import LocalOperations
from evertick.stores import open_store
from tests.operations.ledger import at, change, entry, fill, job, key, ran


class Exporter(InMemorySpanExporter):
    def shutdown(self):
        """What was sent stays to be looked at."""


@pytest.fixture
def operations(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/ledger.db")
    fill(store, entry(1), entry(2, state=SKIPPED, reason=SkipReason.OVERLAP), watermark=4)
    steps = [
        StepRecord("fetch", "succeeded", started_at=at(1) + SECOND, finished_at=at(1) + 5 * SECOND, exit_code=0),
        StepRecord(
            "load", "failed", started_at=at(1) + 5 * SECOND, finished_at=at(1) + MINUTE, exit_code=3, detail="no"
        ),
    ]
    ran(
        store,
        key(1),
        at(1) + SECOND,
        at(1) + MINUTE,
        FAILED,
        exit_code=3,
        detail="step 'load'",
        steps=steps_text(steps),
    )
    yield LocalOperations(store, lambda: folder_of({"etl": job()}), now=lambda: at(4.5))
    store.close()


def traced(operations, *events):
    exporter = Exporter()
    traces = Traces(operations.run, exporter, "a1")
    traces.start()
    for event in events:
        traces.receive(event)
    traces.stop()
    return {span.name: span for span in exporter.get_finished_spans()}


def test_a_run_is_a_trace_from_its_occurrence_to_its_steps(operations):
    spans = traced(operations, {"kind": "run", "run": key(1).run_id, "state": "failed"})
    assert set(spans) == {"occurrence etl", "run", "attempt 1", "step fetch", "step load"}
    assert len({span.context.trace_id for span in spans.values()}) == 1
    parents = {name: span.parent and span.parent.span_id for name, span in spans.items()}
    assert parents == {
        "occurrence etl": None,
        "run": spans["occurrence etl"].context.span_id,
        "attempt 1": spans["run"].context.span_id,
        "step fetch": spans["attempt 1"].context.span_id,
        "step load": spans["attempt 1"].context.span_id,
    }
    assert spans["occurrence etl"].start_time == at(1) * 1_000
    assert spans["run"].start_time == (at(1) + SECOND) * 1_000
    assert spans["step load"].end_time == (at(1) + MINUTE) * 1_000
    assert [spans[name].status.is_ok for name in ("step fetch", "step load", "run")] == [True, False, False]
    assert spans["run"].attributes["evertick.run"] == key(1).run_id


def test_every_attempt_is_a_span_inside_its_run(operations):
    earlier = AttemptRecord(1, "failed", at(3), at(3) + SECOND, 1, "no", "local@b2", "d1")
    operations.store.commit(Batch(by="a1", entries=[entry(3)]))
    change(operations.store, key(3), RETRYING, at(3) + SECOND, attempt=1, earlier=with_attempt("", earlier))
    later = {"attempt": 2, "started_at": at(3) + MINUTE, "finished_at": at(3) + 2 * MINUTE}
    change(operations.store, key(3), SUCCEEDED, at(3) + 2 * MINUTE, **later)
    spans = traced(operations, {"kind": "run", "run": key(3).run_id, "state": "succeeded"})
    assert set(spans) == {"occurrence etl", "run", "attempt 1", "attempt 2"}
    assert spans["run"].start_time == spans["attempt 1"].start_time == at(3) * 1_000
    assert spans["attempt 1"].attributes["evertick.executor"] == "local@b2"
    assert (spans["attempt 1"].status.is_ok, spans["attempt 2"].status.is_ok) == (False, True)


def test_a_skip_is_an_occurrence_and_no_run(operations):
    spans = traced(operations, {"kind": "run", "run": key(2).run_id, "state": "skipped"})
    assert set(spans) == {"occurrence etl"}
    assert spans["occurrence etl"].attributes["evertick.reason"] == "overlap"


def test_what_has_not_ended_and_what_is_no_run_is_no_trace(operations):
    assert (
        traced(operations, {"kind": "run", "run": key(1).run_id, "state": "running"}, {"kind": "job", "job": "etl"})
        == {}
    )


def test_a_storm_drops_traces_and_delays_no_run(operations, monkeypatch):
    monkeypatch.setattr("evertick.api.tracing.WAITING_MAX", 2)
    hold = threading.Event()

    def look(run_id):
        hold.wait(60)
        return operations.run(run_id)

    traces = Traces(look, Exporter(), "a1")
    traces.start()
    for _ in range(10):
        traces.receive({"kind": "run", "run": key(1).run_id, "state": "failed"})
    hold.set()
    assert traces.dropped >= 7
    traces.stop()


def test_nothing_is_traced_unless_it_is_asked_for(operations):
    assert traces_of(operations.run, "a1", {}) is None
