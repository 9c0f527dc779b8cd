"""The contract of every executor, which runs attempts.

No method waits: results are reported when they are known, through the `report` given to `open`, in any order and from
any thread. A repeated launch is answered by repeating the last report; so a launch may be repeated after a crash, and
never starts anything twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

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
    "Capabilities",
    "Executor",
    "KeeperHealth",
    "KeptExecutor",
    "LanedExecutor",
    "LeasedExecutor",
    "Member",
    "PlacedExecutor",
    "SubRunExecutor",
]

SILENT_SECONDS = 5.0


class AttemptId(NamedTuple):
    """One attempt of one run."""

    key: RunKey
    attempt: int


class Attempt(Protocol):
    """One attempt of a run, as the executor receives it."""

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
        """Its placement, as in the ledger."""
        ...

    @property
    def valid_until(self) -> Instant | None:
        """Do not start it after that: another node may; None: there is no other node."""
        ...

    @property
    def is_confirmed(self) -> bool:
        """Whether the ledger has already recorded the launch."""
        ...

    @property
    def borrows(self) -> bool:
        """Whether it uses the resources of the attempt that waits for it, and needs none itself."""
        ...


class SubRunExecutor(Protocol):
    """An executor whose steps may request runs of other jobs, and which receives their results."""

    def sub_run_ended(self, key: RunKey, attempt: int, step: str, number: int, end: SubRunEnd) -> None:
        """May be called more than once; a step that no longer waits is no error."""
        ...


class PlacedExecutor(Protocol):
    """An executor with many members, which needs the placement of an attempt to ask about it."""

    def reconcile_placed(self, runs: Sequence[AttemptQuestion]) -> None:
        """As `reconcile`; a member that does not know a run refuses launches with an older fence from then on."""
        ...


class KeeperHealth(NamedTuple):
    """The health of a process that runs attempts for an executor."""

    name: str
    pid: int | None
    silent_seconds: float
    """How long it has not answered."""
    replaced: int
    """How many were killed because they did not answer."""

    @property
    def is_silent(self) -> bool:
        return self.silent_seconds >= SILENT_SECONDS


class LanedExecutor(Protocol):
    """An executor whose launches take lanes."""

    def lanes(self) -> Mapping[str, Mapping[str, int]]: ...


class KeptExecutor(Protocol):
    """An executor whose attempts run in keeper processes, which may hang."""

    def keepers(self) -> Sequence[KeeperHealth]: ...


class LeasedExecutor(Protocol):
    """An executor whose attempts outlive this process, on a ledger that nodes share.

    It ends them before the lease is over, because other nodes may start them again from then on.
    """

    def live_by_lease(self) -> None:
        """Call it before `open`: run nothing without a lease."""
        ...

    def renew(self, asked_at: int, lease_us: int, epoch: int, vouched_until: int) -> None:
        """This node owns its attempts for `lease_us` from `asked_at`, and unconfirmed ones until `vouched_until`, in
        microseconds since boot. A new epoch means that the lease had expired in between."""
        ...

    def confirm(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        """The ledger has recorded these launches."""
        ...

    def is_idle(self) -> bool:
        """Whether it is certain that nothing runs or launches."""
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What only some executors can do; None where this one cannot."""

    sub_runs: SubRunExecutor | None = None
    placement: PlacedExecutor | None = None
    leases: LeasedExecutor | None = None
    lanes: LanedExecutor | None = None
    keepers: KeptExecutor | None = None


class Executor(Protocol):
    name: str

    @property
    def capabilities(self) -> Capabilities: ...

    def open(self, report: Callable[[Report], None]) -> None:
        """Start; `report` may be called from any thread until `close` returns."""
        ...

    def launch(self, attempt: Attempt) -> None:
        """Start an attempt; it is answered by a report, at least by a refusal."""
        ...

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        """End an attempt: SIGTERM, then SIGKILL. An unknown one is no error."""
        ...

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        """Report the state of each: started, finished, lost, or unknown (`RunUnknown`)."""
        ...

    def members(self) -> Sequence[Member]: ...

    def close(self) -> None: ...
