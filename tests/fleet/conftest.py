from __future__ import annotations

import pytest

from tests.fleet.local_fleet import Heard, LocalFleet


@pytest.fixture
def reports():
    return Heard()


@pytest.fixture
def local_fleet(tmp_path):
    """A fleet of its own, with a scheduler and nobody in it yet."""
    here = LocalFleet(tmp_path)
    here.start()
    yield here
    here.close()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """Three members that several tests share; each test uses runs of its own."""
    here = LocalFleet(tmp_path_factory.mktemp("crowd"))
    try:
        here.start()
        here.join("ex-a", "--label", "disk=ssd", "--cpu", "2", "--resource", "licenses=1")
        here.join("ex-b")
        here.join("ex-c")
        here.wait_for_all()
        yield here
    finally:
        here.close()
