"""Plain JSON values, and the reader of JSON that a job, a member or another program wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | float | bool | None"
"""What `json` reads and writes. The collections are read-only types: a list of texts is a `Json` too."""

JsonObject: TypeAlias = "dict[str, Json]"

Document: TypeAlias = dict[str, Any]
"""An object of the API of another program, which declares its fields: Kubernetes, Docker."""


def parse_json(text: str | bytes) -> Json:
    """As `json.loads`, but nesting that is too deep is a `ValueError`: a few thousand brackets are."""
    try:
        value: Json = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


# Fields of an object of any version: one that is missing, or is something else, is None.


def object_in(data: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """An object in an object; empty if it has none."""
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def text_in(data: Mapping[str, Json], name: str) -> str | None:
    found = data.get(name)
    return found if isinstance(found, str) else None


def flag_in(data: Mapping[str, Json], name: str) -> bool | None:
    found = data.get(name)
    return found if isinstance(found, bool) else None


def whole_in(data: Mapping[str, Json], name: str) -> int | None:
    found = data.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def number_in(data: Mapping[str, Json], name: str) -> float | None:
    found = data.get(name)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None
