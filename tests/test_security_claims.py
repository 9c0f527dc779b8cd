"""Whether every test that SECURITY.md names as a proof is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def named_tests() -> list[tuple[str, str]]:
    """Each as its file and the names inside of it; `::test` belongs to the file that was named last."""
    found, file = [], ""
    for text in re.findall(r"`((?:tests/[\w/]+\.py)?(?:::[\w:]+)?)`", (ROOT / "SECURITY.md").read_text()):
        path, _, names = text.partition("::")
        file = path or file
        if path or names:
            found.append((file, names))
    return found


def test_every_claim_names_a_test_that_is_there():
    named = named_tests()
    assert len(named) >= 20
    for file, names in named:
        source = (ROOT / file).read_text()
        for name in filter(None, names.split("::")):
            assert re.search(rf"^\s*(?:def|class) {name}\b", source, re.M), f"SECURITY.md names {file}::{names}"
