"""Whether the timeline shows what happened and what will, and follows wheel, drag, keys and events."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from playwright.sync_api import expect

from tests.present import present
from tests.web.web_server import NARROW, open_page, wait_for

STAGE = "Timeline"


def lane(page, job):
    """The name of a job beside its lane; the tile of the next fire may link to the same job."""
    return page.get_by_role("navigation", name="Jobs").get_by_role("link", name=job)


@pytest.fixture
def timeline(page, web_server):
    page.goto(web_server.url)
    lane(page, "etl").wait_for()
    return page


def span_of(page):
    # Asked of the page: what the driver knows of the address is as old as its last word with the browser.
    found = re.search(r"[?&]span=(\d+)", page.evaluate("location.search"))
    return int(found[1]) if found else 0


def is_drawn(page, token):
    return drawn(page, token) > 20


def drawn(page, token, canvas=".timeline-stage canvas"):
    """How many pixels of the lanes have a colour of the page's own, edges left out."""
    return page.evaluate(
        """([token, place]) => {
            const canvas = document.querySelector(place);
            const probe = document.body.appendChild(document.createElement('i'));
            probe.style.color = `var(--${token})`;
            const [red, green, blue] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
            probe.remove();
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            let found = 0;
            for (let at = 0; at < data.length; at += 4) {
                const apart = Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue);
                found += apart < 40;
            }
            return found;
        }""",
        [token, canvas],
    )


@pytest.mark.parametrize(
    ("minutes", "span"),
    [pytest.param(5, 900_000, id="of five minutes"), pytest.param(40, 3_600_000, id="of forty")],
)
def test_a_young_ledger_is_shown_from_its_beginning(page, web_server, minutes, span):
    def younger(route):
        answer = route.fetch().json()
        since = datetime.fromisoformat(answer["now"]) - timedelta(minutes=minutes)
        route.fulfill(json={**answer, "since": since.isoformat()})

    page.route("**/api/v1/timeline?*", younger)
    page.goto(web_server.url)
    wait_for(lambda: span_of(page) == span)
    page.unroute_all(behavior="wait")


def test_two_fingers_zoom(browser, web_server, browser_errors):
    page = open_page(browser, web_server, browser_errors, viewport=NARROW, has_touch=True, is_mobile=True)
    page.goto(f"{web_server.url}/?span=21600000")
    lane(page, "etl").wait_for()
    box = present(page.locator(".timeline-stage").bounding_box())
    y, middle = box["y"] + 60, box["x"] + box["width"] / 2
    fingers = page.context.new_cdp_session(page)

    def touch(kind, apart):
        points = [{"x": middle + sign * apart / 2, "y": y, "id": number} for number, sign in ((0, -1), (1, 1))]
        touched = [] if kind == "touchEnd" else points
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touched})

    def pinch(first, last):
        touch("touchStart", first)
        for step in range(1, 9):
            touch("touchMove", first + (last - first) * step / 8)
        touch("touchEnd", last)

    pinch(60, 240)
    wait_for(lambda: 0 < span_of(page) < 8_000_000)
    near = span_of(page)
    pinch(240, 60)
    wait_for(lambda: span_of(page) > 2 * near)
    page.context.close()


def test_a_failing_job_says_so_on_the_edge_where_its_failure_is_not_shown(page, web_server):
    run = web_server.post("/jobs/nightly-build/trigger?wait=30")["run"]

    def failing(route):
        answer = route.fetch().json()
        for each in answer["lanes"]:
            mark = {"run": run, "at": "2026-01-02T03:04:00Z", "state": "failed", "trigger": "scheduler", "reason": None}
            rest = {"started_at": None, "finished_at": None, "lateness_seconds": None, "attempt": 1}
            each.update(marks=[], cells=[], gaps=[], failing_run={**mark, **rest})
        route.fulfill(json=answer)

    page.route("**/api/v1/timeline?*", failing)
    page.goto(f"{web_server.url}/?search=nightly-build&span=3600000")
    lane(page, "nightly-build").wait_for()
    wait_for(partial(is_drawn, page, "failed"))
    box = present(page.locator(".timeline-stage canvas").bounding_box())
    page.mouse.click(box["x"] + 40, box["y"] + 15)
    page.wait_for_url("**/runs/nightly-build*")
    page.unroute_all(behavior="wait")


def test_a_period_is_dragged_over_on_a_narrow_screen(browser, web_server, browser_errors):
    page = open_page(browser, web_server, browser_errors, viewport=NARROW)
    page.goto(f"{web_server.url}/?span=21600000")
    lane(page, "etl").wait_for()
    page.get_by_role("button", name="Act on a period").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    page.locator(".timeline-stage").scroll_into_view_if_needed()
    # On the name of a lane, which lies over it here.
    box = present(lane(page, "etl").locator(".cut").bounding_box())
    stage = present(page.locator(".timeline-stage").bounding_box())
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(stage["x"] + stage["width"] * 0.6, box["y"] + 40, steps=4)
    page.mouse.up()
    dialog = page.get_by_role("dialog", name="Retry failed runs")
    expect(dialog).to_be_visible()
    assert dialog.evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth"), "its parts fit"
    page.context.close()


def test_outcomes_have_their_colours(timeline):
    timeline.get_by_role("button", name="1d: show one day").click()
    for token in ("succeeded", "failed", "now", "planned", "skipped"):
        wait_for(partial(is_drawn, timeline, token))


@pytest.mark.parametrize(
    ("span", "label"),
    [
        pytest.param(60_000, "1m: show one minute", id="a minute"),
        pytest.param(31_622_400_000, "1y: show one year", id="a year"),
    ],
)
def test_a_span_is_chosen_and_shared_by_its_address(timeline, span, label):
    timeline.get_by_role("button", name=label).click()
    wait_for(lambda: span_of(timeline) == span)
    timeline.reload()
    expect(timeline.get_by_role("button", name=label)).to_have_attribute("aria-pressed", "true")


def test_wheel_drag_and_keys_move_through_time(timeline):
    timeline.get_by_role("button", name="6h: show 6 hours").click()
    wait_for(lambda: span_of(timeline) == 21_600_000)
    stage = timeline.get_by_role("application", name=STAGE)
    box = stage.bounding_box()
    timeline.mouse.move(box["x"] + 400, box["y"] + 60)
    timeline.keyboard.down("Control")
    timeline.mouse.wheel(0, -60)
    timeline.keyboard.up("Control")
    wait_for(lambda: span_of(timeline) < 21_600_000)
    now = timeline.get_by_role("button", name="Now", exact=True)
    expect(now).to_have_attribute("aria-pressed", "true")
    timeline.mouse.down()
    timeline.mouse.move(box["x"] + 600, box["y"] + 60, steps=4)
    timeline.mouse.up()
    expect(now).to_have_attribute("aria-pressed", "false")
    wait_for(lambda: "at=" in timeline.evaluate("location.search"))
    stage.focus()
    before = span_of(timeline)
    timeline.keyboard.press("-")
    wait_for(lambda: span_of(timeline) > before * 1.8)
    timeline.keyboard.press("n")
    expect(now).to_have_attribute("aria-pressed", "true")


def test_zooming_ends_at_a_second(timeline):
    stage = timeline.get_by_role("application", name=STAGE)
    stage.focus()
    for _ in range(20):
        timeline.keyboard.press("+")
    wait_for(lambda: span_of(timeline) == 1_000)


def test_keys_walk_along_what_happened_and_open_it(timeline):
    timeline.get_by_role("searchbox", name="Filter jobs").fill("cache-warm")
    expect(timeline.locator(".lane-name")).to_have_count(1)
    stage = timeline.get_by_role("application", name=STAGE)
    stage.focus()
    timeline.keyboard.press("ArrowDown")
    said = timeline.locator(".timeline-said")
    expect(said).to_contain_text("cache-warm")
    first = said.inner_text()
    timeline.keyboard.press("ArrowLeft")
    expect(said).not_to_have_text(first)
    for _ in range(30):
        if "Succeeded" in said.inner_text():
            break
        timeline.keyboard.press("ArrowLeft")
    timeline.keyboard.press("Enter")
    timeline.wait_for_url("**/runs/**")
    expect(timeline.get_by_text("Succeeded").first).to_be_visible()


def test_pointing_at_a_gap_says_why(timeline, web_server):
    gap = web_server.get("/ledger/gaps?job=sync-crm")["items"][0]
    timeline.goto(f"{web_server.url}/?search=sync-crm&span=3600000&at={gap['at']}")
    lane(timeline, "sync-crm").wait_for()
    box = timeline.get_by_role("application", name=STAGE).bounding_box()

    def says_why():
        for x in range(0, int(box["width"]), 60):
            timeline.mouse.move(box["x"] + x, box["y"] + 15)
            tip = timeline.locator("#tip")
            if tip.is_visible() and "skipped: missed" in tip.inner_text():
                return "UTC" in tip.inner_text()
        return False

    wait_for(says_why)


def test_the_table_says_the_same_in_words(timeline):
    timeline.get_by_role("searchbox", name="Filter jobs").fill("hourly-report")
    expect(timeline.locator(".lane-name")).to_have_count(1)
    timeline.get_by_role("button", name="1d: show one day").click()
    timeline.get_by_role("button", name="Table").click()
    table = timeline.get_by_role("region", name="Occurrences in this time range")
    expect(table.get_by_text("Succeeded").first).to_be_visible()
    expect(table.get_by_text("Catch-up").first).to_be_visible()


def test_a_started_run_appears_without_a_reload(timeline, web_server):
    timeline.get_by_role("searchbox", name="Filter jobs").fill("heartbeat")
    expect(timeline.locator(".lane-name")).to_have_count(1)
    timeline.get_by_role("button", name="1m: show one minute").click()
    expect(timeline.get_by_text("Live", exact=True)).to_be_visible()
    timeline.get_by_role("button", name="Table").click()
    newest = timeline.locator(".timeline-table tbody tr", has_text="Succeeded").first
    newest.wait_for()
    before = newest.inner_text()
    wait_for(lambda: newest.inner_text() != before)


def test_ten_thousand_jobs_are_one_timeline(browser, crowded_server, browser_errors):
    page = open_page(browser, crowded_server, browser_errors)
    page.goto(crowded_server.url)
    expect(page.get_by_text("10,000 jobs").first).to_be_visible()
    expect(lane(page, "job-00000")).to_be_visible()
    page.locator(".timeline-scroll").evaluate("element => element.scrollTop = element.scrollHeight")
    expect(lane(page, "job-09999")).to_be_visible()
    assert page.locator(".lane-name").count() < 100
    page.get_by_role("searchbox", name="Filter jobs").fill("job-0777")
    expect(page.get_by_text("10 jobs").first).to_be_visible()
    lane(page, "job-07771").click()
    expect(page.get_by_role("heading", name="job-07771")).to_be_visible()
    page.context.close()


def test_groups_fold_into_one_lane_and_the_address_keeps_the_view(timeline):
    names = timeline.get_by_role("navigation", name="Jobs")
    timeline.get_by_label("Groups of jobs").select_option("Group by tag")
    group = names.get_by_role("button", name="reports 2 jobs")
    expect(group).to_have_attribute("aria-expanded", "false")
    expect(lane(timeline, "mail-digest")).to_have_count(0)
    group.click()
    expect(lane(timeline, "mail-digest")).to_be_visible()
    timeline.reload()
    expect(lane(timeline, "mail-digest")).to_be_visible()
    timeline.get_by_label("Order of jobs").select_option("By name")
    expect(names.get_by_role("button").first).to_contain_text("data")
    group.click()
    expect(lane(timeline, "mail-digest")).to_have_count(0)


def test_folded_groups_are_left_out_of_an_action_and_the_page_says_so(timeline):
    names = timeline.get_by_role("navigation", name="Jobs")
    timeline.get_by_label("Groups of jobs").select_option("Group by tag")
    names.get_by_role("button", name="reports 2 jobs").click()
    expect(lane(timeline, "mail-digest")).to_be_visible()
    timeline.get_by_role("application", name=STAGE).press("a")
    expect(timeline.get_by_text("Open a group to act on its jobs.")).to_be_visible()
    expect(timeline.get_by_role("dialog", name="Retry failed runs")).to_contain_text("2 jobs")


def test_a_failure_is_solid_red_at_every_zoom_and_a_downtime_is_a_band(page, web_server):
    for span in (43_200_000, 2_592_000_000, 31_536_000_000):
        page.goto(f"{web_server.url}/?span={span}&sort=name")
        lane(page, "etl").wait_for()
        wait_for(partial(is_drawn, page, "failed"))
    page.goto(f"{web_server.url}/?span=43200000")
    down = web_server.get(f"/timeline?from={_ago(12)}&to={_ago(-1)}")["downtimes"]
    assert [band["jobs"] > 2 for band in down] == [True]
    wait_for(partial(is_drawn_on_axis, page, "timed-out"))


FUTURE_SHARE = """() => {
    const canvas = document.querySelector('.timeline-stage canvas');
    const ratio = canvas.width / canvas.clientWidth;
    // Above the line of the first lane, from a little after now to the end.
    const [begin, y] = [Math.floor(canvas.width * 0.75), Math.floor(11 * ratio)];
    const pixels = canvas.getContext('2d').getImageData(begin, y, canvas.width - begin, 1).data;
    const tints = new Map();
    for (let at = 0; at < pixels.length; at += 4) {
        const tint = `${pixels[at]} ${pixels[at + 1]} ${pixels[at + 2]}`;
        tints.set(tint, (tints.get(tint) ?? 0) + 1);
    }
    const { data } = canvas.getContext('2d').getImageData(canvas.width - 1, 0, 1, 1);
    return 1 - (tints.get(`${data[0]} ${data[1]} ${data[2]}`) ?? 0) / (canvas.width - begin);
}"""
"""The share of the future of the first lane that is not the ground."""


def test_a_future_too_dense_to_be_drawn_singly_is_a_density(page, web_server):
    page.goto(f"{web_server.url}/?span=7200000&search=cache-warm")
    lane(page, "cache-warm").wait_for()
    wait_for(partial(is_drawn, page, "planned"))
    assert page.evaluate(FUTURE_SHARE) < 0.6, "rings, with ground between them"
    page.goto(f"{web_server.url}/?span=2592000000&search=cache-warm")
    lane(page, "cache-warm").wait_for()
    wait_for(lambda: page.evaluate(FUTURE_SHARE) > 0.95)
    assert drawn(page, "planned") == 0, "no ring is left"


def is_drawn_on_axis(page, token):
    return drawn(page, token, ".timeline-axis canvas") > 20


def _ago(hours):
    return (datetime.now(UTC) - timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
