"""Loads the items: from the pipeline file, from a CSV file, or generated ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from evertick.errors import DefinitionError
from evertick.kinds.pipeline.definition import CsvFile, Input
from evertick.kinds.pipeline.prompts import variables_of
from evertick.kinds.pipeline.values import as_text

CSV_BYTES_MAX: Final = 64 * 1024 * 1024
ITEMS_MAX: Final = 100_000

RawItem: TypeAlias = Mapping[str, object]
"""As written: rules compare numbers with numbers."""
Item: TypeAlias = Mapping[str, str]
"""As text, for prompts and tables."""


def load_items(source: Input, directory: Path, generated: Sequence[RawItem] = ()) -> list[RawItem]:
    """The first `limit` items, each with the parameters, which its own fields override."""
    if source.items is not None:
        items: Sequence[RawItem] = source.items
    elif source.csv is not None:
        items = read_csv(source.csv, directory)
    else:
        items = generated
    taken = items if source.limit is None else islice(items, source.limit)
    found = [{**(source.parameters or {}), **{str(name): value for name, value in item.items()}} for item in taken]
    if len(found) > ITEMS_MAX:
        raise DefinitionError(
            f"'input' has {len(found):,} items; {ITEMS_MAX:,} are allowed.",
            hint="Set input.limit, or split the file.",
            field="input",
        )
    return list(found)


def written(item: RawItem) -> Item:
    return {name: as_text(value) for name, value in item.items()}


def check_variables(prompt: str, items: Sequence[RawItem], field: str) -> None:
    """Check the first item for the variables of the prompt; a variable missing in a later item is empty."""
    if not items:
        return
    missing = [name for name in variables_of(prompt) if name not in items[0]]
    if missing:
        names = ", ".join(items[0]) or "no fields"
        raise DefinitionError(
            f"'{field}' names {', '.join(f'{{{{{name}}}}}' for name in missing)}, and the first item has {names}.",
            hint="Correct the name, or add it to the items or to input.parameters.",
            field=field,
        )


def read_csv(file: CsvFile, directory: Path) -> list[RawItem]:
    path = directory / file.path
    try:
        with path.open("rb") as opened:
            data = opened.read(CSV_BYTES_MAX + 1)
    except FileNotFoundError:
        _refuse(f"CSV file not found: {path}", "Check input.from.path; it is relative to the pipeline's folder.")
    except OSError as error:
        _refuse(f"{path}: {error.strerror or error}")
    if len(data) > CSV_BYTES_MAX:
        _refuse(f"{path} has more than {CSV_BYTES_MAX // 1024 // 1024} MiB", "Split it.")
    try:
        # Without a byte order mark.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse(f"{path} is not UTF-8 at byte {error.start}", "Save it as UTF-8.")
    return parse_csv(text, file.delimiter, str(path))


def parse_csv(text: str, delimiter: str, name: str) -> list[RawItem]:
    """Rows as maps of texts: missing cells are empty, cells beyond the header are dropped."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        _refuse(f"{name}: {error}")
    while rows and not rows[-1]:
        rows.pop()
    if not rows or not any(cell.strip() for cell in rows[0]):
        _refuse(f"{name} has no header row", "Name the columns in its first line.")
    headers = [cell.strip() for cell in rows[0]]
    twice = sorted({header for header in headers if headers.count(header) > 1})
    if twice:
        _refuse(f"{name} has the column {twice[0]!r} twice", "Rename one of them.")
    return [
        {header: row[place] if place < len(row) else "" for place, header in enumerate(headers)} for row in rows[1:]
    ]


def _refuse(reason: str, hint: str | None = None) -> NoReturn:
    raise DefinitionError(f"Failed to read input: {reason}.", hint=hint, field="input.from")
