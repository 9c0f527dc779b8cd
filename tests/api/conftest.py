"""An API on a real ledger, with a client for each role."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from evertick.api.app import make_app
from evertick.api.factory import open_app_state
from evertick.definitions.source import Folder
from evertick.model.definition import definition_text
from evertick.model.instant import MINUTE, SECOND
from evertick.model.ledger import Batch, DefinitionLine
from evertick.model.lifecycle import FAILED, RUNNING, SKIPPED, SkipReason
from evertick.operations.tokens import Role
from evertick.settings import Settings
from evertick.stores import open_store
from tests.api.http_client import TestClient
from tests.ledgers import new_ledger
from tests.operations.ledger import TEXT, at, change, entry, fill, job, key, ran

ORIGIN = "http://localhost"
JOB_TEXT = TEXT + "tags: [sales]\nqueue: db\nparams: {FORMAT: {default: csv, enum: [csv, json]}}\n"


class FakeControl:
    """What a scheduler would tell."""

    def __init__(self):
        self.told = {
            "node": "a1",
            "planner": {"lag_seconds": 0.5, "seconds_since_turn": 0.1, "turn_seconds": histogram()},
            "lateness_seconds": histogram(),
            "runs": {"running": 1},
            "queues": {"db": {"limit": 2, "active": 1, "waiting": 0}},
            "executors": {"local": {"slots": 4}},
        }
        self.sent = []
        self.looks = 0

    def status(self):
        return self.told

    def announce_requests(self):
        self.looks += 1

    def events(self, after=None, feed=None):  # noqa: ARG002
        yield {"feed": "f1"}
        yield from self.sent


def histogram():
    return {"count": 3, "sum": 0.5, "max": 0.3, "percentiles": {"50": 0.1}, "buckets": [[0.1, 1], [1.0, 3]]}


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "ledger.db"
    path.write_bytes(_history())
    store = open_store(f"sqlite:///{path}")
    yield store
    store.close()


@cache
def _history() -> bytes:
    """A ledger with a success, a failure, a skip, a gap and a run that goes on; written once, copied for each test."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        store = open_store(new_ledger(path))
        fill(
            store,
            entry(1),
            entry(2),
            entry(3, state=SKIPPED, reason=SkipReason.OVERLAP, detail="busy"),
            entry(4),
            entry(-5, state=SKIPPED, reason=SkipReason.MISSED, through=at(-1), occurrences=5),
            watermark=4,
        )
        ran(store, key(1), at(1) + SECOND, at(1) + MINUTE)
        ran(store, key(2), at(2), at(2) + 2 * MINUTE, FAILED, exit_code=3)
        ran(store, key(4), at(4), None)
        one = job(JOB_TEXT)
        told = DefinitionLine("etl", one.definition, at(0), definition_text(one))
        store.commit(Batch(by="a1", definitions=[told]))
        change(store, key(4), RUNNING, at(4), definition=one.definition)
        store.close()
        return path.read_bytes()


@pytest.fixture
def control():
    return FakeControl()


@pytest.fixture
def make_app_state(store, tmp_path, control):
    def make(environ=None, **settings):
        folder = Folder(jobs={"etl": job(JOB_TEXT)})
        chosen = Settings.load(None, environ or {}, settings)
        app_state = open_app_state(
            store, "sqlite:///x", lambda: folder, chosen, tmp_path, folder=tmp_path, control=control, node="a1"
        )
        app_state.operations.now = lambda: at(4.5)
        return replace(app_state, now=lambda: at(4.5))

    return make


@pytest.fixture
def app_state(make_app_state):
    return make_app_state()


@pytest.fixture
def tokens(app_state):
    return {role: app_state.tokens.create(str(role), role)[1] for role in Role}


@pytest.fixture
def anonymous(app_state):
    """Somebody who has proved nothing."""
    with TestClient(make_app(app_state), base_url=ORIGIN) as client:
        yield client


@pytest.fixture
def as_role(anonymous, tokens):
    """The same door, for somebody with a token of a role."""

    def as_role(role):
        anonymous.headers["authorization"] = f"Bearer {tokens[role]}"
        return anonymous

    return as_role


@pytest.fixture
def client(as_role):
    """Somebody who may do everything."""
    return as_role(Role.ADMIN)
