"""Whether the API answers hostile requests without an error of its own, and does nothing that a role may not."""

from __future__ import annotations

import re
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from evertick.api.app import make_app, make_routes
from evertick.api.openapi import describe
from evertick.operations.tokens import Role
from tests.api.conftest import ORIGIN
from tests.api.door import TestClient
from tests.fuzz import drawing
from tests.fuzz.harness import fuzz

pytestmark = pytest.mark.slow

ENDLESS = ("/api/v1/events",)
OPEN = "open"
BODIES = (
    {"params": {"FORMAT": "csv"}},
    {"jobs": ["etl"]},
    {"from": "2026-03-02T09:00:00Z", "to": "2026-03-02T10:00:00Z"},
)
KNOWN = ("etl", "etl@2026-03-02T10:00:00Z", "main", "1", "0", "a1", "today", "-1h", "json", "true")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")


class Operation(NamedTuple):
    method: str
    path: str
    role: str
    query: tuple[str, ...]
    headers: tuple[str, ...]


class Call(NamedTuple):
    operation: Operation
    method: str
    url: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: object
    caller: Role | str | None
    """A role, a token that is none, or nothing."""


def operations() -> list[Operation]:
    found = []
    for path, methods in describe(make_routes(is_described=True))["paths"].items():
        for method, one in methods.items():
            parameters = one.get("parameters", ())
            named = {
                place: tuple(each["name"] for each in parameters if each["in"] == place)
                for place in ("query", "header")
            }
            if path not in ENDLESS:
                found.append(Operation(method.upper(), path, one["x-role"], named["query"], named["header"]))
    return found


def draw_call(dice: Random, known: list[Operation]) -> Call:
    one = dice.choice(known)
    words = (*KNOWN, *drawing.WORDS)

    def word() -> str:
        return dice.choice(KNOWN) if dice.random() < 0.6 else drawing.text(dice, words)

    url = re.sub(r"\{[^}]+\}", lambda _: quote(word().encode("utf-8", "replace"), safe="@:~") or "x", one.path)
    names = [name for name in one.query if dice.random() < 0.4] + (["unknown"] if dice.random() < 0.1 else [])
    query = [
        (name, word().encode("utf-8", "replace").decode()) for name in names for _ in range(dice.choice((1, 1, 1, 2)))
    ]
    headers = {
        name: quote(word().encode("utf-8", "replace"), safe="@:~") for name in one.headers if dice.random() < 0.5
    }
    body: object = None
    if one.method not in ("GET", "HEAD"):
        match dice.randrange(4):
            case 0:
                body = drawing.changed(dice, dict(dice.choice(BODIES)))
            case 1:
                body = dice.randbytes(dice.randrange(100))
            case 2:
                body = dice.choice(BODIES)
    caller: Role | str | None = dice.choice((*Role, *Role, None, "x" * 43))
    method = one.method if dice.random() < 0.97 else dice.choice(METHODS)
    return Call(one, method, url, query, headers, body, caller)


def test_requests_of_every_role(app_state, tokens, control):
    control.told = None  # no scheduler runs, so that no request waits for one
    known = operations()
    # 400: a control character in the path is refused before the caller is asked for.
    refused = {None: {400, 401}, "x" * 43: {400, 401, 429}}

    with TestClient(make_app(app_state), base_url=ORIGIN, raise_server_exceptions=False) as client:

        def send(call: Call) -> str:
            headers = dict(call.headers)
            if call.caller is not None:
                token = tokens[call.caller] if isinstance(call.caller, Role) else call.caller
                headers["authorization"] = f"Bearer {token}"
            content: dict[str, Any] = {}
            if isinstance(call.body, bytes):
                content["content"] = call.body
            elif call.body is not None:
                content["content"] = drawing.as_json(call.body)
                headers["content-type"] = "application/json"
            answer = client.request(call.method, call.url, params=call.query, headers=headers, **content)
            is_unready = call.operation.path == "/readyz" and answer.status_code == 503
            assert answer.status_code < 500 or is_unready, (answer.status_code, answer.text)
            role = call.operation.role
            # A slash or dots in a part of the path can lead to another route, or to none; the client decodes %25 twice.
            is_elsewhere = re.search(r"%2F|%25|/\.+(/|$)", call.url) or call.method != call.operation.method
            if role != OPEN and not is_elsewhere:
                if not isinstance(call.caller, Role):
                    assert answer.status_code in refused[call.caller], answer.status_code
                elif str(call.caller) != role and call.caller < Role[role.upper()]:
                    assert answer.status_code in {400, 403}, answer.status_code
            return str(answer.status_code)

        fuzz("request of the API", lambda dice: draw_call(dice, known), send, few=400)
    assert app_state.audit.verify().is_whole
