"""What executors report about their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from evertick.model.instant import Instant
from evertick.model.lifecycle import RunState
from evertick.model.loss import LossReason
from evertick.model.member import Member
from evertick.model.run import RunKey


class AttemptQuestion(NamedTuple):
    """A question to an executor about an attempt that another process may have launched."""

    key: RunKey
    attempt: int
    executor: str
    """Where the ledger says it runs; only the executor's name if it does not know."""
    fence: int = 0
    """An executor that does not know the attempt refuses every older order for the run from then on."""


class RunStarted(NamedTuple):
    key: RunKey
    attempt: int
    at: Instant
    executor: str = ""
    lease_us: int | None = None
    """Without a heartbeat for this long the attempt is lost; None: the executor itself reports that."""


class RunHeartbeat(NamedTuple):
    key: RunKey
    attempt: int


class RunFinished(NamedTuple):
    key: RunKey
    attempt: int
    at: Instant
    state: RunState
    """Succeeded, failed, timed out, cancelled; or skipped, when a precondition did not hold."""
    exit_code: int | None = None
    detail: str = ""
    steps: str | None = None
    """As `model.steps` writes them; None: the executor does not report them."""
    executor: str = ""
    """Of a broadcast: which shards have succeeded, so that a retry repeats only the others."""
    broken: str = ""
    """The constraint that does not hold, when it is one that executors watch: `preRunHook` or `postRunHook`."""
    has_loss: bool = False
    """For a broadcast: the end of some shard is unknown; it may have done its work."""
    loss: LossReason | None = None
    """Why, of one that another node reports as lost."""


class StepsSeen(NamedTuple):
    """The states of the steps of a running attempt; reported a few times a second at most."""

    key: RunKey
    attempt: int
    steps: str


class RunLost(NamedTuple):
    """The outcome of the attempt is unknown, and it will not report any more."""

    key: RunKey
    attempt: int
    detail: str = ""
    steps: str | None = None
    executor: str = ""
    """As for a finished run."""
    at: Instant | None = None
    """When its process was gone; None: unknown."""
    reason: LossReason = LossReason.EXECUTOR


class RunUnknown(NamedTuple):
    """After a restart: the executor responds, and has never received this attempt."""

    key: RunKey
    attempt: int


class LaunchRefused(NamedTuple):
    """The executor did not accept the attempt; nothing was started."""

    key: RunKey
    attempt: int
    detail: str = ""
    fence: int | None = None
    """The fence of the refused launch, which tells the offers of one attempt apart; None: of the last one."""


class SubRunWanted(NamedTuple):
    """A step is a run of another job: start that run, once, and report its result to the step. May be repeated."""

    key: RunKey
    attempt: int
    step: str
    number: int
    """Of the step's try."""
    job_id: str
    params: str
    """JSON, or empty."""
    waits: bool = True
    is_from_member: bool = False
    """Whether a member of the fleet reports it: it may request only runs that a step of the job names."""


class SubRunUnwanted(NamedTuple):
    """A step was stopped while it waited for such a run."""

    key: RunKey
    attempt: int
    step: str
    number: int
    job_id: str


class AttemptSeen(NamedTuple):
    """A member has this attempt, which this node did not launch: it may be another node's, or given up."""

    key: RunKey
    attempt: int


class MembersSeen(NamedTuple):
    """All members of an executor, as of now."""

    executor: str
    members: Sequence[Member]


AttemptReport: TypeAlias = RunStarted | RunHeartbeat | StepsSeen | RunFinished | RunLost | RunUnknown | LaunchRefused
Report: TypeAlias = AttemptReport | AttemptSeen | MembersSeen | SubRunWanted | SubRunUnwanted
