"""Whether the pictures in the documentation can be taken anew, and are all there."""

from __future__ import annotations

import re

from tests.web.conftest import ROOT
from tests.web.pictures import FOLDER, have_run, take_pictures

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_pictures_can_be_taken(browser, web_server, tmp_path):
    have_run(browser, web_server)
    taken = take_pictures(browser, web_server, tmp_path)
    # A page that is one colour all over makes a far smaller file.
    assert [file.name for file in taken if file.stat().st_size < 20_000 or file.read_bytes()[:8] != PNG] == []
    assert {file.name for file in taken} == {file.name for file in FOLDER.glob("*.png")}


def test_every_picture_that_a_page_shows_is_there():
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    shown = [(page, name) for page in pages for name in re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", page.read_text())]
    assert [str(page) for page, name in shown if not (page.parent / name).is_file()] == []
