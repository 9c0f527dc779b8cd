"""What a step can be, and what has to be started for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PAYLOAD_FD = 3
"""Where a program finds what it was handed beside its arguments."""
RESULT_FD = 4
"""Where a program writes its result, apart from what it prints."""


@dataclass(frozen=True, slots=True)
class Program:
    """One process to start."""

    argv: tuple[str, ...]
    script: str | None = None
    """Lines to put into a file whose path becomes the last argument."""
    payload: bytes | None = None
    """Readable at `PAYLOAD_FD`."""
    has_result: bool = False
    """What it writes to `RESULT_FD`, instead of standard output, is the step's output."""


class Unready(Exception):
    """A step cannot be started as it is written; the text says why, and what to do."""


def safe_params(given: Mapping[str, object]) -> dict[str, str]:
    """Parameters as texts: what is not a text yet is written as JSON."""
    import json

    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
