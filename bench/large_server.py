"""A server with a large ledger, as a process of its own, and a browser that has visited it before."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page
from tests.web.web_server import Address, WebServer, open_page

from bench.big_ledger import make_ledger, write_folder
from evertick.operations.context import now_by_the_clock

KEPT_SECONDS = 1.2
"""After this long the server has forgotten what it keeps for a moment, and a new window has settled."""


@contextmanager
def large_server(jobs: int, runs: int, *, with_scheduler: bool = False) -> Iterator[WebServer]:
    """Job files and a ledger, served."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / ".evertick").mkdir(mode=0o700)
        make_ledger(folder / ".evertick" / "ledger.db", write_folder(folder, jobs), runs, now_by_the_clock())
        web_server = WebServer(folder)
        try:
            web_server.start(with_scheduler=with_scheduler)
            _wait_for_definitions(web_server)
            yield web_server
        finally:
            web_server.close()


def _wait_for_definitions(web_server: WebServer) -> None:
    """Ten thousand files take a while; the ledger can be looked at meanwhile, but that is not what is measured."""
    give_up_at = time.monotonic() + 300
    while not web_server.get("/jobs?limit=1")["items"][0]["is_defined"]:
        if time.monotonic() > give_up_at:
            raise RuntimeError("the server did not read the job files")
        time.sleep(0.1)


def open_again(browser: Browser, web_server: Address, browser_errors: list[str]) -> Page:
    """A page of a browser that was signed in before and has shown the timeline, without anything in its cache."""
    page = open_page(browser, web_server, browser_errors)
    page.goto(web_server.url)
    page.locator(".timeline-stage[aria-busy=false]").wait_for()
    page.goto("about:blank")
    session = page.context.new_cdp_session(page)
    session.send("Network.clearBrowserCache")
    session.detach()
    return page
