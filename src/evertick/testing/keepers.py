"""The keepers of simulated machines: what each runs ends with the lease of its node, as a real keeper's does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from evertick.executors.keeper.lease import UNLIMITED, Lease, lease_from
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
        self._unconfirmed: set[tuple[RunKey, int]] = set()
        self._abandoned: set[tuple[RunKey, int]] = set()
        self._heard_at: Instant = 0
        self.expected_until: Instant = 0
        """A node that was stopped in order is to find its runs if it is back by then."""

    # What its node says: `LeasedExecutor`, as far as a lease needs it

    def renew(self, asked_at: int, lease_us: int, epoch: int, vouched_until: int) -> None:
        self._say(self._hear, lease_from(asked_at, lease_us, GRACE_US, epoch, vouched_until))

    def is_idle(self) -> bool:
        return not self._running()

    def confirm(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        if runs:
            self._say(self._unconfirmed.difference_update, list(runs))

    def _say(self, action: Callable[..., None], *args: object) -> None:
        """In the order in which it is said."""
        self._heard_at = max(self._timeline.now + self._random.randrange(20 * MILLISECOND), self._heard_at + 1)
        self._timeline.at(self._heard_at, action, *args)

    # What it does

    def why_not(self, valid_until: Instant | None, *, is_confirmed: bool) -> str | None:
        """Why an order is refused that has arrived."""
        if self._lease.is_over(self._timeline.now):
            return "the lease of its node is over"
        if valid_until is not None and self._timeline.now >= valid_until:
            return "it comes too late"
        if not (is_confirmed or self._lease.has_room_for_unconfirmed(self._timeline.now)):
            return "the ledger does not know of it"
        return None

    def accept(self, key: RunKey, attempt: int, *, is_confirmed: bool) -> None:
        if not is_confirmed:
            self._unconfirmed.add((key, attempt))

    def _hear(self, lease: Lease) -> None:
        self.enforce()
        if self._lease.is_limited and lease.epoch != self._lease.epoch:
            self._abandon(self._running(), 0)
        self._lease = lease
        for at in (lease.end_at, lease.unconfirmed_end_at):
            self._timeline.at(max(at, self._timeline.now), self.enforce)

    def enforce(self) -> None:
        """End what may be started elsewhere soon."""
        now, lease = self._timeline.now, self._lease
        running = self._running()
        self._unconfirmed.intersection_update(running)
        self._abandoned.intersection_update(running)
        if not lease.has_room_for_unconfirmed(now):
            self._abandon(sorted(self._unconfirmed), 0)
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
