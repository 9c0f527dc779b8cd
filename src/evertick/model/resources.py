"""What members offer and jobs request besides slots: cpu, memory, gpus, and other countable things."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final, TypeAlias

Resources: TypeAlias = tuple[tuple[str, int], ...]
"""Names and amounts, sorted: `memory` in bytes, everything else in thousandths."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
GPUS: Final = "gpus"
AMOUNT_MAX: Final = 2**53
THOUSAND: Final = 1_000
_UNITS: Final = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NAME: Final = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,3})?")
_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?) ?(?:([KMGT])i?B?|B)?")


def is_resource_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def parse_amount(name: str, text: str) -> int:
    """`2` or `0.5`, and for memory `512MiB` or `4GiB`; `ValueError` for anything else, and for nothing at all."""
    if name == MEMORY:
        found = _SIZE.fullmatch(text.strip())
        amount = int(Decimal(found[1]) * _UNITS[found[2] or ""]) if found else 0
        problem = "it must be a size, such as 512MiB or 4GiB"
    else:
        amount = int(Decimal(text.strip()) * THOUSAND) if _NUMBER.fullmatch(text.strip()) else 0
        problem = "it must be a number above 0 with at most three decimals, such as 2 or 0.5"
    if not 0 < amount <= AMOUNT_MAX:
        raise ValueError(problem)
    return amount


def amount_text(name: str, amount: int) -> str:
    """As `parse_amount` reads it."""
    if name != MEMORY:
        return (
            f"{Decimal(amount) / THOUSAND:f}".rstrip("0").rstrip(".") if amount % THOUSAND else str(amount // THOUSAND)
        )
    for unit in "TGMK":
        if amount >= _UNITS[unit]:
            number = f"{amount / _UNITS[unit]:.1f}".removesuffix(".0")
            return f"{number}{unit}iB"
    return f"{amount}B"


def resources_text(resources: Resources) -> str:
    return " ".join(f"{name}={amount_text(name, amount)}" for name, amount in resources)


def resources_of(amounts: Mapping[str, int]) -> Resources:
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def total(many: Iterable[Resources]) -> dict[str, int]:
    """The sum of each."""
    found: dict[str, int] = {}
    for one in many:
        for name, amount in one:
            found[name] = found.get(name, 0) + amount
    return found


def lacking(asked: Resources, offered: Resources, used: Resources = ()) -> Resources:
    """Which requested resources exceed what is left."""
    has, gone = dict(offered), dict(used)
    return tuple((name, amount) for name, amount in asked if has.get(name, 0) - gone.get(name, 0) < amount)
