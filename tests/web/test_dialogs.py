"""Whether every dialog, the palette and the menu of a phone are for everybody."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.web.axe import ALL, AXE, COLOURS, judge, judge_in_both_themes
from tests.web.web_server import NARROW, open_page


@pytest.fixture
def page(browser, web_server, browser_errors):
    # Nothing moves: a half-faded text has no contrast.
    made = open_page(browser, web_server, browser_errors, reduced_motion="reduce")
    made.add_init_script(path=str(AXE))
    yield made
    made.context.close()


def press(name):
    return lambda page: page.get_by_role("main").get_by_role("button", name=name, exact=True).click()


def press_for_all(what, name):
    def act(page):
        page.get_by_role("checkbox", name=f"Select all {what} shown").check()
        page.get_by_role("region", name="Selection").get_by_role("button", name=name, exact=True).click()

    return act


DIALOGS = [
    pytest.param("/jobs/etl", press("Run now"), "Run etl now", "ROWS", id="run now"),
    pytest.param("/jobs/etl", press("Pause"), "Pause etl", "Reason", id="pause"),
    pytest.param("/jobs/cache-warm", press("Backfill"), "Backfill cache-warm", "occurrence", id="backfill"),
    pytest.param("/jobs?tag=reports", press_for_all("jobs", "Pause"), "Pause jobs", "Pause 2 jobs", id="pause of many"),
    pytest.param("/runs?job=etl", press_for_all("runs", "Retry"), "Retry", "Retry ", id="retry of many"),
    pytest.param("/calendar", press("Add blackout"), "Add blackout", "Reason", id="blackout"),
    pytest.param("/settings", press("New token"), "New token", "Role", id="token"),
    pytest.param("/settings", lambda page: page.keyboard.press("?"), "Keys", "On the timeline", id="keys"),
]


@pytest.mark.parametrize(("path", "act", "name", "text"), DIALOGS)
def test_a_dialog_is_for_everybody_and_ends_with_escape(page, web_server, path, act, name, text):
    page.goto(web_server.url + path)
    page.get_by_role("main").get_by_role("heading").first.wait_for()
    act(page)
    dialog = page.get_by_role("dialog", name=name)
    dialog.get_by_text(re.compile(text)).first.wait_for()
    judge_in_both_themes(page)
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_the_palette_is_for_everybody(page, web_server):
    page.goto(f"{web_server.url}/jobs")
    page.get_by_role("link", name="hourly-report").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search jobs").fill("hourly")
    page.get_by_role("option", name="Run hourly-report").wait_for()
    judge_in_both_themes(page)


def test_the_menu_of_a_phone_is_for_everybody_takes_the_focus_and_gives_it_back(page, web_server):
    page.set_viewport_size(NARROW)
    page.goto(f"{web_server.url}/jobs")
    page.get_by_role("link", name="hourly-report").wait_for()
    menu = page.get_by_role("button", name="Menu")
    menu.press("Enter")
    first = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Timeline")
    expect(first).to_be_focused()
    judge(page, ALL)
    page.emulate_media(color_scheme="dark")
    judge(page, COLOURS)
    page.keyboard.press("Escape")
    expect(first).to_be_hidden()
    expect(menu).to_be_focused()
    menu.press("Enter")
    page.mouse.click(NARROW["width"] - 20, NARROW["height"] / 2)  # beside it
    expect(first).to_be_hidden()
