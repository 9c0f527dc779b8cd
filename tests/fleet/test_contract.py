"""Whether the fleet keeps the contract that every executor keeps."""

from __future__ import annotations

import pytest

from tests.executors.contract import ExecutorContract
from tests.fleet.local_fleet import LocalFleet


@pytest.fixture
def executor(tmp_path, reports):
    """On a fleet of its own: where a member of another test is away, every question waits for the end of its lease."""
    fleet = LocalFleet(tmp_path)
    fleet.start()
    fleet.join("ex-a")
    opened = fleet.open(reports, "ex-a", node="ex-a")
    yield opened
    opened.close()
    fleet.close()


@pytest.mark.slow
class TestFleet(ExecutorContract):
    pass
