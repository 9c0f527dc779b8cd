"""The kinds of steps, and the program that runs each of them."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from evertick.model.plain_json import parse_json
from evertick.model.variable_text import UnknownVariable, replace_references

PAYLOAD_FD = 3
"""From here a program reads its input beside its arguments."""
RESULT_FD = 4
"""Here a program writes its result, apart from its output."""
SCRIPT_FD = 5
"""From here a confined program reads its script."""
STATUS_FD = 6
"""Here a sandbox reports whether its program was started."""


@dataclass(frozen=True, slots=True)
class Program:
    """One process to start."""

    argv: tuple[str, ...]
    script: str | None = None
    """The text of a file whose path becomes the last argument."""
    payload: bytes | None = None
    """Readable at `PAYLOAD_FD`."""
    has_result: bool = False
    """What it writes to `RESULT_FD`, instead of standard output, is the step's output."""
    has_exit_note: bool = False
    """What it writes to `RESULT_FD` is an `ExitNote`; its output is what it prints."""
    reads: tuple[str, ...] = ()
    """Files and folders that it needs in a sandbox."""


NOTE_MAX = 16 * 1024


class ExitNote(NamedTuple):
    """What a program that runs something elsewhere, such as a pod, reports beside its exit code."""

    reason: str = ""
    is_lost: bool = False
    """What it ran was taken away or cannot be seen any more: it did not fail by itself."""
    exit_code: int | None = None
    """The same as that of the program, for a keeper that is not its parent; None: it was killed before it could say."""

    def encode(self) -> bytes:
        return json.dumps([self.reason[: NOTE_MAX // 8], self.is_lost, self.exit_code]).encode()

    @classmethod
    def decode(cls, data: bytes) -> ExitNote:
        """An empty note if the program was killed before it wrote one."""
        try:
            match parse_json(data):
                case [reason, is_lost, int(exit_code)]:
                    return cls(str(reason), bool(is_lost), exit_code)
        except ValueError:
            pass
        return cls()


def write_output(stream: BinaryIO, data: bytes) -> None:
    """Write what runs elsewhere has printed; without a keeper that reads it, it is dropped and the program goes on."""
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def write_exit_note(note: ExitNote) -> None:
    with contextlib.suppress(OSError), open(RESULT_FD, "wb") as file:
        # A keeper that was started before an upgrade has a pipe here, and expects no exit code.
        is_old = stat.S_ISFIFO(os.fstat(RESULT_FD).st_mode)
        file.write(json.dumps(json.loads(note.encode())[:2]).encode() if is_old else note.encode())


class StepError(Exception):
    """A step cannot be started; the text says why, and what to do."""


def safe_params(given: Mapping[str, object]) -> dict[str, str]:
    """Parameters as texts: other values as JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}


def expand(name: str, text: str, known: Mapping[str, str]) -> str:
    """The value of a variable whose text may refer to others."""
    try:
        return replace_references(text, known.get)
    except UnknownVariable as unknown:
        raise StepError(
            f"the variable {name!r} refers to ${{{unknown.name}}}, which is not set. "
            "Set it before, or write $$ for a dollar sign."
        ) from None
