"""What one iteration of the loop has decided so far."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import NamedTuple

from evertick.loop.batch_builder import BatchBuilder, alone, by, commit_again, record
from evertick.loop.effects import Effect, Launch, Log, Stop
from evertick.loop.runs import EndedRun, OpenRun
from evertick.loop.state import JobState, PendingBatch, State
from evertick.model.definition import definition_text
from evertick.model.facts import NO_FACTS, facts_text, read_facts
from evertick.model.ids import request_id_of
from evertick.model.instant import Instant
from evertick.model.ledger import DefinitionLine, Request, RequestKind, ScheduleLine
from evertick.model.lifecycle import (
    ENDED,
    LAUNCHING,
    PLANNED,
    RETRYING,
    SKIPPED,
    TERMINAL,
    RunState,
    SkipReason,
    may_move,
)
from evertick.model.policy import Missed
from evertick.model.report import RunFinished
from evertick.model.run import Change, Entry, RunKey
from evertick.planning.planner import Plan


class Missing(NamedTuple):
    """A job of which occurrences were missed, and what becomes of them."""

    job_id: str
    keep: Missed
    since: Instant
    plan: Plan


class Turn:
    """Collects effects; what belongs into one transaction is gathered into one batch."""

    __slots__ = (
        "_changes",
        "_draft",
        "_effects",
        "_resubmitted",
        "missed",
        "now",
        "parted",
        "past",
        "planned",
        "state",
    )

    def __init__(self, state: State, now: Instant) -> None:
        self.state = state
        self.now = now
        self.missed: list[Missing] = []
        self.parted: list[tuple[OpenRun, str]] = []
        """Runs of which an attempt ended in this turn, and what was said of it."""
        self.planned: list[JobState] = []
        """Jobs that were planned by themselves: what of them waits may be free to go now."""
        self.past: dict[str, tuple[Instant, ...]] = {}
        """By job: occurrences that this turn has decided: one-offs that were past, and runs of an edited job."""
        self._draft = BatchBuilder()
        self._changes: list[Change] = []
        """What became of runs, for the write after the transaction."""
        self._effects: list[Effect] = []
        self._resubmitted: list[tuple[PendingBatch, Collection[int]]] = []

    # --- what goes into the transaction

    def enter(self, entry: Entry) -> OpenRun | None:
        """Put an entry into the ledger; answers the run that will come of it, if one will."""
        self._draft.entries.append(entry)
        if entry.state is not PLANNED:
            assert entry.reason is not None
            self.state.statistics.skipped[entry.reason] += entry.occurrences
            return None
        run = OpenRun(entry.key, entry.trigger, entry.decided_at)
        run.params = entry.params
        if entry.facts:
            run.facts = run.told_facts = read_facts(entry.facts)
        self._draft.entered.append(run)
        self.state.statistics.entered += 1
        return run

    def enter_once(self, job: JobState, entry: Entry) -> None:
        """Put a requested run into the ledger, unless the job has one under this key: that one stays the job's."""
        if job.find(entry.key) is not None:
            return
        run = self.enter(entry)
        assert run is not None
        if job.planned is None:
            job.planned = {}
        job.planned[entry.key] = run

    def enter_on_time(self, entries: list[Entry], runs: list[OpenRun]) -> None:
        """The same for many at once that are all on time: the hot path of a storm."""
        self._draft.entries += entries
        self._draft.entered += runs
        self.state.statistics.entered += len(runs)

    def keep_job(self, job: JobState, *, may_rewind: bool = False) -> None:
        """Write down where the job's planning stands at the end of this turn; its watermark may go back to now."""
        self._draft.jobs[job.job.id] = job
        if may_rewind:
            self._draft.rewound.add(job.job.id)

    def request(self, request: Request, rests_on: RunKey | None = None) -> None:
        """Ask something of another job, in the same transaction as what led to it.

        `rests_on` is the run whose change in that transaction led to it: without the change it is not asked.
        """
        self._draft.requests.append(request)
        if rests_on is not None:
            self._draft.rests_on[request.id] = rests_on

    def withdraw(self, key: RunKey) -> None:
        self._draft.withdrawn.append(key)

    def change_with_batch(self, change: Change) -> None:
        self._draft.changes.append(change)

    def begin_schedule(self, job: JobState, since: Instant, specs: str) -> None:
        """From `since` on, these schedules say what the ledger must account for."""
        # Never before the line that is in force: by a clock that was ahead it may lie in the future. Nor over it: runs
        # may have been entered by it in place of a backlog. Within one instant, only the last edit counts.
        job.since = since = max(since, job.since if job.since == self.now else job.since + 1)
        self._draft.schedules.append(ScheduleLine(job.job.id, since, specs))

    def define(self, job: JobState) -> None:
        """Tell the ledger what a job is now, unless it was told: its runs name that by a digest."""
        digest = job.job.definition
        if not digest or digest == job.told:
            return
        job.told = digest
        text = definition_text(job.job)
        self._draft.definitions.append(DefinitionLine(job.job.id, digest, self.state.furthest_now, text))
        self.keep_job(job)

    def tell_floor(self) -> None:
        """Let the ledger learn how far planning has come, even with nothing else to write."""
        self._draft.wants_floor = True

    def answer(self, request_id: str, job_id: str, answer: str) -> None:
        self._draft.answers[request_id] = answer
        self._draft.request_jobs[request_id] = job_id

    # --- what becomes of runs

    def forget(self, buckets: Collection[int]) -> None:
        """These buckets are no longer ours: nothing decided about them in this turn may be entered.

        What became of runs is still said: the ledger refuses it by its fence if somebody else has a newer word.
        """
        self.tell_ends(self._draft.forget(buckets))

    @property
    def has_changes(self) -> bool:
        """Whether something became of runs that is not on its way to the ledger yet."""
        said_again = any(pending.batch.changes for pending, _ in self._resubmitted)
        return bool(self._changes or self._draft.changes or said_again)

    def has_ended(self, key: RunKey) -> bool:
        """Whether a run ended in this turn; the job does not have it any more, and the ledger will."""
        return any(run.key == key and run.state in TERMINAL for run, _ in self.parted)

    def tell_ends(self, changes: Iterable[Change]) -> None:
        """Say how runs ended although a transaction of ours may no longer: it is true whoever owns them."""
        self._changes += [change for change in changes if change.state in ENDED]

    def resubmit(self, pending: PendingBatch, lost: Collection[int]) -> None:
        """A batch was fenced for some buckets: write what it says about the others."""
        self._resubmitted.append((pending, lost))

    def move(
        self,
        run: OpenRun,
        state: RunState,
        *,
        reason: SkipReason | None = None,
        detail: str | None = None,
        finished_at: Instant | None = None,
        exit_code: int | None = None,
        is_with_batch: bool = False,
    ) -> None:
        """Change a run's state, here and in the ledger; together with the batch if something there rests on it."""
        assert may_move(run.state, state), f"{run.key.run_id}: {run.state} -> {state}"
        run.state = state
        change = Change(
            run.key,
            state,
            self.now,
            run.fence,
            run.attempt,
            reason,
            run.trigger,
            run.executor or None,
            run.started_at,
            finished_at,
            run.retry_at,
            exit_code,
            detail,
            self._news_of_steps(run, all_of_it=is_with_batch) if run.steps else None,
            run.definition if state is LAUNCHING else None,
            run.earlier or None if state is RETRYING or is_with_batch else None,
            self._news_of_facts(run, all_of_it=is_with_batch) if run.facts is not NO_FACTS else None,
        )
        if is_with_batch:
            # It holds all that the earlier ones of this turn say, and they must not come after it.
            self._changes = [earlier for earlier in self._changes if earlier.key != run.key]
            self._draft.changes.append(change)
        else:
            self._changes.append(change)
        if not run.in_ledger:
            run.early_change = change
        if state in TERMINAL or state is RETRYING:
            self.parted.append((run, detail or ""))
        if state in TERMINAL:
            self._remember(run, reason, detail or "", finished_at, exit_code)

    def note(self, run: OpenRun, detail: str | None) -> None:
        """Add words, or only our fence, to a run that goes on as it is."""
        if run.awaits_ledger:
            return  # whether it is launched is for the ledger to say; that it would be must not be said behind its back
        steps, facts = self._news_of_steps(run), self._news_of_facts(run)
        known = (run.key, run.state, self.now, run.fence, run.attempt)
        self._changes.append(Change(*known, detail=detail, steps=steps, facts=facts))

    def _news_of_steps(self, run: OpenRun, *, all_of_it: bool = False) -> str | None:
        is_news = run.has_unsaid_steps or (all_of_it and bool(run.steps))
        run.has_unsaid_steps = False
        return run.steps if is_news else None

    def _news_of_facts(self, run: OpenRun, *, all_of_it: bool = False) -> str | None:
        is_news = run.facts is not run.told_facts or (all_of_it and bool(run.facts.waits))
        run.told_facts = run.facts
        return facts_text(run.facts) if is_news else None

    def _remember(
        self, run: OpenRun, reason: SkipReason | None, detail: str, finished_at: Instant | None, exit_code: int | None
    ) -> None:
        state, statistics = self.state, self.state.statistics
        if run.state is SKIPPED:
            assert reason is not None
            statistics.skipped[reason] += 1
        else:
            statistics.ended[run.state] += 1
        state.recent.append(EndedRun(self.now + state.settings.keep_us, run, detail, finished_at, exit_code))

    # --- effects that are no writing

    def launch_once_written(self, run: OpenRun) -> None:
        """Launch a run when the ledger has it that it is: for those that must not be started twice by two nodes."""
        run.awaits_ledger = True
        self._draft.launches.append(run)

    def launch(self, run: OpenRun, job: JobState, *, is_confirmed: bool = False) -> None:
        """Start an attempt; `is_confirmed` when the ledger has it already that it is started."""
        self.state.statistics.launched += 1
        known = (run.key, run.attempt, run.fence, job.job, run.trigger, run.params, job.last_success_at, run.executor)
        self._effects.append(Launch(*known, self.state.lease_until, is_confirmed or self.state.lease_until is None))

    def stop(self, run: OpenRun) -> None:
        self._effects.append(Stop(run.key, run.attempt, run.stop_detail or ""))

    def ask_to_stop(self, run: OpenRun, detail: str) -> None:
        """Ask the executor to end an active run; asking again is harmless."""
        if run.stop_detail is not None:
            return
        run.stop_detail = detail
        if run.key in self.state.foreign:
            # The executors of this node do not have it: the node that does reads it in the ledger.
            run.facts = run.facts._replace(stop=detail)
        self.note(run, detail)
        if run.state is not RETRYING:
            self.stop(run)

    def forward(self, report: RunFinished) -> None:
        """Tell the owner of a run that is no longer ours how it ended; by the ledger, so that it is not lost."""
        payload = {
            "run_id": report.key.run_id,
            "attempt": report.attempt,
            "at": report.at,
            "state": report.state,
            "exit_code": report.exit_code,
            "detail": report.detail,
            "steps": report.steps,
            "executor": report.executor,
            "broken": report.broken,
            "has_loss": report.has_loss,
            "loss": report.loss,
            "node": self.state.node,
        }
        # Under an id of its own: an owner that had a newer word may have answered an earlier one without using it.
        said = request_id_of("report", report.key.run_id, report.attempt, by(self.state, self.state.next_batch))
        request = Request(said, RequestKind.REPORT, report.key.job_id, json.dumps(payload), self.now)
        self._effects.append(alone(self.state, request))

    def do(self, effect: Effect) -> None:
        self._effects.append(effect)

    def log(self, event: str, *, is_alarming: bool = False, **fields: object) -> None:
        self._effects.append(Log(event, fields, is_alarming))

    # --- the end of it

    def effects(self) -> list[Effect]:
        """Everything, commits first: a launch or a change never overtakes the entry it is about."""
        self._gather_answered()
        writes: list[Effect] = [commit_again(self.state, pending, lost) for pending, lost in self._resubmitted]
        if not self._draft.is_empty:
            writes.append(self._draft.commit(self.state))
        if self._changes:
            writes.append(record(self.state, self._changes))
        return writes + self._effects

    def _gather_answered(self) -> None:
        """An answer says that something was done: what became of its job's runs is written with it, or neither is."""
        answered = set(self._draft.request_jobs.values())
        if not answered:
            return
        # Not of a run that is entered here: if it was there before, the ledger refuses the entry, and all behind it.
        entered = {entry.key for entry in self._draft.entries}
        behind: list[Change] = []
        for change in self._changes:
            is_gathered = change.key.job_id in answered and change.key not in entered
            (self._draft.changes if is_gathered else behind).append(change)
        self._changes = behind
