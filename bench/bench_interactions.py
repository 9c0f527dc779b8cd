"""How long does the page take to react to a person, in a real browser, on a thousand jobs and a million runs?

From the moment of the click or the key, as the browser has it, to the frame that shows what was asked for: the answer
of the server is part of it. What the server keeps for a moment has run out before each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from playwright.sync_api import Error, Page
from tests.web.web_server import WebServer, open_browser, open_page

from bench.harness import Report, Table, Target
from bench.large_server import KEPT_SECONDS, large_server

LIMIT_MS: Final = 100.0
PATIENCE_MS: Final = 60_000

WATCH: Final = """event => {
    const is = IS_DONE;
    window.took = new Promise((told, failed) => {
        let began = null;
        setTimeout(() => failed(new Error(`not done after ${PATIENCE} ms; ${event}: ${began}`)), PATIENCE);
        addEventListener(event, one => (began ??= one.timeStamp), {capture: true, once: true});
        const look = () => {
            if (began === null || !is()) return requestAnimationFrame(look);
            // What is true when a frame begins is on the screen when it ends.
            const after = new MessageChannel();
            after.port1.onmessage = () => told(performance.now() - began);
            after.port2.postMessage(0);
        };
        look();
    });
}"""

HAS_ROWS = "document.querySelectorAll('main [aria-busy=false] tbody tr').length > 20"
"""Of the answer: while it is on its way, the table has the lines of the question before."""
IS_DRAWN = "document.querySelector('.timeline-stage')?.getAttribute('aria-busy') === 'false'"


class Interaction(NamedTuple):
    name: str
    start: str
    """The address at which it begins."""
    ready: str
    act: Callable[[Page], object]
    event: str
    """The event from which it is measured."""
    done: str
    needs_all: bool = False
    """Whether it looks for something that few jobs do not have."""


def _link(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()


def _heading(page: Page, name: str) -> None:
    page.get_by_role("columnheader", name=name).get_by_role("button").click()


def _is_sorted(column: str) -> str:
    """By that column, in the answer's order."""
    heading = f"[...document.querySelectorAll('main th[aria-sort]')].some(one => one.textContent.includes('{column}'))"
    return f"() => {heading} && {HAS_ROWS}"


INTERACTIONS: Final = (
    Interaction(
        "from the timeline to the jobs",
        "/",
        IS_DRAWN,
        lambda page: _link(page, "Jobs"),
        "click",
        f"() => document.querySelector('h1')?.textContent === 'Jobs' && {HAS_ROWS}",
    ),
    Interaction(
        "from the jobs to the runs",
        "/jobs",
        HAS_ROWS,
        lambda page: _link(page, "Runs"),
        "click",
        f"() => document.querySelector('h1')?.textContent === 'Runs' && {HAS_ROWS}",
    ),
    Interaction(
        "from the jobs to the overview",
        "/jobs",
        HAS_ROWS,
        lambda page: _link(page, "Overview"),
        "click",
        "() => document.querySelectorAll('main .card').length > 3",
    ),
    Interaction(
        "from the jobs to the timeline",
        "/jobs",
        HAS_ROWS,
        lambda page: _link(page, "Timeline"),
        "click",
        f"() => {IS_DRAWN}",
    ),
    Interaction(
        "sort jobs by their next start",
        "/jobs",
        HAS_ROWS,
        lambda page: _heading(page, "Next"),
        "click",
        _is_sorted("Next"),
    ),
    Interaction(
        "sort runs by their duration",
        "/runs",
        HAS_ROWS,
        lambda page: _heading(page, "Took"),
        "click",
        _is_sorted("Took"),
    ),
    Interaction(
        "filter jobs by a word",
        "/jobs",
        HAS_ROWS,
        lambda page: page.get_by_role("searchbox", name="Search jobs").press("7"),
        "keydown",
        "() => document.querySelector('main h1')?.parentElement?.textContent.includes('271 jobs')",
        needs_all=True,
    ),
    Interaction(
        "filter runs by their outcome",
        "/runs",
        HAS_ROWS,
        lambda page: page.get_by_label("Outcome").select_option("lost"),
        "input",
        "() => document.querySelectorAll('main [aria-busy=false] tbody tr').length === 5",
    ),
    Interaction(
        "open a job",
        "/jobs",
        HAS_ROWS,
        lambda page: page.get_by_role("link", name="job-00004").click(),
        "click",
        "() => document.querySelector('main .job-cards .uplot') !== null",
    ),
    Interaction(
        "open a run",
        "/runs",
        HAS_ROWS,
        lambda page: page.locator("main tbody tr", has_text="Succeeded").first.get_by_role("link").first.click(),
        "click",
        "() => document.querySelector('main .facts') !== null",
    ),
    Interaction(
        "zoom the timeline",
        "/?span=86400000",
        IS_DRAWN,
        lambda page: page.get_by_role("application", name="Timeline").press("-"),
        "keydown",
        f"() => /2 d|2d/.test(document.querySelector('.toolbar-span')?.textContent ?? '') && {IS_DRAWN}",
    ),
    Interaction(
        "order the timeline by name",
        "/",
        IS_DRAWN,
        lambda page: page.get_by_label("Order of jobs").select_option("By name"),
        "input",
        f"() => location.search.includes('sort=name') && {IS_DRAWN}",
    ),
    Interaction(
        "open the palette",
        "/jobs",
        HAS_ROWS,
        lambda page: page.keyboard.press("Control+k"),
        "keydown",
        "() => document.querySelectorAll('.palette [role=option]').length > 5",
    ),
    Interaction(
        "find a job in the palette",
        "/jobs",
        HAS_ROWS,
        lambda page: _type_in_palette(page),
        "input",
        "() => document.querySelector('.palette [role=option]')?.textContent.includes('job-00077')",
        needs_all=True,
    ),
)


def _type_in_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.locator(".palette [role=option]").first.wait_for()
    page.keyboard.insert_text("job-00077")


def run(*, quick: bool) -> Report:
    jobs, runs, rounds = (40, 2_000, 1) if quick else (1_000, 1_000_000, 3)
    chosen = [one for one in INTERACTIONS if not quick or not one.needs_all]
    with large_server(jobs, runs) as web_server, open_browser() as browser:
        page = open_page(browser, web_server, [], reduced_motion="reduce")
        for warm_up in chosen[:1]:
            _measure(page, web_server, warm_up)
        found = {one.name: [_measure(page, web_server, one) for _ in range(rounds)] for one in chosen}
        page.context.close()
    table = Table(
        f"Interactions at {jobs:,} jobs and {runs:,} runs, SQLite, milliseconds in Chromium",
        ("what is done", "median", "worst"),
        tuple((name, f"{statistics.median(took):.0f}", f"{max(took):.0f}") for name, took in found.items()),
        (f"medians of {rounds}, from the event to the frame that shows it",),
    )
    targets = tuple(Target(f"{name} (median)", statistics.median(took), LIMIT_MS, "ms") for name, took in found.items())
    return Report("interactions", (table,), targets, {name: statistics.median(took) for name, took in found.items()})


def _measure(page: Page, web_server: WebServer, one: Interaction) -> float:
    page.goto(web_server.url + one.start)
    page.wait_for_function(f"() => {one.ready}")
    time.sleep(KEPT_SECONDS)
    page.evaluate(WATCH.replace("IS_DONE", one.done).replace("PATIENCE", str(PATIENCE_MS)), one.event)
    one.act(page)
    try:
        return float(page.evaluate("window.took"))
    except Error as error:
        shown = page.locator("main").inner_text()[:500]
        raise RuntimeError(f"{one.name!r} at {page.url}: {error}; the page shows: {shown}") from None
