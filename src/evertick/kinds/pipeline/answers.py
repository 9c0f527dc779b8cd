"""Parses an answer into the requested fields, from JSON, almost JSON, lines or prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from evertick.kinds.pipeline.lenient_json import lenient_at, strict, strict_at
from evertick.model.plain_json import Json

CANDIDATES_MAX: Final = 200
"""Positions in one answer at which JSON is tried; a text full of brackets must not take minutes."""
_FENCE: Final = re.compile(r"```[\w-]*[ \t]*\n?(.*?)```", re.S)
_OPENING: Final = re.compile(r"[{\[]")
_NUMERAL: Final = re.compile(r"[-+]?\d{1,300}(\.\d{1,300})?([eE][-+]?\d{1,3})?", re.ASCII)
_TRUE: Final = frozenset({"true", "yes"})
_FALSE: Final = frozenset({"false", "no"})
_NOTHING: Final = frozenset({"null", "none", "n/a", ""})


class Unparsable(ValueError):
    """The answer does not have the requested fields."""


def parse_answer(text: str, fields: Sequence[str]) -> dict[str, object]:
    """The declared fields; missing ones are None."""
    found: Mapping[str, object] | None = _object_in(text)
    if found is None:
        found = _lines_in(text, fields) or _prose_in(text, fields)
    if not found:
        raise Unparsable("it contains no JSON and none of the fields")
    by_name = {name.strip().lower(): value for name, value in reversed(list(found.items()))}
    return {field: coerce(by_name.get(field.lower())) for field in fields}


def parse_batch(text: str, fields: Sequence[str], count: int) -> list[dict[str, object] | None]:
    """One object for each item, from strict JSON without coercion; None for anything else."""
    rows = _array_in(text)
    if len(rows) != count:
        raise WrongCount(len(rows), count)
    return [{field: row.get(field) for field in fields} if isinstance(row, dict) else None for row in rows]


def parse_rows(text: str) -> Sequence[Mapping[str, object]]:
    """Every object of a JSON array."""
    rows = _array_in(text)
    objects = [row for row in rows if isinstance(row, dict)]
    if len(objects) < len(rows):
        raise Unparsable("its array contains something that is not an object")
    return objects


def parse_object(text: str, fields: Sequence[str]) -> dict[str, object]:
    """The declared fields of one JSON object: strict, no coercion."""
    problem = "it holds no JSON object"
    for part in (*_FENCE.findall(text), text):
        start, end = part.find("{"), part.rfind("}")
        if 0 <= start < end:
            try:
                found = strict(part[start : end + 1])
            except ValueError as error:
                problem = f"it is not JSON: {error}"
            else:
                assert isinstance(found, dict)
                return {field: found.get(field) for field in fields}
    raise Unparsable(problem)


class WrongCount(Unparsable):
    def __init__(self, found: int, wanted: int) -> None:
        super().__init__(f"AI returned {found} results but batch has {wanted} items")


def coerce(value: object) -> object:
    """`yes` is true, `n/a` is None, `12` is a number; any other text is unchanged."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    if word in _NOTHING:
        return None
    numeral = _NUMERAL.fullmatch(word)
    if not numeral:
        return value
    if not numeral[1] and not numeral[2]:
        return int(word)
    number = float(word)
    if number in (float("inf"), float("-inf")):
        return value
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def _object_in(text: str) -> dict[str, object] | None:
    """The first object, or list of one object: in a fenced block, else anywhere; strict JSON, else lenient."""
    for part in (*_FENCE.findall(text), text):
        for read in (strict_at, lenient_at):
            found = next(_objects(part, read), None)
            if found is not None:
                return found
    return None


def _objects(text: str, read: Callable[[str, int], tuple[object, int]]) -> Iterator[dict[str, object]]:
    for start in _openings(text):
        try:
            value, _end = read(text, start)
        except ValueError:
            continue
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            if len(value) > 1:
                raise Unparsable(f"it contains {len(value)} objects for one item")
            value = value[0]
        if isinstance(value, dict):
            yield value


def _array_in(text: str) -> list[Json]:
    problem = "it contains no JSON array"
    for part in (*_FENCE.findall(text), text):
        for start in _openings(part):
            if part[start] != "[":
                continue
            try:
                value, _end = strict_at(part, start)
            except ValueError as error:
                problem = f"it is not JSON: {error}"
                continue
            # `[1]` before the answer is a footnote.
            assert isinstance(value, list)
            if not value or any(isinstance(one, dict) for one in value):
                return value
    raise Unparsable(problem)


def _openings(text: str) -> Iterator[int]:
    for number, found in enumerate(_OPENING.finditer(text)):
        if number == CANDIDATES_MAX:
            return
        yield found.start()


def _lines_in(text: str, fields: Sequence[str]) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for field in fields:
        line = re.search(rf"^[ \t>*-]*[\"'`*_]*{re.escape(field)}[\"'`*_]*[ \t]*[:=][ \t]*(.+)$", text, re.I | re.M)
        if line:
            found[field] = _bare(line[1])
    return found


def _prose_in(text: str, fields: Sequence[str]) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for field in fields:
        said = re.search(
            rf"\b{re.escape(field)}\b[ \t]+(?:is|was|are|equals)[ \t]+([^,;\n]+?)(?:[.,;\n]|$)", text, re.I
        )
        if said:
            found[field] = _bare(said[1])
    return found


def _bare(text: str) -> str:
    """Without the quotes, emphasis and comma of the line."""
    return text.strip().rstrip(",").strip().strip("\"'`*").strip()
