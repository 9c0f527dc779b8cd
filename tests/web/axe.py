"""Whether axe finds a violation in what a page shows."""

from __future__ import annotations

import json

from playwright.sync_api import Page, ViewportSize

from tests.web.conftest import ROOT
from tests.web.web_server import NARROW, WIDE

AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
ALL = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# What changes with the theme, and with the width of the screen.
COLOURS = ["color-contrast"]
PLACES = ["aria-hidden-focus", "button-name", "link-name", "page-has-heading-one", "scrollable-region-focusable"]


def judge(page: Page, rules: list[str]) -> None:
    """No violation that axe knows of, once what was asked of the browser last is on the screen."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    found = page.evaluate(f"axe.run({json.dumps({'runOnly': rules})}).then(result => result.violations)")
    told = [f"{one['id']}: {node['html'][:200]}: {node['failureSummary']}" for one in found for node in one["nodes"]]
    assert not told, "\n".join(told)


def judge_in_both_themes(page: Page) -> None:
    """Everything in the light theme, the contrasts in the dark one, and the places on a narrow screen."""
    judge(page, ALL)
    page.emulate_media(color_scheme="dark")
    judge(page, COLOURS)
    page.set_viewport_size(ViewportSize(width=NARROW["width"], height=NARROW["height"]))
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], "it hangs over on a narrow screen"
    judge(page, PLACES)
    page.set_viewport_size(ViewportSize(width=WIDE["width"], height=WIDE["height"]))
    page.emulate_media(color_scheme="light")
