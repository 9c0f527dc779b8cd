"""Hostile requests to the API, drawn from its own description: what a route takes, changed, or something else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

from evertick.operations.tokens import Role
from tests.fuzz import drawing

ENDLESS = ("/api/v1/events",)
KNOWN = ("etl", "etl@2026-03-02T10:00:00Z", "main", "1", "0", "a1", "today", "-1h", "json", "true", "freeze")
TIMES = ("2026-03-02T09:00:00Z", "2026-03-02T10:00:00Z", "2026-03-02T10:30:00Z", "2026-03-09T00:00:00Z")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
NO_TOKEN = "x" * 43
CALLERS: tuple[Role | str | None, ...] = (*Role, *Role, Role.ADMIN, Role.ADMIN, None, NO_TOKEN)
DEPTH_MAX = 4

Schema = Mapping[str, Any]


class Operation(NamedTuple):
    method: str
    path: str
    role: str
    query: Mapping[str, Schema]
    headers: tuple[str, ...]
    body: Schema | None


class Call(NamedTuple):
    operation: Operation
    method: str
    url: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: object
    caller: Role | str | None
    """A role, a token that is none, or nothing."""
    names_an_answer: bool
    """Whether it names an answer that the caller has, and accepts the changes since."""


class Drawer:
    """Draws calls of the operations of a description."""

    def __init__(self, described: Schema) -> None:
        self._schemas: Mapping[str, Schema] = described["components"]["schemas"]
        self.operations = [
            self._operation(path, method, one)
            for path, methods in described["paths"].items()
            for method, one in methods.items()
            if path not in ENDLESS
        ]

    def _operation(self, path: str, method: str, one: Schema) -> Operation:
        parameters = one.get("parameters", ())
        query = {each["name"]: each.get("schema", {}) for each in parameters if each["in"] == "query"}
        headers = tuple(each["name"] for each in parameters if each["in"] == "header")
        content = one.get("requestBody", {}).get("content", {})
        body = content.get("application/json", {}).get("schema")
        return Operation(method.upper(), path, one["x-role"], query, headers, body)

    def call(self, dice: Random) -> Call:
        one = dice.choice(self.operations)
        url = re.sub(r"\{[^}]+\}", lambda _: _quoted(_word(dice)) or "x", one.path)
        names = [name for name in one.query if dice.random() < 0.4]
        query = [
            (name, _text(self._parameter(dice, one.query[name])))
            for name in names
            for _ in range(dice.choice((1, 1, 1, 2)))
        ]
        if dice.random() < 0.1:
            query.append(("unknown", _text(_word(dice))))
        headers = {name: _quoted(_word(dice)) for name in one.headers if dice.random() < 0.5}
        method = one.method if dice.random() < 0.97 else dice.choice(METHODS)
        names_an_answer = one.method == "GET" and dice.random() < 0.3
        return Call(one, method, url, query, headers, self._body(dice, one), dice.choice(CALLERS), names_an_answer)

    def _parameter(self, dice: Random, schema: Schema) -> object:
        return self.valid(dice, schema) if dice.random() < 0.5 else _word(dice)

    def _body(self, dice: Random, one: Operation) -> object:
        if one.method in ("GET", "HEAD"):
            return None
        match dice.randrange(6):
            case 0:
                return None
            case 1:
                return dice.randbytes(dice.randrange(100))
            case 2 | 3:
                return self.valid(dice, one.body or {})
            case _:
                return drawing.changed(dice, self.valid(dice, one.body or {}))

    def valid(self, dice: Random, schema: Schema, depth: int = 0) -> Any:
        """A value that fits a schema, but for rules that no schema says."""
        if "$ref" in schema:
            return self.valid(dice, self._schemas[schema["$ref"].rpartition("/")[2]], depth)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self.valid(dice, dice.choice(schema[several]), depth)
        if "enum" in schema:
            return dice.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        match schema.get("type"):
            case "object":
                return self._object(dice, schema, depth)
            case "array":
                count = dice.randrange(4) if depth < DEPTH_MAX else 0
                return [self.valid(dice, schema.get("items", {}), depth + 1) for _ in range(count)]
            case "integer" | "number":
                return dice.choice((schema.get("minimum", 0), schema.get("maximum", 50), 1, 2, 50))
            case "boolean":
                return dice.random() < 0.5
            case "null":
                return None
            case "string":
                return dice.choice(TIMES if schema.get("format") == "date-time" else (*KNOWN, *TIMES))
            case _:
                return drawing.value(dice)

    def _object(self, dice: Random, schema: Schema, depth: int) -> dict[str, Any]:
        wanted: Sequence[str] = schema.get("required", ())
        found = {
            name: self.valid(dice, part, depth + 1)
            for name, part in schema.get("properties", {}).items()
            if name in wanted or (depth < DEPTH_MAX and dice.random() < 0.4)
        }
        more = schema.get("additionalProperties")
        if isinstance(more, Mapping) and depth < DEPTH_MAX:
            found |= {dice.choice(("FORMAT", *KNOWN)): self.valid(dice, more, depth + 1) for _ in range(2)}
        return found


def _word(dice: Random) -> str:
    return dice.choice(KNOWN) if dice.random() < 0.6 else drawing.text(dice, (*KNOWN, *drawing.WORDS))


def _quoted(word: str) -> str:
    return quote(word.encode("utf-8", "replace"), safe="@:~")


def _text(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode()
