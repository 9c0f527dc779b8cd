"""Does the check of our texts find what it looks for?"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from evertick import errors
from evertick.cli.app import COMMANDS
from tests import voice


def test_a_phrase_is_found_with_its_place_and_what_to_write(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("Jobs.\nList the jobs and how they stand.\n")
    monkeypatch.setattr(voice, "ROOT", tmp_path)
    monkeypatch.setattr(voice, "texts_in", lambda _places: ["page.md"])
    assert list(voice.violations(("docs",), voice.PHRASES)) == ["page.md:2: 'how they stand'. Write: the status"]


@pytest.mark.parametrize("place", ["src/evertick/errors.py", "docs/glossary.md", "web/src/app.tsx", "README.md"])
def test_the_texts_of_all_rooms_are_looked_at(place):
    assert place in voice.texts_in(voice.EVERYWHERE)


NAMES = {"Evertick", "Failed"}
"""Words that keep their capital. A pipeline says `Failed to read input`, as the runner did whose files it reads."""
OURS = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.EvertickError)
}
USAGE = {"UsageError", "BadParameter"}


class Raised(NamedTuple):
    """A text with which the code makes something, up to its first variable."""

    kind: str
    place: str
    text: str


@cache
def read_code() -> tuple[list[Raised], dict[Path, list[str]]]:
    """The texts in calls, and of each file all texts but docstrings; read once for all tests."""
    calls: list[Raised] = []
    texts: dict[Path, list[str]] = {}
    for file in sorted((voice.ROOT / "src" / "evertick").rglob("*.py")):
        path = file.relative_to(voice.ROOT)
        nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        texts[path] = []
        for node in nodes:
            match node:
                case ast.Call(ast.Name(kind) | ast.Attribute(attr=kind), [first, *_]):
                    first = first.values[0] if isinstance(first, ast.JoinedStr) else first
                    if isinstance(first, ast.Constant) and isinstance(first.value, str):
                        calls.append(Raised(kind, f"{path}:{node.lineno}", first.value))
                case ast.Constant(str(text)) if id(node) not in docstrings:
                    texts[path].append(text)
    return calls, texts


def raised(kinds):
    return [(call.place, call.text) for call in read_code()[0] if call.kind in kinds]


def test_an_error_begins_in_lower_case_as_it_follows_a_prefix():
    found = raised(OURS)
    assert len(found) > 150
    assert [one for one in found if is_capital(one[1])] == []


def test_an_error_of_usage_begins_with_a_capital_as_those_of_click_do():
    found = raised(USAGE)
    assert len(found) > 10
    assert [one for one in found if one[1][:1].islower()] == []


SHOWN_ON_THE_PAGE = ("model", "planning", "routing", "loop", "definitions", "operations")
NEXT_STEPS = "src/evertick/operations/next_steps.py"
"""Where command lines are data, beside the kind of step for which the page has a button."""


def test_only_the_next_steps_name_a_command_among_the_texts_that_the_page_shows():
    command_line = re.compile(rf"\bevertick ({'|'.join(map(re.escape, COMMANDS))})\b")
    shown = {path: texts for path, texts in read_code()[1].items() if path.parts[2] in SHOWN_ON_THE_PAGE}
    found = {str(path) for path, texts in shown.items() if any(map(command_line.search, texts))}
    assert found == {NEXT_STEPS}


def is_capital(text):
    word = text.split()[0] if text.split() else ""
    return (word[:1].isupper() and word[1:].islower() and word not in NAMES) or text.startswith("A ")
