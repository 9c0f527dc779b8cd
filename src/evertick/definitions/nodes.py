"""The values of a YAML file, each with its line and column."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

Plain: TypeAlias = str | int | float | bool | None

NUMBER_DIGITS_MAX = 300
"""Longer numerals are refused: nothing here counts that far, and reading them takes quadratic time."""

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class ScalarNode:
    text: str
    """As it was written, without its quotes."""
    value: Plain
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ListNode:
    items: tuple[Node, ...]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class MapNode:
    entries: tuple[tuple[ScalarNode, Node], ...]
    line: int
    column: int


Node: TypeAlias = ScalarNode | ListNode | MapNode


def plain_value(text: str) -> Plain:
    """What an unquoted text means under the core schema of YAML 1.2; ValueError if it is a number out of reach.

    `no` and `on` stay text, `012` is twelve, `1:30` is text, a date is text.
    """
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text) or _BASED.fullmatch(text):
        if len(text) > NUMBER_DIGITS_MAX:
            raise ValueError(f"a number of {len(text)} digits is too long to be read as one.")
        if text.startswith("0o"):
            return int(text[2:], 8)
        if text.startswith("0x"):
            return int(text[2:], 16)
        return int(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a finite number.")
    if _FLOAT.fullmatch(text):
        number = float(text) if len(text) <= NUMBER_DIGITS_MAX else math.inf
        if math.isinf(number):
            raise ValueError(f"{text[:40]} is too large to be read as a number.")
        return number
    return text


def plain_data(node: Node) -> object:
    """The same value as ordinary dicts, lists and scalars, positions left behind."""
    match node:
        case ScalarNode(value=value):
            return value
        case ListNode(items=items):
            return [plain_data(item) for item in items]
        case MapNode(entries=entries):
            return {key.text: plain_data(value) for key, value in entries}


def kind_of(node: Node) -> str:
    """The kind of a value, as error messages name it."""
    match node:
        case ListNode():
            return "a list"
        case MapNode():
            return "a map"
        case ScalarNode(value=None):
            return "empty"
        case ScalarNode(value=bool()):
            return f"'{node.text}' (true or false)"
        case ScalarNode(value=int() | float()):
            return f"the number {node.text[:40]}"
        case _:
            return f"the text '{node.text[:40]}'"
