"""How a command shows what it found: a table for people, JSON for programs, and nothing else on stdout."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import click

Row: TypeAlias = Mapping[str, Any]
"""What JSON shows whole, and a table in its columns."""

WRAPPED_MIN = 24
"""A column that wraps is not squeezed below this width while another one can go."""
GAP = 2

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to show the result.",
)


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    show: str | Callable[[Row], str]
    """The key of the value, or what makes the cell's text from the row."""
    style: str = ""
    """A rich style, for a terminal."""
    right: bool = False
    wrap: bool = False
    optional: bool = False
    """Gives way on a narrow terminal, the rightmost first; aligned text and JSON always have it."""

    def text(self, row: Row) -> str:
        value = self.show(row) if callable(self.show) else row.get(self.show)
        return "" if value is None else clean(str(value))


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    title: str = ""


def clean(text: str) -> str:
    """The text with everything that a terminal would obey shown as an escape; a name is never an instruction."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def show_json(data: object) -> None:
    # Beyond ASCII everything is escaped: it is the same to a program, and nothing to a terminal.
    click.echo(json.dumps(data, indent=2))


def show_tables(*tables: Table) -> None:
    """Tables with lines and colour on a terminal, aligned text elsewhere."""
    if is_terminal():
        _show_rich(tables)
        return
    click.echo("\n\n".join(plain_table(table) for table in tables))


def show_text(text: str = "", *, bold: bool = False) -> None:
    shown = clean(text)
    click.echo(click.style(shown, bold=True) if bold and is_terminal() else shown)


def note(text: str) -> None:
    """Anything that is not the result: hints, counts, warnings."""
    click.echo(clean(text), err=True)


def is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def plain_table(table: Table) -> str:
    titles = [column.title.upper() for column in table.columns]
    cells = [[column.text(row) for column in table.columns] for row in table.rows]
    widths = [max(map(_width, column)) for column in zip(titles, *cells, strict=True)]
    rights = [column.right for column in table.columns]
    lines = [
        "  ".join(_padded(cell, width, right) for cell, width, right in zip(line, widths, rights, strict=True)).rstrip()
        for line in (titles, *cells)
    ]
    return "\n".join([table.title, *lines] if table.title else lines)


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def _width(text: str) -> int:
    """Columns of a terminal that a text takes: two for a wide character, none for one that combines."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def fitting(table: Table, width: int) -> tuple[Column, ...]:
    """The columns that a terminal of that width has room for."""
    columns = list(table.columns)
    needs = {
        column.title: min(
            max(_width(column.title), *(_width(column.text(row)) for row in table.rows), 0),
            WRAPPED_MIN if column.wrap else width,
        )
        for column in columns
    }
    while sum(needs[column.title] + GAP for column in columns) - GAP > width:
        dropped = next((column for column in reversed(columns) if column.optional), None)
        if dropped is None:
            break
        columns.remove(dropped)
    return tuple(columns)


def _show_rich(tables: tuple[Table, ...]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    # NO_COLOR is honoured by the console itself. Cells are Text, so that nothing in a name is read as markup.
    console = Console(highlight=False)
    for index, table in enumerate(tables):
        columns = fitting(table, console.width)
        shown = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
        for column in columns:
            shown.add_column(
                column.title,
                style=column.style,
                justify="right" if column.right else "left",
                no_wrap=not column.wrap,
                overflow="fold" if column.wrap else "ellipsis",
            )
        for row in table.rows:
            shown.add_row(*(Text(column.text(row)) for column in columns))
        if index:
            console.print()
        if table.title:
            console.print(Text(table.title, style="bold"))
        console.print(shown)
