"""The pictures of the page in the documentation, taken anew: `python -m tests.web.pictures [FOLDER]`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from playwright.sync_api import Browser, Page

from evertick.stores import open_store
from tests.web.history import write_history, write_jobs
from tests.web.web_server import NARROW, WebServer, open_browser, open_page

FOLDER = Path(__file__).parent.parent.parent / "docs" / "images"
SIZE = {"width": 1280, "height": 800}


class Shot(NamedTuple):
    name: str
    path: str
    theme: str
    size: dict[str, int]
    text: str
    """What the page shows once it is loaded."""


def take_pictures(browser: Browser, web_server: WebServer, folder: Path) -> list[Path]:
    """Each page of the documentation once, in one theme or the other."""
    folder.mkdir(parents=True, exist_ok=True)
    run = web_server.get("/runs?job=etl&trigger=manual&limit=1")["items"][0]["run"]
    shots = [
        Shot("timeline", "/?span=43200000", "light", SIZE, "etl"),
        Shot("timeline-dark", "/?span=43200000", "dark", SIZE, "etl"),
        Shot("overview", "/overview", "light", SIZE, "Skipped, by reason"),
        Shot("job", "/jobs/etl", "dark", {"width": 1280, "height": 960}, "Next starts"),
        Shot("run", f"/runs/{quote(run, safe='')}", "light", SIZE, "fetched page 3"),
        Shot("calendar", "/jobs/backup-orders?tab=calendar", "dark", {"width": 1280, "height": 560}, "In this year"),
        Shot("cron", "/cron?expression=30 2 * * *&timezone=Europe/Berlin", "light", SIZE, "Next 20 fire times"),
        Shot("narrow", "/?span=21600000", "light", NARROW, "etl"),
    ]
    return [_take(browser, web_server, folder / f"{shot.name}.png", shot) for shot in shots]


def _take(browser: Browser, web_server: WebServer, file: Path, shot: Shot) -> Path:
    browser_errors: list[str] = []
    page = open_page(
        browser, web_server, browser_errors, color_scheme=shot.theme, viewport=shot.size, reduced_motion="reduce"
    )
    page.goto(web_server.url + shot.path)
    if "fetched" in shot.text:
        page.get_by_role("button", name="fetch Succeeded").click()
    page.get_by_text(shot.text).first.wait_for()
    _settle(page)
    page.screenshot(path=str(file))
    page.context.close()
    assert browser_errors == [], browser_errors
    return file


def _settle(page: Page) -> None:
    """Until nothing is being loaded any more and what came was drawn."""
    page.wait_for_selector(".bone", state="detached")
    page.get_by_text("Live", exact=True).first.wait_for(state="attached")
    page.evaluate("new Promise(done => setTimeout(() => requestAnimationFrame(done), 300))")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        web_server = server_with_history(Path(name))
        try:
            have_run(browser, web_server)
            have_running(browser, web_server)
            for file in take_pictures(browser, web_server, folder):
                sys.stderr.write(f"{file}\n")
        finally:
            web_server.close()


def server_with_history(folder: Path) -> WebServer:
    """A web_server with a past, and a scheduler at work."""
    write_jobs(folder)
    (folder / ".evertick").mkdir(mode=0o700)
    store = open_store(f"sqlite:///{folder}/.evertick/ledger.db")
    write_history(store, folder, time.time_ns() // 1_000)
    store.close()
    web_server = WebServer(folder)
    web_server.start()
    return web_server


def have_run(browser: Browser, web_server: WebServer) -> None:
    """One run of real steps with real output, asked for as people do."""
    page = open_page(browser, web_server, [])
    page.goto(f"{web_server.url}/jobs/etl")
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/**")
    page.locator("h1").get_by_text("Succeeded").wait_for()
    page.context.close()


def have_running(browser: Browser, web_server: WebServer) -> None:
    """One run that goes on, so that something is under way."""
    page = open_page(browser, web_server, [])
    page.goto(f"{web_server.url}/jobs/long-haul")
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/**")
    page.locator("h1").get_by_text("Running").wait_for()
    page.context.close()


if __name__ == "__main__":
    main()
