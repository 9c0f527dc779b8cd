"""Whether every test that a page about security names as a proof is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def named_tests(page: str) -> list[tuple[str, str]]:
    """Each as its file and the names inside of it; `::test` belongs to the file that was named last."""
    found, file = [], ""
    for text in re.findall(r"`((?:tests/[\w/]+\.py)?(?:::[\w:]+)?)`", (ROOT / page).read_text()):
        path, _, names = text.partition("::")
        file = path or file
        if path or names:
            found.append((file, names))
    return found


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/security.md"])
def test_every_claim_names_a_test_that_is_there(page):
    named = named_tests(page)
    assert len(named) >= 20
    for file, names in named:
        source = (ROOT / file).read_text()
        for name in filter(None, names.split("::")):
            assert re.search(rf"^\s*(?:def|class) {name}\b", source, re.M), f"{page} names {file}::{names}"


def test_every_row_of_the_threat_model_names_a_test():
    tables = (ROOT / "docs/security.md").read_text().partition("## By class of attack")[2]
    rows = [
        line
        for line in tables.splitlines()
        if line.startswith("|") and not line.startswith(("|---", "| class", "| target"))
    ]
    assert len(rows) > 30
    for row in rows:
        assert "::test_" in row or "::Test" in row, f"no test: {row}"
