"""How long does a person wait for the page, in a real browser, on a thousand and ten thousand jobs and a million runs?

The server is a process of its own on job files and a ledger. Each look is that of a browser that was signed in before:
it knows who it is, but nothing is in its cache, and what the server keeps for a moment has run out.
"""

from __future__ import annotations

import statistics
import time
from typing import Final, NamedTuple

from playwright.sync_api import Browser
from tests.web.web_server import WebServer, open_browser

from bench.harness import Report, Table, Target
from bench.large_server import KEPT_SECONDS, large_server, open_again

# Limits in milliseconds: the first paint, and what was asked for.
SIZES: Final = {1_000: (150.0, 500.0), 10_000: (150.0, 1_000.0)}
VIEWS: Final = {
    "the timeline": ("/", "() => /[1-9]/.test(document.querySelector('.timeline-corner')?.textContent ?? '')"),
    "overview": ("/overview", "() => document.querySelectorAll('main table tbody tr, main .card').length > 3"),
    "jobs": ("/jobs", "() => document.querySelectorAll('main tbody tr').length > 20"),
    "runs": ("/runs", "() => document.querySelectorAll('main tbody tr').length > 20"),
}
"""Where to look, and how to tell that what was asked for is on the screen."""


class Look(NamedTuple):
    """Milliseconds from the request for the page."""

    paint: float
    drawn: float


def run(*, quick: bool) -> Report:
    tables, targets, figures = [], list[Target](), dict[str, float]()
    for jobs, (paint_limit, drawn_limit) in {40: SIZES[1_000]}.items() if quick else SIZES.items():
        runs, rounds = (1_000, 1) if quick else (1_000_000, 3 if jobs == 1_000 else 2)
        with large_server(jobs, runs) as web_server, open_browser() as browser:
            found = {name: _look(browser, web_server, name, rounds, waits=not quick) for name in VIEWS}
        tables.append(_table(jobs, runs, rounds, found))
        for name, looks in found.items():
            paint, drawn = (statistics.median(values) for values in zip(*looks, strict=True))
            where = f"{name}, {jobs:,} jobs"
            targets.append(Target(f"{where}: first paint (median)", paint, paint_limit, "ms"))
            targets.append(Target(f"{where}: drawn (median)", drawn, drawn_limit, "ms"))
            figures |= {where: paint, f"{where}: drawn": drawn}
    return Report("first_paint", tuple(tables), tuple(targets), figures)


def _table(jobs: int, runs: int, rounds: int, found: dict[str, list[Look]]) -> Table:
    return Table(
        f"A look at {jobs:,} jobs and {runs:,} runs, SQLite, milliseconds in Chromium",
        ("page", "first paint", "worst", "what was asked for is drawn", "worst"),
        tuple(
            (
                name,
                *(f"{of(one.paint for one in looks):.0f}" for of in (statistics.median, max)),
                *(f"{of(one.drawn for one in looks):.0f}" for of in (statistics.median, max)),
            )
            for name, looks in found.items()
        ),
        (f"medians of {rounds}; the window has shown the timeline before",),
    )


def _look(browser: Browser, web_server: WebServer, name: str, rounds: int, *, waits: bool) -> list[Look]:
    path, is_drawn = VIEWS[name]
    looks = []
    for _ in range(rounds):
        browser_errors: list[str] = []
        page = open_again(browser, web_server, browser_errors)
        if waits:
            time.sleep(KEPT_SECONDS)
        page.goto(web_server.url + path, wait_until="commit")
        page.wait_for_function(is_drawn)
        drawn = page.evaluate("performance.now()")
        # If the answer is in the first frame, the browser reports that paint only afterwards.
        page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        page.context.close()
        if browser_errors:
            raise RuntimeError(f"{name}: {browser_errors[:3]}")
        looks.append(Look(paint, drawn))
    return looks
