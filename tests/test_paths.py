"""Does ARCHITECTURE.md name functions that exist, where it lists the path of a run?"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "ARCHITECTURE.md"
_STEP = re.compile(r"^\d+\. `([\w.]+)`", re.M)


def listed() -> list[str]:
    section = PAGE.read_text().partition("## The path of a run")[2].partition("\n## ")[0]
    return _STEP.findall(section)


def find(name: str) -> object:
    """`loop.fire.start`, or `loop.ring.Ring.take`: the module, then what is in it."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: object = import_module(".".join(["evertick", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise LookupError(name)


def test_both_paths_are_listed():
    assert len(listed()) > 30


@pytest.mark.parametrize("name", sorted(set(listed())))
def test_a_step_of_the_path_is_a_function(name):
    assert callable(find(name))


def test_a_name_that_does_not_exist_is_noticed():
    with pytest.raises((LookupError, AttributeError)):
        find("loop.fire.start_over")
