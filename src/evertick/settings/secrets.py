"""What a secret is that a setting names by the place where it is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from evertick.errors import SettingsError
from evertick.model.work import Secret, Value

SECRET_MAX: Final = 64 * 1024


def reveal(value: Value, environ: Mapping[str, str], what: str) -> str:
    """The value itself; `what` names the setting in the error that says it is not there."""
    if not isinstance(value, Secret):
        return value
    try:
        if value.source == "env":
            found = environ[value.name]
        else:
            # Not blocking: opening a pipe without a writer would block the start for ever.
            with open(os.open(value.name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                found = file.read(SECRET_MAX).decode()
    except (KeyError, OSError, ValueError):
        place = f"the variable {value.name}" if value.source == "env" else f"the file '{value.name}'"
        raise SettingsError(f"{what} is kept in {place}, which is not there. Set it, or change the setting.") from None
    if not found.strip():
        raise SettingsError(f"{what} is kept in {value.source}:{value.name}, which is empty. Set it.")
    return found.strip()
