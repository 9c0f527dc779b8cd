"""Whether the page about definitions is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evertick.definitions.catalogue.job import JOB
from evertick.definitions.parser import parse_definition
from evertick.settings import Settings
from tests.definitions.fields_page import fields_page

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "definitions.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_has_examples():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_loads_without_an_error_or_a_warning(text):
    result = parse_definition(text, "docs/example.yaml", Settings(queues=(("warehouse", 2),)))
    assert (result.errors, result.warnings) == ((), ())


def test_every_field_is_explained_on_a_page_that_people_wrote():
    """The generated reference lists all of them; that alone teaches nobody when to use one."""
    pages = "".join(page.read_text() for page in DOCS.rglob("*.md") if page.parent.name != "reference")
    assert [name for name in JOB if not re.search(rf"[`{{ ,\n]{name}[`:\]]", pages)] == []


def test_the_reference_names_a_time_of_day_as_one():
    (line,) = [line for line in fields_page().splitlines() if line.startswith("| `expectBy`")]
    assert line.startswith("| `expectBy` | time of day |")
