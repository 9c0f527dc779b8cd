"""What an attempt consists of on the fleet: one part on one member, or one for each shard of a broadcast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.fleet import messages
from evertick.executors.fleet.bundles import Bundle
from evertick.executors.fleet.merge_results import PartEnd, joined, report_of
from evertick.executors.protocol import LaunchMessage, shard_key
from evertick.model.report import AttemptQuestion, AttemptReport, RunFinished, RunLost
from evertick.model.resources import Resources
from evertick.model.run import RunKey
from evertick.routing.placement import Placement


class Phase(Enum):
    SENT = auto()
    """Its member was given it, and has not said that it started."""
    REFUSED = auto()
    """Its member did not take it; it was said more than once, and another of those orders may be on its way."""
    ASKED = auto()
    """Somebody else gave it away; its member was asked."""
    RUNNING = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Part:
    attempt_id: AttemptId
    """By which the member's keeper knows it."""
    member: str
    """Empty: nobody knows who has it, so all are asked."""
    phase: Phase
    number: int | None = None
    """Of the shard; None: it is the whole."""
    fence: int = 0
    """Of whoever gave it away, or asks for it."""
    order: bytes = b""
    """To be said again when it may not have arrived."""
    since: float = 0.0
    """When it was last said or heard of."""
    asked: set[str] = field(default_factory=set)
    """Those who were asked and have not answered, where nobody knows who has it."""
    sent: int = 0
    """How often its order was said."""
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
    """Whether that was reported."""
    owes_answer: bool = False
    """Whether the loop has asked, and must be told even what it was told before."""
    stop_detail: str | None = None
    found_at: str = ""
    """Where it turned out to be, of one that all were asked for: the ledger is to know it from then on."""

    @property
    def attempt_id(self) -> AttemptId:
        return AttemptId(self.key, self.attempt)

    def outcome(self) -> AttemptReport | None:
        """What became of the whole; None while a part of it goes on."""
        ends = [part.end for part in self.parts if part.end is not None]
        if len(ends) < len(self.parts):
            return None
        if self.parts[0].number is None:
            report = report_of(self.key, self.attempt, ends[0])
            return report._replace(executor=self.found_at) if isinstance(report, RunFinished | RunLost) else report
        numbered = {part.number: part.end for part in self.parts if part.number is not None and part.end is not None}
        return joined(self.key, self.attempt, self.placement, numbered)


def task_of_order(
    order: LaunchMessage,
    placement: Placement,
    now: float,
    needs: Resources = (),
    bundle: Bundle | None = None,
    limits: Mapping[str, int] = MappingProxyType({}),
) -> Task:
    """An attempt to be given to the members of its placement; `limits`: until when each may start it."""
    parts = [
        Part(
            AttemptId(key, order.attempt),
            member,
            Phase.SENT,
            number,
            order.fence,
            _launch(replace(order, valid_until=limits.get(member), is_confirmed=True), key, needs, bundle),
            now,
            bundle=bundle,
        )
        for key, member, number in _places(order.key, placement)
    ]
    return Task(order.key, order.attempt, placement, parts, now)


def task_of_question(asked: AttemptQuestion, placement: Placement, now: float) -> Task:
    """An attempt that somebody gave away before us: its members are asked, or all if nobody knows who has it."""
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


def _launch(order: LaunchMessage, key: RunKey, needs: Resources, bundle: Bundle | None) -> bytes:
    """What a member is to know before it, in front of it; only where there is something to know."""
    said = protocol.encode(messages.NEEDS, *key, order.attempt, dict(needs)) if needs else b""
    if bundle is not None:
        said += protocol.encode(messages.BUNDLE, *key, order.attempt, bundle.digest, len(bundle.data))
    return said + (order if order.key == key else replace(order, key=key)).to_line()
