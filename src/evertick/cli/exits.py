"""What the exit code of a command means, and which error ends with which."""

from __future__ import annotations

from typing import Final

from evertick.errors import (
    AccessDenied,
    Conflict,
    DefinitionError,
    EvertickError,
    ExecutorUnavailable,
    InvalidArgument,
    NotFound,
    SchedulerLockError,
    ServerUnavailable,
    SettingsError,
    StoreError,
)

OK, FAILED, USAGE, NOT_FOUND, AUTH, UNREACHABLE, CONFLICT = range(7)
TIMEOUT, INTERRUPTED = 124, 130

MEANINGS: Final[dict[int, tuple[str, str]]] = {
    OK: ("ok", "It was done."),
    FAILED: ("job failed", "The job failed, a check found something wrong, or it failed in a way not listed here."),
    USAGE: ("usage or validation", "The command, a definition, a parameter or a setting is wrong."),
    NOT_FOUND: ("not found", "There is no such file, folder, job, run or request; the nearest names are told."),
    AUTH: ("auth", "The server does not know the token, or the token's role may not do that."),
    UNREACHABLE: ("unreachable", "The ledger, the server or the fleet cannot be reached, or cannot be read."),
    CONFLICT: ("conflict or locked", "It cannot be done in the present state, or another process holds the folder."),
    TIMEOUT: ("timeout", "What was waited for has not ended in time; it goes on."),
    INTERRUPTED: ("interrupted", "Ctrl-C; what was waited for goes on, except where a command says otherwise."),
}
"""Code -> its name in a word or two, and what it says."""

# The first kind that fits decides.
EXIT_CODES: Final = (
    (DefinitionError, USAGE),
    (InvalidArgument, USAGE),
    (SettingsError, USAGE),
    (NotFound, NOT_FOUND),
    (AccessDenied, AUTH),
    (Conflict, CONFLICT),
    (SchedulerLockError, CONFLICT),
    (StoreError, UNREACHABLE),
    (ServerUnavailable, UNREACHABLE),
    (ExecutorUnavailable, UNREACHABLE),
    (EvertickError, FAILED),
)


def exit_code(error: EvertickError) -> int:
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
