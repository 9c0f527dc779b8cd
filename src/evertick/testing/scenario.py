"""The world of a seed: nodes, jobs, speeds and faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random

from evertick.model.blackout import Blackout
from evertick.model.calendar import Calendar, CalendarRule, Shift
from evertick.model.constraint import RequirePreviousSuccess
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, Instant, from_text, to_text
from evertick.model.job import After, AfterEnd, AfterMode, Job
from evertick.model.policy import Backoff, Expectation, Missed, OnExecutorLost, Overlap, OverlapKind, Policy, Retry
from evertick.model.routing import FLEET, Routing, Strategy
from evertick.model.schedule import AtSpec, CalendarSpec, CronSpec, EverySpec, ScheduleSpec
from evertick.model.work import Command, Each, ItemValue, Step, SubJob, Work
from evertick.settings.parts import LoopSettings
from evertick.testing.faults import Faults

# An ordinary day, a spring and an autumn night in Europe, and one in a zone of half hours.
STARTS = ("2026-05-12T08:00:00Z", "2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z", "2026-04-04T14:30:00Z")
QUEUE = "shared"
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe")


class Ownership(StrEnum):
    """How nodes agree on who schedules what."""

    ALONE = "alone"
    """One node, which owns everything under a lock."""
    LEASED = "leased"
    """Buckets are leased, and move when nodes come and go."""
    NONE = "none"
    """No ownership: every node plans every job, and only the unique key prevents duplicates."""


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    start: Instant
    length_us: int
    """How long things go wrong; a calm time follows."""
    nodes: int
    ownership: Ownership
    settings: LoopSettings
    lease_us: int
    faults: Faults
    jobs: tuple[Job, ...]
    run_max_us: int
    """How long a run takes at most."""
    is_fleet_shared: bool
    """Whether all nodes launch on one fleet, instead of each on its own machine."""
    members: tuple[str, ...] = ()
    """Of the fleet that the loop itself chooses from."""
    routings: Mapping[str, Routing] = field(default_factory=dict)
    """How, by job; the others run where they are launched."""
    member_lease_us: int = 2 * MINUTE
    """How long what a member runs goes on without an acknowledged heartbeat."""
    calls: Mapping[str, Work] = field(default_factory=dict)
    """By job: the work of those that run another job as a step and wait for it, or an item elsewhere on the fleet."""
    called: tuple[Job, ...] = ()
    """Jobs that only run as steps of others; no edit changes them."""
    required: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By job: whose last run must have succeeded; empty: its own."""
    deadlines: Mapping[str, Expectation] = field(default_factory=dict)
    """By job: by when its occurrences must have succeeded."""
    jitters: Mapping[str, int] = field(default_factory=dict)
    """By job: up to how many microseconds after its time an occurrence starts."""
    chains: tuple[Job, ...] = ()
    """Jobs that run after others, and have no schedule of their own; no edit changes them."""
    is_told_of_requests: bool = False
    """Whether nodes hear of a request at once, as by PostgreSQL's notifications; else they look from time to time."""
    runs_lease_us: int = 2 * MINUTE
    """How long a node that does not reach the ledger holds what it runs on its own machine."""
    return_us: int = 10 * MINUTE
    """The same of one that was stopped in order."""

    @property
    def has_keepers(self) -> bool:
        """Whether runs on a machine end with the lease of its node."""
        return self.ownership is Ownership.LEASED and not self.is_fleet_shared

    @property
    def rivals(self) -> Mapping[str, int]:
        """The priority of each queued job that waits for its place and nothing else: not for jobs, nor for a member."""
        queued = (job for job in self.jobs if job.queue is not None and not job.routing.is_remote)
        return {job.id: job.priority for job in queued if job.after is None}

    def settled(self, job: Job) -> Job:
        """What a job keeps for all its life: a place on the fleet or none, what it calls, whose success it requires."""
        if job.id in self.routings:
            job = replace(job, routing=self.routings[job.id])
        if job.id in self.calls:
            job = replace(job, work=self.calls[job.id])
        if job.id in self.required:
            job = replace(job, constraints=(RequirePreviousSuccess(self.required[job.id]),))
        if job.id in self.deadlines:
            job = replace(job, policy=replace(job.policy, expectation=self.deadlines[job.id]))
        if job.id in self.jitters:
            job = replace(job, policy=replace(job.policy, jitter_us=self.jitters[job.id]))
        return job

    def __str__(self) -> str:
        fleet = ", one fleet" if self.is_fleet_shared else ""
        fleet += f", {len(self.members)} members for {len(self.routings)} of the jobs" if self.members else ""
        fleet += f", {len(self.chains)} chained" if self.chains else ""
        fleet += f", {len(self.calls)} calling" if self.calls else ""
        fleet += f", {len(self.required)} requiring" if self.required else ""
        fleet += f", {len(self.deadlines)} with deadlines" if self.deadlines else ""
        fleet += f", {len(self.jitters)} with jitter" if self.jitters else ""
        return (
            f"{self.nodes} nodes ({self.ownership}{fleet}), {len(self.jobs)} jobs, {self.length_us / HOUR:g} h from "
            f"{to_text(self.start)}, planning {self.settings.preread_us // SECOND} s ahead; {self.faults}"
        )


def draw_scenario(
    seed: int,
    hours: float | None = None,
    nodes: int | None = None,
    faults: Faults | None = None,
    jobs: int | None = None,
) -> Scenario:
    """The world of a seed; what is given is taken instead of what the seed says."""
    random = Random(seed)
    ownership, drawn_nodes = random.choice(
        (
            (Ownership.ALONE, 1),
            (Ownership.ALONE, 1),
            (Ownership.ALONE, 1),
            (Ownership.LEASED, 1),
            (Ownership.LEASED, 2),
            (Ownership.LEASED, 3),
            (Ownership.LEASED, 3),
            (Ownership.NONE, 3),
        )
    )
    if nodes is not None:
        drawn_nodes = nodes
        if nodes > 1 and ownership is Ownership.ALONE:
            ownership = Ownership.LEASED
    is_brisk = random.random() < 0.1
    pace_us = SECOND if is_brisk else random.choice((10, 20, 30) if drawn_nodes == 1 else (20, 30)) * SECOND
    drawn_hours = (
        random.choice((0.2, 0.3)) if is_brisk else random.choice((1.0, 1.5, 2.0) if drawn_nodes == 1 else (1.0, 1.5))
    )
    start = from_text(random.choice(STARTS)) + random.randrange(0, HOUR)
    length_us = int((drawn_hours if hours is None else hours) * HOUR)
    period_us = 20 * SECOND if is_brisk else 5 * MINUTE
    drawn_faults = Faults.drawn(random)
    has_limit = ownership is Ownership.LEASED and seed % 3 == 1
    if ownership is Ownership.NONE or has_limit:
        # Each node would take back what another has entered: who may edit is the one thing they must agree on. And who
        # is in a queue is what the files say, which each node reads at a time of its own.
        drawn_faults = replace(drawn_faults, edits_per_hour=0.0)
    count = random.randint(3, 8)
    names = [f"job-{number}" for number in range(count if jobs is None else jobs)]
    # By luck of its own, so that the worlds without a fleet stay as they were.
    members, routings = draw_fleet(Random(f"fleet {seed}"), names, ownership)
    luck = Random(f"delivery {seed}")
    if faults is None:
        drawn_faults = replace(drawn_faults, redelivery=luck.choice((0.0, 0.05, 0.3)))
    if ownership is Ownership.LEASED and faults is None:
        partitions = Random(f"partitions {seed}")
        drawn_faults = replace(drawn_faults, partitions_per_hour=partitions.choice((0.0, 0.5, 2.0)))
    if ownership is not Ownership.NONE and faults is None:  # each node would take back what another has entered
        blackouts = Random(f"added blackouts {seed}")
        drawn_faults = replace(drawn_faults, blackouts_per_hour=blackouts.choice((0.0, 0.0, 0.0, 2.0, 8.0)))
    if members and faults is None:
        luck = Random(f"outages {seed}")
        drawn_faults = replace(drawn_faults, member_outages_per_hour=luck.choice((0.0, 1.0, 6.0)))
    scenario = Scenario(
        seed=seed,
        start=start,
        length_us=length_us,
        nodes=drawn_nodes,
        ownership=ownership,
        settings=LoopSettings(
            preread_us=pace_us * random.choice((1, 2, 5)),
            interval_us=pace_us,
            flush_us=pace_us * 4,
            keep_us=max(30 * SECOND, pace_us),
            stall_us=pace_us * 5,
            queues=((QUEUE, 1 + seed % 2),) if has_limit else (),
        ),
        lease_us=6 * SECOND if is_brisk else 5 * MINUTE,
        faults=drawn_faults if faults is None else faults,
        jobs=tuple(draw_job(random, name, start, length_us, period_us) for name in names),
        run_max_us=period_us * 2,
        # Without any agreement two nodes launch the same attempt, and only a fleet in common can tell.
        is_fleet_shared=ownership is Ownership.NONE or random.random() < 0.5,
        members=members,
        routings=routings,
        chains=draw_chains(Random(f"chains {seed}"), names, ownership, start, length_us, period_us),
        is_told_of_requests=luck.random() < 0.5,
        runs_lease_us=(12 * SECOND if is_brisk else 10 * MINUTE) * Random(f"runs {seed}").choice((1, 1, 2)),
        return_us=MINUTE if is_brisk else 30 * MINUTE,
        member_lease_us=20 * SECOND if is_brisk else 2 * MINUTE,
        required=draw_required(Random(f"required {seed}"), names, ownership),
        jitters=draw_jitters(Random(f"jitter {seed}"), names, period_us),
    )
    if ownership is Ownership.NONE:  # each node would take back what another has entered, as with an edit
        scenario = replace(scenario, jobs=tuple(replace(job, blackouts=()) for job in scenario.jobs))
    if ownership is not Ownership.NONE:  # the owner of a job settles its deadlines
        deadlines = draw_deadlines(Random(f"deadlines {seed}"), names, start, length_us, period_us)
        scenario = replace(scenario, deadlines=deadlines)
    called = draw_called(Random(f"called {seed}"), ownership, start, length_us, period_us)
    if called:
        calls = draw_calls(Random(f"calls {seed}"), names, [job.id for job in called])
        scenario = replace(scenario, called=called, calls=calls)
    items = draw_items(Random(f"items {seed}"), [name for name in routings if name not in scenario.calls])
    scenario = replace(scenario, calls={**scenario.calls, **items})
    if scenario.has_keepers:
        # Some runs are longer than a lease, so that their outcome after its end is tested.
        scenario = replace(scenario, run_max_us=period_us * Random(f"long runs {seed}").choice((2, 6, 15)))
    return replace(scenario, jobs=tuple(map(scenario.settled, scenario.jobs)))


def draw_fleet(
    random: Random, names: Sequence[str], ownership: Ownership
) -> tuple[tuple[str, ...], Mapping[str, Routing]]:
    """A fleet in some worlds, for some of their jobs; without owners no node knows what a member was given."""
    if ownership is Ownership.NONE or random.random() < 0.6:
        return (), {}
    members = tuple(f"ex-{number}" for number in range(random.randint(2, 4)))
    labels = random.choice(((), (("kind", "even"),)))
    routings = {name: Routing(FLEET, random.choice(tuple(Strategy)), labels) for name in names if random.random() < 0.6}
    return (members, routings) if routings else ((), {})


def draw_chains(
    random: Random, names: Sequence[str], ownership: Ownership, start: Instant, length_us: int, period_us: int
) -> tuple[Job, ...]:
    """In half of the worlds; without owners no node knows which successes a run has used."""
    if ownership is Ownership.NONE or not names or random.random() < 0.5:
        return ()
    drawn = []
    for number in range(random.randint(1, 3)):
        upstream = tuple(sorted(set(random.choices(names, k=random.choice((1, 1, 2))))))
        # Mostly successes: failures are rare in most worlds. By a draw of its own, as that of calendars.
        own = Random(f"after {number} {start} {upstream}")
        on = own.choice((AfterEnd.SUCCESS, AfterEnd.SUCCESS, AfterEnd.FAILURE, AfterEnd.END))
        after = After(upstream, random.choice(tuple(AfterMode)), on)
        job = draw_job(random, f"chain-{number}", start, length_us, period_us)
        drawn.append(replace(job, schedules=(), stops=(), restarts=(), after=after))
    return tuple(drawn)


def draw_called(
    random: Random, ownership: Ownership, start: Instant, length_us: int, period_us: int
) -> tuple[Job, ...]:
    """In two worlds of five. Not in the queue: a run that has its place would wait for one that waits for a place."""
    if ownership is Ownership.NONE or random.random() < 0.6:
        return ()
    drawn = [draw_job(random, name, start, length_us, period_us) for name in ("sub-0", "sub-2")]
    return tuple(replace(job, schedules=(), stops=(), restarts=()) for job in drawn)


def draw_calls(random: Random, names: Sequence[str], called: Sequence[str]) -> Mapping[str, Work]:
    steps = {name: Step("call", SubJob(random.choice(called))) for name in names if random.random() < 0.5}
    return {name: Work(steps=(step,)) for name, step in steps.items()}


def draw_items(random: Random, names: Sequence[str]) -> Mapping[str, Work]:
    """For two in three of the jobs on the fleet that call no other."""
    step = Step("all", Command(("true",)), each=Each((ItemValue("one"),), max_parallel=1))
    return {name: Work(steps=(step,)) for name in names if random.random() < 0.7}


def draw_required(random: Random, names: Sequence[str], ownership: Ownership) -> Mapping[str, tuple[str, ...]]:
    """In two worlds of five; without owners no node knows which run was the last."""
    if ownership is Ownership.NONE or random.random() < 0.6:
        return {}
    return {name: random.choice(((), (random.choice(names),))) for name in names if random.random() < 0.4}


def draw_blackouts(job_id: str, start: Instant, length_us: int, period_us: int) -> tuple[Blackout, ...]:
    """For one job in four, by a draw of its own; one that begins or ends at an occurrence is the hardest."""
    own = Random(f"blackout {job_id} {start} {length_us} {period_us}")
    if own.random() >= 0.25:
        return ()
    begin = start + own.randrange(length_us)
    begin -= begin % period_us if own.random() < 0.5 else 0
    # It is over before the world is: the checks at the end expect every job to be planned.
    end = min(begin + own.randrange(1, 6) * period_us, start + length_us)
    return (Blackout(begin, end, "drawn"),) if begin < end else ()


def draw_deadlines(
    random: Random, names: Sequence[str], start: Instant, length_us: int, period_us: int
) -> Mapping[str, Expectation]:
    """In one world of three, for half of its jobs."""
    if random.random() > 0.33:
        return {}
    found = {}
    for name in names:
        minute = (start + random.randrange(length_us)) // MINUTE % (24 * 60)
        by = Expectation(by=f"{minute // 60:02}:{minute % 60:02}", timezone="UTC")
        within = Expectation(within_us=period_us * random.choice((1, 2, 4)))
        if random.random() < 0.5:
            found[name] = by if random.random() < 0.3 else within
    return found


def draw_jitters(random: Random, names: Sequence[str], period_us: int) -> Mapping[str, int]:
    """In one world of three, for half of its jobs; some are longer than the time between two occurrences."""
    if random.random() > 0.33:
        return {}
    longest = random.choice((period_us // 4, period_us, 3 * period_us)) // SECOND
    drawn = {name: random.randint(1, longest) * SECOND for name in names}
    return {name: jitter_us for name, jitter_us in drawn.items() if random.random() < 0.5}


def draw_job(random: Random, job_id: str, start: Instant, length_us: int, period_us: int) -> Job:
    return Job(
        job_id,
        schedules=draw_schedules(random, job_id, start, length_us, period_us),
        policy=draw_policy(random, OnExecutorLost.FAIL if is_at_most_once(job_id) else OnExecutorLost.RETRY),
        priority=random.choice((0, 0, 5)),
        stops=(EverySpec(period_us * 7),) if random.random() < 0.1 else (),
        restarts=(EverySpec(period_us * 5),) if random.random() < 0.1 else (),
        queue=QUEUE if is_queued(job_id) else None,
        blackouts=draw_blackouts(job_id, start, length_us, period_us),
    )


def is_queued(job_id: str) -> bool:
    """Every other job is in the queue, for all its life; whether that limits anything is up to the scenario."""
    return int(job_id.rpartition("-")[2]) % 2 == 1


def is_at_most_once(job_id: str) -> bool:
    """Every third job, for all its life: an edit in the middle of a run would make the promise hard to name."""
    return int(job_id.rpartition("-")[2]) % 3 == 0


def draw_schedules(
    random: Random, job_id: str, start: Instant, length_us: int, period_us: int
) -> tuple[ScheduleSpec, ...]:
    def draw() -> ScheduleSpec:
        match random.randrange(5):
            case 0:
                text = random.choice(("*/7 * * * *", "3-59/11 * * * *", "0,30 1-3 * * *", "H/20 * * * *", "15 2 * * *"))
                return CronSpec(text, random.choice(ZONES), job_id)
            case 1:
                return AtSpec(start + random.randrange(-HOUR, length_us))
            case _:
                return EverySpec(period_us * random.choice((1, 1, 2, 3)) + random.choice((0, 0, 1_500_000)))

    drawn = tuple(draw() for _ in range(random.choice((1, 1, 1, 2))))
    # By a draw of its own, so that the rest of a seed's world stays as it was.
    own = Random(f"calendar {job_id} {start} {period_us} {drawn}")
    return draw_calendar(own, drawn, start) if own.random() < 0.2 else drawn


def draw_calendar(random: Random, drawn: tuple[ScheduleSpec, ...], start: Instant) -> tuple[ScheduleSpec, ...]:
    """The days around the start, some of which are excluded: a world is hours long, and zones are days apart."""
    today = start // DAY
    days = tuple(day for day in range(today - 1, today + 3) if random.random() < 0.5)
    weekdays = tuple(sorted(random.sample(range(7), random.choice((0, 0, 2)))))
    calendar, zone = Calendar("drawn", weekdays, days), random.choice(ZONES)
    shift = random.choice((None, None, Shift.NEXT, Shift.PREVIOUS))
    rule = CalendarRule((calendar,), (), shift) if random.random() < 0.7 else CalendarRule((), (calendar,), shift)
    return tuple(
        CalendarSpec(spec, rule if isinstance(spec, CronSpec) else replace(rule, shift=None), zone)
        if isinstance(spec, CronSpec | EverySpec)
        else spec
        for spec in drawn
    )


def draw_policy(random: Random, on_executor_lost: OnExecutorLost) -> Policy:
    return Policy(
        missed=random.choice(tuple(Missed)),
        catchup_window_us=random.choice((None, None, 20 * MINUTE, 2 * HOUR)),
        run_missed_one_off=random.random() < 0.8,
        overlap=draw_overlap(random),
        grace_us=random.choice((5 * SECOND, 30 * SECOND, 2 * MINUTE)),
        max_delay_us=random.choice((None, None, None, 15 * MINUTE)),
        skip_if_successful=random.random() < 0.15,
        retry=Retry(
            max_retries=random.choice((0, 0, 1, 3)),
            delay_us=random.choice((5 * SECOND, MINUTE)),
            backoff=random.choice(tuple(Backoff)),
            jitter=random.choice((0.0, 0.5)),
        ),
        on_executor_lost=on_executor_lost,
        backlog_max=random.choice((3, 20, 20)),
    )


def draw_overlap(random: Random) -> Overlap:
    kind = random.choice(tuple(OverlapKind))
    return Overlap(kind, random.choice((2, 3)) if kind is OverlapKind.PARALLEL else 1)
