"""What has changed between two JSON values, so that a page which has the old one receives only the rest.

A delta is JSON too. It is one of
- `{"value": new}`: take this instead,
- `{"fields": {name: delta}, "removed": [name]}`: of an object, the fields that differ,
- `{"items": [piece]}`: a list, put together from pieces: `{"copy": [first, count]}` takes items of the old list, any
  other piece is a delta of one item, against the old item number `from` if it has one.
"""

from __future__ import annotations

import json
from typing import Final, TypeAlias

from evertick.model.plain_json import Json

Delta: TypeAlias = dict[str, Json]

NAMED_BY: Final = ("run", "job", "name", "at", "id", "key")
"""Fields that name an item of a list: an item with the same values is the same thing, changed."""


def delta_of(old: Json, new: Json) -> Delta | None:
    """The delta from one JSON value to another; None if they are equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _delta_of_objects(old, new)
    if isinstance(old, list) and isinstance(new, list):
        return _delta_of_lists(old, new)
    # 1 and True are equal in Python, and 1 and 1.0 too.
    return None if type(old) is type(new) and old == new else {"value": new}


def _delta_of_objects(old: dict[str, Json], new: dict[str, Json]) -> Delta | None:
    fields = {}
    for name, value in new.items():
        found = delta_of(old[name], value) if name in old else {"value": value}
        if found is not None:
            fields[name] = found
    removed = [name for name in old if name not in new]
    if not fields and not removed:
        return None
    return {"fields": fields, "removed": removed} if removed else {"fields": fields}


def _delta_of_lists(old: list[Json], new: list[Json]) -> Delta | None:
    old_texts, new_texts = list(map(_text_of, old)), list(map(_text_of, new))
    if old_texts == new_texts:
        return None
    first_places: dict[str, int] = {}
    for place, text in enumerate(old_texts):
        first_places.setdefault(text, place)
    named = {name: place for place, item in enumerate(old) if (name := _name_of(item)) is not None}
    pieces: list[Delta] = []
    copied: list[int] = []  # the last piece, if it copies
    next_place = -1  # of the old list, behind what was copied last
    for item, text in zip(new, new_texts, strict=True):
        if 0 <= next_place < len(old) and old_texts[next_place] == text:
            copied[1] += 1
            next_place += 1
        elif text in first_places:
            copied = [first_places[text], 1]
            pieces.append({"copy": copied})
            next_place = first_places[text] + 1
        else:
            pieces.append(_piece_of(old, named, item))
            next_place = -1
    return {"items": pieces}


def _piece_of(old: list[Json], named: dict[tuple[str, ...], int], item: Json) -> Delta:
    """An item that the old list does not have: what has changed in the one of the same name, or the whole."""
    name = _name_of(item)
    place = None if name is None else named.get(name)
    found = None if place is None else delta_of(old[place], item)
    if place is None or found is None:
        return {"value": item}
    return {"from": place, **found}


def _name_of(item: Json) -> tuple[str, ...] | None:
    if not isinstance(item, dict):
        return None
    # As text: what names an item is one, and a list could not be looked up.
    found = tuple(str(item.get(name)) for name in NAMED_BY)
    return found if any(name in item for name in NAMED_BY) else None


def _text_of(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
