"""One simulated node: the production loop, its inbox, its writer and its leases, on a machine that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from evertick.dispatch.leadership import RENEWALS_PER_LEASE, Leadership
from evertick.dispatch.lookup import BlackoutReader, look_up, open_runs, outcomes, read_gained, recall, stops
from evertick.dispatch.runs_lease import RunsLease
from evertick.errors import Fenced, StoreUnavailable
from evertick.loop.delivery import IDENTITY, Identity
from evertick.loop.effects import (
    Audit,
    Commit,
    Decision,
    Effect,
    Launch,
    Log,
    LookUpOutcomes,
    LookUpPlacements,
    LookUpStops,
    LookUpSubRuns,
    ReadReports,
    Reconcile,
    Record,
    Release,
    ReportSubRunEnd,
    Resync,
    Stop,
)
from evertick.loop.messages import (
    BucketsGained,
    DefinitionsResynced,
    Message,
    NodesSeen,
    ReportsRead,
    Shutdown,
    TimePassed,
)
from evertick.loop.state import State
from evertick.model.blackout import blackout_at
from evertick.model.instant import DAY, MILLISECOND, MINUTE, SECOND, Instant, to_text
from evertick.model.job import Job
from evertick.model.ledger import BUCKETS, NODE_PREFIX, bucket_lease, bucket_of
from evertick.model.lifecycle import CANCELLED, LAUNCHING, SUCCEEDED
from evertick.model.run import RunKey
from evertick.operations.requests import forwarded_reports, message_of
from evertick.testing.deadlines import DeadlineReports
from evertick.testing.executors import SimulatedExecutors
from evertick.testing.faults import Faults
from evertick.testing.invariants import Violation
from evertick.testing.requirements import PreviousSuccessWatch
from evertick.testing.scenario import Ownership, Scenario, is_at_most_once
from evertick.testing.timeline import Caller, SimulatedClock, Timeline, Trace
from evertick.testing.turns import TurnWatch
from evertick.testing.unreliable import Backend, NodeCrashed, StoreHandle
from evertick.testing.writer import SimulatedWriter

STOP_MAX_US = 30 * SECOND
"""A node that is asked to shut down waits this long for its runs."""


class Decide(Protocol):
    def __call__(self, state: State, messages: Sequence[Message], now: Instant) -> Decision: ...


class _Process:
    """One process of a node, as its writer sees it."""

    __slots__ = ("_incarnation", "_node")

    def __init__(self, node: Node, incarnation: int) -> None:
        self._node = node
        self._incarnation = incarnation

    def is_alive(self) -> bool:
        return self._node.is_up and self._node.incarnation == self._incarnation

    def later(self, delay_us: int, action: Callable[..., None], *args: object) -> None:
        self._node.later(self._incarnation, delay_us, action, *args)

    def receive(self, message: Message) -> None:
        if self.is_alive():
            self._node.receive(message)

    def die(self, why: str) -> None:
        if self.is_alive():
            self._node.die(why)


class Node:
    """A machine that runs one process after another; `incarnation` counts them."""

    def __init__(
        self,
        name: str,
        scenario: Scenario,
        timeline: Timeline,
        random: Random,
        backend: Backend,
        executors: SimulatedExecutors,
        definitions: Callable[[], Sequence[Job]],
        faults: Callable[[], Faults],
        trace: Trace,
        previous: PreviousSuccessWatch,
        deadlines: DeadlineReports,
        decide: Decide,
    ) -> None:
        self.name = name
        self.clock = SimulatedClock(
            timeline, random.randint(-scenario.faults.drift_max_ppm, scenario.faults.drift_max_ppm)
        )
        self.incarnation = 0
        self.is_up = False
        self.state: State | None = None
        self._turn_watch = TurnWatch(name)
        self._scenario = scenario
        self._timeline = timeline
        self._random = random
        self._backend = backend
        self._executors = executors
        self._definitions = definitions
        self._faults = faults
        self._trace = trace
        self._previous = previous
        self._deadlines = deadlines
        self._decide = decide
        self._store = StoreHandle(backend, random, faults)
        self._stalled_until: Instant = 0
        self._post = Random(f"post of {name} in world {scenario.seed}")

    @property
    def caller(self) -> Caller:
        return Caller(self.name, self.incarnation)

    @property
    def turns(self) -> int:
        """How often its loop was asked to decide."""
        return self._turn_watch.turns

    @property
    def is_leaving(self) -> bool:
        return self.is_up and self._stops_by is not None

    # Its life

    def boot(self) -> None:
        """Start a process; if the store does not answer, try again in a while."""
        if self.is_up:
            return
        self.incarnation += 1
        self.is_up = True
        self.state = State(self._scenario.settings, self.name, str(self.incarnation), self.clock.now())
        self._inbox: list[Message] = [DefinitionsResynced(self._definitions())]
        self._writer = SimulatedWriter(
            _Process(self, self.incarnation), self._store, self._timeline, self._random, self._faults, self._confirm
        )
        self._is_claiming = False
        self._blackouts = BlackoutReader()
        self._wakes_at: Instant | None = None
        self._stops_by: Instant | None = None
        self._leadership: Leadership | None = None
        self._turn_watch.begin()
        self._trace.add(self.name, "starts as number %s", self.incarnation)
        try:
            if self._scenario.faults.blackouts_per_hour:
                self._store.require_reachable()
                self._inbox += self._blackouts.read(self._backend.store)
            self._own()
        except (StoreUnavailable, NodeCrashed):
            self.crash("could not start")
            self._timeline.after(10 * SECOND, self.boot)
            return
        self._executors.open(self.caller)
        self._poke(self._timeline.now)
        self._later(self._claim_interval_us(), self._claim)

    def _own(self) -> None:
        match self._scenario.ownership:
            case Ownership.ALONE:
                names = [NODE_PREFIX + self.name, *map(bucket_lease, range(BUCKETS))]
                self._store.lease(names, self.name, 0, self.clock.now())
                leases = self._store.lease(names, self.name, 36_500 * DAY, self.clock.now())
                epochs = {int(one.name.partition(":")[2]): one.epoch for one in leases if one.name != names[0]}
                self._inbox.append(NodesSeen(frozenset({self.name})))
                self._inbox.append(read_gained(self._store, epochs))
            case Ownership.LEASED:
                holder = f"{self.name}/{self.incarnation}"
                self._leadership = Leadership(
                    self._store, holder, self.clock, self.receive, self._scenario.lease_us, runs=self._hold_runs()
                )
                self._later(0, self._renew)
            case Ownership.NONE:
                self._inbox.append(BucketsGained(dict.fromkeys(range(BUCKETS), 0), self._store.load()))

    def _hold_runs(self) -> RunsLease | None:
        """The keeper holds the runs of this machine by its lease, whether or not the process lives."""
        keeper = self._executors.keeper_of(self.name)
        if keeper is None:
            return None
        assert self.state is not None
        self.state.holds_runs = True
        keeper.expected_until = 0
        times = (self._scenario.runs_lease_us, self._scenario.return_us)
        held = keeper.held_by(self.incarnation)
        return RunsLease(self.name, "disk", [held], lambda: self._timeline.now, *times)

    def _confirm(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        keeper = self._executors.keeper_of(self.name)
        if keeper is not None:
            keeper.held_by(self.incarnation).confirm(runs)

    def crash(self, why: str) -> None:
        """The process dies and loses its memory; what it had sent may still arrive."""
        if self.is_up:
            self._trace.add(self.name, "dies: %s", why)
            self.is_up = False
            self.state = None

    def shut_down(self) -> None:
        if self.is_up and self._stops_by is None:
            self._trace.add(self.name, "is asked to shut down")
            self._stops_by = self._timeline.now + STOP_MAX_US
            self.receive(Shutdown())

    def stall(self, for_us: int, *, is_suspended: bool) -> None:
        """Nothing of the node runs for a while."""
        self._trace.add(self.name, "stalls for %s s%s", for_us // SECOND, " (suspended)" if is_suspended else "")
        until = self._timeline.now + for_us
        more_us = max(until - max(self._stalled_until, self._timeline.now), 0)
        self._stalled_until = max(self._stalled_until, until)
        self._turn_watch.stalled(more_us)
        if is_suspended:
            self.clock.sleep(more_us)

    def cut_off(self, for_us: int) -> None:
        """It continues, but cannot reach the store for a while."""
        self._trace.add(self.name, "is cut off for %s s", for_us // SECOND)
        self._store.cut_until = self._timeline.now + for_us

    def connect(self) -> None:
        self._store.cut_until = 0

    def jump(self, by_us: int) -> None:
        self._trace.add(self.name, "has its clock set by %s s", by_us // SECOND)
        self.clock.jump(by_us)
        self._turn_watch.jumped(by_us)

    # What reaches it

    def receive(self, message: Message) -> None:
        if self.is_up:
            self._deliver(message)
            if self._post.random() < self._faults().redelivery:
                self._redeliver(message)

    def _redeliver(self, message: Message) -> None:
        """Once more. What says how things are comes from one place, in order; all else may come at any time."""
        if IDENTITY[type(message)] is Identity.STATE:
            self._deliver(message)
        else:
            longest_us = self._post.choice((SECOND, self._faults().report_delay_max_us))
            self._later(self._post.randrange(longest_us), self._deliver, message)

    def _deliver(self, message: Message) -> None:
        self._inbox.append(message)
        self._poke(self._timeline.now + 200)

    def poll_requests(self) -> None:
        """The database announces a request: look for it at once."""
        if self.is_up:
            self._later(self._post.randrange(20 * MILLISECOND), self._claim_now)

    def answer(self, caller: Caller, message: Message) -> None:
        if caller.incarnation == self.incarnation:
            self.receive(message)

    def _later(self, delay_us: int, action: Callable[..., None], *args: object) -> None:
        self.later(self.incarnation, delay_us, action, *args)

    def later(self, incarnation: int, delay_us: int, action: Callable[..., None], *args: object) -> None:
        """Let a process do something, if it still lives then and is not stalled."""
        self._timeline.after(delay_us, self._run, incarnation, action, *args)

    def _run(self, incarnation: int, action: Callable[..., None], *args: object) -> None:
        if not self.is_up or incarnation != self.incarnation:
            return
        if self._timeline.now < self._stalled_until:
            self._timeline.at(self._stalled_until, self._run, incarnation, action, *args)
            return
        try:
            action(*args)
        except NodeCrashed:
            self.die("at a call to the store")

    def die(self, why: str) -> None:
        """Crash, and be started again some time later."""
        if self.is_up:
            self.crash(why)
            self._timeline.after(self._random.randrange(SECOND, self._faults().down_max_us), self.boot)

    # The loop

    def _poke(self, at: Instant) -> None:
        if self._wakes_at is None or at < self._wakes_at:
            self._wakes_at = at
            self._later(max(at - self._timeline.now, 0), self._turn, at)

    def _turn(self, woken_for: Instant) -> None:
        if self._wakes_at != woken_for:
            return  # it was woken earlier, by a message
        self._wakes_at = None
        state = self.state
        assert state is not None
        messages, self._inbox = [TimePassed(self.clock.boottime_us()), *self._inbox], []
        now = self.clock.now()
        noticed = (state.statistics.clock_jumps, state.statistics.stalls)
        try:
            decision = self._decide(state, messages, now)
        except Violation:
            raise
        except Exception as error:
            said = ", ".join(type(message).__name__ for message in messages)
            raise Violation(f"decide raised {type(error).__name__}: {error} (told: {said})") from error
        self._turn_watch.check(state, noticed, self._faults().drift_max_ppm, self._timeline.now)
        self._note_changes(state, decision.effects)
        for effect in decision.effects:
            self._carry_out(effect)
        if self._stops_by is not None and self._is_done(state):
            self._close()
            return
        # A sleep is measured by the clock that cannot be set; a jump is seen when it is over.
        self._poke(self._timeline.now + max(decision.wake_at - now, 100))

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Commit() | Record():
                self._writer.write(effect)
            case Launch():
                self._trace.add(self.name, "launches %s attempt %s", effect.key, effect.attempt)
                self._check_lease(effect)
                self._check_blackouts(effect)
                self._previous.launched(effect.key)
                self._backend.watch.launched(effect.key, is_owner=self._is_owner(effect.key))
                if effect.valid_until is not None:
                    # As the local executor does it: by the clock that cannot be set.
                    effect = effect._replace(valid_until=effect.valid_until - self.clock.ahead_us)
                self._executors.launch(self.caller, effect)
            case Stop(key, attempt):
                self._executors.stop(self.caller, key, attempt)
            case Reconcile(runs):
                self._executors.reconcile(self.caller, runs)
            case ReportSubRunEnd():
                self._executors.sub_run_ended(self.caller, effect)
            case LookUpSubRuns(keys):
                self._writer.write(lambda: look_up(self._store, keys))
            case LookUpOutcomes():
                self._writer.write(lambda: self._outcomes(effect))
            case LookUpStops():
                self._writer.write(lambda: stops(self._store, effect))
            case Audit():
                # Without owners a run is written over by nodes that do not have it.
                if self._scenario.ownership is not Ownership.NONE:
                    self._writer.write(lambda: open_runs(self._store, effect))
            case ReadReports(number, buckets):
                self._writer.write(lambda: [*forwarded_reports(self._store, buckets), ReportsRead(number)])
            case LookUpPlacements(job_id):
                self._writer.write(lambda: [recall(self._store, job_id)])
            case Release(buckets):
                self._writer.write(lambda: self._release(buckets))
            case Resync():
                self._later(self._random.randrange(SECOND), self._resync)
            case Log("run.stuck", fields):
                raise Violation(f"{fields['run']} is {fields['state']} and waits for nothing: the loop has lost it")
            case Log("job.deadline_missed", fields):
                self._deadlines.reported(self.name, str(fields["job"]), str(fields["scheduled_for"]))
            case Log(event, fields):
                self._trace.add(self.name, "%s %s", event, fields)

    def _outcomes(self, asked: LookUpOutcomes) -> list[Message]:
        found = outcomes(self._store, asked)
        self._previous.read(asked.key)
        return found

    def _note_changes(self, state: State, effects: Sequence[Effect]) -> None:
        writes = [effect for effect in effects if isinstance(effect, Commit | Record)]
        written = [write if isinstance(write, Record) else write.batch for write in writes]
        changes = [change for one in written for change in one.changes]
        well = {change.key.job_id for change in changes if change.state in (SUCCEEDED, CANCELLED)}
        for change in changes:
            self._previous.changed(self.caller, change, state.owns, well)
        entries = [entry for write in writes if isinstance(write, Commit) for entry in write.batch.entries]
        self._backend.jitter.decided(state, entries, changes)

    def _check_lease(self, launch: Launch) -> None:
        """A node does not launch what another node may own by now."""
        assert self.state is not None
        if self.state.is_lease_over(self.clock.now()):
            raise Violation(f"{launch.key.run_id} was launched by {self.name} after its lease had run out")

    def _check_blackouts(self, launch: Launch) -> None:
        """A node does not start what is due in a blackout that it knows of, and that lasts."""
        assert self.state is not None
        # At most once, or another node's before: launched when the ledger has its decision, older than the blackout.
        row = self._backend.watch.rows.get(launch.key)
        had_to_wait = is_at_most_once(launch.key.job_id) or (row is not None and row.state is LAUNCHING)
        if launch.key.origin or launch.attempt > 1 or had_to_wait:
            return
        job = self.state.jobs[launch.key.job_id].job
        at = blackout_at(job.blackouts, launch.key.scheduled_for)
        if at is not None and at == blackout_at(job.blackouts, self.state.furthest_now):
            raise Violation(f"{launch.key.run_id} was launched by {self.name} in {at}")

    def _release(self, buckets: Sequence[int]) -> list[Message]:
        """All changes of these buckets are written: release them now."""
        if self._leadership is not None and self.is_up:
            self._leadership.released(buckets)
            self._later(0, self._renew_once)
        return []

    def _resync(self) -> None:
        self.receive(DefinitionsResynced(self._definitions()))

    def _is_owner(self, key: RunKey) -> bool:
        """Whether the ledger would take a commit about this job from this process, now."""
        if self._scenario.ownership is Ownership.NONE:
            return False
        assert self.state is not None
        bucket = bucket_of(key.job_id)
        try:
            self._backend.store.check_epochs({bucket: self.state.epochs.get(bucket, -1)})
        except Fenced:
            return False
        return True

    def _is_done(self, state: State) -> bool:
        assert self._stops_by is not None
        has_active = bool(state.records or state.orphans) or any(
            lane.active for job in state.jobs.values() if job.lanes for lane in job.lanes.values()
        )
        return state.is_stopping and not state.batches and (not has_active or self._timeline.now > self._stops_by)

    def _close(self) -> None:
        """Write what waits, give up the leases, end."""
        if not self._writer.is_idle:
            self._later(100 * MILLISECOND, self._close)
            return
        if self._leadership is not None:
            keeper = self._executors.keeper_of(self.name)
            is_away = self._timeline.now < max(self._backend.away_until, self._store.cut_until)
            self._leadership.halt()
            if keeper is not None and not is_away and not self._faults().lost_reply:
                keeper.expected_until = self._timeline.now + self._scenario.return_us // 2
            try:
                names = [NODE_PREFIX + f"{self.name}/{self.incarnation}", *map(bucket_lease, range(BUCKETS))]
                self._store.lease(names, f"{self.name}/{self.incarnation}", 0, self.clock.now())
            except StoreUnavailable:
                pass  # the leases run out by themselves
        self._trace.add(self.name, "has shut down")
        self.is_up = False
        self.state = None

    # What it does from time to time

    def _claim_interval_us(self) -> int:
        return SECOND * 2 if self._scenario.settings.interval_us == SECOND else MINUTE

    def _claim(self) -> None:
        self._claim_now()
        self._later(self._claim_interval_us(), self._claim)

    def _claim_now(self) -> None:
        assert self.state is not None
        if self.state.epochs and not self._is_claiming:
            self._is_claiming = True
            self._writer.write(self._claiming)

    def _renew(self) -> None:
        self._later(self._scenario.lease_us // RENEWALS_PER_LEASE, self._renew)
        self._renew_once()

    def _renew_once(self) -> None:
        assert self._leadership is not None
        try:
            self._leadership.renew()
        except StoreUnavailable:
            self._trace.add(self.name, "could not renew its leases at %s", to_text(self.clock.now()))

    def _claiming(self) -> list[Message]:
        self._is_claiming = False
        if self.state is None:
            return []
        found: list[Message] = [message_of(one) for one in self._store.claim(tuple(self.state.epochs), 200)]
        if self._scenario.faults.blackouts_per_hour:
            # Without a call of its own, which would draw luck: the store has just been reached.
            found += self._blackouts.read(self._backend.store)
        return found
