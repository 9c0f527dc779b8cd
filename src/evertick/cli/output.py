"""Writes a command's result to stdout in one of five formats; everything else goes to stderr."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import click

from evertick.cli.tables import Column, Row, Table, clean, has_colour, is_terminal, show_tables, text_of, value_of

__all__ = [
    "Column",
    "Row",
    "Table",
    "clean",
    "counted",
    "is_terminal",
    "note",
    "output_option",
    "show",
    "show_lines",
    "show_text",
]

FORMS: Final = ("table", "json", "yaml", "csv", "name")

People: TypeAlias = Table | Sequence[Table] | Callable[[], None]
"""The output for people: tables, or a function that prints."""
Command = TypeVar("Command", bound=Callable[..., object])
Naming: TypeAlias = str | Callable[[Row], str]


def output_as(form: str) -> Callable[[Command], Command]:
    """The option `-o` with this default."""
    return click.option(
        "-o", "--output", type=click.Choice(FORMS), default=form, show_default=True, help="Output format."
    )


output_option = output_as("table")


def show(output: str, data: object, people: People, *, rows: Sequence[Row] | None = None, name: Naming = "job") -> None:
    """Show a result in the requested format.

    `data` is the JSON and YAML document. `rows` are the lines of CSV; the default is `data` itself. `-o name` prints
    `name` of each row: an attribute or key, or a function of the row.
    """
    things: Sequence[Row] = rows if rows is not None else data if isinstance(data, list | tuple) else [data]
    match output:
        case "json":
            # Everything beyond ASCII is escaped: a program reads the same, and a terminal obeys nothing.
            click.echo(json.dumps(_plain(data), indent=2, allow_nan=False))
        case "yaml":
            click.echo(yaml_text(_plain(data)), nl=False)
        case "csv":
            plain = [_plain(thing) for thing in things]
            click.echo(csv_text([row for row in plain if isinstance(row, Mapping)]), nl=False)
        case "name":
            for thing in things:
                show_text(text_of(name(thing) if callable(name) else value_of(thing, name)))
        case _:
            _show_people(people)


def _plain(data: object) -> object:
    from evertick.operations.codec import to_data

    return to_data(data)


def _show_people(people: People) -> None:
    if callable(people):
        people()
        return
    tables = (people,) if isinstance(people, Table) else tuple(people)
    if any(table.rows for table in tables):
        show_tables(*tables)


def yaml_text(data: object) -> str:
    import yaml

    return yaml.dump(data, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, width=120)


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(rows: Iterable[Mapping[str, object]]) -> str:
    """A header and a line per row; a nested value is JSON inside its cell."""
    kept = list(rows)
    names = list(dict.fromkeys(name for row in kept for name in row))
    lines = [names, *([_cell(row.get(name)) for name in names] for row in kept)] if names else []
    return "".join(map(_csv_line, lines))


def _csv_line(cells: Sequence[str]) -> str:
    written = io.StringIO()
    # A carriage return is quoted too, because many readers end a line at it.
    csv.writer(written, lineterminator="\r\n").writerow(cells)
    return written.getvalue().removesuffix("\r\n") + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
    if isinstance(value, str) and text.startswith(_FORMULA):
        text = f"'{text}"  # a spreadsheet would evaluate it as a formula
    # A program gets the exact text; a terminal must not obey control characters in it.
    return clean(text) if is_terminal() else text


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 job`, `1,200 jobs`, `2 entries`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or f'{noun}s'}"


def show_text(text: str = "", *, bold: bool = False) -> None:
    shown = clean(text)
    click.echo(click.style(shown, bold=True) if bold and has_colour() else shown)


def show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        show_text(line)


def note(text: str) -> None:
    """Print a hint, a count or a warning to stderr: anything but the result."""
    # A closed pipe or a full disk behind stderr must not keep the scheduler from what it does next, such as stopping.
    with contextlib.suppress(OSError):
        click.echo(clean(text), err=True, color=None if has_colour(sys.stderr) else False)
