"""The fixtures of page tests: a server with a history, a browser, and a signed-in page."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from evertick.stores import open_store
from tests.web.history import write_many
from tests.web.pictures import server_with_history
from tests.web.web_server import WebServer, open_browser, open_page

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and "web_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def web_server(tmp_path_factory):
    """A scheduler at work on a dozen jobs that have two weeks behind them."""
    made = server_with_history(tmp_path_factory.mktemp("web_server"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def crowded_server(tmp_path_factory):
    """Ten thousand jobs that only the ledger knows, and no scheduler."""
    folder = tmp_path_factory.mktemp("crowd")
    (folder / ".evertick").mkdir(mode=0o700)
    store = open_store(f"sqlite:///{folder}/.evertick/ledger.db")
    write_many(store, time.time_ns() // 1_000, 10_000, 3)
    store.close()
    made = WebServer(folder)
    try:
        made.start(with_scheduler=False)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def browser():
    """Not for longer than a module: while it is open this thread has a running event loop, and nobody else can."""
    with open_browser() as made:
        yield made


@pytest.fixture
def browser_errors():
    """What the browser complained about; a test that expects some empties the list."""
    found: list[str] = []
    yield found
    assert found == []


@pytest.fixture
def page(browser, web_server, browser_errors):
    made = open_page(browser, web_server, browser_errors)
    yield made
    made.context.close()
