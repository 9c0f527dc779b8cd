"""What one iteration of the loop has decided so far."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import NamedTuple

from evertick.loop.batch_builder import BatchBuilder, by, commit_again, commit_reports, record
from evertick.loop.effects import Effect, Launch, Log, Stop
from evertick.loop.job_state import JobState
from evertick.loop.runs import EndedRun, OpenRun
from evertick.loop.state import PendingBatch, State
from evertick.model.answer import Answer, answer_text
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
from evertick.model.run import Change, Entry, RunKey, change_of
from evertick.planning.deadlines import Deadline
from evertick.planning.planner import Plan


class MissedOccurrences(NamedTuple):
    """A job with missed occurrences, and what happens to them."""

    job_id: str
    keep: Missed
    since: Instant
    plan: Plan


class Turn:
    """Collects effects; what belongs in one transaction goes into one batch."""

    __slots__ = (
        "_changes",
        "_draft",
        "_effects",
        "_forwarded",
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
        self.missed: list[MissedOccurrences] = []
        self.parted: list[tuple[OpenRun, str]] = []
        """Runs of which an attempt ended in this turn, with the report."""
        self.planned: list[JobState] = []
        """Jobs that were planned individually: their waiting runs may be able to start."""
        self.past: dict[str, tuple[Instant, ...]] = {}
        """By job, occurrences that this turn has decided: past one-offs, and runs of an edited job."""
        self._draft = BatchBuilder()
        self._changes: list[Change] = []
        """The outcomes of runs, for the write after the transaction."""
        self._effects: list[Effect] = []
        self._forwarded: list[Request] = []
        """Reports to the owners of other jobs."""
        self._resubmitted: list[tuple[PendingBatch, Collection[int]]] = []

    # --- what goes into the transaction

    def enter(self, entry: Entry) -> OpenRun | None:
        """Enter an occurrence in the ledger; returns its run, if there is one."""
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
        self.state.statistics.entered += not run.is_item
        return run

    def enter_once(self, job: JobState, entry: Entry) -> None:
        """Enter a requested run in the ledger, unless the job has one with this key."""
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
        """Record the job's planning state at the end of this turn; its watermark may move back to now."""
        self._draft.jobs[job.job.id] = job
        if may_rewind:
            self._draft.rewound.add(job.job.id)

    def miss_deadline(self, job: JobState, deadline: Deadline) -> None:
        """A deadline has passed without a success: settled in the transaction, and reported when that is written."""
        self._draft.misses[job.job.id] = deadline
        self.keep_job(job)

    def request(self, request: Request, rests_on: RunKey | None = None) -> None:
        """Request something of another job, in the same transaction as its cause.

        `rests_on` is the run whose change in that transaction is the cause: without the change there is no request.
        """
        self._draft.requests.append(request)
        if rests_on is not None:
            self._draft.rests_on[request.id] = rests_on

    def withdraw(self, key: RunKey) -> None:
        self._draft.withdrawn.append(key)

    def change_with_batch(self, change: Change) -> None:
        self._draft.changes.append(change)

    def begin_schedule(self, job: JobState, since: Instant, specs: str) -> None:
        """From `since` on, `verify` expects the occurrences of these schedules."""
        # Never before the line in force: by a clock that was ahead it may be in the future. Nor over it: runs may have
        # been entered by it in place of a backlog. Within one instant, only the last edit counts.
        job.since = since = max(since, job.since if job.since == self.now else job.since + 1)
        self._draft.schedules.append(ScheduleLine(job.job.id, since, specs))

    def define(self, job: JobState) -> None:
        """Write a job's definition to the ledger, unless it is there: runs refer to it by a digest."""
        digest = job.job.definition
        if not digest or digest == job.told:
            return
        job.told = digest
        text = definition_text(job.job)
        self._draft.definitions.append(DefinitionLine(job.job.id, digest, self.state.furthest_now, text))
        self.keep_job(job)

    def write_floors(self) -> None:
        """Record how far planning has come, even if there is nothing else to write."""
        self._draft.wants_floor = True

    def answer(self, request_id: str, job_id: str, answer: Answer) -> None:
        self._draft.answers[request_id] = answer_text(answer)
        self._draft.request_jobs[request_id] = job_id

    # --- outcomes of runs

    def forget(self, buckets: Collection[int]) -> None:
        """This node no longer owns these buckets: drop the entries decided about them in this turn.

        The outcomes of runs are still written: the ledger refuses them by their fence if another node has newer ones.
        """
        self.write_ends(self._draft.forget(buckets))

    @property
    def has_changes(self) -> bool:
        """Whether there are outcomes of runs that are not being written yet."""
        is_resubmitting = any(pending.batch.changes for pending, _ in self._resubmitted)
        return bool(self._changes or self._draft.changes or is_resubmitting)

    def has_ended(self, key: RunKey) -> bool:
        """Whether a run ended in this turn; its job no longer has it, and the ledger will."""
        return any(run.key == key and run.state in TERMINAL for run, _ in self.parted)

    def write_ends(self, changes: Iterable[Change]) -> None:
        """Record how runs ended outside of a transaction: this is true whichever node owns them."""
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
        """Change a run's state, here and in the ledger; in the batch if something there rests on it."""
        assert may_move(run.state, state), f"{run.key.run_id}: {run.state} -> {state}"
        run.state = state
        change = change_of(
            (
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
        )
        if is_with_batch:
            # It contains everything that earlier changes of this turn say, and they must not follow it.
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
        """Add a detail, or only our fence, to a run that continues unchanged."""
        if run.awaits_ledger:
            return  # the ledger says whether it is launched; an unrecorded launch must not be written as recorded
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
        if run.is_item:
            pass
        elif run.state is SKIPPED:
            assert reason is not None
            statistics.skipped[reason] += 1
        else:
            statistics.ended[run.state] += 1
        forget_at = self.now + state.settings.keep_us
        state.unwritten_ends[run.key] = EndedRun(forget_at, run, detail, finished_at, exit_code)

    # --- effects other than writes

    def launch_once_written(self, run: OpenRun) -> None:
        """Launch a run after the ledger has recorded it: for at-most-once runs."""
        run.awaits_ledger = True
        self._draft.launches.append(run)

    def launch(self, run: OpenRun, job: JobState, *, is_confirmed: bool = False) -> None:
        """Start an attempt; `is_confirmed` if the ledger has already recorded the launch."""
        self.state.statistics.launched += not run.is_item
        known = (run.key, run.attempt, run.fence, job.job, run.trigger, run.params, job.last_success_at, run.executor)
        is_confirmed = is_confirmed or self.state.lease_until is None
        self._effects.append(Launch(*known, self.state.lease_until, is_confirmed, run.borrows))

    def stop(self, run: OpenRun) -> None:
        self._effects.append(Stop(run.key, run.attempt, run.stop_detail or ""))

    def ask_to_stop(self, run: OpenRun, detail: str) -> None:
        """Ask the executor to stop an active run; asking again is harmless."""
        if run.stop_detail is not None:
            return
        run.stop_detail = detail
        if run.key in self.state.foreign:
            # The executors of this node do not have it: the node that has it reads this in the ledger.
            run.facts = run.facts._replace(stop=detail)
        self.note(run, detail)
        if run.state is not RETRYING:
            self.stop(run)

    def forward(self, report: RunFinished) -> None:
        """Report to the owner of a run of another node how it ended; through the ledger, so that it is not lost."""
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
        # Under its own id: an owner with newer information may have answered an earlier one without using it.
        place = f"{by(self.state, self.state.next_batch)}.{len(self._forwarded)}"
        said = request_id_of("report", report.key.run_id, report.attempt, place)
        self._forwarded.append(Request(said, RequestKind.REPORT, report.key.job_id, json.dumps(payload), self.now))

    def do(self, effect: Effect) -> None:
        self._effects.append(effect)

    def log(self, event: str, *, is_alarming: bool = False, **fields: object) -> None:
        self._effects.append(Log(event, fields, is_alarming))

    # --- the end of it

    def effects(self) -> list[Effect]:
        """All effects, commits first: a launch or a change never overtakes the entry it is about."""
        self._gather_answered()
        writes: list[Effect] = [commit_again(self.state, pending, lost) for pending, lost in self._resubmitted]
        if not self._draft.is_empty:
            writes.append(self._draft.commit(self.state))
        if self._changes:
            writes.append(record(self.state, self._changes))
        writes += commit_reports(self.state, self._forwarded)
        return writes + self._effects

    def _gather_answered(self) -> None:
        """An answer says that something was done: the changes to its job's runs are written with it, or neither is."""
        answered = set(self._draft.request_jobs.values())
        if not answered:
            return
        # Not of a run that is entered here: if it was there before, the ledger refuses the entry, and all after it.
        entered = {entry.key for entry in self._draft.entries}
        behind: list[Change] = []
        for change in self._changes:
            is_gathered = change.key.job_id in answered and change.key not in entered
            (self._draft.changes if is_gathered else behind).append(change)
        self._changes = behind
