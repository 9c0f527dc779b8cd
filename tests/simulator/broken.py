"""Stores and loops that break one rule each, to check that the simulator notices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from unittest import mock

from evertick.errors import StoreUnavailable
from evertick.executor import AttemptId
from evertick.executors.fleet.assignments import Assignments
from evertick.executors.fleet.membership import Membership
from evertick.executors.fleet.task import NotEnded, Part, PartEnd, Task, merge_ends
from evertick.loop import constraints, fire, reports
from evertick.loop.decide import decide
from evertick.loop.effects import Audit, Commit, Decision, Effect, Launch, Log, Record, ReportSubRunEnd
from evertick.loop.job_state import JobState
from evertick.loop.messages import DefinitionsChanged, DefinitionsResynced, Message, NodesSeen, TimePassed
from evertick.loop.ring import Ring
from evertick.loop.runs import OpenRun
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.ledger import Claim, Request
from evertick.model.lifecycle import PLANNED, SUCCEEDED, TERMINAL, WAITING
from evertick.model.policy import OnExecutorLost
from evertick.model.report import AttemptReport, RunFinished
from evertick.model.run import Change, Entry, RunKey
from evertick.planning.planner import JobView
from evertick.routing.placement import Placement
from evertick.store import Batch, Committed
from evertick.stores.memory import MemoryStore
from evertick.stores.memory.lines import changed, line_of
from evertick.testing.members import SimulatedMember

# Stores


class DropsAnEntry(MemoryStore):
    """Every tenth batch loses its last entry, and nobody is told."""

    commits = 0

    def commit(self, batch: Batch) -> Committed:
        self.commits += bool(batch.entries)
        if batch.entries and self.commits % 10 == 0:
            batch = replace(batch, entries=batch.entries[:-1])
        return super().commit(batch)


class HasNoUniqueKey(MemoryStore):
    """The last who decides an occurrence is right."""

    def _enter(self, entry: Entry, by: str) -> bool:
        self._keep(line_of(entry, by))
        return True


class ForgetsHalfACommit(MemoryStore):
    """A commit that fails has moved the watermarks already."""

    commits = 0

    def commit(self, batch: Batch) -> Committed:
        self.commits += bool(batch.entries)
        if batch.entries and self.commits % 5 == 0:
            super().commit(replace(batch, entries=(), by=f"{batch.by}/half"))
            raise StoreUnavailable("the connection broke")
        return super().commit(batch)


class OverwritesTheEnded(MemoryStore):
    """A late change goes over what had ended."""

    def _apply(self, changes: Iterable[Change]) -> frozenset[RunKey]:
        changes = list(changes)
        for change in changes:
            row = self._rows.get(change.key)
            if row is not None and row.state in TERMINAL:
                self._rows[change.key] = changed(row, change)
        return super()._apply(changes)


class IgnoresFences(MemoryStore):
    """An old owner may write as if it were the new one."""

    def _apply(self, changes: Iterable[Change]) -> frozenset[RunKey]:
        changes = list(changes)
        for change in changes:
            row = self._rows.get(change.key)
            if row is not None and row.state not in TERMINAL and change.fence < row.fence:
                self._rows[change.key] = changed(row, change)
        return super()._apply(changes)


class IgnoresPriorities(MemoryStore):
    """A place in a queue goes to whoever asks first, whoever waits on other nodes."""

    def _crowded(self, claims: Sequence[Claim]) -> tuple[frozenset[RunKey], frozenset[RunKey]]:
        return super()._crowded([claim._replace(priorities={}) for claim in claims])


# Loops


def moves_the_watermark_first(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """Two transactions: how far planning has come, and then what was planned."""
    decision = decide(state, messages, now)
    effects: list[Effect] = []
    for effect in decision.effects:
        if isinstance(effect, Commit) and effect.batch.entries:
            batch = effect.batch
            effects.append(Commit(-effect.number, replace(batch, entries=(), by=f"{batch.by}/first")))
            effect = Commit(effect.number, Batch(by=batch.by, entries=batch.entries, epochs=batch.epochs))
        effects.append(effect)
    return Decision(effects, decision.wake_at)


def launches_before_the_commit(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    decision = decide(state, messages, now)
    early = [
        Launch(entry.key, 1, 1, state.definitions[entry.key.job_id], entry.trigger, "", None)
        for effect in decision.effects
        if isinstance(effect, Commit)
        for entry in effect.batch.entries
        if entry.state is PLANNED and entry.key.job_id in state.definitions
    ]
    return Decision([*decision.effects, *early], decision.wake_at)


def forgets_a_launch(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """One launch in a dozen is decided, written down, and never made."""
    decision = decide(state, messages, now)
    kept = [
        effect
        for effect in decision.effects
        if not (isinstance(effect, Launch) and effect.key.scheduled_for // 1_000_000 % 12 == 0 and effect.attempt == 1)
    ]
    return Decision(kept, decision.wake_at)


def forgets_what_became_of_runs(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    decision = decide(state, messages, now)
    effects = [
        Record(effect.number, [change for change in effect.changes if change.state not in TERMINAL])
        if isinstance(effect, Record)
        else effect
        for effect in decision.effects
    ]
    return Decision(
        [effect for effect in effects if not isinstance(effect, Record) or effect.changes], decision.wake_at
    )


def takes_requests_again(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """A request that is delivered again before its answer is written makes its run anew, in the place of the first."""

    def enter(turn: Turn, job: JobState, entry: Entry) -> None:
        run = turn.enter(entry)
        assert run is not None
        job.planned = {**(job.planned or {}), entry.key: run}

    state.handled = {key: one for key, one in state.handled.items() if key in state.cancelling}
    with mock.patch.object(Turn, "enter_once", enter):
        return decide(state, messages, now)


def launches_without_a_lease(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """What the ledger confirms is launched, whoever may own it by then."""

    def launch(_state: State, turn: Turn, job: JobState, run: OpenRun) -> None:
        turn.launch(run, job)

    with mock.patch.object(reports, "launch_written", launch):
        return decide(state, messages, now)


def forgets_what_waits_for_a_lease(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """A lease that is renewed wakes nobody."""
    with mock.patch("evertick.loop.decide._continue_jobs"):
        return decide(state, messages, now)


def overlooks_what_others_hold(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """A node that gives no sign of life has lost its runs, whatever its keeper does."""
    blind = [NodesSeen(one.nodes) if isinstance(one, NodesSeen) else one for one in messages]
    return decide(state, blind, now)


def passes_over_jobs_of_others(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """What a run requires of jobs that another node owns is taken for granted."""
    with mock.patch.object(fire, "must_ask", return_value=False):
        return decide(state, messages, now)


def judges_requirements_only_when_due(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """A run that waits for its turn starts then, however the one before it has ended."""
    judge, ask = constraints.missing_success, constraints.must_ask

    def missing(state: State, turn: Turn, job: JobState, run: OpenRun) -> str | None:
        return None if run.state is WAITING else judge(state, turn, job, run)

    def must_ask(state: State, turn: Turn, job: JobState, run: OpenRun) -> bool:
        return run.state is not WAITING and ask(state, turn, job, run)

    with mock.patch.object(fire, "missing_success", missing), mock.patch.object(fire, "must_ask", must_ask):
        return decide(state, messages, now)


def loses_runs_and_finds_them(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """One start in a dozen is forgotten, as if the ring had dropped it; that the audit finds it is no failure."""

    def offer(state: State, turn: Turn, job: JobState, run: OpenRun) -> None:
        if run.key.scheduled_for // 1_000_000 % 12 or run.key in state.audit.stalled:
            production(state, turn, job, run)

    production = fire.offer
    with mock.patch.object(fire, "offer", offer):
        decision = decide(state, messages, now)
    kept = [effect for effect in decision.effects if not (isinstance(effect, Log) and effect.event == "run.stuck")]
    return Decision(kept, decision.wake_at)


def loses_runs_for_ever(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """The same without an audit."""
    decision = loses_runs_and_finds_them(state, messages, now)
    return Decision([effect for effect in decision.effects if not isinstance(effect, Audit)], decision.wake_at)


def never_tells_steps(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """A step that waits for a run of another job never hears how that ended."""
    decision = decide(state, messages, now)
    kept = [effect for effect in decision.effects if not isinstance(effect, ReportSubRunEnd)]
    return Decision(kept, decision.wake_at)


def tells_steps_that_all_is_well(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    decision = decide(state, messages, now)
    effects = [
        effect._replace(end=effect.end._replace(state=SUCCEEDED)) if isinstance(effect, ReportSubRunEnd) else effect
        for effect in decision.effects
    ]
    return Decision(effects, decision.wake_at)


# The scheduler's side of a fleet


def takes_the_first_refusal(self: Assignments, task: Task, part: Part) -> None:
    """Of an order that was said twice, the second one may be taken."""
    self._ended(task, part, PartEnd(part.member, NotEnded.REFUSED, 0, None, part.refusal))


_answer = SimulatedMember._answer


def forgets_who_asked(member: SimulatedMember, attempt_id: AttemptId, fence: int) -> None:
    """A member says that it does not know a run, and takes an older order for it all the same."""
    before = dict(member._fences)
    _answer(member, attempt_id, fence)
    member._fences = before


def submits_all(batch: Batch, _: Collection[RunKey]) -> Sequence[Request]:
    """A request is submitted although the ledger refused what led to it."""
    return batch.requests


def sets_no_limits(_: Assignments, *__: object) -> dict[str, int]:
    """A member may start what it is given whenever it arrives."""
    return {}


def hides_lost_shards(key: RunKey, attempt: int, placement: Placement, ends: Mapping[int, PartEnd]) -> AttemptReport:
    """What a broadcast is told of one that failed does not say that the end of another is unknown."""
    report = merge_ends(key, attempt, placement, ends)
    return report._replace(has_loss=False) if isinstance(report, RunFinished) else report


def gives_up_the_silent(self: Membership, name: str, now: float) -> bool:
    """As soon as a member is silent, without waiting for its lease."""
    silence = self.silence_of(name, now)
    return silence is not None and silence > self._silence


def never_looks_at_the_clock(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    return decide(state, [message for message in messages if not isinstance(message, TimePassed)], now)


def never_answers(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    decision = decide(state, messages, now)
    effects = [
        Commit(effect.number, replace(effect.batch, answers={})) if isinstance(effect, Commit) else effect
        for effect in decision.effects
    ]
    return Decision(effects, decision.wake_at)


def forgets_deadlines(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    state.deadlines = Ring()
    return decide(state, messages, now)


def settles_deadlines_in_memory(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """The next process does not know which were reported."""
    decision = decide(state, messages, now)
    effects = [_without_deadlines(effect) if isinstance(effect, Commit) else effect for effect in decision.effects]
    return Decision(effects, decision.wake_at)


def _without_deadlines(commit: Commit) -> Commit:
    jobs = [record._replace(deadlines_through=0) for record in commit.batch.jobs]
    return commit._replace(batch=replace(commit.batch, jobs=jobs))


def never_sleeps(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    return Decision(decide(state, messages, now).effects, now)


def never_plans(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """It lives, it answers, and it does nothing."""
    decision = decide(state, messages, now)
    return Decision([effect for effect in decision.effects if isinstance(effect, Log)], decision.wake_at)


def tries_the_lost_again(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """Believes that every job is at-least-once."""
    decision = decide(state, [_told(message) for message in messages], now)
    effects = [
        effect._replace(job=_with_loss(effect.job, OnExecutorLost.FAIL)) if isinstance(effect, Launch) else effect
        for effect in decision.effects
    ]
    return Decision(effects, decision.wake_at)


def repeats_every_shard(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """A retry of a broadcast is the whole broadcast again."""
    decision = decide(state, messages, now)
    effects = [
        effect._replace(executor=effect.executor.replace("+", "")) if isinstance(effect, Launch) else effect
        for effect in decision.effects
    ]
    return Decision(effects, decision.wake_at)


def forgets_where_it_put_them(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    decision = decide(state, messages, now)
    effects = [
        effect._replace(executor="fleet") if isinstance(effect, Launch) and effect.attempt > 1 else effect
        for effect in decision.effects
    ]
    return Decision(effects, decision.wake_at)


def _told(message: Message) -> Message:
    if isinstance(message, DefinitionsChanged | DefinitionsResynced):
        return message._replace(jobs=[_with_loss(job, OnExecutorLost.RETRY) for job in message.jobs])
    return message


def _with_loss(job: Job, lost: OnExecutorLost) -> Job:
    return replace(job, policy=replace(job.policy, on_executor_lost=lost))


def starts_without_jitter(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """An occurrence starts at its time, whatever was decided when it was entered."""
    with mock.patch.object(OpenRun, "starts_at", property(lambda run: run.key.scheduled_for)):
        return decide(state, messages, now)


def counts_jitter_as_lateness(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """What starts by its jitter, later than the grace, is missed."""
    with (
        mock.patch.object(OpenRun, "latest_start", lambda run, _policy: run.key.scheduled_for),
        mock.patch.object(JobView, "latest_start", lambda _view, at: at),
    ):
        return decide(state, messages, now)
