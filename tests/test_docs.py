"""Whether the pages are true: generated parts fresh, links alive, examples that work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import pytest

from evertick.definitions.parser import parse_definition
from tests import generate_docs

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "bench/**/*.md")
    for path in ROOT.glob(pattern)
)


class Block(NamedTuple):
    language: str
    line: int
    text: str


def blocks_of(markdown: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    fence = re.compile(r"^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^(?P=indent)```\s*$", re.M | re.S)
    for found in fence.finditer(markdown):
        line = markdown.count("\n", 0, found.start("text")) + 1
        indent = len(found["indent"])
        yield Block(found["language"], line, "".join(row[indent:] for row in found["text"].splitlines(True)))


def prose_of(markdown: str) -> str:
    """A page without its code, where brackets are no links."""
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^ *```.*?^ *```", "", markdown, flags=re.M | re.S))


def links_of(markdown: str) -> list[str]:
    return re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose_of(markdown))


def anchors_of(markdown: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ +(.*?) *$", re.sub(r"^ *```.*?^ *```", "", markdown, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: str, root: Path) -> Iterator[str]:
    text = (root / page).read_text()
    for link in links_of(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = ((root / page).parent / path).resolve() if path else root / page
        if not target.exists():
            yield f"{page}: {link} leads nowhere"
        elif anchor and target.suffix == ".md" and anchor not in anchors_of(target.read_text()):
            yield f"{page}: {link} names a heading that {path or page} does not have"


def cases(language: str) -> list[object]:
    return [
        pytest.param(page, block, id=f"{page}:{block.line}")
        for page in PAGES
        for block in blocks_of((ROOT / page).read_text())
        if block.language == language
    ]


@pytest.mark.parametrize("path", generate_docs.GENERATED)
def test_a_generated_page_says_what_the_code_says(path):
    assert path not in generate_docs.stale_pages(), f"{path} is stale. Next: make docs"


@pytest.mark.parametrize(
    "meanings",
    [
        pytest.param(generate_docs.STATES, id="states"),
        pytest.param(generate_docs.SKIP_REASONS, id="skip reasons"),
        pytest.param(generate_docs.TRIGGERS, id="triggers"),
        pytest.param(generate_docs.JOB_STATUSES, id="job statuses"),
    ],
)
def test_every_word_of_a_table_is_explained(meanings: Mapping[StrEnum, str]):
    assert list(meanings) == list(type(next(iter(meanings))))


def test_a_page_that_differs_is_stale_and_so_is_one_that_is_missing(tmp_path):
    path = "docs/lifecycle.md"
    assert path in generate_docs.stale_pages(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / path).write_text(generate_docs.page(path))
    assert path not in generate_docs.stale_pages(tmp_path)
    (tmp_path / path).write_text(generate_docs.page(path) + "more")
    assert path in generate_docs.stale_pages(tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_inside_the_house_leads_somewhere(page):
    assert list(broken_links(page, ROOT)) == []


def test_the_pages_were_found():
    assert {"README.md", "docs/index.md", "docs/lifecycle.md"} <= set(PAGES)


def test_a_page_of_docs_can_be_found_from_its_index():
    index = (ROOT / "docs/index.md").read_text()
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - {"index.md"} <= {link.partition("#")[0] for link in links_of(index)}


def test_a_broken_link_and_a_broken_anchor_are_seen(tmp_path):
    (tmp_path / "a.md").write_text(
        "# One: a `b`\n[x](b.md) [y](#one-a-b) [z](#two) [w](https://example.org)\n`[q](r)`\n"
    )
    assert list(broken_links("a.md", tmp_path)) == [
        "a.md: b.md leads nowhere",
        "a.md: #two names a heading that a.md does not have",
    ]


@pytest.mark.parametrize(("page", "block"), cases("python"))
def test_a_python_example_compiles(page, block):
    compile(block.text, f"{page}:{block.line}", "exec")


@pytest.mark.parametrize(("page", "block"), [case for case in cases("python") if case.values[0] == "README.md"])
def test_a_python_example_of_the_readme_runs(page, block, capsys):
    exec(compile(block.text, f"{page}:{block.line}", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize(("page", "block"), [case for case in cases("yaml") if case.values[0] == "README.md"])
def test_a_job_of_the_readme_is_a_valid_definition(page, block):
    parsed = parse_definition(block.text, f"{page}:{block.line}")
    assert parsed.errors == ()
    assert parsed.job is not None
