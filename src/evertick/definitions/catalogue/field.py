"""One field of a definition: the shape of its value, its meaning, and its default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
"""A piece of JSON Schema, 2020-12."""


@dataclass(frozen=True, slots=True)
class Field:
    schema: Schema
    about: str
    """One sentence, as editors and the page show it."""
    default: str = ""
    """In words; empty: nothing."""
    example: object = None
    """A value that is accepted."""
    is_synonym: bool = False
    """Accepted from other schedulers; the documentation has it in one table of the migration pages."""


Fields: TypeAlias = Mapping[str, Field]
"""The fields of one map by name, in the order of the documentation."""

TEXT: Schema = {"type": ["string", "number", "boolean"]}
"""A scalar is used as it is written: `name: 007` is the text 007."""
FLAG: Schema = {"type": "boolean"}
WORDS: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
DURATION: Schema = {"type": "string", "pattern": "^([0-9]+(d|h|m|s))+$"}
INTERVAL: Schema = {"type": "string", "pattern": "^([0-9]+(d|h|m|s|ms))+$"}
NAME: Schema = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
URL: Schema = {"type": "string", "pattern": "^https?://"}
ANYTHING: Schema = {}


def whole(low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


def choice(words: Iterable[object]) -> Schema:
    return {"enum": [str(word) for word in words]}


def one_of(*shapes: Schema) -> Schema:
    return {"anyOf": list(shapes)}


def list_of(shape: Schema) -> Schema:
    return {"type": "array", "items": shape}


def map_of(shape: Schema) -> Schema:
    return {"type": "object", "additionalProperties": shape}


def ref(table: str) -> Schema:
    """The map of another table, by its name among the definitions of the schema."""
    return {"$ref": f"#/$defs/{table}"}
