"""Text with styles, as values: what a frame consists of, and how a terminal writes it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

from evertick.cli.tables import clean, width_of

# The sixteen colours of the terminal's own theme; every meaning is in a glyph or a word too.
_SGR = {"bold": "1", "dim": "2", "reverse": "7", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_COLOURED = {**_SGR, "alarm": "1;97;41"}
_COLOURLESS = {"bold": "1", "dim": "2", "reverse": "7", "alarm": "7"}


class Span(NamedTuple):
    text: str
    style: str = ""
    """Names of styles, separated by spaces."""


Line: TypeAlias = Sequence[Span]


def cut(text: str, width: int) -> str:
    """The text without control characters, and with an ellipsis where it is wider than that."""
    text = clean(text)
    if width_of(text) <= width:
        return text
    if width <= 0:
        return ""
    kept, room = [], width - 1
    for character in text:
        room -= 0 if unicodedata.combining(character) else width_of(character)
        if room < 0:
            break
        kept.append(character)
    return f"{''.join(kept)}…"


def cell(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly that many columns."""
    text = cut(text, width)
    space = " " * (width - width_of(text))
    return f"{space}{text}" if right else f"{text}{space}"


def fitted(line: Iterable[Span], width: int) -> list[Span]:
    """The line in at most that many columns."""
    found, room = [], width
    for span in line:
        if room <= 0:
            break
        text = cut(span.text, room)
        if text:
            found.append(Span(text, span.style))
        room -= width_of(text)
    return found


def keys_in(keys: Sequence[str], last: Sequence[str], width: int) -> str:
    """The keys for which there is room, the first before the others; `last`, such as how to leave, is always there."""
    shown = list(keys)
    while shown and width_of("  ".join((*shown, *last))) > width:
        shown.pop()
    return "  ".join((*shown, *last))


def width_of_line(line: Iterable[Span]) -> int:
    return sum(width_of(span.text) for span in line)


def plain(line: Iterable[Span]) -> str:
    return "".join(span.text for span in line).rstrip()


def ansi(line: Iterable[Span], *, has_colour: bool) -> str:
    """The line with the escape sequences of its styles."""
    codes = _COLOURED if has_colour else _COLOURLESS
    written = []
    for style, spans in groupby(line, key=lambda span: span.style):
        text = "".join(span.text for span in spans)
        found = ";".join(codes[name] for name in style.split() if name in codes)
        written.append(f"\x1b[{found}m{text}\x1b[0m" if found else text)
    return "".join(written)
