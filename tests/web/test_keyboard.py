"""Whether every page is reached, and its main action done, without a mouse."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

PLACES = [
    pytest.param("Overview", id="overview"),
    pytest.param("Jobs", id="jobs"),
    pytest.param("Runs", id="runs"),
    pytest.param("Calendar", id="calendar"),
    pytest.param("Upcoming", id="upcoming"),
    pytest.param("Cron", id="cron"),
    pytest.param("Executors", id="executors"),
    pytest.param("Queues", id="queues"),
    pytest.param("Audit", id="audit"),
    pytest.param("Settings", id="settings"),
]
STOPS_MAX = 120
"""How often Tab is pressed before a thing is out of reach."""


def tab_to(page, target):
    """Press Tab until the target has the focus, as a person does who sees where it is."""
    target.first.wait_for()
    for _ in range(STOPS_MAX):
        page.keyboard.press("Tab")
        if target.first.evaluate("one => one === document.activeElement"):
            ring = "getComputedStyle(document.activeElement)"
            assert page.evaluate(f"{ring}.outlineStyle !== 'none' || {ring}.boxShadow !== 'none'"), "no ring of focus"
            return
    raise AssertionError(f"{STOPS_MAX} times Tab do not lead to {target}")


@pytest.fixture
def at(page, web_server):
    def open_at(path, heading):
        page.goto(web_server.url + path)
        page.get_by_role("heading", name=heading).first.wait_for(state="attached")
        return page

    return open_at


@pytest.mark.parametrize("name", PLACES)
def test_a_page_is_reached_by_tab_and_enter(at, name):
    page = at("/settings" if name != "Settings" else "/cron", "Settings" if name != "Settings" else "Cron")
    tab_to(page, page.get_by_role("navigation", name="Pages").get_by_role("link", name=name))
    page.keyboard.press("Enter")
    expect(page.get_by_role("main").locator("h1")).to_contain_text(name)


def test_the_first_stop_leads_past_the_menu(at):
    page = at("/jobs", "Jobs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


def test_a_job_is_found_run_and_cancelled(at):
    page = at("/jobs?search=long-haul", "Jobs")
    tab_to(page, page.get_by_role("main").get_by_role("link", name="long-haul"))
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="long-haul").wait_for()
    tab_to(page, page.get_by_role("button", name="Run now"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("dialog").get_by_role("button", name="Run now"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/**")
    expect(page.locator("h1").get_by_text("Running")).to_be_visible()
    tab_to(page, page.get_by_role("button", name="Cancel", exact=True))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("dialog").get_by_role("button", name="Cancel the run"))
    page.keyboard.press("Enter")
    expect(page.locator("h1").get_by_text("Cancelled")).to_be_visible()


def test_runs_are_selected_and_their_action_is_previewed(at):
    page = at("/runs?job=etl", "Runs")
    tab_to(page, page.get_by_role("checkbox", name="Select all runs shown"))
    page.keyboard.press("Space")
    page.get_by_role("region", name="Selection").wait_for()
    page.keyboard.press("b")  # the rows lie between
    page.keyboard.press("Shift+Tab")
    tab_to(page, page.get_by_role("region", name="Selection").get_by_role("button", name="Retry", exact=True))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Retry").get_by_role("listitem").first).to_be_visible()


def test_what_the_timeline_shows_is_acted_on(at):
    page = at("/?span=86400000&search=sync-crm", "Timeline")
    page.get_by_role("navigation", name="Jobs").get_by_role("link", name="sync-crm").wait_for()
    tab_to(page, page.get_by_role("application", name="Timeline"))
    page.keyboard.press("a")
    dialog = page.get_by_role("dialog", name="Retry failed runs")
    expect(dialog.get_by_role("listitem").first).to_contain_text("sync-crm")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Retry, backfill or cancel what is shown")


@pytest.mark.parametrize(
    ("path", "heading", "button", "dialog"),
    [
        pytest.param("/calendar", "Calendar", "Add blackout", "Add blackout", id="calendar"),
        pytest.param("/settings", "Settings", "New token", "New token", id="settings"),
        pytest.param("/jobs/cache-warm", "cache-warm", "Backfill", "Backfill cache-warm", id="backfill"),
    ],
)
def test_the_action_of_a_page_is_asked_for_and_given_up(at, path, heading, button, dialog):
    page = at(path, heading)
    opener = page.get_by_role("main").get_by_role("button", name=button, exact=True)
    tab_to(page, opener)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name=dialog)).to_be_visible()
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()


@pytest.mark.parametrize(
    ("path", "heading"),
    [
        pytest.param("/overview", "Overview", id="overview"),
        pytest.param("/upcoming", "Upcoming", id="upcoming"),
        pytest.param("/queues", "Queues", id="queues"),
    ],
)
def test_a_list_leads_to_the_job_or_run_that_it_names(at, path, heading):
    page = at(path, heading)
    tab_to(page, page.locator("main a[href^='/jobs/'], main a[href^='/runs/']"))
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/jobs/" in url or "/runs/" in url)


def test_a_cron_expression_is_typed(at):
    page = at("/cron?expression=0 4 * * *", "Cron")
    tab_to(page, page.get_by_label("Expression"))
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("30 2 * * *")  # at once: a slow machine would ask about "30" alone, which is refused
    expect(page.get_by_text("At 02:30").first).to_be_visible()
