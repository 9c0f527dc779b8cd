"""Whether one gets in, around and out: signing in, the palette, keys, zones and themes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, Route, expect

from tests.web.arrivals import SETTLED, Arrivals, Order
from tests.web.web_server import NARROW, WIDE, ZONE, open_page, wait_for


def stranger(browser, **looks):
    return browser.new_context(timezone_id="Europe/Berlin", **looks).new_page()


def test_the_link_of_the_first_start_signs_in_and_leaves_no_trace(browser, web_server):
    page = stranger(browser)
    page.goto(f"{web_server.url}/jobs#token={web_server.token}")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert page.url == f"{web_server.url}/jobs"
    page.context.close()


def test_a_stranger_is_asked_for_a_token_and_sees_when_it_is_wrong(browser, web_server):
    page = stranger(browser)
    page.goto(f"{web_server.url}/jobs")
    page.get_by_label("Token").fill("evt_not_one")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("invalid")
    page.get_by_label("Token").fill(web_server.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()
    page.context.close()


def test_a_session_that_ends_says_so(page, web_server, browser_errors):
    page.goto(f"{web_server.url}/jobs")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    page.context.clear_cookies()
    expect(page.get_by_role("alert")).to_contain_text("Your session has ended")
    browser_errors.clear()


def test_the_lamp_is_true_on_a_page_without_data(page, web_server):
    page.goto(f"{web_server.url}/nowhere")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_only_the_page_scrolls_and_not_the_document(page, web_server, viewport):
    page.set_viewport_size(viewport)
    page.goto(f"{web_server.url}/jobs/etl")
    expect(page.get_by_role("region", name="Steps in the last runs")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollHeight") <= viewport["height"]


def test_a_page_that_was_signed_in_before_does_not_wait_to_hear_who_is_looking(page, web_server):
    page.goto(f"{web_server.url}/jobs")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    held: list[Route] = []
    page.route("**/api/v1/session", lambda route: held.append(route))
    page.reload(wait_until="commit")
    # What this person could do before is offered at once: buttons that came later would move the page.
    page.get_by_role("button", name="Run hourly-report now").click()
    sent = []
    page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    page.evaluate(SETTLED)
    assert held
    assert not sent, "only who is known may act"
    for route in held:
        route.continue_()
    page.wait_for_url("**/runs/**")
    assert [request.url for request in sent if "/trigger" in request.url]


def open_palette(page) -> None:
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()


def test_the_palette_finds_jobs_pages_and_actions(page, web_server):
    page.goto(f"{web_server.url}/settings")
    page.get_by_role("heading", name="Settings").wait_for()
    open_palette(page)
    page.keyboard.type("hourly")
    expect(page.get_by_role("option", name="Run hourly-report")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="hourly-report")).to_be_visible()
    open_palette(page)
    page.keyboard.type("run hourly")
    page.keyboard.press("Escape")
    expect(page.get_by_role("combobox")).to_have_count(0)
    open_palette(page)
    page.keyboard.type("calen")
    page.get_by_role("option", name="Calendar").click()
    expect(page.get_by_role("heading", name="Calendar")).to_be_visible()


def test_the_palette_finds_a_job_of_the_page_before_the_server_answers(page, web_server):
    page.goto(f"{web_server.url}/jobs")
    page.get_by_role("link", name="hourly-report").wait_for()
    held: list[Route] = []
    page.route("**/api/v1/jobs?search=*", lambda route: held.append(route))
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search jobs, pages and actions")).to_be_focused()
    with page.expect_request("**/api/v1/jobs?search=hourly*"):
        page.keyboard.insert_text("hourly")
    found = page.get_by_role("listbox", name="Results").get_by_role("option")
    expect(found.first).to_contain_text("hourly-report")
    page.unroute_all(behavior="ignoreErrors")


def test_a_page_is_asked_for_when_its_link_is_pressed(page, web_server):
    asked = []
    page.goto(f"{web_server.url}/jobs")
    page.get_by_role("link", name="etl", exact=True).hover()
    page.on("request", lambda request: asked.append(request.url.partition("/api/v1")[2]))
    parts = ["", "/durations?limit=200", "/steps?limit=40", "/backfill?limit=5", "/graph", "/upcoming?count=12"]
    with page.expect_request("**/api/v1/jobs/etl/upcoming*"):
        page.mouse.down()
    assert [f"/jobs/etl{part}" in asked for part in parts] == [True] * len(parts)
    page.mouse.up()
    page.locator(".job-cards .uplot").first.wait_for()
    assert [asked.count(f"/jobs/etl{part}") for part in parts] == [1] * len(parts)


@pytest.mark.parametrize(
    ("keys", "heading"),
    [
        pytest.param("gj", "Jobs", id="jobs"),
        pytest.param("gr", "Runs", id="runs"),
        pytest.param("gu", "Upcoming", id="upcoming"),
        pytest.param("gq", "Queues", id="queues"),
    ],
)
def test_two_keys_lead_to_a_page(page, web_server, keys, heading):
    page.goto(f"{web_server.url}/settings")
    page.get_by_role("heading", name="Settings").wait_for()
    for key in keys:
        page.keyboard.press(key)
    expect(page.get_by_role("heading", name=heading)).to_be_visible()


def test_keys_go_from_row_to_row(page, web_server):
    page.goto(f"{web_server.url}/jobs")
    page.get_by_role("link", name="backup-orders").wait_for()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="backup-orders")).to_be_focused()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="cache-warm")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_time_is_shown_in_the_zone_that_was_chosen_and_everywhere_when_pointed_at(page, web_server):
    run = web_server.get("/runs?job=mail-digest&limit=1")["items"][0]
    page.goto(f"{web_server.url}/runs?job=mail-digest")
    due = page.locator(f"time[datetime='{run['scheduled_for']}']").first
    zones = page.get_by_role("banner").get_by_role("group", name="Time zone")
    zones.get_by_role("button", name="UTC").click()
    expect(due).to_contain_text("22:00:00")
    zones.get_by_role("button", name="Job").click()
    expect(due).to_contain_text("07:00:00")
    due.hover()
    tip = page.locator("#tip")
    expect(tip).to_contain_text("Europe/Berlin")
    expect(tip).to_contain_text("Asia/Tokyo +09:00")
    expect(tip).to_contain_text("22:00:00 UTC")
    page.reload()
    expect(due).to_contain_text("07:00:00")


def test_the_theme_that_was_chosen_is_kept(page, web_server):
    page.goto(f"{web_server.url}/settings")
    page.get_by_role("group", name="Theme").get_by_role("button", name="Dark").click()
    page.reload()
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


def test_a_narrow_screen_has_a_menu(browser, web_server, browser_errors):
    page = open_page(browser, web_server, browser_errors, viewport=NARROW, has_touch=True)
    page.goto(f"{web_server.url}/jobs")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Calendar").click()
    expect(page.get_by_role("heading", name="Calendar")).to_be_visible()
    expect(page.get_by_role("link", name="Queues")).not_to_be_visible()
    page.context.close()


def test_a_cron_expression_is_read_while_it_is_typed(page, web_server):
    page.goto(f"{web_server.url}/cron?timezone=Europe/Berlin")
    field = page.get_by_label("Expression")
    field.fill("30 2 * * *")
    expect(page.get_by_text("At 02:30", exact=False).first).to_be_visible()
    expect(page.locator(".fires li")).to_have_count(20)
    expect(page.get_by_text("Daylight saving changes")).to_be_visible()
    expect(page.get_by_text("02:30", exact=False).nth(1)).to_be_visible()


def test_an_expression_that_is_none_is_answered_with_what_to_write(page, web_server, browser_errors):
    page.goto(f"{web_server.url}/cron")
    page.get_by_label("Expression").fill("0 22-2 * * *")
    expect(page.get_by_role("alert")).to_contain_text("22-2")
    assert all("400" in one or "422" in one for one in browser_errors)
    browser_errors.clear()


def test_a_definition_with_errors_is_reported_on_the_home_page(page, web_server):
    broken = web_server.folder / "broken.yaml"
    broken.write_text("schedule: '0 22-2 * * *'\ncommand: echo never\n")
    try:
        page.goto(web_server.url)
        row = (
            page.get_by_role("region", name="Needs attention").get_by_role("listitem").filter(has_text="broken.yaml:1")
        )
        expect(row).to_contain_text("1 error; not loaded")
        row.get_by_role("link", name="Show errors").click()
        expect(page.get_by_text("hour range 22-2 goes backwards")).to_be_visible()
    finally:
        broken.unlink()


def test_the_number_of_failures_leads_to_all_that_it_counts(page, web_server):
    page.goto(f"{web_server.url}/overview")
    tile = page.get_by_role("link", name="Failed, 24 h")
    tile.click()
    expect(page.get_by_label("Outcome")).to_have_value("failed,timed_out,lost")
    asked = page.url.partition("from=")[2]
    assert asked, "it counts a day, and leads to a day"


def test_the_days_of_the_calendar_are_gone_through_by_arrows(page, web_server):
    page.goto(f"{web_server.url}/calendar")
    days = page.locator(".heat-day")
    days.first.wait_for()
    today = page.locator(".heat-day[tabindex='0']")
    today.focus()
    before = days.evaluate_all("all => all.indexOf(document.activeElement)")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    assert days.evaluate_all("all => all.indexOf(document.activeElement)") == before - 7 + 1
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Show runs")).to_be_visible()


def test_a_day_that_a_calendar_excludes_is_marked_and_named(page, web_server):
    tomorrow = (datetime.now(ZoneInfo(ZONE)) + timedelta(days=1)).date().isoformat()

    def with_a_feast(route):
        answer = route.fetch().json()
        feast = {"date": tomorrow, "names": ["Founders' Day"], "jobs": 2, "occurrences": 5}
        route.fulfill(json={**answer, "excluded": [feast]})

    page.route("**/api/v1/calendar?*", with_a_feast)
    page.goto(f"{web_server.url}/calendar")
    day = page.get_by_role("button", name=tomorrow)
    expect(day).to_have_accessible_name(re.compile("5 occurrences excluded by a calendar: Founders' Day"))
    expect(day.locator(".heat-excluded")).to_have_count(1)
    day.click()
    expect(page.get_by_role("status").filter(has_text="Founders' Day")).to_be_visible()
    expect(page.locator(".heat-excluded")).to_have_count(1)
    page.unroute_all(behavior="wait")


def test_the_runs_of_a_job_are_found_by_a_part_of_its_name(page, web_server, browser_errors):
    page.goto(f"{web_server.url}/runs")
    page.get_by_label("Job", exact=True).fill("hourly-rep")
    page.get_by_role("button", name="hourly-report").click()
    expect(page.get_by_role("link", name="hourly-report").first).to_be_visible()
    assert page.url.endswith("job=hourly-report")
    browser_errors.clear()  # no job has half a name, which browsers note


OBSERVE = """
window.shifts = [];
const tell = ({value, sources}) => ({value, moved: sources.map(({node, previousRect, currentRect}) =>
  `${node?.className || node?.nodeName} from ${previousRect.top} to ${currentRect.top}`)});
const note = (entries) => window.shifts.push(...entries.map(tell));
const observer = new PerformanceObserver((list) => note(list.getEntries()));
observer.observe({ type: "layout-shift", buffered: true });
window.allShifts = () => (note(observer.takeRecords()), window.shifts);
"""


LOADED = (
    ("/", ".strip:not(.is-loading)"),
    ("/", ".lane-name:not(.is-loading)"),
    ("/?view=table", "tbody tr"),
    ("/overview", ".card .list"),
    ("/jobs", "tbody tr"),
    ("/jobs/etl", ".uplot"),
    ("/jobs/etl?tab=ledger", "tbody tr"),
    ("/jobs/etl?tab=ledger&at={due}", ".why-verdict"),
    ("/jobs/etl?tab=calendar", ".heat-day"),
    ("/jobs/etl?tab=rules", "tbody tr"),
    ("/runs", "tbody tr"),
    ("/runs/{run}", ".log"),
    ("/runs/{run}?steps=graph", ".graph"),
    ("/calendar", ".card + .card .empty"),
    ("/upcoming", "tbody tr"),
    ("/cron?expression=30 2 * * *&timezone=Europe/Berlin", ".fires li"),
    ("/executors", ".card + .card tbody tr"),
    ("/queues", "main .card"),
    ("/audit", "tbody tr"),
    ("/settings", "tbody tr"),
)
"""Pages, and what is there when they have loaded."""


@pytest.fixture(scope="module")
def backfilled(web_server):
    """A job whose page has all of its cards, and a run of it that has printed something."""
    due = web_server.get("/runs?job=etl&state=succeeded&limit=1")["items"][0]["scheduled_for"]
    end = (datetime.fromisoformat(due) + timedelta(seconds=1)).isoformat()
    web_server.post("/jobs/etl/backfill?wait=60", {"from": due, "to": end, "only_missing": False})
    run = web_server.post("/jobs/etl/trigger?wait=60")["run"]
    wait_for(lambda: web_server.get(f"/runs/{quote(run, safe='')}")["state"] == "succeeded")
    return {"run": quote(run, safe=""), "due": due}


@pytest.mark.parametrize("order", [pytest.param(one, id=one.value) for one in Order])
@pytest.mark.parametrize("size", [pytest.param(WIDE, id="wide"), pytest.param(NARROW, id="narrow")])
def test_nothing_moves_while_the_page_loads(browser, web_server, backfilled, browser_errors, size, order):
    page = open_page(browser, web_server, browser_errors, viewport=size)
    page.add_init_script(OBSERVE)
    # A browser that was signed in before asks for everything at once.
    page.goto(f"{web_server.url}/settings")
    page.get_by_role("button", name="Sign out").wait_for()
    arrivals = Arrivals(page, order)
    moved = []
    for path, ready in LOADED:
        arrivals.go_to(web_server.url + path.format(**backfilled))
        wait_for(partial(is_loaded, page, arrivals, ready))
        shifts = page.evaluate("window.allShifts()")
        if sum(one["value"] for one in shifts) >= SHIFT_MAX:
            moved.append((path, shifts))
    page.unroute_all(behavior="ignoreErrors")
    page.context.close()
    assert not moved


SHIFT_MAX = 0.05


def is_loaded(page: Page, arrivals: Arrivals, ready: str) -> bool:
    return not arrivals.let_through() and page.locator(ready).count() > 0


def test_what_needs_attention_moves_nothing_when_it_is_late(page, web_server):
    held: list[Route] = []
    page.route("**/api/v1/attention", lambda route: held.append(route))
    page.goto(web_server.url)
    page.locator(".lane-name:not(.is-loading)").first.wait_for()
    strip = page.locator(".strip:not(.is-loading)")
    strip.wait_for()
    before = strip.bounding_box()
    item = {"kind": "lagging", "action": None, "since": None, "count": 1, "text": "", "seconds": 90}
    answer = {"now": "2026-03-02T09:00:00Z", "jobs": 12, "items": [item] * 3, "total": 3, "counts": {"lagging": 3}}
    held[0].fulfill(json=answer)
    region = page.get_by_role("region", name="Needs attention")
    expect(region).to_contain_text("Needs attention 3")
    assert strip.bounding_box() == before
    expect(region.get_by_role("listitem")).to_have_count(0)
    region.get_by_role("button", name="Show").click()
    expect(region.get_by_role("listitem").first).to_contain_text("Planning lags by 1m 30s")
    page.unroute_all(behavior="ignoreErrors")


def test_all_that_needs_attention_is_legible_at_once_and_squeezes_nothing(page, web_server):
    shared = {
        "count": 1,
        "active": 0,
        "since": "2026-03-02T09:00:00Z",
        "job_name": "Prices of the day in all countries",
    }
    error = "ERROR: could not connect to the server at db-7.internal, port 5432: connection refused"
    failing = {**shared, "kind": "failing", "state": "failed", "action": "retry", "text": error}
    wait = {"kind": "queue", "name": "heavy-work-of-the-night-that-is-not-urgent", "limit": 12, "jobs": []}
    stuck = {
        **shared,
        "kind": "stuck",
        "state": "waiting",
        "action": "show-run",
        "text": "",
        "wait": wait,
        "count": 7_000,
    }
    items = [{**failing, "job": f"prices-{number:02}", "run": f"prices-{number:02}@1"} for number in range(30)]
    items.append({**stuck, "job": "stock", "run": "stock@1"})
    answer = {
        "now": "2026-03-02T09:00:00Z",
        "jobs": 99,
        "items": items,
        "total": 31,
        "counts": {"failing": 30, "stuck": 1},
    }
    page.route("**/api/v1/attention", lambda route: route.fulfill(json=answer))
    page.goto(web_server.url)
    strip = page.locator(".strip:not(.is-loading)")
    strip.wait_for()
    before = strip.evaluate("strip => strip.offsetHeight")
    region = page.get_by_role("region", name="Needs attention")
    region.get_by_role("button", name="Show all 31").click()
    expect(region.get_by_role("listitem")).to_have_count(31)
    # As long as it has been so, not how long ago the newest run was.
    expect(region.get_by_role("listitem").first).to_contain_text(re.compile(r"for \d+d"))
    assert region.locator(".attention-text").first.evaluate("text => text.offsetWidth") > 350
    assert strip.evaluate("strip => strip.offsetHeight") == before
    page.unroute_all(behavior="ignoreErrors")


def test_on_a_phone_the_name_of_a_failing_job_has_a_line(browser, web_server, browser_errors):
    page = open_page(browser, web_server, browser_errors, viewport=NARROW)
    item = {"kind": "failing", "state": "failed", "action": "retry-failed", "count": 7, "text": "", "active": 0}
    item |= {"since": "2026-03-02T09:00:00Z", "job": "etl", "job_name": "Prices of the day"}
    items = [{**item, "run": f"etl@{number}"} for number in range(3)]
    answer = {"now": "2026-03-02T09:00:00Z", "jobs": 12, "items": items, "total": 3, "counts": {"failing": 3}}
    page.route("**/api/v1/attention", lambda route: route.fulfill(json=answer))
    page.goto(web_server.url)
    names = page.get_by_role("region", name="Needs attention").locator(".attention-name")
    # More would push the timeline off the screen.
    expect(names).to_have_count(2)
    widths = names.evaluate_all("names => names.map(name => name.getBoundingClientRect().width)")
    assert min(widths) > NARROW["width"] / 2
    page.unroute_all(behavior="ignoreErrors")
    page.context.close()


@pytest.mark.parametrize("path", ["/jobs", "/runs"])
def test_on_a_phone_a_list_has_names_and_outcomes(browser, web_server, browser_errors, path):
    page = open_page(browser, web_server, browser_errors, viewport=NARROW)
    page.goto(web_server.url + path)
    badges = page.locator("tbody .outcome-cell .badge")
    badges.first.wait_for()
    assert (
        max(badges.evaluate_all("badges => badges.map(badge => badge.getBoundingClientRect().right)")) < NARROW["width"]
    )
    names = page.locator("tbody .job-cell").evaluate_all("names => names.map(name => name.offsetWidth)")
    assert min(names) > NARROW["width"] / 3
    page.context.close()


IN_LINES = """part => {
    const tops = [...document.querySelectorAll(`${part} > *`)].map(one => one.getBoundingClientRect())
        .filter(box => box.height).map(box => Math.round(box.top + box.height / 2));
    return new Set(tops.map(top => Math.round(top / 8))).size;
}"""
"""In how many lines the children of an element are."""


def test_filters_and_tools_are_in_one_line_on_a_usual_screen(page, web_server):
    page.goto(f"{web_server.url}/runs")
    page.locator("tbody tr").first.wait_for()
    assert page.evaluate(IN_LINES, ".filters") == 1
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(web_server.url)
    page.locator(".lane-name").first.wait_for()
    for part in (".toolbar-jobs", ".toolbar-time", ".toolbar-view"):
        assert page.evaluate(IN_LINES, part) == 1, part


def test_names_have_room_on_a_usual_screen(page, web_server):
    page.goto(web_server.url)
    name = page.locator(".lane-name:not(.is-loading)").first
    name.wait_for()
    assert name.evaluate("name => name.getBoundingClientRect().width") > 280
    page.goto(f"{web_server.url}/jobs")
    page.locator("tbody .schedule-cell").first.wait_for()
    widths = page.locator("tbody .schedule-cell").evaluate_all("cells => cells.map(cell => cell.offsetWidth)")
    assert max(widths) <= 140, "the schedule leaves its place to the name of the job"


def test_the_frame_is_painted_before_any_script(browser, web_server):
    """The page itself has the sidebar, so that the first paint waits for no code and no answer."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(web_server.url)
    expect(page.locator(".sidebar .brand")).to_have_text("Evertick")
    context.close()


def test_a_phone_has_its_menu_before_the_server_has_said_who_is_signed_in(browser, web_server, browser_errors):
    page = open_page(browser, web_server, browser_errors, viewport=NARROW)
    waiting: list[Route] = []
    page.route("**/api/v1/session", lambda route: waiting.append(route))
    page.goto(f"{web_server.url}/jobs")
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("link", name="Upcoming")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
    for route in waiting:
        route.continue_()
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    page.context.close()
