"""Whether a fleet can be looked after on the page: a real one, with members that run, are drained and leave."""

from __future__ import annotations

import re
import shutil
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from evertick.settings.parts import FleetSettings
from tests.fleet.local_fleet import LocalFleet
from tests.web.web_server import PATIENCE_SECONDS, WebServer, open_page, wait_for

pytestmark = pytest.mark.slow
LONG_MS = 2 * PATIENCE_SECONDS * 1_000


@pytest.fixture(scope="module")
def local_fleet(tmp_path_factory):
    """Two members, and the fleet they are in."""
    made = LocalFleet(tmp_path_factory.mktemp("local_fleet"))
    try:
        made.start()
        for name in ("ex-a", "ex-b"):
            # As long as a scheduler's own: one that outlives it is given no runs.
            made.join(name, "--slots", "3", "--label", "disk=ssd", lease_us=FleetSettings().lease_us)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def web_server(local_fleet, tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "render.yaml").write_text("executor: fleet\ncommand: echo rendering; exec sleep 600\n")
    steps = "steps:\n  - {name: square, command: 'echo $EVERTICK_RUN_ITEM', each: [a, b, c, d, e, f]}\n"
    (folder / "items.yaml").write_text(f"executor: fleet\n{steps}")
    (folder / "say.yaml").write_text("executor: fleet\ncommand: echo said by a member\n")
    made = WebServer(folder)
    try:
        made.start("--fleet", local_fleet.url)
        wait_for(lambda: len(members(made)) == 2, 2 * PATIENCE_SECONDS)
        yield made
    finally:
        made.close()


def members(web_server):
    found = [one for one in web_server.get("/executors")["items"] if one["executor"] == "fleet"]
    return {one["name"]: one for place in found for one in place["members"] if one["is_healthy"]}


def runs_on(web_server, run):
    """The members that a run is on."""
    return [name for name, one in members(web_server).items() if run in [own["run"] for own in one["runs"]]]


def test_items_say_on_which_member_they_ran_and_lead_to_their_runs(browser, web_server, browser_errors):
    page = open_page(browser, web_server, browser_errors)
    page.set_default_timeout(LONG_MS)
    run = web_server.post("/jobs/items/trigger?wait=60")["run"]
    wait_for(lambda: web_server.get(f"/runs/{quote(run, safe='')}")["state"] == "succeeded", 2 * PATIENCE_SECONDS)
    items = [step for step in web_server.get(f"/runs/{quote(run, safe='')}")["steps"] if step["item"] is not None]
    own = next(step["sub_run"] for step in items if step["sub_run"])
    (away,) = [step for step in items if step["sub_run"] == own]
    page.goto(f"{web_server.url}/runs/{quote(run, safe='')}")
    page.get_by_role("button", name=f"{away['name']}: ").click()
    expect(page.get_by_role("button", name=f"{away['name']}: ")).to_have_accessible_name(re.compile("on fleet:ex-"))
    page.get_by_role("link", name="run of this item").click()
    page.wait_for_url(f"**/runs/{quote(own, safe='')}")
    expect(page.get_by_role("link", name=run)).to_be_visible()
    page.context.close()


def test_members_are_seen_drained_taken_back_and_let_go(browser, web_server, browser_errors):
    page = open_page(browser, web_server, browser_errors)
    page.set_default_timeout(LONG_MS)
    page.goto(f"{web_server.url}/executors")
    rows = {name: page.get_by_role("row", name=name) for name in ("ex-a", "ex-b")}
    for row in rows.values():
        expect(row).to_contain_text("ready", timeout=LONG_MS)
        expect(row).to_contain_text("0 of 3")
        expect(row).to_contain_text("disk=ssd")
    run = web_server.post("/jobs/render/trigger?wait=60")["run"]
    wait_for(lambda: runs_on(web_server, run))
    (busy,) = runs_on(web_server, run)
    (idle,) = rows.keys() - {busy}
    expect(rows[busy].get_by_role("link", name="render")).to_be_visible(timeout=LONG_MS)
    rows[busy].get_by_role("button", name=f"Drain {busy}").click()
    expect(rows[busy]).to_contain_text("draining", timeout=LONG_MS)
    rows[busy].get_by_role("button", name=f"Remove {busy}").click()
    dialog = page.get_by_role("dialog", name=f"Remove {busy}")
    expect(dialog.get_by_role("button", name="Remove")).to_be_disabled()
    dialog.get_by_role("button", name="Close").first.click()
    web_server.post(f"/runs/{quote(run, safe='')}/cancel")
    expect(rows[busy]).to_contain_text("drained", timeout=LONG_MS)
    rows[busy].get_by_role("button", name=f"Undrain {busy}").click()
    expect(rows[busy]).to_contain_text("ready", timeout=LONG_MS)
    rows[idle].get_by_role("button", name=f"Remove {idle}").click()
    page.get_by_role("dialog", name=f"Remove {idle}").get_by_role("button", name="Remove").click()
    expect(page.get_by_text(f"Removed {idle}.")).to_be_visible(timeout=LONG_MS)
    wait_for(lambda: set(members(web_server)) == {busy}, 2 * PATIENCE_SECONDS)
    page.context.close()


def test_the_log_that_only_a_member_has_is_shown_until_that_member_is_away(
    browser, web_server, local_fleet, browser_errors
):
    page = open_page(browser, web_server, browser_errors)
    page.set_default_timeout(LONG_MS)
    run = web_server.post("/jobs/say/trigger?wait=60")["run"]
    path = f"/runs/{quote(run, safe='')}"
    wait_for(lambda: (found := web_server.get(path))["state"] == "succeeded" and found["logs"][0]["is_complete"])
    shutil.rmtree(web_server.folder / ".evertick" / "logs" / "say")
    page.goto(f"{web_server.url}{path}")
    expect(page.get_by_text("said by a member", exact=True)).to_be_visible()
    member = web_server.get(path)["executor"].removeprefix("fleet:")
    local_fleet.members[member].kill()
    wait_for(lambda: web_server.get(path)["absent_logs"])
    page.reload()
    expect(page.get_by_text(f"the member {member} is away (last seen")).to_be_visible()
    expect(page.get_by_text("No output")).not_to_be_visible()
    page.goto(f"{web_server.url}/executors")
    page.get_by_role("button", name=f"Forget {member}").click()
    page.get_by_role("dialog", name=f"Forget {member}").get_by_role("button", name="Forget").click()
    expect(page.get_by_text(f"Removed {member} from the list.")).to_be_visible()
    expect(page.get_by_role("row", name=member)).not_to_be_visible()
    page.context.close()
