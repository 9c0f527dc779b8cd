"""The planner as the contract reads, one occurrence at a time: slow, obvious, and the oracle of the real one."""

from __future__ import annotations

from dataclasses import dataclass

from evertick.model.instant import Instant
from evertick.model.lifecycle import SkipReason, Trigger
from evertick.model.policy import Missed, OverlapKind
from evertick.model.schedule import AtSpec, ScheduleSpec
from evertick.planning.planner import JobView, Plan
from evertick.planning.schedules import compile_schedule

RUN = "run"
NOT_KEPT = {
    Missed.FIRST: SkipReason.OVERLAP,
    Missed.LATEST: SkipReason.SUPERSEDED,
    Missed.ALL: SkipReason.CAP,
}


@dataclass(frozen=True)
class Fate:
    """What becomes of one occurrence: a run with its trigger, or a skip with its reason."""

    what: Trigger | SkipReason

    @property
    def is_skip(self) -> bool:
        return isinstance(self.what, SkipReason)


ON_TIME, CAUGHT_UP = Fate(Trigger.SCHEDULER), Fate(Trigger.CATCHUP)


def instants_of(specs: tuple[ScheduleSpec, ...], start: Instant, end: Instant) -> list[Instant]:
    """Every occurrence in `(start, end]`, schedule by schedule."""
    found: set[Instant] = set()
    for spec in specs:
        found.update(compile_schedule(spec).between(start, end))
    return sorted(found)


def expected(view: JobView, now: Instant, preread_us: int) -> tuple[dict[Instant, Fate], dict[Instant, Fate]]:
    """What becomes of each new occurrence, and of each that was entered ahead and is late by now."""
    policy = view.job.policy
    keep = policy.missed if view.keep is None else view.keep
    one_offs = {spec.instant for spec in view.job.schedules if isinstance(spec, AtSpec)}
    new = instants_of(view.job.schedules, view.watermark, max(now + preread_us, view.watermark))
    ahead = [at for at in view.planned if now - at > policy.grace_us]
    # Nothing is on time that came while the job was paused or disabled.
    grace_us = policy.grace_us if view.idle_reason is SkipReason.MISSED else 0

    fates: dict[Instant, Fate] = {}
    candidates: list[Instant] = []
    for at in sorted({*new, *ahead}):
        is_one_off = at in one_offs and policy.run_missed_one_off and view.keep is not Missed.NONE
        is_outside = policy.catchup_window_us is not None and now - at >= policy.catchup_window_us
        is_late = policy.max_delay_us is not None and now - at > policy.max_delay_us
        if now - at <= grace_us:
            fates[at] = ON_TIME
        elif is_one_off:
            fates[at] = Fate(SkipReason.LATE) if is_late else CAUGHT_UP
            if not (is_outside or is_late):
                candidates.append(at)
        elif is_outside or keep is Missed.NONE:
            fates[at] = Fate(view.idle_reason)
        elif is_late:
            fates[at] = Fate(SkipReason.LATE)
        else:
            candidates.append(at)

    # The newest of all is kept, and an on-time one is newer than every missed one.
    on_time = {at for at, fate in fates.items() if fate == ON_TIME}.union(view.planned).difference(ahead)
    is_superseded = keep is Missed.LATEST and policy.overlap.kind is OverlapKind.LATEST and bool(on_time)

    kept: list[Instant] = (
        []
        if is_superseded
        else {
            Missed.NONE: [],
            Missed.FIRST: candidates[:1],
            Missed.LATEST: candidates[-1:],
            Missed.ALL: candidates[-policy.backlog_max :],
        }[keep]
    )
    for at in candidates:
        if at in kept:
            fates[at] = CAUGHT_UP
        elif at not in fates:
            fates[at] = Fate(NOT_KEPT[keep])
    return {at: fates[at] for at in new}, {at: fates[at] for at in ahead}


def spelled_out(view: JobView, plan: Plan) -> dict[Instant, Fate]:
    """The entries of a real plan, one by one; gaps are opened up, and nothing may be there twice."""
    found: dict[Instant, Fate] = {}
    for entry in plan.entries:
        first = entry.key.scheduled_for
        members = [first]
        if entry.is_gap:
            assert entry.through is not None
            members = instants_of(view.job.schedules, first - 1, entry.through)
            assert members[0] == first, "a gap begins at an occurrence"
            assert members[-1] == entry.through, "a gap ends at an occurrence"
            assert len(members) == entry.occurrences, "a gap counts what is in it"
        for at in members:
            assert at not in found, "decided twice"
            found[at] = Fate(entry.trigger if entry.reason is None else entry.reason)
    return found
