"""Are the lists of files in CONTRIBUTING.md those that the examples are made of?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = [
    path
    for folder, pattern in (("src/evertick", "*.py"), ("web/src", "*.ts*"))
    for path in sorted((ROOT / folder).rglob(pattern))
]

# What names the example of each section: every file with it is listed there.
EXAMPLES = {
    "A policy": r"skip_if_successful|skipIfSuccessful",
    "A store": r"\bMysqlStore\b|\bMYSQL\b",
    "An executor": r"KubernetesExecutor|class KubernetesSettings|^KUBERNETES = |model\.routing import .*\bKUBERNETES\b",
    "A kind of step": r"\bHttpCall\b",
    "A command": r"commands\.verify\b",
}


def listed(title: str) -> set[str]:
    """The files of the list below a heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition(f"### {title}\n")[2].partition("\n##")[0]
    items = [line for line in section.splitlines() if line.startswith("- ")]
    return {path for line in items for path in re.findall(r"`((?:src|web)/[\w/.-]+)`", line.partition(": ")[0])}


@pytest.mark.parametrize(("title", "names"), EXAMPLES.items(), ids=EXAMPLES)
def test_a_section_lists_every_file_that_names_its_example(title, names):
    found = {str(path.relative_to(ROOT)) for path in SOURCES if re.search(names, path.read_text(), re.MULTILINE)}
    assert found
    assert found <= listed(title)


@pytest.mark.parametrize("title", EXAMPLES)
def test_every_file_of_a_section_exists(title):
    assert [path for path in listed(title) if not (ROOT / path).is_file()] == []
