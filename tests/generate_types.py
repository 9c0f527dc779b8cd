"""How the page's types are made from what the API says of itself, so that the two cannot disagree."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

HEAD = (
    "/** What the API answers with and is asked with. Made from its description by `make docs`; not edited by hand. */"
)
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def types_text(description: Schema) -> str:
    """Every shape of an OpenAPI description as TypeScript, with what may be null or absent."""
    shapes = description["components"]["schemas"]
    return "\n".join([HEAD, *(line for name in sorted(shapes) for line in _shape(name, shapes[name]))]) + "\n"


def _shape(name: str, schema: Schema) -> Iterator[str]:
    yield ""
    if about := schema.get("description"):
        yield f"/** {' '.join(about.split())} */"
    if schema.get("type") != "object":
        yield f"export type {name} = {type_of(schema)};"
        return
    yield f"export interface {name} {{"
    required = schema.get("required", ())
    for field, own in schema.get("properties", {}).items():
        if about := own.get("description"):
            yield f"  /** {' '.join(about.split())} */"
        key = field if re.fullmatch(r"[A-Za-z_]\w*", field) else json.dumps(field)
        yield f"  {key}{'' if field in required else '?'}: {type_of(own)};"
    if schema.get("additionalProperties"):
        yield "  [other: string]: unknown;"
    yield "}"


def type_of(schema: Schema) -> str:
    """The type of one place; what may be anything is unknown, and has to be looked at before it is used."""
    if ref := schema.get("$ref"):
        return str(ref).rpartition("/")[2]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(type_of(one) for one in options))
    if "const" in schema:
        return json.dumps(schema["const"])
    if words := schema.get("enum"):
        return " | ".join(map(json.dumps, words))
    match schema.get("type"):
        case "array":
            inner = type_of(schema.get("items", {}))
            return f"({inner})[]" if "|" in inner else f"{inner}[]"
        case "object":
            values = schema.get("additionalProperties")
            return f"Record<string, {type_of(values) if isinstance(values, Mapping) else 'unknown'}>"
        case str() as kind:
            return _PLAIN[kind]
    return "unknown"
