"""The route table against the API: the same paths, methods and parameters."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evertick.operations import protocol, routes
from evertick.operations.routes import PREFIX, Route

OPENAPI = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "openapi.json").read_text(encoding="utf-8"))
TABLE = {name: one for name, one in vars(routes).items() if isinstance(one, Route)}


@pytest.mark.parametrize("route", TABLE.values(), ids=TABLE)
def test_the_api_has_the_route_with_its_parameters(route):
    declared = OPENAPI["paths"][PREFIX + route.path][route.method.lower()]
    known = {(one["in"], one["name"]) for one in declared.get("parameters", ())}
    assert {("query", name) for name in route.query} <= known
    assert {("path", name) for name in re.findall(r"{(\w+)}", route.path)} <= known


def test_every_operation_has_a_route():
    verbs = {name for name in vars(protocol.Operations) if not name.startswith("_")}
    by_another_route = {"log_bytes": "READ_LOG", "cancel": "CANCEL_RUN"}
    assert {by_another_route.get(verb, verb.upper()) for verb in verbs} <= set(TABLE)


def test_a_route_names_the_result_that_its_type_does():
    annotations = {name: routes.__annotations__[name] for name in TABLE}
    assert annotations == {name: f"Route[{one.result_type.__name__}]" for name, one in TABLE.items()}
