"""Is the page usable on a slow line, and how much does a tab cost there that is left open?

The line carries 100 KB a second, and each request waits 200 ms for the way there and back. The server schedules a
thousand jobs, of which a few run each minute; each page is opened by a browser that was signed in before, with
nothing in its cache, and then left alone.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Final, NamedTuple

from playwright.sync_api import Browser
from tests.web.line import Line
from tests.web.web_server import WebServer, open_browser

from bench.harness import Report, Table, Target
from bench.large_server import large_server, open_again

OPEN_LIMIT_SECONDS: Final = 3.0
LIMIT_KB: Final = 50.0
"""A minute, of a page at which little happens."""
WINDOW_SECONDS: Final = 60.0
"""What little happens, happens as a minute begins."""
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
    jobs, runs, seconds = (40, 2_000, 1.0) if quick else (1_000, 1_000_000, WINDOW_SECONDS)
    with large_server(jobs, runs, with_scheduler=True) as web_server, open_browser() as browser:
        found = _look(browser, web_server, seconds)
    table = Table(
        f"At 100 KB/s and 200 ms: {jobs:,} jobs, {runs:,} runs, SQLite, a scheduler at work",
        ("page", "what was asked for is drawn, seconds", "until then, KB", "then, KB a minute"),
        tuple(
            (name, f"{look.drawn_seconds:.1f}", f"{look.opened_kb:.0f}", f"{look.minute_kb:.1f}")
            for name, look in found.items()
        ),
        (
            f"all tabs were left open for the same {seconds:.0f} s, each behind a line of its own",
            "the code of other pages, which is fetched in advance, is counted in neither",
        ),
    )
    targets = [Target(f"{name}: a minute", look.minute_kb, LIMIT_KB, "KB") for name, look in found.items()]
    targets += [Target(f"{name}: drawn", look.drawn_seconds, OPEN_LIMIT_SECONDS, "s") for name, look in found.items()]
    figures = {name: look.minute_kb for name, look in found.items()}
    return Report("slow_line", (table,), tuple(targets), figures)


class _Tab:
    """One page behind a line of its own."""

    def __init__(self, browser: Browser, web_server: WebServer, name: str) -> None:
        self._name, self.line = name, Line(web_server.port)
        self._path, self._is_drawn = VIEWS[name]
        self._errors: list[str] = []
        behind_the_line = SimpleNamespace(url=self.line.url, token=web_server.token)
        self.page = open_again(browser, behind_the_line, self._errors)

    def open(self) -> tuple[float, float]:
        """Seconds until what was asked for is drawn, and the KB that this took."""
        before, began = self.line.carried, time.monotonic()
        self.page.goto(self.line.url + self._path, wait_until="commit")
        self.page.wait_for_function(self._is_drawn)
        return time.monotonic() - began, (self.line.carried - before) / 1_000

    def wait_until_quiet(self, seconds: float) -> None:
        """Until the code of the other pages, which a page fetches in advance, has arrived."""
        known = -QUIET_BYTES
        while self.line.carried - known >= QUIET_BYTES:
            known = self.line.carried
            self.page.wait_for_timeout(seconds * 1_000)

    def check(self) -> None:
        if self._errors:
            raise RuntimeError(f"{self._name}: {self._errors[:3]}")


def _look(browser: Browser, web_server: WebServer, seconds: float) -> dict[str, Look]:
    """Open one page after another; then all of them are left alone for the same time."""
    tabs: dict[str, _Tab] = {}
    opened: dict[str, tuple[float, float]] = {}
    try:
        for name in VIEWS:
            tabs[name] = tab = _Tab(browser, web_server, name)
            opened[name] = tab.open()
            tab.wait_until_quiet(seconds / 30)
        before = {name: tab.line.carried for name, tab in tabs.items()}
        tabs[next(iter(VIEWS))].page.wait_for_timeout(seconds * 1_000)
        minute = {name: (tab.line.carried - before[name]) / 1_000 * 60 / seconds for name, tab in tabs.items()}
        for tab in tabs.values():
            tab.check()
    finally:
        for tab in tabs.values():
            tab.page.context.close()
            tab.line.close()
    return {name: Look(*opened[name], minute[name]) for name in VIEWS}
