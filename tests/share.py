"""Which share of a test that could run for hours one run of the suite executes; `make seeds` executes all of it.

Which share it is changes with the code, and with nothing else: the same commit tries the same cases everywhere, and the
next one tries others.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

SOURCES = Path(__file__).parent.parent / "src" / "evertick"
ROOMS = ("model", "planning", "loop", "stores", "dispatch", "testing")
IS_WHOLE = bool(os.environ.get("EVERTICK_WHOLE"))
ROUND = int(os.environ.get("EVERTICK_ROUND", "0"))
"""`make faults` repeats a test in rounds, of which each is to try something else."""

Case = TypeVar("Case")


@cache
def turn() -> int:
    """A number that stands for the code as it is, and the round."""
    said = hashlib.sha256(str(ROUND or "").encode())
    for path in sorted(path for room in ROOMS for path in (SOURCES / room).rglob("*.py")):
        said.update(path.read_bytes())
    return int.from_bytes(said.digest()[:4], "big")


def share_of(cases: Sequence[Case], count: int, offset: int = 0) -> list[Case]:
    """This number of the cases, evenly spread; all of them with `make seeds`. Other offsets give other ones."""
    if IS_WHOLE or count >= len(cases):
        return list(cases)
    start = (turn() + offset) % len(cases)
    return [cases[(start + number * len(cases) // count) % len(cases)] for number in range(count)]


def share(count: int, whole: int) -> int:
    """This number of something, or the whole of it with `make seeds`."""
    return whole if IS_WHOLE else count
