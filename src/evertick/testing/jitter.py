"""Do runs of jobs with jitter start within it: not before their own start, and not missed before its end?"""

from __future__ import annotations

from collections.abc import Iterable

from evertick.loop.state import State
from evertick.model.facts import read_facts
from evertick.model.instant import Instant, to_text
from evertick.model.lifecycle import LAUNCHING, PLANNED, SKIPPED, WAITING, SkipReason, Trigger
from evertick.model.run import Change, Entry, RunKey
from evertick.testing.invariants import Violation


class JitterWatch:
    """Observes what the nodes of a world decide about occurrences of jobs with jitter."""

    def __init__(self) -> None:
        self._starts: dict[RunKey, Instant] = {}
        self._waited: set[RunKey] = set()
        """What started later because something was in its way."""

    def decided(self, state: State, entries: Iterable[Entry], changes: Iterable[Change]) -> None:
        """What one turn of a node has entered and changed."""
        for entry in entries:
            job = state.jobs.get(entry.key.job_id)
            if job is not None and job.job.policy.jitter_us and entry.state is PLANNED and not entry.key.origin:
                self._check_entry(entry, job.job.policy.jitter_us)
        for change in changes:
            if change.key in self._starts:
                self._check_change(state, change)

    def _check_entry(self, entry: Entry, jitter_us: int) -> None:
        facts, scheduled_for = read_facts(entry.facts), entry.key.scheduled_for
        if entry.trigger is not Trigger.SCHEDULER or facts.calendar:
            return  # a missed occurrence starts as soon as it can, and one of an excluded day never does
        if not scheduled_for <= facts.starts_at <= scheduled_for + jitter_us:
            raise Violation(f"{entry.key.run_id} is to start at {to_text(facts.starts_at)}, outside of its jitter")
        self._starts[entry.key] = facts.starts_at

    def _check_change(self, state: State, change: Change) -> None:
        key, job = change.key, state.jobs.get(change.key.job_id)
        if change.state is WAITING:
            self._waited.add(key)
        if job is None or key in self._waited:
            return
        policy = job.job.policy
        on_time_until = max(key.scheduled_for + policy.jitter_us, self._starts[key]) + policy.grace_us
        if change.state is SKIPPED and change.reason is SkipReason.MISSED and change.at <= on_time_until:
            raise Violation(f"{key.run_id} was called missed at {to_text(change.at)}, within its jitter")
        run = job.find(key)
        if change.state is not LAUNCHING:
            return
        starts_at = self._starts.pop(key)  # the next owner writes the same state again, whenever it takes over
        if change.attempt != 1 or run is None or run.trigger is not Trigger.SCHEDULER:
            return
        if change.at < starts_at:
            raise Violation(f"{key.run_id} started at {to_text(change.at)}, before its jitter ended")
        if change.at > on_time_until:
            raise Violation(f"{key.run_id} started at {to_text(change.at)}, later than its jitter and its grace allow")
