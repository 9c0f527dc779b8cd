"""Are the page's files served so that a browser caches what never changes, and revalidates the shell?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.api.app import make_app
from evertick.api.server import greeting
from evertick.web.site import read_site
from tests.api.conftest import ORIGIN
from tests.api.http_client import TestClient


@pytest.fixture
def page(app_state, tmp_path):
    built = tmp_path / "static"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text("<!doctype html><title>Evertick</title>")
    (built / "assets" / "main-4f2a.js").write_text("export {}")
    with TestClient(make_app(replace(app_state, site=read_site(built))), base_url=ORIGIN) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/etl", "/runs/etl@2026-03-02T02:00:00Z", "/no/such/page"])
def test_every_address_of_the_page_is_its_shell_and_needs_no_token(page, path):
    answer = page.get(path)
    assert (answer.status_code, "<title>Evertick" in answer.text) == (200, True)
    assert answer.headers["cache-control"] == "no-cache"
    assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_a_file_whose_name_changes_with_it_is_cached_forever(page):
    answer = page.get("/assets/main-4f2a.js")
    assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True)
    assert answer.headers["content-type"].startswith("text/javascript")
    again = page.get("/assets/main-4f2a.js", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/assets/gone.js", "/assets/../../tokens.json", "/assets/%2e%2e/tokens.json"])
def test_a_missing_file_is_not_found(page, path):
    assert page.get(path).status_code in (200, 404)
    assert "digest" not in page.get(path).text


def test_the_page_is_looked_at_and_nothing_else(page):
    assert page.post("/").status_code == 401
    assert page.get("/api/v1/jobs").status_code == 401


@pytest.mark.parametrize("token", [None, "abc"])
def test_a_start_without_the_page_says_so_and_shows_no_link_to_it(token):
    told = " ".join(greeting("http://here:1", token, has_page=False))
    assert "without its page" in told
    assert "http://here:1/api/v1" in told
    assert "#token" not in told
    assert (token is None) == ("abc" not in told)
    assert greeting("http://here:1", None, has_page=True) == ["Web interface: http://here:1/"]
