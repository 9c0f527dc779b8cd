"""What executors report about the attempts they were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from evertick.model.instant import Instant
from evertick.model.lifecycle import RunState
from evertick.model.loss import LossReason
from evertick.model.member import Member
from evertick.model.run import RunKey


class AttemptQuestion(NamedTuple):
    """What an executor is asked about an attempt that another process may have launched."""

    key: RunKey
    attempt: int
    executor: str
    """Where the ledger has it; only the executor's name when it does not know."""
    fence: int = 0
    """An executor that does not know the attempt refuses every older order for the run from then on."""


class RunStarted(NamedTuple):
    key: RunKey
    attempt: int
    at: Instant
    executor: str = ""
    lease_us: int | None = None
    """Without a heartbeat for this long the attempt is lost; None: the executor says itself when it is."""


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
    """As `model.steps` writes them; None: the executor does not say."""
    executor: str = ""
    """Of a broadcast: which shards have succeeded, so that a retry repeats only the others."""
    broken: str = ""
    """The constraint that does not hold, when it is one that executors watch: `preRunHook` or `postRunHook`."""
    has_loss: bool = False
    """Of a broadcast: besides how it ended, the end of some shard is unknown; it may have done its work."""
    loss: LossReason | None = None
    """Why, of one that another node reports as lost."""


class StepsSeen(NamedTuple):
    """How the steps of an attempt stand while it runs; said a few times a second at most."""

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
    """As of a run that finished."""
    at: Instant | None = None
    """When its process was gone; None: unknown."""
    reason: LossReason = LossReason.EXECUTOR


class RunUnknown(NamedTuple):
    """Asked after a restart: the executor is there, and has never been given this attempt."""

    key: RunKey
    attempt: int


class LaunchRefused(NamedTuple):
    """The executor did not take the attempt; nothing was started."""

    key: RunKey
    attempt: int
    detail: str = ""


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
    """A step was ended while it waited for such a run."""

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
    """Who runs attempts for an executor, all of them, as of now."""

    executor: str
    members: Sequence[Member]


AttemptReport: TypeAlias = RunStarted | RunHeartbeat | StepsSeen | RunFinished | RunLost | RunUnknown | LaunchRefused
Report: TypeAlias = AttemptReport | AttemptSeen | MembersSeen | SubRunWanted | SubRunUnwanted
