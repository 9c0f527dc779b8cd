"""Does the check of our texts find what it looks for?"""

from __future__ import annotations

import ast
import re

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


def raised(kinds):
    """Each text with which the code makes an error of these kinds, up to its first variable, with its place."""
    for path in sorted((voice.ROOT / "src" / "evertick").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in kinds and node.args:
                first = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield f"{path.relative_to(voice.ROOT)}:{node.lineno}", first.value


def test_an_error_begins_in_lower_case_as_it_follows_a_prefix():
    found = [*raised(OURS)]
    assert len(found) > 150
    assert [one for one in found if is_capital(one[1])] == []


def test_an_error_of_usage_begins_with_a_capital_as_those_of_click_do():
    found = [*raised(USAGE)]
    assert len(found) > 10
    assert [one for one in found if one[1][:1].islower()] == []


SHOWN_ON_THE_PAGE = ("model", "planning", "routing", "loop", "definitions", "operations")
NEXT_STEPS = "src/evertick/operations/next_steps.py"
"""Where command lines are data, beside the kind of step for which the page has a button."""


def test_only_the_next_steps_name_a_command_among_the_texts_that_the_page_shows():
    command_line = re.compile(rf"\bevertick ({'|'.join(map(re.escape, COMMANDS))})\b")
    found = set()
    for package in SHOWN_ON_THE_PAGE:
        for path in sorted((voice.ROOT / "src" / "evertick" / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings)
            if any(isinstance(one.value, str) and command_line.search(one.value) for one in texts):
                found.add(str(path.relative_to(voice.ROOT)))
    assert found == {NEXT_STEPS}


def is_capital(text):
    word = text.split()[0] if text.split() else ""
    return (word[:1].isupper() and word[1:].islower() and word not in NAMES) or text.startswith("A ")
