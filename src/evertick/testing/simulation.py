"""Runs the simulated world of one seed, and reports whether an invariant was violated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

from evertick.loop.decide import decide as production_decide
from evertick.model.instant import HOUR, MINUTE, SECOND, Instant, to_text
from evertick.model.job import Job
from evertick.model.report import Report as RunReport
from evertick.planning.verify import Report, verify_ledger
from evertick.stores.memory import MemoryStore
from evertick.testing.deadlines import DeadlineReports
from evertick.testing.executors import SimulatedExecutors
from evertick.testing.faults import Faults
from evertick.testing.fleet import SimulatedFleet
from evertick.testing.invariants import LedgerWatch, Violation
from evertick.testing.node import Decide, Node
from evertick.testing.requirements import PreviousSuccessWatch
from evertick.testing.scenario import QUEUE, Ownership, Scenario, draw_scenario, is_queued
from evertick.testing.subcalls import SubRunWatch
from evertick.testing.timeline import Caller, Timeline, Trace
from evertick.testing.unreliable import Backend
from evertick.testing.users import Users

CALM_MAX_US = 2 * HOUR
"""When nothing goes wrong any more, everything that was due must be settled within this time."""
CALM_STEP_US = 5 * MINUTE


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a seed."""

    seed: int
    scenario: str
    failure: str | None
    """The violated invariant; None: all hold."""
    trace: tuple[str, ...] = field(repr=False)
    """The last events before a failure."""
    report: Report = field(repr=False)
    """The final counts of the ledger."""
    simulated_us: int = 0
    events: int = 0
    turns: int = 0
    """How often the loop was asked to decide."""
    attempts: int = 0
    """How many were started on executors."""
    happened: Mapping[str, int] = field(default_factory=dict)
    """Faults that occurred, by kind."""
    digest: int = 0
    """The same for the same seed and the same code, on every machine."""

    @property
    def is_ok(self) -> bool:
        return self.failure is None


def simulate(
    seed: int,
    *,
    hours: float | None = None,
    nodes: int | None = None,
    faults: Faults | None = None,
    jobs: int | None = None,
    store: Callable[[], MemoryStore] = MemoryStore,
    decide: Decide = production_decide,
) -> Outcome:
    """Run the world of a seed; arguments override what the seed determines.

    `store` and `decide` are for those who want to see the checker fail.
    """
    world = World(draw_scenario(seed, hours, nodes, faults, jobs), store(), decide)
    failure: str | None = None
    try:
        world.run()
    except Violation as violation:
        failure = str(violation)
    return world.outcome(failure)


class World:
    """Everything there is in a simulation; made from a scenario, run once."""

    def __init__(self, scenario: Scenario, store: MemoryStore, decide: Decide = production_decide) -> None:
        self.scenario = scenario
        self.timeline = timeline = Timeline(scenario.start)
        self.random = random = Random(f"world {scenario.seed}")
        self.faults = scenario.faults
        self.happened: Counter[str] = Counter()
        self.trace = Trace(timeline)
        is_agreed = scenario.ownership is not Ownership.NONE
        chained = {job.id: job.after for job in scenario.chains if job.after is not None}
        limit = dict(scenario.settings.queues).get(QUEUE)
        watch = LedgerWatch(store.line, limit, is_queued, scenario.rivals, chained)
        self.backend = Backend(store, watch, timeline, are_epochs_checked=is_agreed)
        self.sub_runs = SubRunWatch(watch.rows)
        self.fleet = SimulatedFleet(
            timeline,
            Random(f"fleet of world {scenario.seed}"),
            self._faults,
            self._answer,
            lambda name: self._node_of[name],
            scenario.members,
            scenario.run_max_us,
            scenario.member_lease_us,
            self.sub_runs,
            self.trace,
        )
        self.executors = SimulatedExecutors(
            timeline,
            random,
            self._faults,
            self._deliver,
            self._answer,
            scenario.run_max_us,
            is_shared=scenario.is_fleet_shared,
            # With several nodes on one fleet, what one launched may be unknown to the one that takes over.
            is_overlap_kept=scenario.nodes == 1 or scenario.has_keepers,
            has_keepers=scenario.has_keepers,
            fleet=self.fleet,
            routed=scenario.routings,
            sub_runs=self.sub_runs,
        )
        # One that owns everything knows at once what it tells the ledger.
        margin_us = 0 if scenario.ownership is Ownership.ALONE else 3 * scenario.lease_us
        previous = PreviousSuccessWatch(timeline, scenario.required, margin_us, self._there_since, watch.has_active)
        watch.on_end = previous.ended
        self.deadlines = DeadlineReports(watch.rows)
        self.nodes = [
            Node(
                f"node-{number}",
                scenario,
                timeline,
                random,
                self.backend,
                self.executors,
                self._definitions,
                self._faults,
                self.trace,
                previous,
                self.deadlines,
                decide,
            )
            for number in range(scenario.nodes)
        ]
        if scenario.is_told_of_requests:
            self.backend.announce_requests = self._announce_requests
        self._node_of = {node.name: node for node in self.nodes}
        self.users = Users(scenario, timeline, random, self.backend, self.nodes, self._faults, self.trace)
        self._longest_back_us = 0

    def run(self) -> None:
        """Run with faults, then without; then every invariant must hold."""
        timeline, scenario = self.timeline, self.scenario
        for node in self.nodes:
            timeline.after(self.random.randrange(10 * SECOND), node.boot)
        self.users.begin()
        self.fleet.begin()
        for per_hour, action in (
            (self.faults.outages_per_hour, self._go_away),
            *((self.faults.crashes_per_hour, lambda node=node: self._crash(node)) for node in self.nodes),
            *((self.faults.stalls_per_hour, lambda node=node: self._stall(node)) for node in self.nodes),
            *((self.faults.partitions_per_hour, lambda node=node: self._cut_off(node)) for node in self.nodes),
            *((self.faults.jumps_per_hour, lambda node=node: self._jump(node)) for node in self.nodes),
            *((self.faults.leaves_per_hour, lambda node=node: self._leave(node)) for node in self.nodes),
        ):
            self._now_and_then(per_hour, action)
        timeline.run_until(scenario.start + scenario.length_us)
        self._end_faults()
        self._settle()
        self._check_ledger()
        self.users.check_answers()
        self.sub_runs.check(self.backend.watch.rows)

    # What goes wrong

    def _now_and_then(self, per_hour: float, action: Callable[[], None]) -> None:
        if per_hour:
            wait_us = int(self.random.expovariate(per_hour) * HOUR)
            self.timeline.after(wait_us, self._happen, per_hour, action)

    def _happen(self, per_hour: float, action: Callable[[], None]) -> None:
        if self.timeline.now < self.scenario.start + self.scenario.length_us:
            action()
            self._now_and_then(per_hour, action)

    def _go_away(self) -> None:
        self.happened["outages"] += 1
        self.backend.away_until = self.timeline.now + self.random.randrange(SECOND, self.faults.outage_max_us)
        self.trace.add("store", "is away until %s", to_text(self.backend.away_until))

    def _crash(self, node: Node) -> None:
        if node.is_up:
            self.happened["crashes"] += 1
            node.crash("killed")
            self.timeline.after(self.random.randrange(SECOND, self.faults.down_max_us), node.boot)

    def _stall(self, node: Node) -> None:
        if node.is_up:
            self.happened["stalls"] += 1
            node.stall(self.random.randrange(SECOND, self.faults.stall_max_us), is_suspended=self.random.random() < 0.5)

    def _cut_off(self, node: Node) -> None:
        if node.is_up:
            self.happened["partitions"] += 1
            node.cut_off(self.random.randrange(SECOND, self.faults.outage_max_us * 2))

    def _jump(self, node: Node) -> None:
        if self.scenario.ownership is Ownership.NONE and not node.incarnation:
            return  # one node decides from when on a new job counts, and no node leads there
        self.happened["jumps"] += 1
        by_us = self.random.randrange(-self.faults.jump_max_us // 6, self.faults.jump_max_us)
        if self.random.random() < 0.5:
            # Most clocks are set by seconds; and one that was set wrong is set right again.
            by_us = self.random.choice((by_us // 100, -node.clock.ahead_us))
        self._longest_back_us = max(self._longest_back_us, -by_us)
        node.jump(by_us)

    def _leave(self, node: Node) -> None:
        if node.is_up:
            self.happened["leaves"] += 1
            node.shut_down()
            self.timeline.after(self.random.randrange(MINUTE, self.faults.down_max_us), self._bring_back, node)

    def _bring_back(self, node: Node) -> None:
        """Start it, when it is gone: a stalled node may take longer to leave than it was to be away."""
        if node.is_leaving:
            self.timeline.after(MINUTE, self._bring_back, node)
        else:
            node.boot()

    # What is left when it stops

    def _end_faults(self) -> None:
        self.trace.add("world", "calms down")
        self.faults = self.scenario.faults.calm()
        self.executors.is_calm = True
        self.fleet.end_faults()
        self.backend.away_until = 0
        for node in self.nodes:
            node.connect()
            node.clock.settle()
            self.timeline.after(MINUTE, self._bring_back, node)
        self.users.end_faults()

    def _settle(self) -> None:
        calm_since = self.timeline.now
        # A clock that was set back makes its node wait until time has caught up with what was planned.
        deadline = calm_since + CALM_MAX_US + self._longest_back_us
        while left := self._left_over(calm_since):
            if self.timeline.now >= deadline:
                raise Violation(f"{(self.timeline.now - calm_since) // MINUTE} minutes after the last fault, {left}")
            self.timeline.run_until(self.timeline.now + min(CALM_STEP_US, self.scenario.length_us // 4))

    def _left_over(self, calm_since: Instant) -> str | None:
        """A text about what was due when the faults ended and is not settled yet."""
        # Nodes that own nothing write over each other about runs under way; that each run comes to its end is the
        # promise of owners. What is decided, and once, holds without them.
        has_owners = self.scenario.ownership is not Ownership.NONE
        for row in self.backend.watch.open_rows() if has_owners else ():
            if row.key.scheduled_for <= calm_since and row.decided_at <= calm_since:
                return f"{row.key.run_id} is {row.state} (attempt {row.attempt}, decided by {row.decided_by})"
        if waiting := self.users.unanswered():
            return f"the request {waiting[0]} has no answer"
        slowest = self.timeline.now + min(node.clock.ahead_us for node in self.nodes)
        settings = self.scenario.settings
        expected = slowest - settings.flush_us - settings.interval_us * 2 - MINUTE
        for job in self.users.jobs.values():
            watermark = self.backend.watch.watermark(job.id)
            if watermark is None or watermark < expected:
                return f"the watermark of {job.id} is at {'nothing' if watermark is None else to_text(watermark)}"
            if has_owners and (late := self.deadlines.unsettled(job, self.backend.watch.record(job.id), expected)):
                return late
        return None

    def _check_ledger(self) -> None:
        """The same proof that `evertick verify` makes, from what the store has."""
        report = self._verified()
        if not report.is_sound:
            said = [*map(str, report.lost), *(f"{key.run_id} is there twice" for key in report.duplicates)]
            said += [f"the gap {key.run_id} is miscounted" for key in report.miscounted]
            said += [f"{key.run_id} was never due" for key in report.strays]
            raise Violation(f"the ledger is not sound: {'; '.join(said[:5])}")
        known = {row.key for row in self.backend.rows()}
        if known != set(self.backend.watch.rows):
            raise Violation("the ledger has other lines than were written to it")

    def _verified(self) -> Report:
        contents = self.backend.store.contents()
        return verify_ledger(contents.schedules, contents.jobs, contents.floors, contents.rows)

    def outcome(self, failure: str | None) -> Outcome:
        rows = sorted(self.backend.rows(), key=lambda row: row.key)
        return Outcome(
            seed=self.scenario.seed,
            scenario=str(self.scenario),
            failure=failure,
            trace=self.trace.lines() if failure else (),
            report=self._verified(),
            simulated_us=self.timeline.now - self.scenario.start,
            events=self.timeline.happened,
            turns=sum(node.turns for node in self.nodes),
            attempts=self.executors.started + self.fleet.started,
            happened=dict(self.happened),
            digest=crc32(repr((rows, self.timeline.happened)).encode()),
        )

    # What the parts ask of the whole

    def _faults(self) -> Faults:
        return self.faults

    def _there_since(self, job_id: str) -> Instant | None:
        return self.users.there_since(job_id)

    def _definitions(self) -> Sequence[Job]:
        return self.users.definitions()

    def _deliver(self, node: str, report: RunReport) -> None:
        self._node_of[node].receive(report)

    def _announce_requests(self) -> None:
        for node in self.nodes:
            node.poll_requests()

    def _answer(self, caller: Caller, report: RunReport) -> None:
        self._node_of[caller.node].answer(caller, report)
