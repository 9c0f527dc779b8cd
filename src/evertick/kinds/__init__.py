"""What a step can be, and what has to be started for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from evertick.model.plain_json import parse_json

PAYLOAD_FD = 3
"""Where a program finds what it was handed beside its arguments."""
RESULT_FD = 4
"""Where a program writes its result, apart from what it prints."""
SCRIPT_FD = 5
"""Where a program that may not see our files finds its script."""
STATUS_FD = 6
"""Where a sandbox says whether its program was started."""


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
    leaves_word: bool = False
    """What it writes to `RESULT_FD` is a `Word` about its end; its output is what it prints."""
    reads: tuple[str, ...] = ()
    """Files and folders that it needs beside what every program does."""


WORD_MAX = 16 * 1024


class Word(NamedTuple):
    """What a program that attends to something elsewhere says about its end, beside its exit code."""

    why: str = ""
    is_lost: bool = False
    """What it attended to was taken away or lost from sight: it did not fail by itself."""

    def encode(self) -> bytes:
        return json.dumps([self.why[: WORD_MAX // 8], self.is_lost]).encode()

    @classmethod
    def decode(cls, data: bytes) -> Word:
        """Nothing, where the program was ended before it could say a word."""
        try:
            why, is_lost = parse_json(data)
        except (ValueError, TypeError):
            return cls()
        return cls(str(why), bool(is_lost))


class Unready(Exception):
    """A step cannot be started as it is written; the text says why, and what to do."""


def safe_params(given: Mapping[str, object]) -> dict[str, str]:
    """Parameters as texts: what is not a text yet is written as JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
