"""Whether the fleet keeps the contract that every executor keeps."""

from __future__ import annotations

from itertools import count

import pytest

from tests.executors.contract import ExecutorContract
from tests.fleet.yard import Yard

NUMBERS = count()


@pytest.fixture(scope="module")
def one_scheduler(tmp_path_factory):
    here = Yard(tmp_path_factory.mktemp("contract"))
    here.start()
    yield here
    here.close()


@pytest.fixture
def executor(one_scheduler, reports):
    """With a new member for each test, which has never seen any run."""
    name = f"ex-{next(NUMBERS)}"
    one_scheduler.join(name)
    opened = one_scheduler.open(reports, name, node=name)
    yield opened
    opened.close()
    one_scheduler.members.pop(name).kill()


@pytest.mark.slow
class TestFleet(ExecutorContract):
    pass
