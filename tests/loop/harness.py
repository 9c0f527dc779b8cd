"""A small world for the loop: a clock that the test sets, a ledger in memory, a scripted executor.

It carries out what `decide` asks for and feeds the answers back, turn by turn. Nothing in it decides anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, pairwise
from typing import Any

from evertick.dispatch.lookup import look_up, open_runs, outcomes, read_gained, recall, stops
from evertick.dispatch.writer import answered, commit_around
from evertick.errors import Fenced
from evertick.loop.decide import decide
from evertick.loop.delivery import answer_known
from evertick.loop.effects import (
    Audit,
    Commit,
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
    ReportSubRunEnd,
    Stop,
)
from evertick.loop.messages import (
    BatchFenced,
    BucketsGained,
    BucketsLost,
    ChangesRecorded,
    DefinitionsChanged,
    DefinitionsResynced,
    Message,
    ReportsRead,
    TimePassed,
    TriggerJob,
)
from evertick.loop.state import State
from evertick.model.answer import Answer
from evertick.model.facts import Facts, facts_text
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, Instant, from_text, to_datetime
from evertick.model.job import Job
from evertick.model.ledger import BUCKETS
from evertick.model.lifecycle import OPEN, SUCCEEDED, RunState, Trigger
from evertick.model.policy import Missed, Overlap, OverlapKind, Policy, Retry
from evertick.model.run import Change, LedgerRow, RunKey
from evertick.model.schedule import CronSpec, ScheduleSpec
from evertick.operations.requests import forwarded_reports
from evertick.settings.parts import LoopSettings
from evertick.store import RunFilter
from evertick.stores.memory import MemoryStore
from tests.loop.executor import Act as Act
from tests.loop.executor import ScriptedExecutor

MIDNIGHT = from_text("2026-03-02T00:00:00Z")
HOURLY = CronSpec("0 * * * *", "UTC")
SKIP, WAIT, LATEST, REPLACE = (
    Overlap(kind) for kind in (OverlapKind.SKIP, OverlapKind.WAIT, OverlapKind.LATEST, OverlapKind.REPLACE)
)
FOREVER = Act(lasts_us=None)
CALM = LoopSettings(interval_us=5 * SECOND, flush_us=MINUTE)
"""A loop that looks up less often than a real one: a quiet day costs little, and what is due wakes it all the same."""
QUIET = LoopSettings(preread_us=30 * SECOND, interval_us=30 * SECOND, flush_us=MINUTE, stall_us=HOUR)
"""For days in which hardly anything happens: a sixth of the turns."""
NODE_TTL_US = 100_000 * DAY  # leases end when a test says so

# --- how tests say what they mean


def at(text: str) -> Instant:
    """`09:00`, `09:00:30` or `1d09:00` after the midnight on which every test begins."""
    days, _, clock = text.rpartition("d")
    hours, minutes, seconds = (*clock.split(":"), "0")[:3]
    whole = int(days or 0) * DAY + int(hours) * HOUR + int(minutes) * MINUTE
    return MIDNIGHT + whole + round(float(seconds) * SECOND)


def clock_of(instant: Instant) -> str:
    """The other way round: only as much as is needed."""
    days = (instant - MIDNIGHT) // DAY
    moment = to_datetime(instant)
    text = f"{moment:%H:%M}"
    if instant % MINUTE:
        text += f":{moment:%S}"
    if instant % SECOND:
        text += f".{moment:%f}".rstrip("0")
    return f"{days}d{text}" if days else text


def is_chronological(times: Sequence[str]) -> bool:
    return all(earlier <= later for earlier, later in pairwise(at(one) for one in times))


def parallel(limit: int) -> Overlap:
    return Overlap(OverlapKind.PARALLEL, limit)


def retries(times: int, delay_us: int = MINUTE) -> Retry:
    return Retry(max_retries=times, delay_us=delay_us)


def job(name: str = "a", *schedules: ScheduleSpec, stops: Any = (), restarts: Any = (), **known: Any) -> Job:
    """An hourly job unless schedules are given; `enabled` and `priority` are the job's, the rest its policy's."""
    own = {field: known.pop(field) for field in ("enabled", "priority") if field in known}
    return Job(name, schedules=schedules or (HOURLY,), stops=stops, restarts=restarts, policy=Policy(**known), **own)


def catching_up(keep: str = "all", window: int | None = DAY, **known: Any) -> dict[str, Any]:
    """The policy that `catchupWindow` and `overlapPolicy` stand for."""
    missed, overlap = {
        "skip": (Missed.FIRST, SKIP),
        "all": (Missed.ALL, WAIT),
        "latest": (Missed.LATEST, LATEST),
    }[keep]
    return {"missed": missed, "overlap": overlap, "catchup_window_us": window, **known}


def world(*jobs: Job, start: str = "08:30", settings: LoopSettings | None = None) -> World:
    """A world whose jobs are seen for the first time at `start`."""
    return World(jobs, at(start), settings or CALM)


def said(row: LedgerRow) -> str:
    when = clock_of(row.key.scheduled_for)
    if row.through is not None:
        when += f"..{clock_of(row.through)}"
    parts = [when, str(row.state)]
    if row.reason is not None:
        parts.append(str(row.reason))
    if row.trigger is not Trigger.SCHEDULER:
        parts.append(str(row.trigger))
    if row.occurrences > 1:
        parts.append(f"x{row.occurrences}")
    return " ".join(parts)


class World:
    def __init__(self, jobs: Sequence[Job], now: Instant, settings: LoopSettings) -> None:
        self.jobs = {one.id: one for one in jobs}
        self.now = now
        self.wake_at: Instant = now
        self.monotonic = 0
        self.settings = settings
        self.store = MemoryStore()
        self.executor = ScriptedExecutor(self)
        self.are_whole = True
        """Whether every definition can be read when a process starts."""
        self.is_ledger_away = False
        """While set, nothing is written and nothing answered."""
        self.told_first: Sequence[Message] = ()
        """What a process hears before it owns anything."""
        self.launches: list[tuple[Instant, Launch]] = []
        self.stops: list[tuple[Instant, Stop]] = []
        self.told: list[ReportSubRunEnd] = []
        self.logs: list[Log] = []
        self.spins = 0
        """How often the loop asked to be called at once although it had nothing to do."""
        self.turns: list[tuple[list[Message], Instant, list[Effect]]] = []
        """Of this process: what was said, when, and what came of it."""
        self._numbers = count(1)
        self.begin()

    # --- the life of the process

    def begin(self) -> None:
        """A new process: it knows nothing but what the definitions and the ledger tell it."""
        self.wake()
        self.settle()

    def wake(self) -> None:
        """The same, and only its first turn."""
        self.incarnation = f"start-{next(self._numbers)}"
        self.born_at = self.now
        self.state = State(self.settings, "node", self.incarnation, self.now)
        self.writes: list[Commit | Record | LookUpSubRuns | LookUpOutcomes | LookUpStops | Audit | ReadReports] = []
        self.turns.clear()
        self.inbox: list[Message] = [
            DefinitionsResynced(list(self.jobs.values()), self.are_whole),
            *self.told_first,
            self.gain(range(BUCKETS)),
        ]
        self.turn()

    def gain(self, buckets: Sequence[int]) -> BucketsGained:
        """Take these buckets from whoever has them."""
        names = [f"bucket:{bucket}" for bucket in buckets]
        self._give_up(names)
        leases = self.store.lease(names, "node", NODE_TTL_US, self.now)
        epochs = {int(lease.name.split(":")[1]): lease.epoch for lease in leases if lease.name in names}
        return read_gained(self.store, epochs, buckets)

    def steal(self, *buckets: int) -> None:
        """Another node takes these buckets behind this one's back."""
        names = [f"bucket:{bucket}" for bucket in buckets]
        self._give_up(names)
        self.store.lease(names, "other", NODE_TTL_US, self.now)

    def lost(self, *buckets: int, is_fenced: bool = False) -> BucketsLost:
        """What is said when these buckets go, as far as this node has them."""
        return BucketsLost({one: self.state.epochs[one] for one in buckets if one in self.state.epochs}, is_fenced)

    def want_stop(self, key: RunKey) -> None:
        """The node that owns the job of a run by now wants it ended."""
        row = next(row for row in self.rows(key.job_id) if row.key == key)
        facts = facts_text(Facts(stop="cancelled by its owner"))
        assert not self.store.record([Change(key, row.state, self.now, row.fence, row.attempt, facts=facts)])

    def _give_up(self, names: Sequence[str]) -> None:
        for holder in ("node", "other"):
            self.store.lease(names, holder, 0, self.now)

    def crash(self, after: int = 0) -> None:
        """The process dies now; what is under way at the executor goes on, and nobody hears its reports."""
        self.stall(after)
        self.executor.reports()

    def restart(self, after: int = 0, jobs: Sequence[Job] | None = None, told: Sequence[Message] = ()) -> None:
        """The process dies now and another starts later; it is `told` something before it owns anything."""
        self.crash(after)
        if jobs is not None:
            self.jobs = {one.id: one for one in jobs}
        self.told_first = told
        self.begin()

    # --- what tests say

    def define(self, *jobs: Job) -> None:
        self.jobs |= {one.id: one for one in jobs}
        self.say(DefinitionsChanged(jobs))

    def delete(self, *names: str) -> None:
        for name in names:
            del self.jobs[name]
        self.say(DefinitionsChanged(removed=names))

    def say(self, *messages: Message) -> None:
        self.inbox += messages
        self.settle()

    def answer(self, request_id: str) -> Answer:
        """What a request was answered with."""
        handled = answer_known(self.state, request_id)
        assert handled is not None, f"{request_id} is not answered"
        return handled.answer

    def trigger(self, name: str = "a", request_id: str = "r1") -> None:
        self.say(TriggerJob(request_id, name, self.now))

    def act(self, name: str, *acts: Act) -> None:
        """How the coming attempts of a job go; the last one goes for all that follow."""
        self.executor.acts[name] = list(acts)

    def finish(self, name: str, state: RunState = SUCCEEDED) -> None:
        """Every running attempt of a job ends now."""
        self.say(*self.executor.finish(name, state))

    # --- time

    def stall(self, duration_us: int) -> None:
        """Time passes and the loop does not see it."""
        self.now += duration_us
        self.monotonic += duration_us

    def jump(self, by_us: int) -> None:
        """The wall clock is set; nothing else moves, and whoever sleeps sleeps as long as it meant to."""
        self.now += by_us
        self.wake_at += by_us

    def run_until(self, until: Instant | str) -> None:
        """Let the loop run as it wishes, up to and including an instant."""
        end = at(until) if isinstance(until, str) else until
        self.settle()
        while (following := self._next_at()) <= end:
            self.stall(max(following - self.now, 0))
            self.settle()
        self.stall(max(end - self.now, 0))
        self.settle()

    def run_for(self, duration_us: int) -> None:
        self.run_until(self.now + duration_us)

    def _next_at(self) -> Instant:
        report_at = self.executor.next_at()
        return self.wake_at if report_at is None else min(self.wake_at, report_at + self.now - self.monotonic)

    def settle(self) -> None:
        """Take turns until there is nothing more to do at this instant."""
        idle_turns = 0
        for _ in range(5_000):
            self.inbox += self.executor.reports()
            if not self.inbox and self.wake_at > self.now:
                return
            was_idle, ring_size = not self.inbox, len(self.state.ring)
            self.turn()
            is_idle = was_idle and not self.turns[-1][2] and len(self.state.ring) == ring_size
            idle_turns = idle_turns + 1 if is_idle else 0
            if idle_turns > 1 and self.wake_at <= self.now:
                # A real loop would burn a processor here. One such turn is a plan that gave way to what was due.
                self.spins += 1
                self.wake_at = self.now + self.settings.interval_us
        raise AssertionError("the loop does not come to rest")

    # --- one turn

    def turn(self) -> None:
        messages, self.inbox = [TimePassed(self.monotonic), *self.inbox], []
        effects, self.wake_at = decide(self.state, messages, self.now)
        self.turns.append((messages, self.now, list(effects)))
        for effect in effects:
            self._carry_out(effect)
        self.write()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Commit() | Record():
                self.writes.append(effect)
            case Launch():
                self.launches.append((self.now, effect))
                self.inbox.append(self.executor.launch(effect))
            case Stop():
                self.stops.append((self.now, effect))
                self.executor.stop(effect)
            case Reconcile():
                self.executor.reconcile(effect)
            case LookUpSubRuns() | LookUpOutcomes() | LookUpStops() | Audit() | ReadReports():
                self.writes.append(effect)
            case ReportSubRunEnd():
                self.told.append(effect)
            case LookUpPlacements(job_id):
                self.inbox.append(recall(self.store, job_id))
            case Log():
                self.logs.append(effect)

    def write(self, batches: int | None = None) -> None:
        """Write what there is to write, in order, unless the ledger is away; a number lets so many commits through."""
        while self.writes and (not self.is_ledger_away or batches):
            match self.writes.pop(0):
                case Commit(number) as commit:
                    batches = None if batches is None else batches - 1
                    try:
                        self.inbox.append(answered(number, commit_around(self.store, commit)))
                    except Fenced as fenced:
                        self.inbox.append(BatchFenced(number, fenced.buckets))
                case LookUpOutcomes() as asked:
                    self.inbox += outcomes(self.store, asked)
                case LookUpStops() as asked:
                    self.inbox += stops(self.store, asked)
                case Audit() as audit:
                    self.inbox += open_runs(self.store, audit)
                case ReadReports(number, buckets):
                    self.inbox += [*forwarded_reports(self.store, buckets), ReportsRead(number)]
                case LookUpSubRuns(keys):
                    self.inbox += look_up(self.store, keys)
                case Record(number, changes):
                    self.inbox.append(ChangesRecorded([number], self.store.record(changes)))

    # --- what became of it

    def rows(self, name: str = "a") -> list[LedgerRow]:
        return list(self.store.query(RunFilter(job_ids=[name], oldest_first=True), limit=1_000_000).rows)

    def ledger(self, name: str = "a") -> list[str]:
        """Readable lines: `09:00 succeeded catchup`, `10:00 skipped overlap`, `11:00..23:00 skipped missed x13`."""
        return [said(row) for row in self.rows(name)]

    def line(self, when: str, name: str = "a") -> LedgerRow:
        (found,) = [row for row in self.rows(name) if clock_of(row.key.scheduled_for) == when]
        return found

    def started(self, name: str = "a") -> list[str]:
        """For which times attempts were launched, in the order they were."""
        return [clock_of(launch.key.scheduled_for) for _, launch in self.launches if launch.key.job_id == name]

    def events(self, prefix: str) -> list[str]:
        return [log.event for log in self.logs if log.event.startswith(prefix)]

    def log_of(self, event: str) -> dict[str, Any]:
        (found,) = [log for log in self.logs if log.event == event]
        return dict(found.fields)

    def forgotten(self) -> list[str]:
        """Open lines of the ledger that the loop holds nowhere: nobody will ever end them."""
        return [
            f"{name} {said(row)}"
            for name, known in self.state.jobs.items()
            for row in self.rows(name)
            if row.state in OPEN and known.find(row.key) is None
        ]

    def most_at_once(self, name: str = "a") -> int:
        """The largest number of runs of a job that were under way together, by the ledger."""
        edges = []
        for row in self.rows(name):
            if row.started_at is not None:
                edges += [(row.started_at, 1), (row.finished_at or self.now + 1, -1)]
        level = most = 0
        for _, step in sorted(edges):
            level += step
            most = max(most, level)
        return most
