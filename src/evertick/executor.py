"""What a place that runs attempts must be able to do: the contract of every executor.

None of the verbs waits: what becomes of an attempt is reported when it is known, through the `report` an executor was
opened with, in any order and from any thread. A launch of an attempt that the executor has already is answered by
saying again what is known of it; so a launch may be repeated after a crash, and never starts anything twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.lifecycle import Trigger
from evertick.model.member import Member
from evertick.model.report import AttemptQuestion, Report
from evertick.model.run import RunKey
from evertick.model.subrun import SubRunEnd

__all__ = [
    "Attempt",
    "AttemptId",
    "Executor",
    "HasKeepers",
    "HearsOfSubRuns",
    "KeeperHealth",
    "LeasedExecutor",
    "Member",
    "PlacedExecutor",
]

SILENT_SECONDS = 5.0


class AttemptId(NamedTuple):
    """One attempt of one run."""

    key: RunKey
    attempt: int


class Attempt(Protocol):
    """One try of a run: everything the executor is told about it."""

    @property
    def key(self) -> RunKey: ...
    @property
    def attempt(self) -> int: ...
    @property
    def fence(self) -> int: ...
    @property
    def job(self) -> Job: ...
    @property
    def trigger(self) -> Trigger: ...
    @property
    def params(self) -> str: ...
    @property
    def previous_success_at(self) -> Instant | None: ...
    @property
    def executor(self) -> str:
        """Where it was put, as the ledger has it."""
        ...

    @property
    def valid_until(self) -> Instant | None:
        """Not to be started after that: another node may start it then; None: there is no other node."""
        ...

    @property
    def is_confirmed(self) -> bool:
        """Whether the ledger knows already that it is launched."""
        ...


@runtime_checkable
class HearsOfSubRuns(Protocol):
    """An executor whose steps may be runs of other jobs: it asks for them, and is told how they ended."""

    def sub_run_ended(self, key: RunKey, attempt: int, step: str, number: int, end: SubRunEnd) -> None:
        """Said once or more; a step that waits no longer is no error."""
        ...


class Executor(Protocol):
    name: str

    def open(self, report: Callable[[Report], None]) -> None:
        """Begin; `report` may be called from any thread until `close` returns."""
        ...

    def launch(self, attempt: Attempt) -> None:
        """Start an attempt; answered by a report, at the latest that it was refused."""
        ...

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        """End an attempt: politely, then by force. One that is not there is no error."""
        ...

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        """Report what is known of each: started, finished, lost, or never seen (`RunUnknown`)."""
        ...

    def members(self) -> Sequence[Member]: ...

    def close(self) -> None: ...


@runtime_checkable
class PlacedExecutor(Executor, Protocol):
    """One with many members, which must be told whom to ask."""

    def reconcile_placed(self, runs: Sequence[AttemptQuestion]) -> None:
        """As `reconcile`; a member that has not seen a run refuses older orders for it from then on."""
        ...


class KeeperHealth(NamedTuple):
    """How a process does that runs attempts for an executor."""

    name: str
    pid: int | None
    silent_seconds: float
    """For how long it has not answered."""
    replaced: int
    """How often one was killed because it did not answer."""

    @property
    def is_silent(self) -> bool:
        return self.silent_seconds >= SILENT_SECONDS


@runtime_checkable
class HasKeepers(Protocol):
    """An executor whose attempts live in processes of their own, which may hang."""

    def keepers(self) -> Sequence[KeeperHealth]: ...


@runtime_checkable
class LeasedExecutor(Executor, Protocol):
    """One whose attempts outlive this process, on a ledger that other nodes share.

    It ends them by itself before the lease is over: from then on others may start them again.
    """

    def live_by_lease(self) -> None:
        """To be called before `open`: run nothing without a lease."""
        ...

    def renew(self, asked_at: int, lease_us: int, epoch: int, vouched_until: int) -> None:
        """What runs here is this node's for `lease_us` from `asked_at`, and what the ledger does not know yet until
        `vouched_until`; both in microseconds since boot. Another epoch: the lease was over in between."""
        ...

    def confirm(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        """The ledger knows that these attempts were launched."""
        ...

    def is_idle(self) -> bool:
        """Whether nothing runs or is being launched, as far as is known for certain."""
        ...
