"""An attempt on the fleet: one part on one member, or one for each shard of a broadcast, and their merged result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import NamedTuple

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.fleet import messages
from evertick.executors.fleet.bundles import Bundle
from evertick.executors.protocol import LaunchMessage, shard_key
from evertick.model.instant import Instant
from evertick.model.lifecycle import CANCELLED, FAILED, SKIPPED, SUCCEEDED, TIMED_OUT, RunState
from evertick.model.loss import LossReason, read_keeper_loss
from evertick.model.report import AttemptQuestion, AttemptReport, LaunchRefused, RunFinished, RunLost, RunUnknown
from evertick.model.resources import Resources
from evertick.model.run import RunKey
from evertick.routing.placement import Placement


class NotEnded(StrEnum):
    """Why a part has no end of its own."""

    REFUSED = "refused"
    """Its member refused it; nothing was started."""
    UNKNOWN = "unknown"
    """Its member has never seen it."""


class PartEnd(NamedTuple):
    """How one part ended."""

    member: str
    state: RunState | NotEnded
    at: Instant
    exit_code: int | None = None
    detail: str = ""
    steps: str | None = None
    cause: str = ""
    """Of a lost part, a value of `LossReason`; otherwise the constraint that failed, if one did."""


def report_of(key: RunKey, attempt: int, end: PartEnd) -> AttemptReport:
    """The report of an attempt with one part."""
    match end.state:
        case NotEnded.REFUSED:
            return LaunchRefused(key, attempt, end.detail)
        case NotEnded.UNKNOWN:
            return RunUnknown(key, attempt)
        case RunState.LOST:
            return RunLost(key, attempt, end.detail, end.steps, reason=_loss_of(end))
        case RunState() as state:
            return RunFinished(key, attempt, end.at, state, end.exit_code, end.detail, end.steps, broken=end.cause)


def merge_ends(key: RunKey, attempt: int, placement: Placement, ends: Mapping[int, PartEnd]) -> AttemptReport:
    """The report of a broadcast, from the ends of its shards by number."""
    states = {end.state for end in ends.values()}
    if states == {NotEnded.UNKNOWN}:
        return RunUnknown(key, attempt)
    if states == {NotEnded.REFUSED}:
        return LaunchRefused(key, attempt, next(iter(ends.values())).detail)
    at = max(end.at for end in ends.values())
    # A shard skipped by its condition counts as done.
    fine = [number for number, end in ends.items() if end.state in (SUCCEEDED, SKIPPED)]
    done = str(placement.done(fine))
    if len(fine) == len(ends):
        state = SKIPPED if states == {SKIPPED} else SUCCEEDED
        detail = _first_detail(ends) if state is SKIPPED else ""
        return RunFinished(key, attempt, at, state, 0, detail, executor=done, broken=_broken(ends))
    bad = {number: end for number, end in sorted(ends.items()) if number not in fine}
    detail = _describe(bad, len(placement.shards))
    for state in (FAILED, TIMED_OUT, CANCELLED):
        those = [end for end in bad.values() if end.state is state]
        if those:
            broken = _broken(bad)
            known = (key, attempt, at, state, those[0].exit_code, detail)
            return RunFinished(*known, executor=done, broken=broken, has_loss=RunState.LOST in states)
    reasons = {_loss_of(end) for end in bad.values()}
    reason = reasons.pop() if len(reasons) == 1 else LossReason.MEMBER_LOST
    return RunLost(key, attempt, detail, None, done, reason=reason)


def _loss_of(end: PartEnd) -> LossReason:
    """The keeper's reason; without one, the member was lost."""
    return read_keeper_loss(end.cause) or LossReason.MEMBER_LOST


def _broken(ends: Mapping[int, PartEnd]) -> str:
    return next((end.cause for end in ends.values() if end.cause and end.state is not RunState.LOST), "")


def _first_detail(ends: Mapping[int, PartEnd]) -> str:
    return next(iter(ends.values())).detail


def _describe(bad: Mapping[int, PartEnd], total: int) -> str:
    failures = [f"{number} on {end.member}: {end.detail or end.state}" for number, end in bad.items()]
    more = f"; and {len(failures) - 5} more" if len(failures) > 5 else ""
    return f"{len(bad)} of {total} shards did not succeed: {'; '.join(failures[:5])}{more}"


class Phase(Enum):
    SENT = auto()
    """Launched on its member, and not reported started."""
    REFUSED = auto()
    """Its member refused it; the launch was sent more than once, and another copy may be on its way."""
    ASKED = auto()
    """Launched by an earlier process; its member was asked about it."""
    RUNNING = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Part:
    attempt_id: AttemptId
    """Its id on the member's keeper."""
    member: str
    """Empty: unknown, so all members are asked."""
    phase: Phase
    number: int | None = None
    """The number of the shard; None: the whole attempt."""
    fence: int = 0
    """The fence of the launch or of the question."""
    launch: bytes = b""
    """The lines of the launch, sent again until answered."""
    since: float = 0.0
    """When it was last sent, or last reported."""
    asked: set[str] = field(default_factory=set)
    """Members that were asked and have not answered, where its member is unknown."""
    denied: set[str] = field(default_factory=set)
    """Members that have answered that they do not know it."""
    sent: int = 0
    """How often the launch was sent."""
    refusal: str = ""
    end: PartEnd | None = None
    bundle: Bundle | None = None

    @property
    def question(self) -> bytes:
        return protocol.encode(protocol.RECONCILE, [[*self.attempt_id.key, self.attempt_id.attempt]], self.fence)


@dataclass(slots=True, eq=False)
class Task:
    """One attempt of one run."""

    key: RunKey
    attempt: int
    placement: Placement
    parts: list[Part]
    since: float
    has_started: bool = False
    """Whether its start was reported."""
    owes_answer: bool = False
    """Whether the loop has asked and must get a report, even a repeated one."""
    stop_detail: str | None = None
    found_at: str = ""
    """The placement that was found by asking all members; reported to the ledger."""

    @property
    def attempt_id(self) -> AttemptId:
        return AttemptId(self.key, self.attempt)

    def ask_under(self, fence: int) -> None:
        """A later owner asks: an answer to an earlier one does not keep launches of owners in between from starting."""
        for part in self.parts:
            if part.phase is Phase.ASKED and part.fence < fence:
                part.fence = fence
                part.asked.clear()
                part.denied.clear()

    def outcome(self) -> AttemptReport | None:
        """The report of the whole attempt; None while a part has not ended."""
        ends = [part.end for part in self.parts if part.end is not None]
        if len(ends) < len(self.parts):
            return None
        if self.parts[0].number is None:
            report = report_of(self.key, self.attempt, ends[0])
            if isinstance(report, RunFinished | RunLost):
                return report._replace(executor=self.found_at)
        else:
            numbered = {
                part.number: part.end for part in self.parts if part.number is not None and part.end is not None
            }
            report = merge_ends(self.key, self.attempt, self.placement, numbered)
        return report._replace(fence=self.parts[0].fence) if isinstance(report, LaunchRefused) else report


def task_of_launch(
    launch: LaunchMessage,
    placement: Placement,
    now: float,
    needs: Resources = (),
    bundle: Bundle | None = None,
    limits: Mapping[str, int] = MappingProxyType({}),
) -> Task:
    """An attempt to launch on the members of its placement; `limits`: until when each may start it."""
    parts = [
        Part(
            AttemptId(key, launch.attempt),
            member,
            Phase.SENT,
            number,
            launch.fence,
            _lines_of(replace(launch, valid_until=limits.get(member), is_confirmed=True), key, needs, bundle),
            now,
            bundle=bundle,
        )
        for key, member, number in _places(launch.key, placement)
    ]
    return Task(launch.key, launch.attempt, placement, parts, now)


def task_of_question(asked: AttemptQuestion, placement: Placement, now: float) -> Task:
    """An attempt that an earlier process launched: ask its members, or all members if they are unknown."""
    parts = [
        Part(AttemptId(key, asked.attempt), member, Phase.ASKED, number, asked.fence, since=now)
        for key, member, number in _places(asked.key, placement)
    ]
    return Task(asked.key, asked.attempt, placement, parts, now, owes_answer=True)


def _places(key: RunKey, placement: Placement) -> Iterable[tuple[RunKey, str, int | None]]:
    if not placement.shards:
        return [(key, placement.member, None)]
    total = len(placement.shards)
    return [(shard_key(key, shard.number, total), shard.member, shard.number) for shard in placement.wanted]


def _lines_of(launch: LaunchMessage, key: RunKey, needs: Resources, bundle: Bundle | None) -> bytes:
    """The launch, with the lines before it that announce resources and a bundle."""
    lines = protocol.encode(messages.NEEDS, *key, launch.attempt, dict(needs)) if needs else b""
    if bundle is not None:
        lines += protocol.encode(messages.BUNDLE, *key, launch.attempt, bundle.digest, len(bundle.data))
    return lines + (launch if launch.key == key else replace(launch, key=key)).to_line()
