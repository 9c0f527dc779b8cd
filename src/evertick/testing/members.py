"""Simulated members of a fleet: a worker that listens, a keeper that needs acknowledged heartbeats, and its machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Final, Protocol

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.fleet import messages
from evertick.executors.keeper.lease import UNLIMITED, Lease, lease_from
from evertick.executors.protocol import LaunchMessage, split_key
from evertick.loop.effects import Launch
from evertick.model.instant import MILLISECOND, SECOND, Instant
from evertick.model.lifecycle import CANCELLED, FAILED, LOST, SKIPPED, SUCCEEDED, TIMED_OUT, RunState, Trigger
from evertick.model.member import Labels
from evertick.model.policy import OnExecutorLost
from evertick.model.run import RunKey
from evertick.testing.faults import Faults
from evertick.testing.invariants import Violation
from evertick.testing.subcalls import NUMBER, Call, SubRunWatch, call_of
from evertick.testing.timeline import Timeline

GRACE_US: Final = 5 * SECOND
KNOWN_ENDS: Final = (FAILED, TIMED_OUT, CANCELLED)


class Part:
    """An attempt, or one shard of it, on one member."""

    __slots__ = (
        "attempt_id",
        "call",
        "end",
        "ended_at",
        "is_abandoned",
        "is_going_on",
        "member",
        "serial",
        "started_at",
    )

    def __init__(self, attempt_id: AttemptId, member: SimulatedMember, started_at: Instant) -> None:
        self.attempt_id, self.member, self.started_at = attempt_id, member, started_at
        self.call: Call | None = None
        """The run of another job that it waits for."""
        self.end: RunState | None = None
        self.ended_at: Instant = 0
        self.serial = 0
        self.is_going_on = True
        self.is_abandoned = False


class Orders(Protocol):
    """Orders by their sender: a line contains less than a simulation needs to know."""

    def launch_of(self, key: RunKey, attempt: int) -> Launch: ...

    def launched_by(self, key: RunKey, attempt: int) -> str: ...


class RunningWatch:
    """The attempts that really run on the members, whether or not schedulers and the ledger know."""

    def __init__(self) -> None:
        self._parts: defaultdict[tuple[RunKey, int | None], list[Part]] = defaultdict(list)
        self._going_on: defaultdict[str, list[Part]] = defaultdict(list)
        self._done: defaultdict[tuple[str, RunKey], set[int]] = defaultdict(set)
        """Shards of which a node has heard that they succeeded: no attempt that it launches may repeat them."""
        self.started = 0

    def begin(self, part: Part, launch: Launch, node: str) -> None:
        """A part starts that a node has launched; checks the invariants."""
        key, shard = split_key(part.attempt_id.key)
        number = None if shard is None else shard.number
        before = self._parts[key, number]
        for other in before:
            if other.is_going_on and not other.member.is_frozen:
                raise Violation(
                    f"{part.attempt_id.key.run_id}: attempt {part.attempt_id.attempt} began on {part.member.name} "
                    f"beside {other.attempt_id.attempt} on {other.member.name}"
                )
            if launch.job.policy.on_executor_lost is OnExecutorLost.FAIL and other.end not in KNOWN_ENDS:
                raise Violation(
                    f"{part.attempt_id.key.run_id} runs at most once, "
                    f"and nobody knows how {other.attempt_id.attempt} ended"
                )
        if number is not None and number in self._done[node, key] and launch.attempt > 1:
            raise Violation(f"{key.run_id}: the shards [{number}] had succeeded and were started again")
        before.append(part)
        self.started += 1
        self._count(part, key, launch)

    def _count(self, part: Part, key: RunKey, launch: Launch) -> None:
        if launch.trigger in (Trigger.BACKFILL, Trigger.ITEM):
            return  # a backfill has a limit of its own, which orders do not tell, and an item counts in none
        here = [one for one in self._going_on[key.job_id] if one.is_going_on]
        self._going_on[key.job_id] = [*here, part]
        busy = {split_key(one.attempt_id.key)[0] for one in (*here, part) if not one.member.is_frozen}
        limit = launch.job.policy.overlap.limit
        if len(busy) > limit:
            runs = ", ".join(sorted(one.run_id for one in busy))
            raise Violation(f"{key.run_id} was started: {len(busy)} are running ({runs}), {limit} may")

    def note_done(self, node: str, key: RunKey, shards: Iterable[int]) -> None:
        self._done[node, key].update(shards)


class SimulatedMember:
    """It identifies an attempt by its key and number, and never starts it twice."""

    def __init__(
        self,
        name: str,
        labels: Labels,
        timeline: Timeline,
        random: Random,
        faults: Callable[[], Faults],
        watch: RunningWatch,
        sub_runs: SubRunWatch,
        orders: Orders,
        send: Callable[[str, Mapping[str, Any]], None],
        run_max_us: int,
        lease_us: int,
    ) -> None:
        self.name, self.labels = name, labels
        self._timeline, self._random, self._faults = timeline, random, faults
        self._watch, self._sub_runs, self._orders = watch, sub_runs, orders
        self._send = send
        self._run_max_us, self._lease_us = run_max_us, lease_us
        self._parts: dict[AttemptId, Part] = {}
        self._open: dict[Part, None] = {}
        self._fences: dict[RunKey, int] = {}
        self._undelivered: dict[int, Part] = {}
        self._serial = 0
        self._lease: Lease = UNLIMITED
        self._is_lease_watched = False
        self._incarnation = 1
        self.is_worker_there = True
        """Not while it is killed: nothing is heard or said, and the keeper goes on."""
        self.is_worker_frozen = False
        """What the keeper says meanwhile, and what is said to it, lies in buffers."""
        self._frozen_until: Instant = 0
        self.is_calm = False

    @property
    def is_frozen(self) -> bool:
        """The machine is frozen: nothing on it runs, whatever processes it has."""
        return self._timeline.now < self._frozen_until

    # Its worker

    def show(self) -> None:
        """Its heartbeat."""
        if self.is_worker_there and not self.is_worker_frozen:
            now = self._timeline.now
            incarnation = f"{self.name}/{self._incarnation}"
            words = (self.name, self.labels, True, 0, len(self._open), "simulated", incarnation, 0.0, 0)
            heartbeat = messages.Heartbeat(*words, now, now, self._lease_us, runs_items=True)
            self._send(self.name, {"card": heartbeat.to_plain()})

    def acknowledge(self, stamp: Instant) -> None:
        if self.is_worker_there:
            self._enforce()  # first: what was over by then must not seem to have gone on
            self._lease = lease_from(stamp, self._lease_us, GRACE_US, 0)
            self._watch_lease()

    def receive(self, lines: bytes) -> None:
        if not self.is_worker_there:
            return
        for words in messages.rows_of(lines):
            match words[0]:
                case protocol.LAUNCH:
                    self._launch(LaunchMessage.from_fields(words[1:]))
                case protocol.STOP:
                    self._stop(self._parts.get(_attempt_id(words)))
                case protocol.RECONCILE:
                    for asked in words[1]:
                        self._answer(_attempt_id(["", *asked]), words[2])
                case protocol.SUB_RUN_ENDED:
                    self._receive_sub_run_end(self._parts.get(_attempt_id(words)), RunState(words[7]))
                case protocol.DELIVERED:
                    self._undelivered.pop(words[1], None)

    def return_anew(self) -> None:
        """Its worker has restarted or reconnected: every listener receives all attempts of the keeper."""
        self._incarnation += 1
        self.is_worker_there, self.is_worker_frozen = True, False
        self.show()
        for part in (*self._open, *self._undelivered.values()):
            self._report(part.attempt_id)

    def _send_lines(self, *lines: bytes) -> None:
        if self.is_worker_there:
            self._send(self.name, {"lines": b"".join(lines)})

    # Its machine

    def freeze(self, until: Instant) -> None:
        """The whole machine; its keeper looks at the lease before anything else when it is back."""
        self._frozen_until = until
        self._timeline.at(until, self._enforce)

    def reboot(self) -> None:
        """All that runs is gone; that it was there is on disk."""
        for part in list(self._open):
            self._end(part, LOST)

    # Its keeper

    def _launch(self, order: LaunchMessage) -> None:
        attempt_id, now = AttemptId(order.key, order.attempt), self._timeline.now
        if attempt_id in self._parts:
            self._report(attempt_id)
        elif order.fence < self._fences.get(order.key, 0):
            self._refuse(order, "a newer owner launched this run")
        elif self._lease.is_over(now):
            self._refuse(order, "its lease is over")
        elif order.valid_until is not None and now >= order.valid_until:
            self._refuse(order, "it comes too late")
        elif self._random.random() < self._faults().refusal:
            self._refuse(order, "full")
        else:
            self._start(order, attempt_id)

    def _start(self, order: LaunchMessage, attempt_id: AttemptId) -> None:
        launch = self._orders.launch_of(*attempt_id)
        part = Part(attempt_id, self, self._timeline.now)
        self._watch.begin(part, launch, self._orders.launched_by(*attempt_id))
        self._parts[attempt_id] = part
        self._open[part] = None
        self._fences[order.key] = order.fence
        lasts_us = int((20 * SECOND if self.is_calm else self._run_max_us) * self._random.random() ** 3) + MILLISECOND
        call = call_of(launch.job, launch.trigger)
        if call is not None and self._random.random() < 0.7:
            self._timeline.after(lasts_us // 2, self._ask, part, call)
        else:
            self._timeline.after(lasts_us, self._finish, part)
        self._report(attempt_id)

    def _refuse(self, order: LaunchMessage, detail: str) -> None:
        self._send_lines(protocol.encode(protocol.REFUSED, *order.key, order.attempt, detail, order.fence))

    def _answer(self, attempt_id: AttemptId, fence: int) -> None:
        """A scheduler that asks about an unknown attempt may start it elsewhere: refuse older orders from then on."""
        if attempt_id not in self._parts:
            self._fences[attempt_id.key] = max(fence, self._fences.get(attempt_id.key, 0))
        self._report(attempt_id)

    def _report(self, attempt_id: AttemptId) -> None:
        """Report an attempt from the keeper."""
        part, known = self._parts.get(attempt_id), (*attempt_id.key, attempt_id.attempt)
        if part is None:
            self._send_lines(protocol.encode(protocol.UNKNOWN, *known, self._fences.get(attempt_id.key, 0)))
        elif part.end is not None:
            ended = (part.ended_at, str(part.end), int(part.end is not SUCCEEDED), "", part.serial, None, "")
            self._send_lines(
                protocol.encode(messages.LOGS_END, *known), protocol.encode(protocol.FINISHED, *known, *ended)
            )
        else:
            self._send_lines(protocol.encode(protocol.STARTED, *known, part.started_at))
            if part.call is not None:
                whole, _ = split_key(attempt_id.key)
                steps = part.call.steps_for(whole, attempt_id.attempt)
                asked = (part.call.step, NUMBER, part.call.job_id, "", True)
                self._send_lines(
                    protocol.encode(protocol.STEPS, *known, steps),
                    protocol.encode(protocol.SUB_RUN_WANTED, *known, *asked),
                )

    def _when_awake(self, action: Callable[[Part], None], part: Part) -> bool:
        """False: the machine stands still, and it is done when that is over."""
        if self.is_frozen:
            self._timeline.at(self._frozen_until, action, part)
            return False
        return part.end is None

    def _ask(self, part: Part, call: Call) -> None:
        if part.end is None:
            part.call = call
            self._report(part.attempt_id)

    def _receive_sub_run_end(self, part: Part | None, state: RunState) -> None:
        if part is not None and part.end is None and part.call is not None:
            whole, _ = split_key(part.attempt_id.key)
            call, part.call = part.call, None
            if state is SKIPPED and call.is_item_of(whole):
                # It runs with its run; the run that may have been made of it meanwhile must not.
                self._send_unwanted(part, call)
                self._timeline.after(self._random.randrange(20 * SECOND), self._finish, part)
                return
            self._end(part, self._sub_runs.report(call.key_for(whole, part.attempt_id.attempt), state))

    def _send_unwanted(self, part: Part, call: Call) -> None:
        known = (*part.attempt_id.key, part.attempt_id.attempt)
        self._send_lines(protocol.encode(protocol.SUB_RUN_UNWANTED, *known, call.step, NUMBER, call.job_id))

    def _finish(self, part: Part) -> None:
        if self._when_awake(self._finish, part):
            luck, failure = self._random.random(), self._faults().failure
            self._end(part, SUCCEEDED if luck >= failure else FAILED)

    def _stop(self, part: Part | None) -> None:
        if part is not None and part.end is None:
            self._timeline.after(self._random.randrange(5 * SECOND), self._cancel, part)

    def _cancel(self, part: Part) -> None:
        if self._when_awake(self._cancel, part):
            if part.call is not None:
                self._send_unwanted(part, part.call)
            self._end(part, CANCELLED)

    def _end(self, part: Part, state: RunState) -> None:
        if part.end is not None:
            return
        if state in (FAILED, SUCCEEDED) and self._lease.is_over(self._timeline.now):
            state = LOST  # as the keeper has it: it was ended, and may be running elsewhere by now
        self._serial += 1
        part.end, part.ended_at, part.serial = state, self._timeline.now, self._serial
        part.is_going_on = False
        del self._open[part]
        self._undelivered[part.serial] = part
        self._report(part.attempt_id)

    # How long what runs may go on

    def _watch_lease(self) -> None:
        if self._lease.is_limited and not self._is_lease_watched:
            self._is_lease_watched = True
            self._timeline.at(self._lease.end_at, self._look_at_lease)

    def _look_at_lease(self) -> None:
        self._is_lease_watched = False
        if self._lease.is_over(self._timeline.now):
            self._enforce()
        else:
            self._watch_lease()

    def _enforce(self) -> None:
        """End what may be started elsewhere soon."""
        now = self._timeline.now
        if not self._lease.is_over(now) or self.is_frozen:
            return
        for part in self._open:
            if not part.is_abandoned:
                part.is_abandoned = True
                within_us = max(self._lease.until - now, 0)
                self._timeline.after(self._random.randrange(within_us + 1), self._abandon, part)

    def _abandon(self, part: Part) -> None:
        if self._when_awake(self._abandon, part):
            self._end(part, LOST)


def _attempt_id(words: list[Any]) -> AttemptId:
    _, job_id, scheduled_for, origin, attempt, *_ = words
    return AttemptId(RunKey(job_id, scheduled_for, origin), attempt)
