"""Hostile texts, values and bytes: garbage, and valid ones with a few changes, which get further."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from random import Random
from typing import Any

ALPHABET = string.printable + "&*!?|>%@`#{}[],:-\t\u00a0é\u2028\ud800\x00\x1b"
WORDS = (
    *("", "0", "-1", "1e999", "NaN", "null", "true", "..", "../../etc/passwd", "%2e%2e%2f", "a/b", "~", "@", "a@b"),
    *("{{", "}}", "${X}", "$(id)", "`id`", "'; DROP TABLE runs; --", "<script>", "\x00", "\ud800", "é" * 40, "x" * 300),
    *("2026-03-02T09:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "etl", "report", "main", "1", "500"),
)
NUMBERS = (0, 1, -1, 2, 63, 255, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30, 0.5, float("inf"), float("nan"))


def text(dice: Random, words: Sequence[str] = WORDS) -> str:
    """A few of the words, or of any characters."""
    if dice.random() < 0.7:
        return dice.choice((" ", "", "-", ","))[:1].join(dice.choices(words, k=dice.choice((1, 1, 1, 2, 5))))
    return "".join(dice.choices(ALPHABET, k=dice.randrange(20)))


def value(dice: Random, depth: int = 3) -> Any:
    """Any value that JSON can carry."""
    match dice.randrange(8 if depth else 5):
        case 0:
            return None
        case 1:
            return dice.random() < 0.5
        case 2:
            return dice.choice(NUMBERS)
        case 3 | 4:
            return text(dice)
        case 5 | 6:
            return [value(dice, depth - 1) for _ in range(dice.randrange(4))]
        case _:
            return {text(dice): value(dice, depth - 1) for _ in range(dice.randrange(4))}


def changed(dice: Random, valid: Any) -> Any:
    """A valid value in which one place has something else, lacks or is there twice."""
    if isinstance(valid, list) and valid and dice.random() < 0.9:
        place = dice.randrange(len(valid))
        match dice.randrange(6):
            case 0:
                return valid[:place] + valid[place + 1 :]
            case 1:
                return [*valid[:place], valid[place], *valid[place:]]
            case _:
                return [*valid[:place], changed(dice, valid[place]), *valid[place + 1 :]]
    if isinstance(valid, dict) and valid and dice.random() < 0.9:
        name = dice.choice(sorted(valid))
        match dice.randrange(6):
            case 0:
                return {key: part for key, part in valid.items() if key != name}
            case 1:
                return {**valid, text(dice): value(dice)}
            case _:
                return {**valid, name: changed(dice, valid[name])}
    return value(dice)


def mutated(dice: Random, valid: str) -> str:
    """A valid text with a few characters more, fewer, other or elsewhere."""
    letters = list(valid)
    for _ in range(dice.choice((1, 1, 2, 5))):
        place = dice.randrange(len(letters) + 1)
        match dice.randrange(4):
            case 0:
                del letters[place : place + 1]
            case 1:
                letters.insert(place, dice.choice(ALPHABET))
            case 2:
                letters[place : place + 1] = dice.choice(ALPHABET)
            case _:
                other = dice.randrange(len(letters) + 1)
                letters[place:place] = letters[other : other + dice.randint(1, 30)]
    return "".join(letters)


def lines(dice: Random, valid: Sequence[list[Any]]) -> bytes:
    """Lines of a protocol of JSON: valid ones, changed ones, and bytes."""
    found = b""
    for _ in range(dice.choice((1, 1, 2, 4))):
        message = dice.choice(valid)
        match dice.randrange(8):
            case 0:
                found += dice.randbytes(dice.randrange(60)) + b"\n"
            case 1:
                found += mutated(dice, json.dumps(message)).encode("utf-8", "surrogatepass") + b"\n"
            case 2:
                found += json.dumps(message).encode() + b"\n"
            case 3 if dice.random() < 0.02:
                found += b"[" * 100_000 + b"\n"
            case _:
                found += json.dumps(changed(dice, message)).encode() + b"\n"
    return found if dice.random() < 0.9 else found[: dice.randrange(len(found) + 1)]


def as_json(drawn: Any) -> bytes:
    """As a careless client writes it: with numbers that JSON does not have, and with half characters."""
    return json.dumps(drawn).encode("utf-8", "surrogatepass")
