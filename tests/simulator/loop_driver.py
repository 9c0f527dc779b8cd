"""A driver of the loop: the test sends the messages and decides when the ledger is written."""

from __future__ import annotations

from collections import deque

from evertick.dispatch.writer import answered, commit_around
from evertick.errors import Fenced
from evertick.loop.decide import decide
from evertick.loop.effects import Commit, Decision, Effect, Launch, ReadReports, Record
from evertick.loop.messages import (
    BatchFenced,
    BucketsGained,
    BucketsLost,
    ChangesRecorded,
    DefinitionsResynced,
    LeaseRenewed,
    Message,
    ReportsRead,
)
from evertick.loop.state import State
from evertick.model.instant import HOUR, SECOND, Instant, from_text, to_text
from evertick.model.job import Job
from evertick.model.ledger import BUCKETS, bucket_lease, bucket_of
from evertick.model.run import RunKey
from evertick.operations.requests import forwarded_reports
from evertick.planning.verify import Report, verify_ledger
from evertick.settings.parts import LoopSettings
from evertick.stores.memory import MemoryStore

NINE = from_text("2026-05-12T09:00:00Z")


class LoopDriver:
    """One node; several may share a store."""

    def __init__(
        self,
        *jobs: Job,
        store: MemoryStore | None = None,
        node: str = "a",
        now: Instant = NINE,
        settings: LoopSettings | None = None,
    ) -> None:
        self.store = store or MemoryStore()
        self.node = node
        self.now = now
        self.state = State(settings or LoopSettings(), node, "1", now)
        self.writes: deque[Commit | Record | ReadReports] = deque()
        self.effects: list[Effect] = []
        """Everything that was wanted, oldest first, except writes."""
        self.say(DefinitionsResynced(jobs))

    def lost(self, *, is_fenced: bool = False) -> BucketsLost:
        """What is said when all that it owns goes."""
        return BucketsLost(dict(self.state.epochs), is_fenced)

    def say(self, *messages: Message, after_us: int = 0) -> Decision:
        """One iteration, this much later."""
        self.now += after_us
        decision = decide(self.state, messages, self.now)
        for effect in decision.effects:
            if isinstance(effect, Commit | Record | ReadReports):
                self.writes.append(effect)
            else:
                self.effects.append(effect)
        return decision

    def own(self, now: Instant | None = None) -> dict[int, int]:
        """Take every bucket from whoever has it; answers the epochs."""
        at = self.now if now is None else now
        names = [bucket_lease(bucket) for bucket in range(BUCKETS)]
        for lease in self.store.lease(names, self.node, 1, at):
            self.store.lease(names, lease.holder, 0, at)
        leases = self.store.lease(names, self.node, 1_000 * HOUR, at)
        epochs = {int(lease.name.partition(":")[2]): lease.epoch for lease in leases}
        self.say(BucketsGained(epochs, self.store.load()))
        return epochs

    def own_as_one_of_several(self, *jobs: str) -> None:
        """Take the buckets of these jobs, for an hour, beside others who have the rest."""
        names = [bucket_lease(bucket_of(job)) for job in jobs]
        held = self.store.lease(names, self.node, HOUR, self.now)
        epochs = {int(one.name.partition(":")[2]): one.epoch for one in held if one.name in names}
        self.say(LeaseRenewed(self.now + HOUR), BucketsGained(epochs, self.store.load(epochs)))

    def own_without_lease(self) -> None:
        """Plan every job although nobody agreed to it; all epochs are those of leases that were never taken."""
        self.say(BucketsGained(dict.fromkeys(range(BUCKETS), 0), self.store.load()))

    def write(self) -> None:
        """Write everything that waits, and say so, until nothing more comes of it."""
        while self.writes:
            if isinstance(asked := self.writes[0], ReadReports):
                self.writes.popleft()
                self.say(*forwarded_reports(self.store, asked.buckets), ReportsRead(asked.number))
            else:
                self.say(self.write_one())

    def write_one(self) -> Message:
        """Write the oldest that waits; answers what the loop is to be told."""
        write = self.writes.popleft()
        assert not isinstance(write, ReadReports)
        if isinstance(write, Record):
            return ChangesRecorded([write.number], self.store.record(write.changes))
        try:
            return answered(write.number, commit_around(self.store, write))
        except Fenced as fenced:
            return BatchFenced(write.number, fenced.buckets)

    def run_until(self, instant: Instant, step_us: int = SECOND) -> None:
        """Let time pass and write whatever comes of it."""
        while self.now < instant:
            self.say(after_us=min(step_us, instant - self.now))
            self.write()

    @property
    def launched(self) -> list[tuple[RunKey, int]]:
        return [(effect.key, effect.attempt) for effect in self.effects if isinstance(effect, Launch)]

    def ledger(self, job_id: str = "report") -> list[str]:
        rows = sorted((row for row in self.store.contents().rows if row.key.job_id == job_id), key=lambda row: row.key)
        return [f"{to_text(row.key.scheduled_for)[11:16]} {row.state}" for row in rows]

    def verified(self) -> Report:
        contents = self.store.contents()
        return verify_ledger(contents.schedules, contents.jobs, contents.floors, contents.rows)
