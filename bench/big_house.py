"""A server with a big ledger, as a process of its own, and a browser that has been there before."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page
from tests.web.house import House, open_page

from bench.big_ledger import make_ledger, write_folder
from evertick.operations.context import now_by_the_clock

KEPT_SECONDS = 1.2
"""After this long the server has forgotten what it keeps for a moment, and a new window has settled."""


@contextmanager
def big_house(jobs: int, runs: int) -> Iterator[House]:
    """Job files and a ledger, served without a scheduler."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / ".evertick").mkdir(mode=0o700)
        make_ledger(folder / ".evertick" / "ledger.db", write_folder(folder, jobs), runs, now_by_the_clock())
        house = House(folder)
        try:
            house.start(with_scheduler=False)
            _wait_for_definitions(house)
            yield house
        finally:
            house.close()


def _wait_for_definitions(house: House) -> None:
    """Ten thousand files take a while; the ledger can be looked at meanwhile, but that is not what is measured."""
    give_up_at = time.monotonic() + 300
    while not house.get("/jobs?limit=1")["items"][0]["is_defined"]:
        if time.monotonic() > give_up_at:
            raise RuntimeError("the server did not read the job files")
        time.sleep(0.1)


def open_again(browser: Browser, house: House, complaints: list[str]) -> Page:
    """A page of a browser that was signed in before and has shown the timeline, without anything in its cache."""
    page = open_page(browser, house, complaints)
    page.goto(house.url)
    page.locator(".timeline-stage[aria-busy=false]").wait_for()
    page.goto("about:blank")
    session = page.context.new_cdp_session(page)
    session.send("Network.clearBrowserCache")
    session.detach()
    return page
