"""Whether the arrows between the rooms point as drawn, and whether the core is free of the outside world.

The checker reads source text, so each rule is also tried on text that breaks it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "evertick"
TESTS = ROOT / "tests"
LINES_MAX = 500

# Which rooms a room may import. A room is a file or a folder directly under src/evertick; `evertick` is the
# package's own file. Reading down is reading with the flow.
ARROWS = """
errors
model        errors
settings     errors model
planning     errors model
routing      errors model settings
loop         errors model settings planning routing
mounts
private_file errors
definitions  errors model settings planning mounts
location     errors settings
store        errors model
stores       errors model location store mounts private_file
executor     errors model
kinds        errors model executor
long_lived
executors    errors model settings planning executor kinds routing long_lived private_file
dispatch     errors model settings planning routing loop definitions store executor
operations   errors model settings planning routing loop definitions store dispatch private_file
http_connection errors model settings
client       errors model operations http_connection
wiring       errors model settings location executor executors kinds
node         errors model settings location loop store stores executor executors dispatch operations wiring
service      errors model settings location loop definitions store stores executors dispatch wiring node \
             long_lived
once         errors model settings location loop dispatch executors wiring node service
forecast     errors model settings loop store stores dispatch operations
library      errors model settings location planning loop definitions store stores executor executors dispatch \
             operations wiring node service
web          errors model settings operations
api          long_lived errors model settings location definitions store stores executors dispatch \
             operations wiring web private_file
cli          long_lived mounts errors model settings location planning routing loop definitions store \
             operations wiring service once forecast api stores executors client
testing      errors model settings planning routing loop definitions store stores executor executors dispatch operations
evertick     errors model settings planning definitions store executor executors operations service library client
__main__     cli
"""
ALLOWED = {row.split()[0]: set(row.split()[1:]) for row in ARROWS.strip().splitlines()}

# Who may name a concrete store or executor: the composition root, and the simulator the one without a disk.
CONCRETE_ROOMS = {"stores", "executors"}
# `evertick db` looks after a database as such, whatever is kept in it; `evertick logs` reads files that outlive runs.
MAY_NAME = {
    "service": ("evertick.",),
    # A node opens its ledger and holds its lock, and reads the clock that its keepers count by.
    "node": ("evertick.stores.open_store.", "evertick.stores.lock.", "evertick.executors.keeper.procfs."),
    "wiring": ("evertick.executors.",),
    "once": ("evertick.executors.",),
    "forecast": ("evertick.stores.memory.",),
    # The scheduler's side of a fleet, and when what a keeper runs has to end: no connection, no clock, no thread.
    "testing": (
        "evertick.stores.memory.",
        *("evertick.executors.fleet.assignments.", "evertick.executors.fleet.membership."),
        "evertick.executors.fleet.messages.",
        *("evertick.executors.fleet.settings.", "evertick.executors.fleet.log_sync.LogCopies"),
        *("evertick.executors.keeper.lease.", "evertick.executors.keeper.unconfirmed."),
        "evertick.executors.protocol.",
    ),
    # The public names of a run's context.
    "evertick": ("evertick.executors.context.",),
    # A program's own composition root: it adds its functions to what the service is put together from.
    "library": ("evertick.stores.", "evertick.executors."),
    # A server in a process of its own opens its own ledger, and reads logs where they lie.
    "api": (
        "evertick.stores.open_store.",
        *("evertick.executors.logs.", "evertick.executors.log_store."),
        "evertick.executors.fleet.admin.",
    ),
    "cli": (
        *("evertick.stores.open_reader.", "evertick.stores.open_store."),
        *("evertick.stores.lock.", "evertick.stores.sql.admin."),
        "evertick.stores.sql.ledger_check.",
        *("evertick.executors.logs.", "evertick.executors.log_store.", "evertick.executors.fleet."),
        "evertick.executors.keeper_process.",
    ),
}

CORE = {"model", "planning", "loop", "routing"}
# The core is handed its settings; of their room it knows the declarations, and not how they are loaded.
CORE_MAY_NAME = {"settings": "evertick.settings.parts."}

# A list of what is pure, not of what is not: nobody can name every way to reach a clock.
PURE = {
    *("__future__", "abc", "array", "base64", "binascii", "bisect", "calendar", "collections", "contextlib"),
    *("copy", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "hashlib"),
    *("heapq", "itertools", "json", "keyword", "math", "numbers", "operator", "re", "re2", "statistics", "string"),
    *("struct", "textwrap", "types", "typing", "unicodedata", "weakref", "zlib", "zoneinfo"),
}
IMPURE_FUNCTIONS = {"open", "print", "input", "exec", "eval", "compile", "breakpoint", "__import__", "id"}
CLOCK_METHODS = {"now", "utcnow", "today"}
LOCAL_ZONE_METHODS = {"astimezone": 0, "fromtimestamp": 1}
"""Methods that read the machine's own zone when called with this many arguments."""


@cache
def tree_of(source: str) -> ast.Module:
    """Every rule looks at every file; it is read once."""
    return ast.parse(source)


@cache
def nodes_of(source: str) -> Sequence[ast.AST]:
    return tuple(ast.walk(tree_of(source)))


class Import(NamedTuple):
    target: str
    line: int
    is_late: bool = False
    """Named in a text and looked up when it is used, as the commands of the command line are."""


@cache
def imports_of(source: str, module: str, *, is_package: bool = False) -> list[Import]:
    """Every module that the text imports: at the top, in functions, and as `package.module:attribute`."""
    parents = module.split(".") if is_package else module.split(".")[:-1]
    found = []
    for node in nodes_of(source):
        match node:
            case ast.Import(names=names):
                found += [Import(alias.name, node.lineno) for alias in names]
            case ast.ImportFrom(module=name, names=names, level=level):
                base = parents[: len(parents) - level + 1] if level else []
                path = ".".join([*base, *filter(None, [name])])
                found += [Import(f"{path}.{alias.name}", node.lineno) for alias in names]
            case ast.Constant(value=str(text)) if re.fullmatch(r"evertick(\.\w+)*:\w+", text):
                found.append(Import(text.partition(":")[0], node.lineno, is_late=True))
            case ast.Call(func=ast.Name("import_module") | ast.Attribute(attr="import_module"), args=[name, *_]):
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    found.append(Import(name.value, node.lineno, is_late=True))
    return found


def room_of(module: str) -> str:
    """`evertick.model.run` is in the room `model`; the package's own file is a room by itself."""
    room = module.split(".")[1] if "." in module else module
    return "evertick" if room == "__version__" else room


def violations(source: str, module: str, *, is_package: bool = False) -> Iterator[str]:
    """What the text would break if it were the module of that name, each as a sentence."""
    room = room_of(module)
    for target, line, _ in imports_of(source, module, is_package=is_package):
        where, other = f"{module}:{line}", room_of(target)
        if target.partition(".")[0] == "evertick":
            if other not in {room, "evertick"} and other not in ALLOWED[room]:
                yield f"{where}: '{room}' may not import '{other}'; it may import {sorted(ALLOWED[room])}"
            elif other in CONCRETE_ROOMS - {room} and not f"{target}.".startswith(MAY_NAME.get(room, ())):
                yield f"{where}: only 'service' may name {target}; take its contract instead"
            elif room in CORE and other != room and not f"{target}.".startswith(CORE_MAY_NAME.get(other, "evertick.")):
                yield f"{where}: the core takes only {CORE_MAY_NAME[other]} from '{other}'"
        elif room in CORE and target.partition(".")[0] not in PURE:
            yield f"{where}: the core is pure and {target} is not known to be; hand its answer in as a value"
    if room in CORE:
        yield from impurities(source, module)
    yield from unsafe_calls(source, module)


PATTERN_FUNCTIONS = {"compile", "match", "fullmatch", "search", "findall", "finditer", "split", "sub", "subn"}


def unsafe_calls(source: str, module: str) -> Iterator[str]:
    """Patterns that a user may have written given to an engine that backtracks, and Pythons that are not isolated."""
    for node in nodes_of(source):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name("re"), attr=name), args=[pattern, *_]):
                is_ours = isinstance(pattern, ast.Constant) or "re.escape" in ast.unparse(pattern)
                if name in PATTERN_FUNCTIONS and not is_ours:
                    yield f"{module}:{node.lineno}: only patterns of our own go to 're'; use model.pattern"
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                for part, flag in zip_longest(parts, parts[1:]):
                    is_python = isinstance(part, ast.Attribute) and ast.unparse(part) == "sys.executable"
                    if is_python and not (isinstance(flag, ast.Constant) and flag.value in {"-P", "-I"}):
                        yield f"{module}:{node.lineno}: a Python of ours starts with -P, or it imports from anywhere"


def impurities(source: str, module: str) -> Iterator[str]:
    hashing = {id(part) for node in nodes_of(source) if is_hash_method(node) for part in ast.walk(node)}
    for node in nodes_of(source):
        match node:
            case ast.Call(func=ast.Name(name)) if name in IMPURE_FUNCTIONS:
                yield f"{module}:{node.lineno}: the core does not call {name}()"
            case ast.Call(func=ast.Name("hash")) if id(node) not in hashing:
                # Texts hash differently in every process, so a decision that rests on it cannot be repeated.
                yield f"{module}:{node.lineno}: hash() differs between processes; use zlib or hashlib"
            case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCK_METHODS:
                yield f"{module}:{node.lineno}: the core reads no clock (.{name}()); take `now` as a value"
            case ast.Call(func=ast.Attribute(attr=name), args=arguments, keywords=[]):
                if LOCAL_ZONE_METHODS.get(name) == len(arguments):
                    yield f"{module}:{node.lineno}: .{name}() without a zone takes the machine's; name one"


def is_hash_method(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__hash__"


def find_cycle(arrows: Mapping[str, set[str]]) -> list[str] | None:
    """Some way from a node back to itself."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str] | None:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        for following in sorted(arrows.get(node, ())):
            if found := visit(following, [*path, node]):
                return found
        done.add(node)
        return None

    return next((cycle for node in sorted(arrows) if (cycle := visit(node, []))), None)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def nearest_module(target: str) -> str:
    """`evertick.model.run.RunKey` is in the file `evertick.model.run`."""
    while target not in FILES and "." in target:
        target = target.rpartition(".")[0]
    return target


ROOMS = sorted({room_of(module) for module in FILES})


def modules_of(room: str) -> list[tuple[str, Path]]:
    return [(module, path) for module, path in FILES.items() if room_of(module) == room]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_and_calls_only_what_it_may(room):
    assert room in ALLOWED, f"'{room}' is a new room: draw its arrows in ALLOWED first"
    found = [
        sentence
        for module, path in modules_of(room)
        for sentence in violations(path.read_text(), module, is_package=path.name == "__init__.py")
    ]
    assert found == []


def test_the_rooms_were_found():
    assert {"evertick.errors", "evertick.model.run", "evertick.planning"} <= set(FILES)


def test_the_arrows_between_rooms_never_lead_back():
    assert find_cycle(ALLOWED) is None
    assert {room for rooms in ALLOWED.values() for room in rooms} <= set(ALLOWED)


def test_no_module_imports_itself_through_others():
    arrows = {
        module: {
            nearest_module(target)
            for target, _, is_late in imports_of(path.read_text(), module, is_package=path.name == "__init__.py")
            if target.startswith("evertick.") and not is_late
        }
        for module, path in FILES.items()
    }
    # The package's own file hands out names on demand; taking from it is judged by the next test.
    assert (
        find_cycle({module: arrows[module] - {"evertick", module} for module in arrows if module != "evertick"}) is None
    )


def test_inside_the_package_names_come_from_where_they_live():
    for module, path in FILES.items():
        taken = {
            alias.name
            for node in nodes_of(path.read_text())
            if isinstance(node, ast.ImportFrom) and node.module == "evertick" and not node.level
            for alias in node.names
        }
        lent = {name for name in taken if f"evertick.{name}" not in FILES and not name.startswith("__")}
        assert not lent, f"{module} takes {sorted(lent)} from the package itself; import it from its own module"


@pytest.mark.parametrize("room", ROOMS)
def test_a_module_opens_with_a_docstring_and_is_short(room):
    for module, path in modules_of(room):
        source = path.read_text()
        tree = tree_of(source)
        assert ast.get_docstring(tree) or not tree.body, f"{module} does not say which question it answers"
        assert len(source.splitlines()) <= LINES_MAX, f"{module} is long: look for the second noun in it"


def test_every_folder_of_tests_is_a_package_so_that_two_may_hold_files_of_one_name():
    folders = {path.parent for path in TESTS.rglob("test_*.py")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


BROKEN = {
    "an arrow against the flow": ("model.job", "from evertick.planning import cron"),
    "the loop reaching for the store": ("loop.decide", "import evertick.store"),
    "the same, relatively": ("loop.decide", "from ..store import Store"),
    "the same, from the package": ("loop.decide", "from .. import store"),
    "hidden in a function": ("planning.a", "def f():\n    from evertick.loop import b"),
    "hidden in a text": ("routing.a", "X = 'evertick.service:Service'"),
    "hidden in import_module": ("web.a", "import_module('evertick.cli')"),
    "a concrete store": ("dispatch.a", "from evertick.stores.sql.sqlite import S"),
    "a concrete executor": ("operations", "import evertick.executors.local"),
    "the simulator on a disk": ("testing.sim", "import evertick.stores.sql.sqlite"),
    "the simulator on a disk, by its folder": ("testing.sim", "from evertick.stores.sql import sqlite"),
    "the loop loading its settings": ("loop.state", "from evertick.settings import Settings"),
    "a clock": ("model.run", "import time"),
    "a clock, by name": ("model.run", "from time import monotonic"),
    "an event loop": ("loop.ring", "import asyncio"),
    "a logger": ("loop.ring", "import logging"),
    "a die": ("planning.retry", "from random import random"),
    "a disk": ("planning.zones", "from pathlib import Path"),
    "the machine": ("routing.hash", "import os.path"),
    "a random name": ("routing.hash", "from uuid import uuid4"),
    "a database": ("planning.zones", "import sqlalchemy"),
    "now": ("model.run", "from datetime import datetime\ndatetime.now()"),
    "now, with a zone": ("model.run", "from datetime import UTC, datetime\ndatetime.now(UTC)"),
    "utcnow": ("model.run", "import datetime as d\nd.datetime.utcnow()"),
    "today": ("model.run", "from datetime import date\ndate.today()"),
    "the machine's zone": ("model.run", "moment.astimezone()"),
    "the machine's zone, from a number": ("model.run", "datetime.fromtimestamp(0)"),
    "a file": ("model.run", "open('x')"),
    "a terminal": ("model.run", "print('x')"),
    "a salted hash": ("routing.a", "def bucket(name):\n    return hash(name) % 8"),
    "a salted hash at the top": ("routing.a", "SALT = hash('name')"),
    "a pattern that backtracks": ("api.a", "import re\nre.search(written, text)"),
    "a Python that imports from anywhere": ("dispatch.a", "run([sys.executable, '-m', 'evertick.api'])"),
    "the same, without arguments": ("dispatch.a", "run([sys.executable])"),
}
SOUND = {
    "with the flow": ("loop.decide", "from evertick.planning.cron import Cron"),
    "inside a room": ("model.run", "from evertick.model.instant import Instant"),
    "inside a room, relatively": ("model.run", "from .instant import Instant"),
    "the composition root": ("service", "from evertick.stores.sql.sqlite import S"),
    "a store": ("stores.sql.sqlite", "import sqlite3\nfrom evertick.stores.sql import schema"),
    "the store without a disk": ("testing.sim", "from evertick.stores.memory import M"),
    "zone data": ("model.run", "from zoneinfo import ZoneInfo"),
    "a zone that is named": ("model.run", "moment.astimezone(zone)"),
    "a hash for a dict": ("model.run", "class K:\n def __hash__(self):\n  return hash(self.a)"),
    "the version": ("cli.app", "from evertick import __version__"),
    "a pattern of our own": ("api.a", "import re\nre.search('a+', text)"),
    "a Python that is isolated": ("dispatch.a", "run([sys.executable, '-P', '-m', 'evertick.api'])"),
    "a clock at the edge": ("dispatch.clock", "import time\ntime.time()"),
}


@pytest.mark.parametrize(("module", "source"), BROKEN.values(), ids=BROKEN)
def test_the_checker_sees(module, source):
    assert list(violations(source, f"evertick.{module}"))


@pytest.mark.parametrize(("module", "source"), SOUND.values(), ids=SOUND)
def test_the_checker_lets_pass(module, source):
    assert list(violations(source, f"evertick.{module}")) == []


def test_the_checker_sees_a_cycle():
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
