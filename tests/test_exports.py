"""Whether `import evertick` offers what it says, and costs nothing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import evertick
from evertick import errors


@pytest.mark.parametrize("name", evertick.__all__)
def test_every_public_name_resolves(name):
    assert getattr(evertick, name) is not None


def test_all_is_sorted_and_is_what_dir_shows():
    assert evertick.__all__ == sorted(evertick.__all__)
    assert set(evertick.__all__) <= set(dir(evertick))


def test_the_names_for_type_checkers_are_the_public_names():
    tree = ast.parse(Path(evertick.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    shown = {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(shown) == set(evertick.__all__)
    for public, (module, name) in shown.items():
        assert getattr(evertick, public) is getattr(sys.modules[module], name)


def test_the_public_errors_are_those_of_the_tree():
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    drawn = re.findall(r"^    [│├└─ ]*([A-Z]\w+)", errors.__doc__ or "", re.M)
    assert sorted(drawn) == sorted(kinds)
    public = {name for name in evertick.__all__ if getattr(evertick, name).__module__ == errors.__name__}
    assert public == kinds


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Corn'"):
        _ = evertick.Corn


def test_the_version_is_that_of_the_package():
    assert evertick.__version__ == version("evertick")


def test_importing_the_package_imports_none_of_its_parts():
    code = "import sys, evertick; print(*[name for name in sys.modules if name.startswith('evertick.')])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


HEAVY: tuple[str, ...] = (
    "alembic",
    "click",
    "distributed",
    "fastapi",
    "kubernetes",
    "prometheus_client",
    "psycopg",
    "pydantic",
)
HEAVY += ("rich", "sqlalchemy", "uvicorn")


@pytest.mark.parametrize("name", ["Cron", "Scheduler", "load_folder"])
def test_a_name_brings_no_package_that_it_does_not_need(name):
    code = f"import sys, evertick; evertick.{name}; print(*{{one.partition('.')[0] for one in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(result.stdout.split()) & set(HEAVY) == set()
