"""Where in a log a text stands, and which line of it a byte belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

HITS_MAX: Final = 1_000
LINE_MAX: Final = 1 << 20
"""Bytes of a line that are searched: a program may print megabytes without a line end."""

_ESCAPE = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Colours and the like, which nobody sees as text."""
_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")


class Hit(NamedTuple):
    line: int
    """Counted from 1."""
    offset: int
    """Where the line begins, in bytes."""


class Found(NamedTuple):
    hits: tuple[Hit, ...]
    """At most `HITS_MAX`, from the first on."""
    total: int
    """Lines that hold the text."""


def count_line_ends(pieces: Iterable[bytes]) -> int:
    return sum(piece.count(b"\n") for piece in pieces)


def search_lines(pieces: Iterable[bytes], text: str) -> Found:
    """The lines that hold a text, whatever its case and colours; `pieces` are those of a log from its beginning on."""
    wanted = text.lower()
    rough = wanted.encode() if wanted.isascii() else None
    hits: list[Hit] = []
    total, line, start, rest = 0, 1, 0, b""
    for piece in (*pieces, b""):
        data = rest + piece
        cut = data.rfind(b"\n") + 1 if piece else len(data)
        block, rest = data[:cut], data[cut:]
        # Most of a log does not hold it at all: that much is only counted.
        if rough is not None and b"\x1b" not in block and rough not in block.lower():
            line, start = line + block.count(b"\n"), start + len(block)
            continue
        for one in _LINE.findall(block):
            if wanted in _ESCAPE.sub(b"", one[:LINE_MAX]).decode("utf-8", "replace").lower():
                total += 1
                if len(hits) < HITS_MAX:
                    hits.append(Hit(line, start))
            line, start = line + 1, start + len(one)
    return Found(tuple(hits), total)
