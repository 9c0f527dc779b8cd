"""Whether the pages are true: generated parts fresh, links alive, examples that work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

import pytest

from tests import generate_docs
from tests.pages import Session, blocks_of, is_shown

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "bench/**/*.md")
    for path in ROOT.glob(pattern)
)


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


@pytest.mark.parametrize("path", generate_docs.GENERATED)
def test_a_generated_page_says_what_the_code_says(path):
    assert (generate_docs.ROOT / path).read_text() == generate_docs.page(path), f"{path} is stale. Next: make docs"


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


# --- what stands in the pages is carried out, page by page

RUNNABLE = ("python", "yaml", "toml", "json", "sh", "console")


def with_blocks() -> list[object]:
    """The pages that have something to carry out; those with programs in them take their time."""
    found = []
    for page in PAGES:
        languages = {block.language for block in blocks_of((ROOT / page).read_text()) if block.marker != "not run"}
        if languages & set(RUNNABLE):
            is_slow = bool(languages & {"python", "sh", "console"})
            found.append(pytest.param(page, id=page, marks=[pytest.mark.slow] if is_slow else []))
    return found


@pytest.mark.parametrize("page", with_blocks())
def test_everything_on_a_page_works(page, tmp_path):
    Session(page, tmp_path).run((ROOT / page).read_text())


def test_a_block_that_is_treated_otherwise_says_why():
    silent = [
        f"{page}:{block.line}"
        for page in PAGES
        for block in blocks_of((ROOT / page).read_text())
        if block.marker and not block.reason
    ]
    assert silent == []


def test_few_blocks_are_not_run():
    blocks = [block for page in PAGES for block in blocks_of((ROOT / page).read_text()) if block.language in RUNNABLE]
    left_out = [block for block in blocks if block.marker == "not run"]
    assert len(left_out) <= len(blocks) // 5


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        pytest.param("```python\n1 / 0\n```\n", "ZeroDivisionError", id="a program that raises"),
        pytest.param("```sh\nfalse\ntrue\n```\n", "ended with 1", id="a command that fails before the last"),
        pytest.param("```yaml\nschedul: x\n```\n", "Did you mean 'schedule'", id="a job that is none"),
        pytest.param("```console\n$ echo one\ntwo\n```\n", r"did not print \['two'\]", id="output that differs"),
    ],
)
@pytest.mark.slow
def test_a_page_that_is_wrong_is_seen(markdown, words, tmp_path):
    with pytest.raises(AssertionError, match=words):
        Session("page.md", tmp_path).run(markdown)


def test_output_may_differ_in_what_differs_every_time():
    assert is_shown("decided 03:00:00.004 on node a1; 3 runs", "decided 11:12:13.9 on node vm-7; 12 runs")
    assert not is_shown("decided 03:00 on node a1", "decided 03:00 on node a1, twice")


def test_a_block_knows_its_file_and_its_marker():
    (block,) = blocks_of("<!-- not run: it needs a server -->\n```yaml\n# jobs/a.yaml\ncommand: x\n```\n")
    assert (block.file, block.marker, block.reason) == ("jobs/a.yaml", "not run", "it needs a server")
