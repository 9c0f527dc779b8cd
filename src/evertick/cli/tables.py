"""Tables for people: lines and colour on a terminal, aligned text elsewhere."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TextIO, TypeAlias

import click

from evertick.model.instant import from_datetime, to_text

Row: TypeAlias = Any
"""One item of a result, an object or a mapping: programs get all of it, a table shows its columns."""

WRAPPED_MIN = 24
"""A wrapping column keeps at least this width while an optional column can be dropped."""
GAP = 2

# Colour repeats what the word says; the word is always printed.
STATE_STYLES = {
    "succeeded": "green",
    "ok": "green",
    "running": "bold cyan",
    "launching": "cyan",
    "retrying": "yellow",
    "waiting": "yellow",
    "planned": "dim",
    "idle": "",
    "skipped": "dim yellow",
    "paused": "yellow",
    "disabled": "dim",
    "finished": "dim",
    "cancelled": "dim",
    "warn": "yellow",
    "failed": "bold red",
    "timed_out": "bold red",
    "lost": "bold red",
    "error": "bold red",
    "fail": "bold red",
    "on time": "green",
    "late": "yellow",
    "down": "bold red",
}


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    show: str | Callable[[Row], object]
    """The attribute or key of the value, or a function from the row to the cell's value."""
    style: str | Callable[[Row], object] = ""
    """A rich style, for a terminal; or a function from the row to the state that picks the colour."""
    right: bool = False
    wrap: bool = False
    optional: bool = False
    """Dropped on a narrow terminal; aligned text and JSON always have it."""

    def text(self, row: Row) -> str:
        value = self.show(row) if callable(self.show) else value_of(row, self.show)
        return "" if value is None else clean(text_of(value))

    def texts(self, rows: Sequence[Row]) -> list[str]:
        """The cells of many rows: a list may have 10,000, and nearly all are clean."""
        read = self.show if callable(self.show) else partial(value_of, name=self.show)
        values = [read(row) for row in rows]
        found = ["" if value is None else value if type(value) is str else text_of(value) for value in values]
        return found if "".join(found).isprintable() else list(map(clean, found))

    def style_of(self, row: Row) -> str:
        return STATE_STYLES.get(str(self.style(row)), "") if callable(self.style) else self.style


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    title: str = ""


def value_of(row: Row, name: str) -> object:
    """An attribute of a result, or the value of a key."""
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name)


def state_of(row: Row) -> object:
    """The state of a row, which picks the colour of a cell."""
    return value_of(row, "state")


def text_of(value: object) -> str:
    """A value as people and programs read it: times in UTC, as JSON has them."""
    return to_text(from_datetime(value)) if isinstance(value, datetime) else str(value)


def clean(text: str) -> str:
    """The text with control characters escaped, so that a name cannot instruct a terminal."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a person reads it: a capable terminal, not a build server's."""
    chosen = sys.stdout if stream is None else stream
    return chosen.isatty() and os.environ.get("TERM") != "dumb" and not is_ci()


def is_ci() -> bool:
    return os.environ.get("CI", "").lower() not in {"", "0", "false", "no"}


def has_colour(stream: TextIO | None = None) -> bool:
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def show_tables(*tables: Table) -> None:
    """Tables with lines and colour on a terminal, aligned text elsewhere."""
    if is_terminal():
        _show_rich(tables)
        return
    click.echo("\n\n".join(plain_table(table) for table in tables))


def plain_table(table: Table) -> str:
    # Column by column: a list may have 10,000 rows.
    columns = [_aligned(column, column.texts(table.rows)) for column in table.columns]
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return "\n".join([table.title, *lines] if table.title else lines)


def _aligned(column: Column, texts: list[str]) -> list[str]:
    """The column's title and cells, padded to one width."""
    cells = [column.title.upper(), *texts]
    if "".join(cells).isascii():
        width = max(map(len, cells))
        return [cell.rjust(width) for cell in cells] if column.right else [cell.ljust(width) for cell in cells]
    widths = [width_of(cell) for cell in cells]
    spaces = [" " * (max(widths) - width) for width in widths]
    pairs = zip(spaces, cells, strict=True) if column.right else zip(cells, spaces, strict=True)
    return ["".join(pair) for pair in pairs]


def width_of(text: str) -> int:
    """The terminal columns that a text takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def fitting(table: Table, width: int) -> tuple[Column, ...]:
    """The columns that fit that width: all required ones, then the optional ones that still fit."""

    def need(column: Column) -> int:
        widest = max(width_of(column.title), *(width_of(column.text(row)) for row in table.rows), 0)
        return GAP + min(widest, WRAPPED_MIN if column.wrap else width)

    needs = {column.title: need(column) for column in table.columns}
    left = width + GAP - sum(needs[column.title] for column in table.columns if not column.optional)
    chosen = []
    for column in table.columns:
        if column.optional:
            if needs[column.title] > left:
                continue
            left -= needs[column.title]
        chosen.append(column)
    return tuple(chosen)


def rich_table(table: Table, width: int) -> object:
    """The table as rich draws it, with the columns that fit."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    columns = fitting(table, width)
    shown = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for column in columns:
        shown.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
        )
    for row in table.rows:
        # Cells are Text, so that rich parses no markup in a name.
        shown.add_row(*(Text(column.text(row), style=column.style_of(row)) for column in columns))
    return shown


def _show_rich(tables: tuple[Table, ...]) -> None:
    from rich.console import Console
    from rich.text import Text

    # NO_COLOR is honoured by the console itself.
    console = Console(highlight=False)
    for index, table in enumerate(tables):
        if index:
            console.print()
        if table.title:
            console.print(Text(table.title, style="bold"))
        console.print(rich_table(table, console.width))
