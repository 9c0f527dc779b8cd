"""What docs/reference/fields.md says: every field of a job file, from the tables that the parser reads by."""

from __future__ import annotations

import json
import re

from evertick.definitions.catalogue.field import Field, Fields, Schema
from evertick.definitions.catalogue.job import JOB, TIME_OF_DAY
from evertick.definitions.schema import TABLES


def fields_page() -> str:
    parts = [
        "# Fields of a job file\n\n"
        "[Job files](../definitions.md) explains how the fields work together. *Text* is any value on one line,\n"
        "including a number; a *duration* is `2d12h` or `90s`; an *address* begins with `https://` or `http://`.\n"
        "Some fields have [other names](../migrating/synonyms.md), for files from other schedulers.",
        f"## A job\n\n{_table(JOB)}",
    ]
    parts += [f"## {name}\n\n{table.about}\n\n{_table(table.fields)}" for name, table in TABLES.items()]
    return "\n\n".join(parts) + "\n"


def _table(fields: Fields) -> str:
    rows = [
        f"| `{name}` | {_shape(field.schema)} | {_about(field)} | {field.default} |"
        for name, field in fields.items()
        if not field.is_synonym
    ]
    return "\n".join(["| field | value | meaning | default |", "| --- | --- | --- | --- |", *rows])


def _about(field: Field) -> str:
    if field.example is None:
        return field.about
    example = field.example if isinstance(field.example, str) else json.dumps(field.example)
    return f"{field.about} Example: `{example}`" if "\n" not in example else field.about


def _shape(schema: Schema) -> str:
    """The shape of a value in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_shape(part) for part in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "pattern" in schema:
        return _pattern(schema["pattern"])
    match schema.get("type"):
        case "array":
            return f"a list of {_shape(schema['items'])}"
        case "object":
            inner = schema.get("additionalProperties")
            return f"a map of {_shape(inner)}" if inner else "a map"
        case "integer":
            return f"{schema['minimum']:,} to {schema['maximum']:,}"
        case "number":
            return "a number"
        case "boolean":
            return "`true`, `false`"
        case "null":
            return "nothing"
        case None:
            return "anything"
        case _:
            return "text"


def _pattern(pattern: str) -> str:
    if pattern.startswith("^([0-9]+("):
        return "duration"
    if pattern.startswith("^https?"):
        return "address"
    if pattern == "=":
        return "`NAME=value`"
    if parallel := re.match(r"\^([A-Za-z]+) \?\\\(", pattern):
        return f"`{parallel[1]}(n)`"
    if pattern == f"^{TIME_OF_DAY.pattern}$":
        return "time of day"
    return "`module:function`" if ":" in pattern else "name"
