"""The parts of the logs of a run as values: where each is, or why it cannot be read; and the readers of each place."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Literal, NamedTuple, Protocol

from evertick.errors import ExecutorUnavailable, MemberUnavailableReason
from evertick.model.instant import Instant
from evertick.model.run import RunKey


class StoredLog(Protocol):
    """A log that a place has."""

    @property
    def attempt(self) -> int: ...
    @property
    def step(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def is_complete(self) -> bool: ...


class Chunk(Protocol):
    """A part of a log, as its place returned it."""

    @property
    def data(self) -> bytes: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def is_complete(self) -> bool: ...


class LogsReader(Protocol):
    """The logs of one place; `evertick.executors.logs.Logs` is one."""

    def list_logs(self, key: RunKey) -> Sequence[StoredLog]: ...
    def read_log(self, key: RunKey, attempt: int, step: str, offset: int = 0, limit: int = 1 << 20) -> Chunk: ...
    def read_times(self, key: RunKey, attempt: int, step: str) -> Sequence[tuple[int, Instant]]: ...


class MembersReader(Protocol):
    """The logs that members of a fleet keep, by the member; those of the shards of a broadcast under their own keys.

    Both raise `MemberUnavailable`.
    """

    def list_logs(self, member: str, key: RunKey, attempt: int) -> Sequence[StoredLog]: ...
    def read_log(self, member: str, key: RunKey, attempt: int, step: str, offset: int, limit: int) -> Chunk: ...
    def shard_key(self, key: RunKey, number: int, total: int) -> RunKey: ...


class PlaceKind(StrEnum):
    NODE = "node"
    MEMBER = "member"
    STORE = "store"


class ItemRun(NamedTuple):
    """The run of an item that ran elsewhere on the fleet than its parent; its log is shown as one of the parent's."""

    key: RunKey
    attempt: int
    executor: str


class LogFile(NamedTuple):
    attempt: int
    step: str
    size: int
    is_complete: bool
    node: str = ""
    """The node that has it; empty: this one."""
    is_copy: bool = False
    """Whether it is read from the log store."""
    member: str = ""
    """The member that has it, where no node does."""
    shard: tuple[int, int] | None = None
    """Of a broadcast: which part, of how many; its member knows the step without them."""
    of: ItemRun | None = None
    """Where the log of an item is kept that ran elsewhere."""


class AbsentLog(NamedTuple):
    """An attempt whose logs, or some of them, cannot be read from here now."""

    attempt: int
    kind: PlaceKind
    name: str
    """Of the node or member."""
    reason: str
    cause: MemberUnavailableReason | Literal["unreachable", "not-kept"] = "unreachable"
    seen_at: Instant | None = None
    """When a member was last seen; None: unknown."""
    is_partial: bool = False
    """Whether a part of it can be read."""

    @property
    def place(self) -> str:
        return "the log store" if self.kind is PlaceKind.STORE else f"{self.kind} {self.name}"

    @property
    def sentence(self) -> str:
        what = f"{'A part of the' if self.is_partial else 'The'} log of attempt {self.attempt}"
        if self.cause == NOT_KEPT:
            return f"{what} is no longer available: {self.reason}."
        return f"{what} is on {self.place}, which is unreachable: {self.reason}."


NOT_KEPT: Final = "not-kept"


class FoundLogs(NamedTuple):
    files: Sequence[LogFile] = ()
    absent: Sequence[AbsentLog] = ()


class LogUnavailable(ExecutorUnavailable):
    """A log exists, but cannot be read from its place now."""

    def __init__(self, absent: AbsentLog) -> None:
        super().__init__(absent.sentence)
        self.absent = absent
