"""A request from another machine is claimed at once, where the database can announce it."""

from __future__ import annotations

import time

import pytest

from evertick.dispatch import requests
from evertick.model.ledger import Request, RequestKind
from evertick.settings import Settings
from evertick.store import Batch
from evertick.stores import open_store
from tests.executors.local_runs import until
from tests.serving.served import Served

pytestmark = pytest.mark.slow


def test_a_request_in_postgres_does_not_wait_for_the_next_look(fresh_postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(requests, "POLL_SECONDS", 3_600.0)
    (tmp_path / "hello.yaml").write_text("command: [/bin/true]\n")
    url = fresh_postgres()
    served = Served(tmp_path, Settings.load(tmp_path, {}, {"store": url, "node": "n1"}))
    other = open_store(url)
    try:
        until(lambda: "hello" in served.service.node.state.jobs, "the job")
        other.commit(
            Batch(by="cli", requests=[Request("r1", RequestKind.TRIGGER, "hello", "{}", time.time_ns() // 1_000)])
        )
        until(lambda: bool(other.requests(["r1"])[0].answer), "the answer")
    finally:
        served.stop()
        other.close()
