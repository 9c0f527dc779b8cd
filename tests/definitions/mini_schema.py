"""Whether a value fits a JSON Schema: the few keywords that our own schema uses, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TYPES = {
    "string": str,
    "number": int | float,
    "integer": int,
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}
NOTES = {"$schema", "$id", "title", "description", "examples", "$defs"}
KEYWORDS = {
    *("type", "enum", "pattern", "minimum", "maximum", "properties", "additionalProperties", "required"),
    *("items", "minItems", "anyOf", "$ref", "exclusiveMinimum"),
}


def misfits(value: Any, schema: dict, root: dict, place: str = "") -> Iterator[str]:
    """Every reason why the value does not fit, with its place."""
    unknown = set(schema) - NOTES - KEYWORDS
    assert not unknown, f"the schema uses {unknown}, which this checker does not know"
    if "$ref" in schema:
        yield from misfits(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, place)
    if "anyOf" in schema and all(list(misfits(value, part, root, place)) for part in schema["anyOf"]):
        yield f"{place}: {value!r} fits none of the shapes"
    if "type" in schema and not is_of(value, schema["type"]):
        yield f"{place}: {value!r} is not {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{place}: {value!r} does not match {schema['pattern']}"
    if is_of(value, "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{place}: {value!r} is out of bounds"
    if is_of(value, "number") and "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{place}: {value!r} is out of bounds"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{place}: too few"
        for index, item in enumerate(value):
            yield from misfits(item, schema.get("items", {}), root, f"{place}[{index}]")
    if isinstance(value, dict):
        yield from (f"{place}: {name} is missing" for name in schema.get("required", ()) if name not in value)
        for name, part in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            if inner is False:
                yield f"{place}: {name} is not known"
            else:
                yield from misfits(part, inner, root, f"{place}.{name}")


def is_of(value: object, types: str | list[str]) -> bool:
    names = [types] if isinstance(types, str) else types
    return any(isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names)


def references(schema: object) -> Iterator[str]:
    """Every `$ref` anywhere."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"]
        for part in schema.values():
            yield from references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from references(part)
