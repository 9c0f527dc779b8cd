"""How long does somebody wait for the page, in a real browser, on ten thousand jobs and a million runs?

The server is a process of its own on job files and a ledger. Each look is a new visitor: nothing is in the browser's
cache, and what the server keeps for a moment has run out.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser
from tests.web.house import House, open_browser, open_page

from bench.big_ledger import make_ledger, write_folder
from bench.harness import Report, Table, Target
from evertick.operations.context import now_by_the_clock

LIMIT_MS = 1_000.0
KEPT_SECONDS = 1.2
VIEWS = {
    "the timeline": ("/", "() => /[1-9]/.test(document.querySelector('.timeline-corner')?.textContent ?? '')"),
    "overview": ("/overview", "() => document.querySelectorAll('main table tbody tr, main .card').length > 3"),
    "jobs": ("/jobs", "() => document.querySelectorAll('main tbody tr').length > 20"),
    "runs": ("/runs", "() => document.querySelectorAll('main tbody tr').length > 20"),
}
"""Where to look, and how to tell that what was asked for is on the screen."""


def run(*, quick: bool) -> Report:
    jobs, runs, rounds = (40, 1_000, 1) if quick else (10_000, 1_000_000, 5)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / ".evertick").mkdir(mode=0o700)
        make_ledger(folder / ".evertick" / "ledger.db", write_folder(folder, jobs), runs, now_by_the_clock())
        house = House(folder)
        try:
            house.start(with_scheduler=False)
            _wait_for_definitions(house)
            with open_browser() as browser:
                rows = [_measure(browser, house, name, rounds, warm_ups=0 if quick else 1) for name in VIEWS]
        finally:
            house.close()
    table = Table(
        f"A new visitor on {jobs:,} jobs and {runs:,} runs, SQLite, milliseconds in Chromium",
        ("page", "first paint", "worst", "what was asked for is drawn", "worst"),
        tuple((name, *(f"{value:.0f}" for value in measured)) for name, *measured in rows),
        (f"medians of {rounds}; a first look before them is not counted",),
    )
    targets = tuple(
        Target(f"{name}: {what} (median)", value, LIMIT_MS, "ms")
        for name, paint, _, drawn, _ in rows
        for what, value in (("first paint", paint), ("drawn", drawn))
    )
    return Report("first_paint", (table,), targets, {name: paint for name, paint, *_ in rows})


def _wait_for_definitions(house: House) -> None:
    """Ten thousand files take a while; the ledger can be looked at meanwhile, but that is not what is measured."""
    give_up_at = time.monotonic() + 300
    while not house.get("/jobs?limit=1")["items"][0]["is_defined"]:
        if time.monotonic() > give_up_at:
            raise RuntimeError("the server did not read the job files")
        time.sleep(0.1)


def _measure(
    browser: Browser, house: House, name: str, rounds: int, warm_ups: int
) -> tuple[str, float, float, float, float]:
    path, is_drawn = VIEWS[name]
    paints, drawn = [], []
    for _ in range(warm_ups + rounds):
        complaints: list[str] = []
        page = open_page(browser, house, complaints)
        if warm_ups:
            time.sleep(KEPT_SECONDS)
        page.goto(house.url + path, wait_until="commit")
        page.wait_for_function(is_drawn)
        told = page.evaluate(
            "() => [performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN, performance.now()]"
        )
        page.context.close()
        if complaints:
            raise RuntimeError(f"{name}: {complaints[:3]}")
        paints.append(told[0])
        drawn.append(told[1])
    paints, drawn = paints[warm_ups:], drawn[warm_ups:]
    return name, statistics.median(paints), max(paints), statistics.median(drawn), max(drawn)
