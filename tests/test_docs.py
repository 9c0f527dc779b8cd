"""Whether the documentation is true: generated pages are current, links work, and every block runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from zoneinfo import ZoneInfo

import click
import pytest
import yaml
from _pytest.mark import ParameterSet

from evertick.cli.app import evertick
from tests import generate_docs
from tests.docs_site import ROOT_PAGES, anchor_of, rewrite_links
from tests.pages import Session, blocks_of, is_shown, with_free_ports

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "bench/**/*.md")
    for path in ROOT.glob(pattern)
)


def prose_of(markdown: str) -> str:
    """A page without its code, where brackets are not links."""
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^ *```.*?^ *```", "", markdown, flags=re.M | re.S))


def links_of(markdown: str) -> list[str]:
    return re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose_of(markdown))


def anchors_of(markdown: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ +(.*?) *$", re.sub(r"^ *```.*?^ *```", "", markdown, flags=re.M | re.S), re.M)
    return {anchor_of(heading) for heading in headings}


def broken_links(page: str, root: Path) -> Iterator[str]:
    text = (root / page).read_text()
    for link in links_of(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = ((root / page).parent / path).resolve() if path else root / page
        if not target.exists():
            yield f"{page}: {link} does not exist"
        elif anchor and target.suffix == ".md" and anchor not in anchors_of(target.read_text()):
            yield f"{page}: {link} names a heading that {path or page} does not have"


@pytest.mark.parametrize("path", generate_docs.GENERATED)
def test_a_generated_page_is_current(path):
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


def test_a_page_that_differs_or_is_missing_is_stale(tmp_path):
    path = "docs/reference/lifecycle.md"
    assert path in generate_docs.stale_pages(tmp_path)
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(generate_docs.page(path))
    assert path not in generate_docs.stale_pages(tmp_path)
    (tmp_path / path).write_text(generate_docs.page(path) + "more")
    assert path in generate_docs.stale_pages(tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_of_the_project_works(page):
    assert list(broken_links(page, ROOT)) == []


def test_the_pages_were_found():
    assert {"README.md", "docs/index.md", "docs/reference/lifecycle.md"} <= set(PAGES)


PAGES_OF_DOCS = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}


def test_a_page_of_docs_can_be_found_from_its_index():
    index = (ROOT / "docs/index.md").read_text()
    assert PAGES_OF_DOCS - {"index.md"} <= {link.partition("#")[0] for link in links_of(index)}


def entries_of(nav: object) -> Iterator[str]:
    """The pages that a navigation lists."""
    match nav:
        case str():
            yield nav
        case list():
            for part in nav:
                yield from entries_of(part)
        case dict():
            for part in nav.values():
                yield from entries_of(part)


def test_the_navigation_of_the_site_lists_every_page_once():
    listed = list(entries_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert sorted(listed) == sorted([*PAGES_OF_DOCS, *ROOT_PAGES.values()])


@pytest.mark.parametrize(
    ("link", "rewritten"),
    [
        pytest.param("[a](../cron.md#fields)", "[a](../cron.md#fields)", id="a page stays"),
        pytest.param("[a](../../SECURITY.md)", "[a](../project/security.md)", id="a page of the root"),
        pytest.param("[`a`](../../deploy/compose.yaml)", "[`a`](../source/deploy/compose.yaml)", id="a file"),
        pytest.param("[a](../../src/evertick/store.py)", "a", id="what the site has not"),
        pytest.param("[a](https://example.org) `[b](../../SECURITY.md)`", None, id="elsewhere, and code"),
    ],
)
def test_links_of_a_page_lead_to_pages_of_the_site(link, rewritten):
    assert rewrite_links(link, ROOT / "docs/how-to/retry.md", "how-to/retry.md") == (rewritten or link)


def test_a_broken_link_and_a_broken_anchor_are_found(tmp_path):
    (tmp_path / "a.md").write_text(
        "# One: a `b`\n[x](b.md) [y](#one-a-b) [z](#two) [w](https://example.org)\n`[q](r)`\n"
    )
    assert list(broken_links("a.md", tmp_path)) == [
        "a.md: b.md does not exist",
        "a.md: #two names a heading that a.md does not have",
    ]


# --- the blocks of every page run

RUNNABLE = ("python", "yaml", "toml", "json", "sh", "console")


def with_blocks() -> list[ParameterSet]:
    """The pages that have blocks to run; those that start programs are slow."""
    found = []
    for page in PAGES:
        languages = {block.language for block in blocks_of((ROOT / page).read_text()) if block.marker != "not run"}
        if languages & set(RUNNABLE):
            is_slow = bool(languages & {"python", "sh", "console"})
            found.append(pytest.param(page, id=page, marks=[pytest.mark.slow] if is_slow else []))
    return found


@pytest.mark.parametrize("page", with_blocks())
def test_every_block_of_a_page_works(page, tmp_path):
    Session(page, tmp_path).run((ROOT / page).read_text())


# --- commands that a page only mentions, in a line of text or in a block that is not run, exist

COMMAND = re.compile(r"(?<![\w./-])evertick ([a-z][\w-]*(?: [^`|;&<>#\n]*)?)")


def commands_on(markdown: str) -> Iterator[str]:
    """Every call of `evertick` in a block or in inline code."""
    code = [found[0] for found in re.finditer(r"^ *```.*?^ *```", markdown, re.M | re.S)]
    spoken = re.sub(r"^ *```.*?^ *```", "", markdown, flags=re.M | re.S)
    for text in (*code, *re.findall(r"`([^`\n]+)`", spoken)):
        for found in COMMAND.finditer(text):
            # Prose and programs mention it too: a call is at the beginning of a line, or after a prompt.
            before = text[: found.start()].rpartition("\n")[2].strip()
            if before in ("", "$", "sudo", "-") or before.endswith(("&&", "=", ";")):
                yield found[0]


def slips_in(call: str) -> Iterator[str]:
    """The commands and options of a call that do not exist."""
    call = re.sub(r"\$\([^()]*\)", "VALUE", call)  # a call inside of it has options of its own
    try:
        words = shlex.split(call.replace("…", " ").replace("...", " "), comments=True)[1:]
    except ValueError:
        words = call.split()[1:]
    command: click.Command = evertick
    context = click.Context(command, info_name="evertick")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            if words[0].islower():
                yield f"{call}: there is no command '{words[0]}'"
            return
        command, words = found, words[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    known = {name for param in command.get_params(context) for name in (*param.opts, *param.secondary_opts)}
    for word in words:
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if re.fullmatch(r"--?[a-z][\w-]*", name) and name not in known:
            yield f"{call}: '{command.name}' has no option '{name}'"


@pytest.mark.parametrize("page", [page for page in PAGES if "evertick " in (ROOT / page).read_text()])
def test_every_command_and_option_on_a_page_exists(page):
    calls = set(commands_on((ROOT / page).read_text()))
    assert [slip for call in sorted(calls) for slip in slips_in(call)] == []


@pytest.mark.parametrize(
    ("markdown", "slips"),
    [
        pytest.param("`evertick lst`", ["evertick lst: there is no command 'lst'"], id="a command"),
        pytest.param("```text\nevertick serve --prot 1\n```\n", 1, id="an option"),
        pytest.param("```console\n$ evertick db chek\n```\n", 1, id="a command of a group"),
        pytest.param("`evertick list --folder jobs -o json`, `evertick is there`", 1, id="one of two"),
    ],
)
def test_a_command_that_does_not_exist_is_found(markdown, slips):
    found = [slip for call in commands_on(markdown) for slip in slips_in(call)]
    assert found == slips if isinstance(slips, list) else len(found) == slips


@pytest.mark.parametrize("page", PAGES)
def test_every_block_names_its_language(page):
    """No test would look at a block without a language."""
    fences = re.findall(r"^ *```(.*)$", (ROOT / page).read_text(), re.M)
    assert all(language.strip() for language in fences[::2])


@pytest.mark.slow
def test_the_recipe_for_holidays_checks_the_day_in_the_zone_of_the_job(tmp_path):
    text = next(
        block.text
        for block in blocks_of((ROOT / "docs/how-to/calendars.md").read_text())
        if "holidays.txt" in block.text
    )
    days, job = tmp_path / "holidays.txt", tmp_path / "trading.yaml"
    # Fourteen hours ahead and eleven behind: on one of these servers the day is another than in Kathmandu.
    zone = "Asia/Kathmandu"
    text = text.replace("/srv/books/holidays.txt", str(days)).replace("/srv/books/trade.sh", "echo traded")
    job.write_text(text.replace("Europe/London", zone))

    def ended(listed: date, server: str) -> str:
        days.write_text(f"{listed}\n")
        environ = {**os.environ, "TZ": server}
        command = [sys.executable, "-m", "evertick", "run", str(job)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=180, check=False)
        return done.stdout + done.stderr

    for server in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        today = datetime.now(ZoneInfo(zone)).date()
        assert "traded" not in ended(today, server)
        assert "traded" in ended(today + timedelta(days=3), server)


def test_a_block_with_a_marker_gives_a_reason():
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
        pytest.param(
            "```yaml\ncommand: ./report.sh\n```\n",
            "start in the folder of",
            id="a path that does not exist",
        ),
        pytest.param("```console\n$ echo one\ntwo\n```\n", r"did not print \['two'\]", id="output that differs"),
    ],
)
@pytest.mark.slow
def test_a_wrong_page_is_found(markdown, words, tmp_path):
    with pytest.raises(AssertionError, match=words):
        Session("page.md", tmp_path).run(markdown)


def test_two_sessions_with_a_fleet_use_different_ports():
    page = (ROOT / "docs/fleet.md").read_text()
    ports = [set(re.findall(r"tls://127\.0\.0\.1:(\d+)", with_free_ports(page))) for _ in range(2)]
    assert [len(found) for found in ports] == [1, 1]
    assert not ports[0] & ports[1]
    assert "8786" not in ports[0] | ports[1]


def test_shown_output_may_differ_in_times_and_names_of_the_machine():
    assert is_shown("decided 03:00:00.004 on node a1; 3 runs", "decided 11:12:13.9 on node vm-7; 12 runs")
    assert not is_shown("decided 03:00 on node a1", "decided 03:00 on node a1, twice")


def test_a_block_knows_its_file_and_its_marker():
    (block,) = blocks_of("<!-- not run: it needs a server -->\n```yaml\n# jobs/a.yaml\ncommand: x\n```\n")
    assert (block.file, block.marker, block.reason) == ("jobs/a.yaml", "not run", "it needs a server")
