"""Does the page work on a slow line, through an outage, and is what it shows then true?"""

from __future__ import annotations

import re
import time
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect

from evertick.model.instant import DAY, MINUTE, SECOND
from evertick.model.ledger import Batch, JobRecord
from evertick.model.lifecycle import FAILED, LAUNCHING, PLANNED, RUNNING, SKIPPED, SkipReason, Trigger
from evertick.model.run import Change, Entry, RunKey
from evertick.stores import open_store
from tests.web.line import Line
from tests.web.web_server import WebServer, open_page, wait_for

YEARLY = 'schedule: "0 0 1 1 *"\n'
ZONES = ("Asia/Tokyo", "America/New_York")
LINES = 60_000


def write_busy_jobs(folder):
    """Enough of them that a list is long, and one that runs four times a second so that there is always news."""
    for number in range(40):
        text = f"name: Report {number:02}\n{YEARLY}timezone: {ZONES[number % 2]}\ncommand: echo {number}\n"
        (folder / f"report-{number:02}.yaml").write_text(text + f"description: {'What happened ' * 9}\n")
    jobs = {
        "pulse": "schedule: {every: 250ms, missedExecution: skip}\ncommand: 'true'\n",
        "chatty": f"{YEARLY}command: seq -f 'this is line %g of the log' {LINES}\n",
        "wordy": f"{YEARLY}command: seq -f 'this is line %g of a log with lines of two rows or three each' 20000\n",
        "doomed": 'schedule: "2-57/5 * * * *"\ncommand: exit 1\n',
        "sieve": f"{YEARLY}command: 'true'\n",
        "items": YEARLY
        + "steps:\n  - {name: list, command: seq 1 64, output: N}\n  - name: square\n    command: "
        + "'echo $((EVERTICK_RUN_ITEM * EVERTICK_RUN_ITEM)); test $EVERTICK_RUN_ITEM != 7'\n"
        + "    each: {from: list, continueOnFailure: true}\n",
        "ladder": YEARLY
        + "steps:\n"
        + "".join(
            f"  - {{name: rung-{number:02}, command: 'true'{f', depends: rung-{number - 1:02}' if number else ''}}}\n"
            for number in range(60)
        ),
        "steps": YEARLY
        + "steps:\n  - {name: slow, command: sleep 2}\n  - {name: bad, command: exit 1, depends: slow}\n",
    }
    for name, text in jobs.items():
        (folder / f"{name}.yaml").write_text(text)


def write_busy_past(store, now):
    """A day of failures, a job that was skipped every time, and one that was deleted."""
    starts = [RunKey("doomed", at) for at in range((now - DAY) // (5 * MINUTE) * 5 * MINUTE, now - MINUTE, 5 * MINUTE)]
    skips = [RunKey("sieve", now - number * MINUTE) for number in range(2, 9)]
    entries = [Entry(key, PLANNED, Trigger.SCHEDULER, key.scheduled_for) for key in starts]
    entries += [Entry(key, SKIPPED, Trigger.SCHEDULER, now, SkipReason.CONDITION) for key in skips]
    gone = JobRecord("gone-report", now - DAY, retired_at=now - DAY)
    assert not store.commit(Batch(by="a1/1#1", entries=entries, jobs=[gone])).refused
    for key in starts:
        at = key.scheduled_for
        changes = [
            Change(key, LAUNCHING, at, 1, 1, executor="local@here"),
            Change(key, RUNNING, at, 1, started_at=at),
            Change(key, FAILED, at + SECOND, 1, finished_at=at + SECOND, exit_code=1),
        ]
        assert not store.record(changes)


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("busy")
    write_busy_jobs(folder)
    (folder / ".evertick").mkdir(mode=0o700)
    store = open_store(f"sqlite:///{folder}/.evertick/ledger.db")
    write_busy_past(store, time.time_ns() // 1_000)
    store.close()
    made = WebServer(folder)
    try:
        made.start()
        wait_for(lambda: made.get("/jobs?limit=1")["total"] >= 45)
        yield made
    finally:
        made.close()


@pytest.fixture
def line(busy):
    made = Line(busy.port)
    yield made
    made.close()


@pytest.fixture
def slow_page(browser, busy, line, browser_errors):
    """A page at the other end of the line; a browser complains of every request that an outage breaks."""
    page = open_page(browser, SimpleNamespace(url=line.url, token=busy.token), browser_errors)
    yield page
    page.context.close()
    browser_errors.clear()


@pytest.fixture
def page(browser, busy, browser_errors):
    made = open_page(browser, busy, browser_errors)
    yield made
    made.context.close()


def test_a_list_arrives_although_there_is_always_news(slow_page, line):
    broken = []
    slow_page.on("requestfailed", lambda request: broken.append(request.url))
    slow_page.goto(f"{line.url}/jobs")
    expect(slow_page.get_by_role("link", name="Report 00 report-00")).to_be_visible()
    expect(slow_page.get_by_text("Live", exact=True)).to_be_visible()
    # It stays current: the run that is the newest of the pulse now is shown some time later.
    newest = slow_page.get_by_role("row", name="pulse").get_by_role("link").nth(1)
    before = newest.get_attribute("href")
    expect(newest).not_to_have_attribute("href", before)
    assert [url for url in broken if "/events" not in url] == []


def test_long_answers_are_small_on_the_line(page, busy):
    with page.expect_response("**/api/v1/timeline*") as heard:
        page.goto(f"{busy.url}/?span=86400000")
    assert heard.value.header_value("content-encoding") == "gzip"
    assert int(heard.value.header_value("content-length")) < len(heard.value.body()) / 5


def test_a_list_that_is_shown_is_kept_current_by_changes(page, busy):
    statuses = []
    page.on("response", lambda response: statuses.append(response.status) if "/api/v1/runs?" in response.url else None)
    page.goto(f"{busy.url}/runs")
    wait_for(lambda: page.evaluate("1") and statuses.count(226) >= 2)
    assert statuses[0] == 200
    wait_until_current(page, busy)


def test_a_tab_that_is_not_looked_at_asks_for_nothing(page, busy):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{busy.url}/runs")
    page.locator("tbody tr").first.wait_for()
    look(page, is_hidden=True)

    def is_quiet():
        # With four runs a second it would ask every second.
        before = len(asked)
        page.wait_for_timeout(3_000)
        return len(asked) == before

    wait_for(is_quiet)
    look(page, is_hidden=False)
    wait_until_current(page, busy)


def wait_until_current(page, web_server):
    """Until the page shows what is the newest run of the ledger now, or a newer one."""
    newest = web_server.get("/runs?limit=1")["items"][0]["scheduled_for"]
    hrefs = "links => links.map(link => decodeURIComponent(link.getAttribute('href')))"
    links = page.locator("tbody a[href^='/runs/']")
    wait_for(lambda: max(href.partition("@")[2] for href in links.evaluate_all(hrefs)) >= newest)


def look(page, *, is_hidden):
    page.evaluate(
        """isHidden => {
            Object.defineProperty(document, 'hidden', {get: () => isHidden, configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));
        }""",
        is_hidden,
    )


def test_an_outage_is_reported_and_ends_by_itself(slow_page, line):
    slow_page.goto(f"{line.url}/overview")
    expect(slow_page.get_by_text("Live", exact=True)).to_be_visible()
    line.cut()
    expect(slow_page.get_by_role("alert").filter(has_text="No response from the server since")).to_be_visible()
    expect(slow_page.get_by_text("Offline")).to_be_visible()
    # A part of the page that was never loaded cannot be loaded now either.
    slow_page.get_by_role("navigation", name="Pages").get_by_role("link", name="Queues").click()
    expect(slow_page.get_by_text("loads when it responds")).to_be_visible()
    line.mend()
    expect(slow_page.get_by_role("heading", name="Queues")).to_be_visible()
    expect(slow_page.get_by_text("Live", exact=True)).to_be_visible()
    expect(slow_page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("path", ["/?span=86400000", "/jobs", "/runs", "/jobs/doomed"])
def test_an_outage_is_reported_once_and_moves_what_is_shown_only_for_that(slow_page, line, path):
    slow_page.goto(line.url + path)
    expect(slow_page.get_by_text("Live", exact=True)).to_be_visible()
    slow_page.wait_for_function("() => !document.querySelector('.bone, .is-loading, [aria-busy=true]')")
    line.cut()
    banner = slow_page.get_by_role("alert").filter(has_text="No response from the server since")
    expect(banner).to_be_visible()
    # By now each part of the page has asked and received no answer.
    expect(banner).to_contain_text(re.compile(r"\(([89]|\d\d)s ago\)"))
    expect(slow_page.get_by_role("alert")).to_have_count(1)
    expect(slow_page.get_by_text("Cannot reach the server")).to_have_count(0)


def test_a_page_that_is_opened_during_an_outage_opens_when_it_is_over(page, busy, browser_errors):
    away = "**/api/**"
    page.route(away, lambda route: route.fulfill(status=502, body="bad gateway"))
    page.goto(f"{busy.url}/jobs")
    expect(page.get_by_text("opens when the server responds")).to_be_visible()
    page.unroute(away)
    expect(page.get_by_role("link", name="Report 00 report-00")).to_be_visible()
    assert browser_errors, "the browser has seen the gateway"
    browser_errors.clear()


def test_the_palette_finds_what_it_offers(page, busy):
    page.goto(f"{busy.url}/jobs")
    page.get_by_role("link", name="Report 07 report-07").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search jobs").fill("run report 07")
    expect(page.get_by_role("listbox", name="Results").get_by_role("option").first).to_contain_text("Run Report 07")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Run Report 07 now")).to_be_visible()


def test_a_long_log_has_its_numbers_and_is_searched_as_a_whole(page, busy):
    run = busy.post("/jobs/chatty/trigger?wait=10")["run"]
    wait_for(lambda: busy.get(f"/runs/{run}")["state"] == "succeeded")
    page.goto(f"{busy.url}/runs/{run}")
    log = page.get_by_role("log")
    last = log.locator(".log-line").filter(has_text=f"line {LINES} of")
    expect(last.locator(".log-number")).to_have_text(str(LINES))
    page.get_by_role("searchbox", name="Search in this log").fill("LINE 20321 of")
    expect(page.get_by_text("1 of 1 line")).to_be_visible()
    expect(log.locator(".log-line.is-hit")).to_contain_text("this is line 20321 of the log")
    expect(log.locator(".log-line.is-hit .log-number")).to_have_text("20321")
    page.get_by_role("searchbox", name="Search in this log").fill("")
    page.get_by_role("button", name="Show what came before").click()
    expect(page.get_by_text("Lines 1 to")).to_be_visible()
    page.get_by_role("button", name="Go to the end").click()
    expect(last.locator(".log-number")).to_have_text(str(LINES))


def test_a_line_of_a_log_that_wraps_is_found_wherever_it_is(page, busy):
    run = busy.post("/jobs/wordy/trigger?wait=10")["run"]
    wait_for(lambda: busy.get(f"/runs/{run}")["state"] == "succeeded")
    page.set_viewport_size({"width": 1010, "height": 900})
    page.goto(f"{busy.url}/runs/{run}")
    page.get_by_label("Wrap").check()
    hit = page.locator(".log-line.is-hit")
    for line in (9_100, 15_321, 30):
        page.get_by_role("searchbox", name="Search in this log").fill(f"line {line} of")
        expect(hit).to_contain_text(f"line {line} of")
        expect(hit).to_be_in_viewport()
    assert hit.evaluate("line => line.offsetHeight") > 20, "it takes several rows"
    page.get_by_label("Wrap").uncheck()
    expect(hit).to_be_in_viewport()


def test_a_list_stays_until_the_answer_to_a_search_is_here(page, busy):
    page.goto(f"{busy.url}/jobs")
    page.get_by_role("link", name="Report 00 report-00").wait_for()
    held = []
    page.route("**/api/v1/jobs?*search=07*", lambda route: held.append(route))
    page.get_by_role("searchbox", name="Search jobs").fill("07")
    wait_for(lambda: page.evaluate("document.querySelector('main [aria-busy=true]') !== null"))
    expect(page.get_by_role("link", name="Report 00 report-00")).to_be_visible()
    wait_for(lambda: held or page.evaluate("0"))
    for route in held:
        route.continue_()
    expect(page.get_by_role("link", name="Report 00 report-00")).to_have_count(0)
    expect(page.get_by_role("link", name="Report 07 report-07")).to_be_visible()
    expect(page.locator("main [aria-busy=true]")).to_have_count(0)
    page.unroute_all(behavior="wait")


def test_sixty_steps_in_a_row_fit_when_that_is_asked_for(page, busy):
    page.goto(f"{busy.url}/jobs/ladder")
    region = page.get_by_role("region", name="Graph of steps")
    graph = region.locator("svg.graph")
    room = region.evaluate("region => region.clientWidth")
    assert graph.evaluate("graph => graph.clientWidth") > room, "legible first"
    page.get_by_role("button", name="Fit").click()
    wait_for(lambda: graph.evaluate("graph => graph.clientWidth") <= room)


def test_a_retried_run_has_an_axis_of_its_own(page, busy):
    run = busy.post("/jobs/steps/trigger?wait=10")["run"]
    wait_for(lambda: busy.get(f"/runs/{run}")["state"] == "failed")
    page.goto(f"{busy.url}/runs/{run}")
    expect(page.get_by_text("Output of bad")).to_be_visible()
    expect(page.get_by_text("No output")).to_be_visible()
    page.get_by_role("button", name="Retry from the failed step").click()
    page.wait_for_url(lambda url: "/runs/" in url and run not in url)
    expect(page.get_by_text("not repeated, taken from")).to_be_visible()
    expect(page.locator("h1").get_by_text("Failed")).to_be_visible()
    bar = page.locator(".gantt-bar")
    expect(bar).to_have_count(1)
    # The step that was not repeated took two seconds, long before.
    assert bar.evaluate("bar => bar.offsetLeft / bar.parentElement.clientWidth") < 0.9


COVERED = """() => [...document.querySelectorAll('.gantt-row')].flatMap(row => {
    const bar = row.querySelector('.gantt-bar')?.getBoundingClientRect();
    const texts = [...row.querySelectorAll('span')].filter(one => one.textContent && one.offsetWidth);
    const box = one => one.getBoundingClientRect();
    const covers = one => bar && box(one).left < bar.right && box(one).right > bar.left;
    return texts.filter(one => covers(one) || one.scrollWidth > one.offsetWidth).map(one => one.textContent);
})"""
"""Texts of steps that hide a bar, or do not fit."""


@pytest.mark.parametrize("width", [390, 1440, 2560])
def test_no_text_hides_the_bar_of_a_step(page, busy, width):
    run = busy.post("/jobs/steps/trigger?wait=10")["run"]
    wait_for(lambda: busy.get(f"/runs/{run}")["state"] == "failed")
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{busy.url}/runs/{run}")
    bars = page.locator(".gantt-bar")
    expect(bars).to_have_count(2)
    expect(page.get_by_role("button", name="bad Failed")).to_be_visible()
    expect(page.locator(".gantt-row").first.get_by_text(re.compile(r"^2(\.\d+)?s$"))).to_be_visible()
    assert page.evaluate(COVERED) == []


def test_the_items_of_a_step_fit_under_it_and_each_has_its_log(page, busy):
    run = busy.post("/jobs/items/trigger?wait=10")["run"]
    wait_for(lambda: busy.get(f"/runs/{run}")["state"] == "failed")
    page.goto(f"{busy.url}/runs/{run}")
    # What failed is chosen.
    expect(page.get_by_text("Output of square[6]")).to_be_visible()
    items = page.get_by_role("group", name="Items of square")
    expect(items.get_by_text("64 items: 1 failed, 63 succeeded")).to_be_visible()
    expect(items.get_by_role("button")).to_have_count(64)
    expect(items.get_by_role("button", pressed=True)).to_have_count(1)
    expect(page.locator(".gantt-row")).to_have_count(2)
    box = items.bounding_box()
    assert box is not None
    assert box["height"] < 260, "a field of 64 items must leave room for the steps"
    items.get_by_role("button", name="square[11]: 12 · Succeeded").click()
    expect(page.get_by_text("Output of square[11]")).to_be_visible()
    expect(page.locator(".log-line").first).to_contain_text("144")
    expect(page.get_by_text("item 12")).to_be_visible()


def test_a_job_that_always_fails_is_red_at_the_zoom_of_a_day(page, busy):
    page.goto(f"{busy.url}/?span=86400000&search=doomed")
    page.locator("a.lane-name", has_text="doomed").wait_for()
    wait_for(lambda: page.locator("#main").evaluate(RED_SHARE) > 0.4)


RED_SHARE = """main => {
    const canvas = main.querySelector('[tabindex="0"] canvas');
    const ratio = canvas.width / canvas.clientWidth;
    // The past of the first lane, in the middle of it: two thirds of the width.
    const [wide, y] = [Math.floor(canvas.width * 0.6), Math.floor(15 * ratio)];
    const pixels = canvas.getContext('2d').getImageData(0, y - 2, wide, 1).data;
    let red = 0;
    for (let at = 0; at < pixels.length; at += 4) red += pixels[at] > 150 && pixels[at + 1] < 110;
    return red / wide;
}"""


def test_a_job_has_its_definition(page, busy):
    page.goto(f"{busy.url}/jobs?search=sieve")
    expect(page.get_by_text("skipped 7 times, never ran").first).to_be_visible()
    page.goto(f"{busy.url}/jobs/gone-report")
    expect(page.locator("h1").get_by_text("Deleted")).to_be_visible()
    expect(page.get_by_text("Nothing of it runs any more")).to_be_visible()
    for name in ("Run now", "Pause", "Backfill"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_times_of_several_zones_name_theirs(page, busy):
    page.goto(f"{busy.url}/upcoming?hours=24")
    page.get_by_role("button", name="Job", exact=True).click()
    page.goto(f"{busy.url}/?view=table&span=31536000000")
    due = page.get_by_role("row").filter(has_text="Report 01").first
    expect(due).to_contain_text("America/New_York")
    expect(page.get_by_role("row").filter(has_text="Report 02").first).to_contain_text("Asia/Tokyo")
