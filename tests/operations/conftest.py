"""The ledgers that every query is tested on."""

from __future__ import annotations

import pytest

from evertick.stores import open_store
from tests.ledgers import new_ledger


@pytest.fixture(params=["memory", "sqlite"])
def empty(request, tmp_path):
    """A ledger with nothing in it."""
    store = open_store("memory:" if request.param == "memory" else new_ledger(tmp_path / "ledger.db"))
    yield store
    store.close()


@pytest.fixture
def store(empty):
    return empty
