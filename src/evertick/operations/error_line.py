"""Which line of a failed run's log names the error."""

from __future__ import annotations

import re
from typing import Final

from evertick.errors import EvertickError
from evertick.model.run import LedgerRow
from evertick.model.steps import FAILED, LOST, read_steps
from evertick.operations.context import Context
from evertick.operations.log_queries import ERROR, without_escapes

LOOK_BYTES: Final = 32 * 1024
"""How much of the end of a log is searched."""
TEXT_MAX: Final = 300
KEPT_MAX: Final = 500

_SEPARATOR = re.compile(r"[\s=*_~#-]*")


def error_line(context: Context, row: LedgerRow) -> str:
    """The line that names the error of a run that has ended; the reason in the ledger where the log is elsewhere."""
    kept, name = context.kept_error_lines, f"{row.key.run_id} {row.attempt}"
    if name not in kept:
        while len(kept) >= KEPT_MAX:
            kept.pop(next(iter(kept)), None)
        kept[name] = _read(context, row)
    return kept[name]


def _read(context: Context, row: LedgerRow) -> str:
    failed = [step for step in read_steps(row.steps) if step.state in (FAILED, LOST) and step.attempt == row.attempt]
    said = row.detail or next((step.detail for step in failed if step.detail), "")
    if context.logs is None:
        return said
    try:
        files = context.logs.find(row, here_only=True).files
        names = {step.name for step in failed}
        own = [one for one in files if one.attempt == row.attempt]
        # Of a step that printed nothing the reason says more than what another step printed.
        files_of_failed = [one for one in own if one.step in names] if names else own[-1:]
        file = next((one for one in files_of_failed if one.size), None)
        if file is None:
            return said
        start = max(0, file.size - LOOK_BYTES)
        data = context.logs.read(row, file.attempt, file.step, start, LOOK_BYTES, here_only=True)[0]
    except (EvertickError, OSError):
        return said
    line, is_error = find_error(data)
    # A last line that names no error is a hint; the reason says what went wrong.
    return line if is_error or not said else _cut(f"{said}: {line}") if line else said


def find_error(data: bytes) -> tuple[str, bool]:
    """The last line that looks like an error, else the last line with a word in it; and whether it looks like one.

    Of a Python traceback that is its message, of a Java one its cause.
    """
    lines = [line.strip() for line in without_escapes(data).decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if not _SEPARATOR.fullmatch(line)]
    found = next((line for line in reversed(lines) if ERROR.search(line)), None)
    return _cut(found if found is not None else lines[-1] if lines else ""), found is not None


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"
