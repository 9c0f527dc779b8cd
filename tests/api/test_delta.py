"""Do the changes between two responses produce the second one, also in the page's own code?"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evertick.api.delta import delta_of
from evertick.model.plain_json import Json

ROOT = Path(__file__).parent.parent.parent

plain = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from((1.0, 0.5, "", "a", "value", "é\ud7ff"))
names = st.sampled_from(("run", "job", "at", "state", "value", "items", "copy", "from", "__proto__"))
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(names, inner, max_size=4), max_leaves=25
)


def applied(old, delta):
    """What the docstring of `delta` says, word for word."""
    if delta is None:
        return old
    if "value" in delta:
        return delta["value"]
    if "items" in delta:
        return [item for piece in delta["items"] for item in items_of(old, piece)]
    kept = {name: value for name, value in old.items() if name not in delta.get("removed", ())}
    return kept | {name: applied(old.get(name), one) for name, one in delta["fields"].items()}


def items_of(old, piece):
    if "copy" not in piece:
        return [applied(old[piece["from"]] if "from" in piece else None, piece)]
    first, count = piece["copy"]
    assert 0 < count <= len(old) - first
    return old[first : first + count]


def written(value):
    return json.dumps(value, sort_keys=True)


@given(values, values)
@settings(max_examples=400)
def test_the_changes_make_the_new_value(old, new):
    delta = delta_of(old, new)
    assert written(applied(old, delta)) == written(new)
    assert (delta is None) == (written(old) == written(new))


def run(number, state="succeeded"):
    return {"run": f"etl@{number}", "job": "etl", "state": state, "detail": "x" * 200}


@pytest.mark.parametrize(
    ("old", "new", "delta"),
    [
        pytest.param(
            [run(3), run(2), run(1)],
            [run(4), run(3), run(2)],
            {"items": [{"value": run(4)}, {"copy": [0, 2]}]},
            id="a new first row costs that row",
        ),
        pytest.param(
            [run(3, "running"), run(2)],
            [run(3), run(2)],
            {"items": [{"from": 0, "fields": {"state": {"value": "succeeded"}}}, {"copy": [1, 1]}]},
            id="a row that changed costs the field",
        ),
        pytest.param([1, 1, 1], [1, 1], {"items": [{"copy": [0, 2]}]}, id="equal items are copied in one piece"),
        pytest.param({"a": 1}, {"b": 1}, {"fields": {"b": {"value": 1}}, "removed": ["a"]}, id="a field went away"),
        pytest.param(1, True, {"value": True}, id="true is not one"),
        pytest.param([1], [1.0], {"items": [{"value": 1.0}]}, id="as written"),
        pytest.param({"a": [{}]}, {"a": [{}]}, None, id="equal"),
    ],
)
def test_a_delta_says_what_changed(old, new, delta):
    assert delta_of(old, new) == delta


@pytest.mark.slow
def test_the_page_makes_the_same_of_it(tmp_path):
    """Its code is bundled as for its own tests, and given what the server writes."""
    modules = ROOT / "web" / "node_modules"
    node = shutil.which("node") or str(ROOT / ".venv/bin/node")
    assert modules.is_dir(), "the page's tools are not installed. Next: make web"
    cases = [(old, new) for old in EXAMPLES for new in EXAMPLES]
    told = [{"old": old, "delta": delta_of(old, new) or {"fields": {}}} for old, new in cases]
    (tmp_path / "cases.json").write_text(json.dumps(told))
    (tmp_path / "run.ts").write_text(
        f"import {{ apply }} from {json.dumps(str(ROOT / 'web/src/api/delta.ts'))};\n"
        'import { readFileSync } from "node:fs";\n'
        f"const cases = JSON.parse(readFileSync({json.dumps(str(tmp_path / 'cases.json'))}, 'utf8'));\n"
        "console.log(JSON.stringify(cases.map(({ old, delta }) => apply(old, delta))));\n"
    )
    bundle = tmp_path / "run.mjs"
    tool = modules / ".bin" / "esbuild"
    options = ("--bundle", "--platform=node", "--format=esm", f"--outfile={bundle}", "--log-level=error")
    subprocess.run([tool, tmp_path / "run.ts", *options], check=True)
    said = subprocess.run([node, bundle], check=True, capture_output=True, text=True)
    assert json.loads(said.stdout) == [new for _, new in cases]


EXAMPLES: tuple[Json, ...] = (
    {"now": "1", "items": [run(1), run(2), run(3)], "next": None},
    {"now": "2", "items": [run(4), run(2, "failed"), run(1)], "next": "more"},
    {"now": "2", "items": [run(3), run(3), {"at": "1", "cells": [1, 2, 3]}]},
    {"now": "2", "items": [{"at": "1", "cells": [2, 3, 4]}, "text", ["a", ["b"]], []], "more": {"a": {"b": 1}}},
    {"now": "3", "items": [], "more": {"a": {"c": False}}, "value": {"value": 1}},
)
