"""How a command shows what it found: in one of five forms on stdout, and nothing else there."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import click

from evertick.cli.tables import Column, Row, Table, clean, has_colour, is_terminal, show_tables

__all__ = ["Column", "Row", "Table", "clean", "is_terminal", "note", "output_option", "show", "show_lines", "show_text"]

FORMS: Final = ("table", "json", "yaml", "csv", "name")

People: TypeAlias = Table | Sequence[Table] | Callable[[], None]
"""What people are shown: tables, or whatever the command prints by itself."""
Command = TypeVar("Command", bound=Callable[..., Any])
Naming: TypeAlias = str | Callable[[Row], str]


def output_as(form: str) -> Callable[[Command], Command]:
    """The option `-o`, for a command that shows its result in this form unless it is told otherwise."""
    return click.option(
        "-o", "--output", type=click.Choice(FORMS), default=form, show_default=True, help="How to show the result."
    )


output_option = output_as("table")


def show(output: str, data: Any, people: People, *, rows: Sequence[Row] | None = None, name: Naming = "job") -> None:
    """Show a result in the form that was asked for.

    `data` is what JSON and YAML hold. `rows` are the things it is about, one line each in CSV: without them the data
    itself, where it is a list, or else it alone. `name` is what a row is called by, for `-o name`.
    """
    things: Sequence[Row] = rows if rows is not None else data if isinstance(data, list) else [data]
    match output:
        case "json":
            # Beyond ASCII everything is escaped: it is the same to a program, and nothing to a terminal.
            click.echo(json.dumps(data, indent=2, allow_nan=False))
        case "yaml":
            click.echo(yaml_text(data), nl=False)
        case "csv":
            click.echo(csv_text(things), nl=False)
        case "name":
            for thing in things:
                show_text(str(name(thing) if callable(name) else thing[name]))
        case _:
            _show_people(people)


def _show_people(people: People) -> None:
    if callable(people):
        people()
        return
    tables = (people,) if isinstance(people, Table) else tuple(people)
    if any(table.rows for table in tables):
        show_tables(*tables)


def yaml_text(data: Any) -> str:
    import yaml

    # Through JSON once: what YAML would mark with a tag of Python's (an enum, a tuple) is plain there.
    plain = json.loads(json.dumps(data, allow_nan=False))
    return yaml.dump(plain, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, width=120)


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(rows: Iterable[Row]) -> str:
    """A line of names and a line for each row; what is not a plain value is JSON inside its cell."""
    kept = list(rows)
    names = list(dict.fromkeys(name for row in kept for name in row))
    lines = [names, *([_cell(row.get(name)) for name in names] for row in kept)] if names else []
    return "".join(map(_csv_line, lines))


def _csv_line(cells: Sequence[str]) -> str:
    written = io.StringIO()
    # What ends a line here is quoted inside of it: a carriage return too, which ends one for many readers.
    csv.writer(written, lineterminator="\r\n").writerow(cells)
    return written.getvalue().removesuffix("\r\n") + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
    if isinstance(value, str) and text.startswith(_FORMULA):
        text = f"'{text}"  # a spreadsheet would carry it out
    # A program gets the text as it is; a terminal must not obey it.
    return clean(text) if is_terminal() else text


def show_text(text: str = "", *, bold: bool = False) -> None:
    shown = clean(text)
    click.echo(click.style(shown, bold=True) if bold and has_colour() else shown)


def show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        show_text(line)


def note(text: str) -> None:
    """Anything that is not the result: hints, counts, warnings."""
    click.echo(clean(text), err=True, color=None if has_colour(sys.stderr) else False)
