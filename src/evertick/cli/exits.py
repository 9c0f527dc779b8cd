"""The exit codes, and the errors they represent."""

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
    OK: ("ok", "The command succeeded."),
    FAILED: ("failed", "The job failed, a check found a problem, or an error not listed here occurred."),
    USAGE: ("usage or validation", "The command line, a job file, a parameter or a setting is invalid."),
    NOT_FOUND: ("not found", "The file, folder, job, run or request does not exist. The message suggests close names."),
    AUTH: ("auth", "The server rejects the token, or the token's role does not permit the action."),
    UNREACHABLE: ("unreachable", "The ledger, the server or the fleet cannot be reached or read."),
    CONFLICT: ("conflict or locked", "The current state forbids the action, or another process holds the lock."),
    TIMEOUT: ("timeout", "The wait timed out. The run or request continues, unless the command says otherwise."),
    INTERRUPTED: ("interrupted", "Ctrl-C. The run or request continues, unless the command says otherwise."),
}
"""Code -> a short name, and what it means."""

# The first match decides.
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
