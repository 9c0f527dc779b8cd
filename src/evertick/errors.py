"""What can go wrong, split by whose fault it is.

    EvertickError
    ├── DefinitionError        the user's: the definition of a job is invalid; carries file, line, column, field
    │   ├── CronError          ... in a cron expression
    │   └── DurationError      ... in a duration
    ├── InvalidArgument        the user's: an argument, an option or a query parameter is invalid; carries field
    ├── SettingsError          the user's: a setting is invalid
    ├── NotFound               the user's: no such job, run or occurrence
    ├── Conflict               the user's: the current state does not allow it
    ├── AccessDenied           the user's: the token is invalid, or its role does not permit the action
    ├── StoreError             the world's: the ledger
    │   ├── StoreUnavailable   ... is unavailable; retried at the edge
    │   ├── StoreCorrupt       ... is damaged; the scheduler does not start on it
    │   ├── SchemaTooNew       ... was written by a newer Evertick
    │   ├── GapRefused         ... has entries inside a gap that was to be written
    │   └── Fenced             ... has another owner; this node's epoch is over
    ├── ExecutorUnavailable    the world's: a fleet is unreachable; retried at the edge
    │   └── MemberUnavailable  ... one of its members does not respond; carries name, reason, last contact
    ├── AuditUnavailable       the world's: the audit log cannot be written, so the action is rejected
    ├── ServerUnavailable      the world's: the server does not respond, or is not an Evertick server
    └── SchedulerLockError     the world's: another instance holds the lock of the folder

A bug in Evertick is an assertion: it crashes and is found.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum


class EvertickError(Exception):
    """The base of all errors that Evertick raises on purpose."""


class DefinitionError(EvertickError):
    """A definition is invalid; the text says where, what, why, and what to write instead."""

    def __init__(
        self,
        reason: str,
        *,
        hint: str | None = None,
        field: str | None = None,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(reason, hint, field, file, line, column)
        self.reason = reason
        self.hint = hint
        self.field = field
        self.file = file
        self.line = line
        self.column = column

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        text = f"{place}: {self.reason}" if place else self.reason
        return f"{text} {self.hint}" if self.hint else text


class CronError(DefinitionError):
    """A cron expression is invalid, or never fires."""


class DurationError(DefinitionError):
    """A duration is invalid."""


class InvalidArgument(EvertickError):
    """An argument of a call, an option of a command or a parameter of a request is invalid; `field` names it."""

    def __init__(self, reason: str, *, hint: str | None = None, field: str | None = None) -> None:
        super().__init__(reason, hint, field)
        self.reason = reason
        self.hint = hint
        self.field = field

    def __str__(self) -> str:
        return f"{self.reason} {self.hint}" if self.hint else self.reason


class SettingsError(EvertickError):
    """A setting is invalid."""


class NotFound(EvertickError):
    """Nothing has that name; `suggestions` has the nearest names."""

    def __init__(self, reason: str, suggestions: tuple[str, ...] = ()) -> None:
        super().__init__(reason, suggestions)
        self.reason = reason
        self.suggestions = suggestions

    def __str__(self) -> str:
        if not self.suggestions:
            return self.reason
        return f"{self.reason} Did you mean {' or '.join(repr(name) for name in self.suggestions)}?"


class Conflict(EvertickError):
    """The current state does not allow the request."""


class AccessDenied(EvertickError):
    """The token is invalid, or its role does not permit the action."""

    def __init__(self, reason: str, *, is_known: bool = False) -> None:
        super().__init__(reason)
        self.is_known = is_known


class StoreError(EvertickError):
    """The base of the errors of a store."""


class StoreUnavailable(StoreError):
    """The store did not answer; the outcome of the call may be unknown, and it is safe to repeat it."""


class StoreCorrupt(StoreError):
    """The store failed its integrity check; the text says how to restore it."""


class SchemaTooNew(StoreError):
    """The store was written by a newer Evertick; this one must not touch it."""


class GapRefused(StoreError):
    """These gaps contain entries; nothing was written. The caller must write the gaps around them."""

    def __init__(self, keys: frozenset[object]) -> None:
        super().__init__(f"{len(keys)} gaps have entries inside them")
        self.keys = keys


class Fenced(StoreError):
    """Another node owns these buckets now; nothing was written."""

    def __init__(self, buckets: tuple[int, ...]) -> None:
        super().__init__(f"this node no longer owns bucket {', '.join(map(str, buckets))}")
        self.buckets = buckets


class ExecutorUnavailable(EvertickError):
    """An executor is unreachable."""


class MemberUnavailableReason(StrEnum):
    """Why a member of the fleet did not answer a question."""

    AWAY = "away"
    UNKNOWN = "unknown"
    """The fleet has not seen it since its hub was started, or it was removed."""
    NO_ANSWER = "no-answer"
    TOO_OLD = "too-old"
    BUSY = "busy"
    FLEET_UNREACHABLE = "fleet-unreachable"
    NOT_UNDERSTOOD = "not-understood"


_MEMBER_REASONS = {
    MemberUnavailableReason.AWAY: "is away",
    MemberUnavailableReason.UNKNOWN: "is not in the fleet",
    MemberUnavailableReason.NO_ANSWER: "does not answer",
    MemberUnavailableReason.TOO_OLD: "runs a version that cannot be asked. Upgrade it",
    MemberUnavailableReason.BUSY: "is being asked by too many others at once",
    MemberUnavailableReason.FLEET_UNREACHABLE: "cannot be asked, because the fleet cannot be reached",
    MemberUnavailableReason.NOT_UNDERSTOOD: "gave an invalid answer",
}


class MemberUnavailable(ExecutorUnavailable):
    """A member of the fleet is unreachable or did not answer."""

    def __init__(
        self, member: str, reason: MemberUnavailableReason, *, seen_at: int | None = None, detail: str = ""
    ) -> None:
        super().__init__(member, reason, seen_at, detail)
        self.member = member
        self.reason = reason
        self.seen_at = seen_at
        """The instant at which the fleet last received a message of it; None: unknown."""
        self.detail = detail

    def of(self, member: str) -> MemberUnavailable:
        """The same of another member."""
        return MemberUnavailable(member, self.reason, detail=self.detail)

    def __str__(self) -> str:
        seen = ""
        if self.seen_at is not None and self.reason is not MemberUnavailableReason.TOO_OLD:
            at = datetime.fromtimestamp(self.seen_at // 1_000_000, UTC)
            seen = f" (last seen {at:%Y-%m-%dT%H:%M:%SZ})"
        detail = f": {self.detail}" if self.detail else ""
        return f"the member {self.member} {_MEMBER_REASONS[self.reason]}{seen}{detail}"


class AuditUnavailable(EvertickError):
    """The audit log cannot be written: an action that leaves no trace is refused."""


class ServerUnavailable(EvertickError):
    """The server did not answer; the outcome may be unknown, and it is safe to ask again."""


class SchedulerLockError(EvertickError):
    """Another instance holds the folder or the database."""
