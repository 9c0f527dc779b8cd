"""Do traces arrive at a collector over HTTP, in the format that collectors read?"""

from __future__ import annotations

import pytest

from evertick.api.tracing import traces_of
from evertick.model.instant import MINUTE, SECOND
from evertick.model.lifecycle import FAILED
from evertick.model.steps import StepRecord, steps_text
from evertick.operations.context import folder_of
from evertick.operations.local import LocalOperations
from evertick.stores import open_store
from tests.api.collector import Collector
from tests.operations.ledger import at, entry, fill, job, key, ran
from tests.web.web_server import WebServer

ENDED = {"kind": "run", "run": key(1).run_id, "state": "failed"}


@pytest.fixture
def operations(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/ledger.db")
    fill(store, entry(1), watermark=4)
    steps = [StepRecord("load", "failed", started_at=at(1) + SECOND, finished_at=at(1) + MINUTE, exit_code=3)]
    ran(store, key(1), at(1) + SECOND, at(1) + MINUTE, FAILED, exit_code=3, detail="no", steps=steps_text(steps))
    yield LocalOperations(store, lambda: folder_of({"etl": job()}), now=lambda: at(4.5))
    store.close()


@pytest.mark.parametrize(
    ("settings", "refusals", "path"),
    [
        pytest.param({"OTEL_EXPORTER_OTLP_ENDPOINT": "{url}"}, 0, "/v1/traces", id="an endpoint for everything"),
        pytest.param({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "{url}/own"}, 0, "/own", id="one for traces alone"),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "{url}", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
            0,
            "/v1/traces",
            id="compressed",
        ),
        pytest.param({"OTEL_EXPORTER_OTLP_ENDPOINT": "{url}"}, 1, "/v1/traces", id="one that is away at first"),
    ],
)
def test_a_trace_arrives(operations, monkeypatch, settings, refusals, path):
    with Collector(refusals=refusals) as collector:
        for name, value in settings.items():
            monkeypatch.setenv(name, value.format(url=collector.url))
        traces = traces_of(operations.run, "a1")
        assert traces is not None
        traces.start()
        traces.receive(ENDED)
        traces.stop(60)
        spans = collector.wait_for("occurrence etl", "run", "attempt 1", "step load")
    assert {one for one, _ in collector.requests} == {path}
    assert len({span.trace_id for span in spans.values()}) == 1
    assert spans["run"].parent_span_id == spans["occurrence etl"].span_id
    assert spans["step load"].parent_span_id == spans["attempt 1"].span_id
    assert spans["occurrence etl"].start_time_unix_nano == at(1) * 1_000
    assert spans["run"].end_time_unix_nano == (at(1) + MINUTE) * 1_000
    assert (spans["run"].status.code, spans["run"].status.message) == (2, "failed: no")
    told = {one.key: one.value for one in spans["run"].attributes}
    assert (told["evertick.run"].string_value, told["evertick.attempt"].int_value) == (key(1).run_id, 1)


@pytest.mark.slow
def test_runs_of_a_scheduler_are_traced(tmp_path, monkeypatch):
    (tmp_path / "hello.yaml").write_text("schedule: {every: 2s}\ncommand: echo hello\n")
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        web_server = WebServer(tmp_path)
        try:
            web_server.start()
            spans = collector.wait_for("occurrence hello", "run", "attempt 1", "step main")
        finally:
            web_server.close()
    assert spans["run"].status.code == 0
    assert spans["step main"].start_time_unix_nano >= spans["occurrence hello"].start_time_unix_nano
