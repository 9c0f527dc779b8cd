"""Whether what people do on the page is done, and shown to be."""

from __future__ import annotations

import re
import time
from contextlib import closing
from functools import partial
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import expect

from evertick.model.instant import MINUTE
from evertick.model.ledger import runs_lease
from evertick.stores import open_store
from tests.web.web_server import open_page, wait_for


@pytest.fixture
def job(page, web_server):
    def open_job(name, tab=""):
        page.goto(f"{web_server.url}/jobs/{name}{tab}")
        page.get_by_role("heading", name=name).wait_for()
        return page

    return open_job


def has_pause(web_server, name, note):
    """Whether a job is paused with this note; None: it is not paused."""
    found = web_server.get(f"/jobs/{name}")
    return found["paused_at"] is None if note is None else found["pause_note"] == note


def cancel_run(page):
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog", name="Cancel this run").get_by_role("button", name="Cancel the run").click()


def test_a_job_is_run_with_parameters_and_watched_to_its_end(job, web_server):
    page = job("etl")
    page.get_by_role("button", name="Run now").click()
    dialog = page.get_by_role("dialog", name="Run etl now")
    dialog.get_by_label("FORMAT").select_option("json")
    dialog.get_by_label("ROWS").fill("7")
    dialog.get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/**")
    expect(page.get_by_text("Manual", exact=True)).to_be_visible()
    expect(page.locator("h1").get_by_text("Succeeded")).to_be_visible()
    expect(page.get_by_role("button", name="publish Succeeded")).to_be_visible()
    page.get_by_role("button", name="fetch Succeeded").click()
    log = page.get_by_role("log", name="Output of fetch")
    expect(log.get_by_text("fetched page 3 as json")).to_be_visible()
    assert web_server.get("/runs?job=etl&trigger=manual")["items"][0]["params"] == {"FORMAT": "json", "ROWS": "7"}


def test_a_value_that_a_parameter_does_not_take_is_refused_in_the_form(job):
    page = job("etl")
    page.get_by_role("button", name="Run now").click()
    dialog = page.get_by_role("dialog", name="Run etl now")
    dialog.get_by_label("ROWS").fill("0")
    dialog.get_by_role("button", name="Run now").click()
    expect(dialog).to_be_visible()
    assert dialog.get_by_label("ROWS").evaluate("field => field.validity.rangeUnderflow")


def test_a_log_has_its_colours_and_can_be_searched_and_kept(job, web_server):
    page = job("etl")
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/**")
    expect(page.locator("h1").get_by_text("Succeeded")).to_be_visible()
    page.get_by_role("button", name="fetch Succeeded").click()
    log = page.get_by_role("log", name="Output of fetch")
    expect(log.locator(".fg-1.is-bold")).to_have_text("ERROR")
    expect(log.locator(".is-underlined")).to_have_text("peer")
    page.get_by_role("searchbox", name="Search in this log").fill("page 2")
    expect(log.locator("mark")).to_have_text("page 2")
    expect(page.get_by_text("1 of 1 line")).to_be_visible()
    page.get_by_role("searchbox", name="Search in this log").press("Enter")
    page.wait_for_url("**line=2**")
    page.get_by_role("button", name="First error").click()
    page.get_by_role("searchbox", name="Search in this log").fill("")
    expect(log.locator(".is-hit")).to_contain_text("ERROR a slow peer")
    page.reload()  # the address names the line
    expect(log.locator(".is-hit")).to_contain_text("ERROR a slow peer")
    page.get_by_role("checkbox", name="Wrap").check()
    expect(log.locator(".is-wrapped .is-hit")).to_contain_text("ERROR a slow peer")
    page.get_by_role("button", name="Graph").click()
    page.get_by_role("button", name="publish Succeeded").click()
    expect(page.get_by_role("log", name="Output of publish")).to_contain_text("published")
    page.get_by_role("button", name="fetch Succeeded").press("Enter")
    expect(log).to_be_visible()
    with page.expect_download() as kept:
        page.get_by_role("link", name="Download").click()
    assert "\x1b[1;31mERROR" in kept.value.path().read_text()
    page.get_by_role("checkbox", name="Times").check()
    expect(log.locator(".log-time").first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d"))
    page.get_by_role("combobox", name="Step and attempt").select_option(label="All steps by time")
    merged = page.get_by_role("log", name="Output of all steps")
    published = merged.locator(".log-line").filter(has_text="published")
    expect(published.locator(".log-step")).to_have_text("publish")
    expect(published.locator(".log-time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d"))
    page.get_by_role("searchbox", name="Search in this log").fill("page 2")
    expect(merged.locator(".is-hit")).to_contain_text("page 2")


def test_a_run_is_followed_cancelled_and_retried(job):
    page = job("long-haul")
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/**")
    expect(page.get_by_text("mile 3")).to_be_visible()
    expect(page.get_by_text("· live")).to_be_visible()
    expect(page.get_by_role("button", name="main Running")).to_be_visible()
    retry, cancel = (page.get_by_role("button", name=name, exact=True) for name in ("Retry", "Cancel"))
    expect(retry).to_be_disabled()
    places = [one.bounding_box() for one in (retry, cancel)]
    cancel.click()
    dialog = page.get_by_role("dialog", name="Cancel this run of long-haul")
    expect(dialog).to_contain_text("terminates its processes")
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.locator("h1").get_by_text("Running")).to_be_visible()
    cancel_run(page)
    expect(page.locator("h1").get_by_text("Cancelled")).to_be_visible()
    # Whoever presses twice has pressed Cancel twice, and not Retry.
    assert [one.bounding_box() for one in (retry, cancel)] == places
    expect(cancel).to_be_disabled()
    first = page.url
    page.get_by_role("button", name="Retry", exact=True).click()
    page.wait_for_url(lambda url: "/runs/" in url and url != first)
    expect(page.get_by_text("Retry", exact=True).first).to_be_visible()
    cancel_run(page)
    expect(page.locator("h1").get_by_text("Cancelled")).to_be_visible()
    again = page.url.rpartition("/")[2]
    page.goto(first)
    expect(page.get_by_role("definition").get_by_role("link", name=unquote(again))).to_be_visible()


def test_a_failing_job_is_on_the_first_page_with_its_error_and_a_retry_that_mends_it(page, web_server):
    file = web_server.folder / "cache-warm.yaml"
    before = file.read_text()
    file.write_text(before.replace("echo warm", "echo error, no room left >&2; exit 3"))
    attention = page.get_by_role("region", name="Needs attention")
    row = attention.get_by_role("listitem").filter(has_text="cache-warm")
    try:
        wait_for(lambda: "exit 3" in str(web_server.get("/jobs/cache-warm")["definition"]))
        web_server.post("/jobs/cache-warm/trigger?wait=30")
        page.goto(f"{web_server.url}/jobs/cache-warm")
        expect(page.locator("h1").get_by_text("Down", exact=True)).to_be_visible()
        page.goto(web_server.url)
        expect(row).to_contain_text("error, no room left")
        expect(row).to_contain_text("Failed")
    finally:
        file.write_text(before)
        wait_for(lambda: "exit 3" not in str(web_server.get("/jobs/cache-warm")["definition"]))
    row.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("Started a retry of cache-warm")).to_be_visible()
    expect(row).to_have_count(0)
    expect(attention).to_be_visible()
    page.goto(f"{web_server.url}/jobs?search=cache-warm")
    expect(page.get_by_role("img", name="On time")).to_be_visible()


def test_a_run_shows_every_attempt_and_what_its_job_was(job, web_server):
    page = job("certificates")
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/**")
    expect(page.locator("h1").get_by_text("Succeeded")).to_be_visible()
    failed = page.get_by_role("heading", name="Attempt 1 Failed")
    expect(failed).to_contain_text("exit code 1")
    expect(failed).not_to_contain_text("exit code 1 · exit code 1")
    expect(page.get_by_role("heading", name="Attempt 2 Succeeded")).to_be_visible()
    expect(page.locator(".gantt-bar")).to_have_count(2)
    expect(page.get_by_text("unchanged since")).to_be_visible()
    file = web_server.folder / "certificates.yaml"
    before = file.read_text()
    file.write_text(before.replace("echo renewed", "echo changed"))
    try:
        expect(page.get_by_text("changed since")).to_be_visible()
        definition = page.get_by_role("region", name="Definition at start")
        expect(definition.locator(".is-before")).to_contain_text("echo renewed")
        expect(definition.locator(".is-after")).to_contain_text("echo changed")
    finally:
        file.write_text(before)


def test_a_job_is_paused_with_a_note_and_resumed_with_a_choice(job, web_server):
    page = job("sync-crm")
    page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause sync-crm")
    dialog.get_by_label("Reason").fill("database migration")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("database migration")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    dialog = page.get_by_role("dialog", name="Resume sync-crm")
    dialog.get_by_label("Run none").check()
    expect(dialog.locator(".preview")).to_contain_text("missed")
    dialog.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    wait_for(lambda: web_server.get("/jobs/sync-crm")["paused_at"] is None)


def test_a_backfill_is_looked_at_before_it_is_asked_for(job, web_server):
    page = job("cache-warm")
    page.get_by_role("button", name="Backfill").click()
    dialog = page.get_by_role("dialog", name="Backfill cache-warm")
    expect(dialog.get_by_text("will run.")).to_be_visible()
    expect(dialog.get_by_text("skipped: missed").first).to_be_visible()
    expect(dialog.get_by_text("succeeded (scheduler)").first).to_be_hidden()
    dialog.get_by_text("occurrences not selected").click()
    expect(dialog.get_by_text("succeeded (scheduler)").first).to_be_visible()
    dialog.get_by_label("Parallel runs").fill("4")
    start = dialog.get_by_role("button", name="occurrence")
    expect(start).to_be_enabled()
    start.click()
    expect(page.get_by_text("Queued ")).to_be_visible()
    page.get_by_role("tab", name="Ledger").click()
    expect(page.get_by_text("Backfill", exact=True).nth(1)).to_be_visible()
    wait_for(lambda: web_server.get("/runs?job=cache-warm&trigger=backfill&state=succeeded")["items"])


@pytest.mark.parametrize(
    ("moved_to", "text"),
    [
        pytest.param(
            None, "The calendar off excludes all 2 occurrences in that range. Choose other days", id="excluded"
        ),
        pytest.param(
            "2026-03-04T08:00:00Z", "The calendar off moves all 2 occurrences in that range, the first to", id="moved"
        ),
    ],
)
def test_a_backfill_of_excluded_days_only_names_their_calendar(job, web_server, moved_to, text):
    page = job("long-haul")
    body = {"from": "2019-01-02T00:00:00Z", "to": "2019-01-03T00:00:00Z", "preview": True}
    empty = web_server.post("/jobs/long-haul/backfill", body)
    assert (empty["total"], empty["excluded"]) == (0, None)
    excluded = {"calendars": ["off"], "occurrences": 2, "moved_to": moved_to}
    page.route("**/jobs/long-haul/backfill", lambda route: route.fulfill(json={**empty, "excluded": excluded}))
    page.get_by_role("button", name="Backfill").click()
    dialog = page.get_by_role("dialog", name="Backfill long-haul")
    expect(dialog.locator(".preview")).to_contain_text(text)
    expect(dialog.get_by_role("button", name="Nothing to run")).to_be_disabled()


def test_a_backfill_is_followed_and_what_is_left_of_it_cancelled(job, web_server):
    page = job("long-haul")
    page.get_by_role("button", name="Backfill").click()
    dialog = page.get_by_role("dialog", name="Backfill long-haul")
    dialog.get_by_label("From").fill("2020-01-01T00:00")
    dialog.get_by_label("To (exclusive)").fill("2023-06-01T00:00")
    dialog.get_by_role("button", name="Run 4 occurrences").click()
    progress = page.get_by_role("progressbar", name="Backfill of 4 occurrences")
    expect(progress).to_be_visible()
    expect(page.get_by_text("1 running")).to_be_visible()
    page.get_by_role("button", name="Cancel the backfill").click()
    page.get_by_role("dialog", name="Cancel the backfill").get_by_role("button", name="Cancel 4 runs").click()
    expect(page.get_by_text("4 of 4 finished")).to_be_visible()
    wait_for(lambda: not web_server.get("/runs?job=long-haul&state=running&state=waiting")["items"])


def test_a_token_is_made_shown_once_and_revoked(page, browser, web_server, browser_errors):
    page.goto(f"{web_server.url}/settings")
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog", name="New token")
    dialog.get_by_label("Name").fill("night-shift")
    dialog.get_by_label("Role").select_option("operator")
    dialog.get_by_role("button", name="Create token").click()
    text = page.locator(".token-made code").inner_text()
    other = open_page(browser, web_server, browser_errors, text)
    other.goto(f"{web_server.url}/jobs/etl")
    expect(other.get_by_role("button", name="Run now")).to_be_visible()
    page.get_by_role("button", name="Done").click()
    expect(page.locator(".token-made")).to_have_count(0)
    page.get_by_role("button", name="Revoke night-shift").click()
    page.get_by_role("dialog", name="Revoke night-shift").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("row", name="night-shift")).to_have_count(0)
    other.reload()
    expect(other.get_by_label("Token")).to_be_visible()
    other.context.close()
    browser_errors.clear()  # the 401 that it was refused with


def test_a_skip_says_why(job, web_server):
    skip = web_server.get("/runs?job=sync-crm&state=skipped&reason=overlap&limit=1")["items"][0]
    page = job("sync-crm", f"?tab=ledger&at={skip['scheduled_for']}")
    expect(page.get_by_text("skipped: overlap")).to_be_visible()
    expect(page.get_by_role("button", name="Run this occurrence")).to_be_visible()
    expect(page.locator(".why")).not_to_contain_text("evertick ")


def test_why_offers_to_retry_a_failed_run(job, web_server):
    failed = web_server.get("/runs?state=failed&trigger=scheduler&limit=1")["items"][0]
    page = job(failed["job"], f"?tab=ledger&at={failed['scheduled_for']}")
    page.get_by_role("button", name="Retry this run").click()
    wait_for(lambda: any(run["trigger"] == "retry" for run in web_server.get(f"/runs?job={failed['job']}")["items"]))


def test_actions_of_people_are_in_the_audit_log(page, web_server):
    page.goto(f"{web_server.url}/audit")
    expect(page.get_by_text("hash chain intact")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="Signed in").filter(has_text="done").first).to_be_visible()


def test_a_viewer_sees_no_actions(browser, web_server, browser_errors):
    page = open_page(browser, web_server, browser_errors, web_server.new_token("viewer"))
    page.goto(f"{web_server.url}/jobs/etl")
    expect(page.get_by_role("link", name="Show on timeline")).to_be_visible()
    for name in ("Run now", "Pause", "Backfill"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.context.close()


def test_a_node_that_is_waited_for_is_shown_and_can_be_forgotten(page, web_server):
    with closing(open_store(f"sqlite:///{web_server.folder}/.evertick/ledger.db")) as store:
        store.lease([runs_lease("east", "f1")], "east/f1", 10 * MINUTE, time.time_ns() // 1_000)
    page.goto(f"{web_server.url}/executors")
    row = page.get_by_role("row", name="east")
    expect(row).to_contain_text("not responding")
    expect(row).to_contain_text("0 runs reserved for it until")
    row.get_by_role("button", name="Forget east").click()
    dialog = page.get_by_role("dialog", name="Forget east")
    expect(dialog).to_contain_text("It has no active runs.")
    dialog.get_by_role("button", name="Forget the node").click()
    expect(row).to_have_count(0)


def test_many_jobs_are_paused_and_resumed_at_once_with_a_preview_and_an_audit_line_for_each(page, web_server):
    page.goto(f"{web_server.url}/jobs?tag=reports")
    for name in ("hourly-report", "mail-digest"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    bar = page.get_by_role("region", name="Selection")
    expect(bar).to_contain_text("2 jobs selected")
    bar.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause jobs")
    dialog.get_by_label("Reason").fill("migration")
    dialog.get_by_role("button", name="Pause 2 jobs").click()
    expect(page.get_by_text("2 requests sent")).to_be_visible()
    expect(bar).to_have_count(0)
    for name in ("hourly-report", "mail-digest"):
        wait_for(partial(has_pause, web_server, name, "migration"))
    page.get_by_role("checkbox", name="Select all jobs shown").check()
    bar.get_by_role("button", name="Pause").click()
    expect(dialog.get_by_text("already paused")).to_have_count(2)
    expect(dialog.get_by_role("button", name="Nothing to do")).to_be_disabled()
    dialog.get_by_role("button", name="Close").last.click()
    bar.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog", name="Resume jobs").get_by_role("button", name="Resume 2 jobs").click()
    for name in ("hourly-report", "mail-digest"):
        wait_for(partial(has_pause, web_server, name, None))
    told = [line["target"] for line in web_server.get("/audit?limit=20")["items"]]
    for name in ("hourly-report", "mail-digest"):
        assert {f"/api/v1/jobs/{name}/pause", f"/api/v1/jobs/{name}/resume"} <= set(told)


def test_selected_runs_are_retried_from_their_failed_step_after_a_preview(page, web_server):
    good = web_server.post("/jobs/nightly-build/trigger?wait=30")["run"]
    wait_for(lambda: web_server.get(f"/runs/{quote(good, safe='')}")["state"] == "succeeded")
    file = web_server.folder / "nightly-build.yaml"
    before = file.read_text()
    file.write_text(before.replace("echo packaged", "exit 3"))
    try:
        wait_for(lambda: "exit 3" in str(web_server.get("/jobs/nightly-build")["definition"]))
        failed = web_server.post("/jobs/nightly-build/trigger?wait=30")["run"]
        wait_for(lambda: web_server.get(f"/runs/{quote(failed, safe='')}")["state"] == "failed")
    finally:
        file.write_text(before)
        wait_for(lambda: "exit 3" not in str(web_server.get("/jobs/nightly-build")["definition"]))
    page.goto(f"{web_server.url}/runs?job=nightly-build")
    page.get_by_role("checkbox", name="Select all runs shown").check()
    page.get_by_role("region", name="Selection").get_by_role("button", name="Retry from the failed step").click()
    dialog = page.get_by_role("dialog", name="Retry from the failed step")
    # Its schedule may have started it meanwhile: then it has another good run.
    expect(dialog.get_by_text("no step has failed; use Retry").first).to_be_visible()
    dialog.get_by_role("button", name="Retry 1 run").click()
    expect(page.get_by_text("1 request sent")).to_be_visible()
    wait_for(lambda: web_server.get("/runs?job=nightly-build&trigger=retry&state=succeeded")["items"])
    (retry,) = web_server.get("/runs?job=nightly-build&trigger=retry")["items"]
    steps = web_server.get(f"/runs/{quote(retry['run'], safe='')}")["steps"]
    assert {step["name"]: bool(step["reused_from"]) for step in steps} == {
        **dict.fromkeys(("compile", "unit-tests", "browser-tests"), True),
        "package": False,
    }
    lines = web_server.get("/audit?limit=20")["items"]
    assert [line["target"] for line in lines if (line["detail"] or {}).get("from_failed")] == [
        f"/api/v1/runs/{quote(failed, safe='')}/retry"
    ]


def test_a_period_of_the_timeline_is_retried_after_a_preview(page, web_server):
    page.goto(f"{web_server.url}/?span=86400000&search=sync-crm")
    page.get_by_role("navigation", name="Jobs").get_by_role("link", name="sync-crm").wait_for()
    box = page.locator(".timeline-stage canvas").bounding_box()
    assert box is not None
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 5, box["y"] + 15)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 16, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    dialog = page.get_by_role("dialog", name="Retry failed runs")
    expect(dialog.get_by_role("button", name=re.compile(r"^Retry \d"))).to_be_enabled()
    expect(dialog.get_by_role("listitem").first).to_contain_text("sync-crm")
    dialog.get_by_role("button", name="Cancel waiting runs").click()
    expect(page.get_by_role("dialog").get_by_text("Nothing in this selection needs this action.")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("button", name="Nothing to do")).to_be_disabled()


def test_the_page_of_a_job_shows_its_steps_by_run_and_why_has_the_button_that_runs_an_occurrence(page, web_server):
    web_server.post("/jobs/etl/trigger?wait=30")
    wait_for(lambda: any(row["name"] == "onExit" for row in web_server.get("/jobs/etl/steps")["steps"]))
    page.goto(f"{web_server.url}/jobs/etl")
    grid = page.get_by_role("region", name="Steps in the last runs")
    expect(grid.get_by_role("rowheader")).to_have_text(["fetch", "check", "enrich", "publish", "onExit"])
    expect(page.get_by_role("list", name="Success by weekday").get_by_role("listitem")).to_have_count(7)
    expect(page.get_by_role("img", name=re.compile("^Durations of the last"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Lateness of the last"))).to_be_visible()
    skipped = web_server.get("/runs?job=sync-crm&state=skipped&reason=overlap&limit=1")["items"][0]
    page.goto(f"{web_server.url}/jobs/sync-crm?tab=ledger&at={skipped['scheduled_for']}")
    page.get_by_role("button", name="Queue instead of skipping").click()
    expect(page.locator(".why pre")).to_have_text("overlap: wait")
    page.get_by_role("button", name="Run this occurrence").click()
    expect(page.get_by_text("The occurrence is queued.")).to_be_visible()
    wait_for(lambda: web_server.get("/runs?job=sync-crm&trigger=backfill")["items"])


def test_a_blackout_is_added_after_a_preview_and_removed(page, web_server, browser_errors):
    page.goto(f"{web_server.url}/calendar")
    page.get_by_role("button", name="Add blackout").click()
    dialog = page.get_by_role("dialog", name="Add blackout")
    assert dialog.get_by_role("status").evaluate("box => box.offsetHeight") == 0, "an empty box would look broken"
    # Far enough ahead that no job of the web_server is held by it.
    dialog.get_by_label("To (exclusive)").fill("2096-03-02T12:00")
    dialog.get_by_label("From").fill("2096-03-02T10:00")
    dialog.get_by_role("button", name="By job").click()
    dialog.get_by_label("Job ids").fill("no-such-job")
    expect(dialog.get_by_text("unknown job 'no-such-job'")).to_be_visible()
    browser_errors.clear()  # the preview was refused
    dialog.get_by_label("Job ids").fill("etl")
    expect(dialog.get_by_text("from now on")).to_be_visible()
    dialog.get_by_label("Reason").fill("Database upgrade")
    dialog.get_by_role("button", name="Add blackout").click()
    expect(page.get_by_role("cell", name="Database upgrade")).to_be_visible()
    (known,) = web_server.get("/blackouts")["items"]
    assert (known["jobs"], known["reason"]) == (["etl"], "Database upgrade")
    page.get_by_role("button", name=f"Remove the blackout {known['id']}").click()
    dialog = page.get_by_role("dialog", name="Remove blackout")
    dialog.get_by_role("button", name="Remove blackout").click()
    expect(page.get_by_text("No blackouts")).to_be_visible()
    assert web_server.get("/blackouts?over=true")["items"] == []


def test_the_page_of_a_job_says_which_of_its_next_starts_are_in_a_blackout(page, web_server):
    _first, second, *_ = web_server.get("/jobs/etl/upcoming")["items"]
    window = {"from": second["scheduled_for"], "to": "+60d", "jobs": ["etl"], "reason": "Freeze"}
    added = web_server.post("/blackouts", window)["blackout"]
    try:
        page.goto(f"{web_server.url}/jobs/etl")
        expect(page.locator(".fires li").nth(0)).not_to_contain_text("Freeze")
        expect(page.locator(".fires li").nth(1)).to_contain_text("in the blackout from")
        expect(page.locator(".fires").get_by_text("Freeze")).to_have_count(1)
    finally:
        web_server.delete(f"/blackouts/{added['id']}")
