"""Is the page usable on a slow line, and how much does a tab cost there that is left open?

The line carries 100 KB a second, and each request waits 200 ms for the way there and back. The server schedules a
thousand jobs, of which a few run each minute; each page is opened by a browser that was signed in before, with
nothing in its cache, and then left alone.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page
from tests.web.line import Line
from tests.web.web_server import WebServer, open_browser

from bench.harness import Report, Table, Target
from bench.large_server import large_server, open_again

OPEN_LIMIT_SECONDS: Final = 3.0
LIMIT_KB: Final = 50.0
"""A minute, of a page at which little happens."""
QUIET_BYTES: Final = 5_000
"""With fewer in a while, a page has all that it fetches in advance."""
HAS_ROWS: Final = "() => document.querySelectorAll('main tbody tr').length > 20"
VIEWS: Final = {
    "the timeline": ("/", "() => /[1-9]/.test(document.querySelector('.timeline-corner')?.textContent ?? '')"),
    "overview": ("/overview", "() => document.querySelectorAll('main .card').length > 3"),
    "jobs": ("/jobs", HAS_ROWS),
    "runs": ("/runs", HAS_ROWS),
    "a job": ("/jobs/job-00004", "() => document.querySelector('main .job-cards .uplot') !== null"),
}
"""Where to look, and how to tell that what was asked for is on the screen."""


class Look(NamedTuple):
    drawn_seconds: float
    opened_kb: float
    minute_kb: float


def run(*, quick: bool) -> Report:
    jobs, runs, seconds = (40, 2_000, 1.0) if quick else (1_000, 1_000_000, 60.0)
    with large_server(jobs, runs, with_scheduler=True) as web_server, open_browser() as browser:
        found = {name: _look(browser, web_server, name, seconds) for name in VIEWS}
    table = Table(
        f"At 100 KB/s and 200 ms: {jobs:,} jobs, {runs:,} runs, SQLite, a scheduler at work",
        ("page", "what was asked for is drawn, seconds", "until then, KB", "then, KB a minute"),
        tuple(
            (name, f"{look.drawn_seconds:.1f}", f"{look.opened_kb:.0f}", f"{look.minute_kb:.1f}")
            for name, look in found.items()
        ),
        (
            f"the tab was left open for {seconds:.0f} s",
            "the code of other pages, which is fetched in advance, is counted in neither",
        ),
    )
    targets = [Target(f"{name}: a minute", look.minute_kb, LIMIT_KB, "KB") for name, look in found.items()]
    targets += [Target(f"{name}: drawn", look.drawn_seconds, OPEN_LIMIT_SECONDS, "s") for name, look in found.items()]
    figures = {name: look.minute_kb for name, look in found.items()}
    return Report("slow_line", (table,), tuple(targets), figures)


def _look(browser: Browser, web_server: WebServer, name: str, seconds: float) -> Look:
    path, is_drawn = VIEWS[name]
    line = Line(web_server.port)
    browser_errors: list[str] = []
    try:
        page = open_again(browser, SimpleNamespace(url=line.url, token=web_server.token), browser_errors)
        before, began = line.carried, time.monotonic()
        page.goto(line.url + path, wait_until="commit")
        page.wait_for_function(is_drawn)
        drawn, opened = time.monotonic() - began, line.carried - before
        _wait_until_quiet(page, line, seconds / 6)
        left = line.carried
        page.wait_for_timeout(seconds * 1_000)
        minute = (line.carried - left) * 60 / seconds
        page.context.close()
    finally:
        line.close()
    if browser_errors:
        raise RuntimeError(f"{name}: {browser_errors[:3]}")
    return Look(drawn, opened / 1_000, minute / 1_000)


def _wait_until_quiet(page: Page, line: Line, seconds: float) -> None:
    """Until the code of the other pages, which a page fetches in advance, has arrived."""
    known = -QUIET_BYTES
    while line.carried - known >= QUIET_BYTES:
        known = line.carried
        page.wait_for_timeout(seconds * 1_000)
