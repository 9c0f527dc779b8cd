"""Whether every page shows what it is for: in both themes, on a narrow screen, to eyes and to screen readers."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.web.axe import ALL, AXE, COLOURS, judge, judge_in_both_themes
from tests.web.web_server import WIDE, open_page

PAGES = [
    pytest.param("/", "12 jobs", id="the timeline"),
    pytest.param("/?view=table", "Occurrences in this time range", id="the timeline as a table"),
    pytest.param("/overview", "Skipped, by reason", id="overview"),
    pytest.param("/jobs", "Last 20 runs", id="jobs"),
    pytest.param("/jobs?tag=money&search=back", "backup-orders", id="jobs with a filter"),
    pytest.param("/jobs?search=nothing-like-it", "No jobs match", id="jobs, none"),
    pytest.param("/jobs/etl", "Next starts", id="job"),
    pytest.param("/jobs/etl?tab=ledger", "Trigger", id="ledger of a job"),
    pytest.param("/jobs/etl?tab=calendar", "In this year", id="calendar of a job"),
    pytest.param("/jobs/etl?tab=rules", "catchupWindow", id="definition of a job"),
    pytest.param("/jobs/no-such-job", "All jobs", id="a job that is not there"),
    pytest.param("/runs", "Details", id="runs"),
    pytest.param("/runs?state=failed&trigger=scheduler", "exit code 1", id="runs with a filter"),
    pytest.param("/calendar", "In this year", id="calendar"),
    pytest.param("/upcoming", "Starts per minute", id="upcoming"),
    pytest.param("/cron?expression=30 2 * * *&timezone=Europe/Berlin", "At 02:30", id="cron"),
    pytest.param("/cron?expression=99 * * * *", "Expression", id="cron, refused"),
    pytest.param("/executors", "Scheduler nodes", id="executors"),
    pytest.param("/queues", "builders", id="queues"),
    pytest.param("/audit", "Who did what", id="audit"),
    pytest.param("/settings", "loop.preread", id="settings"),
    pytest.param("/no-such-page", "Page not found", id="an address that is none"),
]
# Asking for what is not there is answered with 4xx, which browsers note.
REFUSED = ("/jobs/no-such-job", "/cron?expression=99 * * * *")


@pytest.fixture(scope="module")
def complaints_of_shown() -> list[str]:
    return []


@pytest.fixture(scope="module")
def shown(browser, web_server, complaints_of_shown):
    """One page for all, as a person has: what a page leaves behind must not trouble the next."""
    # Nothing moves: a half-faded text has no contrast.
    made = open_page(browser, web_server, complaints_of_shown, reduced_motion="reduce")
    made.add_init_script(path=str(AXE))
    yield made
    made.context.close()


@pytest.mark.parametrize(("path", "text"), PAGES)
def test_a_page_is_for_everybody(shown, complaints_of_shown, web_server, path, text):
    shown.goto("about:blank")  # what the page before it still asked for is answered, and was noted
    complaints_of_shown.clear()
    shown.set_viewport_size(WIDE)
    shown.emulate_media(color_scheme="light")
    shown.goto(web_server.url + path)
    shown.get_by_text(text).first.wait_for(state="attached")
    judge_in_both_themes(shown)
    if path not in REFUSED:
        assert complaints_of_shown == []


def test_a_run_is_for_everybody(shown, web_server):
    run = web_server.get("/runs?job=etl&state=succeeded&limit=1")["items"][0]["run"]
    shown.set_viewport_size(WIDE)
    shown.goto(f"{web_server.url}/runs/{quote(run, safe='')}")
    shown.get_by_text("Exit code").wait_for()
    judge_in_both_themes(shown)


def test_columns_are_chosen_and_sorted_by_keyboard_and_kept_in_the_address(shown, complaints_of_shown, web_server):
    complaints_of_shown.clear()
    shown.set_viewport_size(WIDE)
    shown.goto(f"{web_server.url}/jobs?tag=money")
    heading = shown.get_by_role("columnheader", name="Next")
    heading.get_by_role("button").press("Enter")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    first = shown.locator("tbody tr").first
    soonest = min(web_server.get("/jobs?tag=money")["items"], key=lambda job: job["next_at"])
    expect(first).to_contain_text(soonest["name"])
    heading.get_by_role("button").press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")
    menu = shown.locator("summary").filter(has_text="Columns")
    menu.press("Enter")
    shown.get_by_role("checkbox", name="Schedule").press("Space")
    shown.get_by_role("checkbox", name="Time zone").press("Space")
    expect(shown.get_by_role("columnheader", name="Time zone")).to_be_visible()
    judge(shown, ALL)
    shown.emulate_media(color_scheme="dark")
    judge(shown, COLOURS)
    shown.get_by_role("checkbox", name="Time zone").press("Escape")
    expect(menu).to_be_focused()
    expect(shown.get_by_role("checkbox", name="Time zone")).to_be_hidden()
    shown.reload()
    expect(shown.get_by_role("columnheader", name="Time zone")).to_be_visible()
    expect(shown.get_by_role("columnheader", name="Schedule")).to_have_count(0)
    expect(heading).to_have_attribute("aria-sort", "descending")
    assert {"sort=next", "reverse=true"} <= set(shown.url.partition("?")[2].split("&"))
    assert complaints_of_shown == []


def test_runs_are_sorted_by_their_duration(shown, web_server):
    shown.set_viewport_size(WIDE)
    shown.goto(f"{web_server.url}/runs?job=etl")
    shown.get_by_role("columnheader", name="Took").get_by_role("button").click()
    expect(shown.get_by_text("entries that match")).to_be_visible()
    longest = max(
        (run for run in web_server.get("/runs?job=etl&limit=1000")["items"] if run["duration_seconds"]),
        key=lambda run: run["duration_seconds"],
    )
    link = shown.locator("tbody tr").first.get_by_role("link").first
    expect(link).to_have_attribute("href", f"/runs/{quote(longest['run'], safe='')}")


def test_a_change_of_the_theme_is_one_change_for_those_who_want_no_motion(shown, web_server):
    shown.set_viewport_size(WIDE)
    shown.emulate_media(color_scheme="light")
    shown.goto(f"{web_server.url}/jobs/etl")
    shown.get_by_text("Next starts").wait_for()
    shown.evaluate(
        """() => {
            const count = told => requestAnimationFrame(() => told(document.getAnimations().length));
            const dark = matchMedia('(prefers-color-scheme: dark)');
            window.moving = new Promise(told => dark.addEventListener('change', () => count(told)));
        }"""
    )
    shown.emulate_media(color_scheme="dark")
    assert shown.evaluate("window.moving") == 0


def test_nothing_comes_from_elsewhere(shown, web_server):
    asked: list[str] = []
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto(f"{web_server.url}/jobs/etl")
    shown.get_by_text("Next starts").wait_for()
    assert asked
    assert [url for url in asked if not url.startswith(web_server.url + "/")] == []
