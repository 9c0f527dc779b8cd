"""The keepers of simulated machines: what each runs ends with the lease of its node, as a real keeper's does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from evertick.executors.keeper.lease import UNLIMITED, Lease, lease_from
from evertick.executors.keeper.unconfirmed import Unconfirmed
from evertick.model.instant import MILLISECOND, SECOND, Instant
from evertick.model.run import RunKey
from evertick.testing.invariants import Violation
from evertick.testing.timeline import Timeline

GRACE_US = 5 * SECOND


class SimulatedKeeper:
    """Of one machine, and it outlives the processes of its node. True time is the machine's clock since boot."""

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        running: Callable[[], list[tuple[RunKey, int]]],
        end: Callable[[RunKey, int], None],
    ) -> None:
        self._timeline = timeline
        self._random = random
        self._running = running
        self._end = end
        self._lease = UNLIMITED
        self._unconfirmed: Unconfirmed[tuple[RunKey, int]] = Unconfirmed()
        self._abandoned: set[tuple[RunKey, int]] = set()
        self._heard_at: Instant = 0
        self.expected_until: Instant = 0
        """A node that was stopped in order is to find its runs if it is back by then."""

    # What its node says

    def held_by(self, incarnation: int) -> ProcessHold:
        """As the process of that number sees it."""
        return ProcessHold(self, str(incarnation))

    def is_idle(self) -> bool:
        return not self._running()

    def send(self, action: Callable[..., None], *args: object) -> None:
        """In the order in which it is said."""
        self._heard_at = max(self._timeline.now + self._random.randrange(20 * MILLISECOND), self._heard_at + 1)
        self._timeline.at(self._heard_at, action, *args)

    # What it does

    def why_not(self, valid_until: Instant | None, incarnation: int, *, is_confirmed: bool) -> str | None:
        """Why an order is refused."""
        if self._lease.is_over(self._timeline.now):
            return "the lease of its node is over"
        if valid_until is not None and self._timeline.now >= valid_until:
            return "it comes too late"
        if not (is_confirmed or self._unconfirmed.has_room(str(incarnation), self._timeline.now)):
            return "the ledger has not recorded it"
        return None

    def accept(self, key: RunKey, attempt: int, incarnation: int, *, is_confirmed: bool) -> None:
        if not is_confirmed:
            self._unconfirmed.add((key, attempt), str(incarnation))

    def accept_again(self, key: RunKey, attempt: int, incarnation: int, *, is_confirmed: bool) -> None:
        """What the process before had begun is launched by the next one, too."""
        if is_confirmed:
            self._unconfirmed.discard((key, attempt))
        elif (key, attempt) in self._unconfirmed:
            self._unconfirmed.add((key, attempt), str(incarnation))

    def receive_confirmed(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        for run in runs:
            self._unconfirmed.discard(run)

    def receive_lease(self, lease: Lease, instance: str) -> None:
        self.enforce()
        if self._lease.is_limited and lease.epoch != self._lease.epoch:
            self._abandon(self._running(), 0)
        self._lease = lease
        self._unconfirmed.renew(instance, lease)
        for at in (lease.end_at, lease.unconfirmed_end_at):
            self._timeline.at(max(at, self._timeline.now), self.enforce)

    def enforce(self) -> None:
        """End what may be started elsewhere soon."""
        now, lease = self._timeline.now, self._lease
        running = self._running()
        for ended in set(self._unconfirmed).difference(running):
            self._unconfirmed.discard(ended)
        self._abandoned.intersection_update(running)
        self._abandon(sorted(self._unconfirmed.over(now)), 0)
        if lease.is_over(now):
            if running and now < self.expected_until:
                raise Violation(
                    f"{running[0][0].run_id} is ended, though its node was stopped in order and may be back"
                )
            self._abandon(running, max(lease.until - now, 0))

    def _abandon(self, attempts: Sequence[tuple[RunKey, int]], within_us: int) -> None:
        for key, attempt in attempts:
            if (key, attempt) not in self._abandoned:
                self._abandoned.add((key, attempt))
                self._timeline.after(self._random.randrange(within_us + 1), self._end, key, attempt)


class ProcessHold:
    """The part of `LeasedExecutor` that one process of a node uses for its lease."""

    def __init__(self, keeper: SimulatedKeeper, instance: str) -> None:
        self._keeper = keeper
        self._instance = instance

    def renew(self, asked_at: int, lease_us: int, epoch: int, vouched_until: int) -> None:
        lease = lease_from(asked_at, lease_us, GRACE_US, epoch, vouched_until)
        self._keeper.send(self._keeper.receive_lease, lease, self._instance)

    def confirm(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        if runs:
            self._keeper.send(self._keeper.receive_confirmed, list(runs))

    def is_idle(self) -> bool:
        return self._keeper.is_idle()
