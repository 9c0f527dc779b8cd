"""Given a job, what the ledger knows of it and the time: what is entered, what is skipped and why, and until when.

One path for live, late, caught-up and resumed occurrences. Every occurrence after the watermark, up to the new one,
ends in the result exactly once: as an entry to run, or inside a skip with its reason.

    watermark ........ replay_from ........ late_through ........ missed_through .... now .... now + preread
              missed                 late               by `missed`            on time: planned
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evertick.model.blackout import Blackout, blackout_at, ended_through, split_stretch
from evertick.model.facts import Facts, facts_text
from evertick.model.instant import Instant, to_text
from evertick.model.job import Job
from evertick.model.lifecycle import PLANNED, SKIPPED, SkipReason, Trigger
from evertick.model.policy import Missed, OverlapKind
from evertick.model.run import Change, Entry, RunKey
from evertick.model.schedule import AtSpec
from evertick.planning.calendar import excluded_text
from evertick.planning.catchup import REASON_NOT_KEPT, is_missed, is_too_late, keep_missed, missed_through, replay_from
from evertick.planning.entries import blackout_facts, planned_facts, skip_excluded, skip_stretch
from evertick.planning.schedules import (
    Schedule,
    compile_all,
    excluded_of,
    exclusion_of,
    first_of,
    next_of,
    occurrences,
)


@dataclass(frozen=True, slots=True)
class JobView:
    """What the ledger knows of a job when it is planned."""

    job: Job
    watermark: Instant
    planned: tuple[Instant, ...] = ()
    """Planned occurrences that were on time and were not fired; the late ones among them are decided again."""
    waiting: tuple[RunKey, ...] = ()
    """The backlog, oldest first: it is in the ledger, also where it lies after the watermark."""
    idle_reason: SkipReason = SkipReason.MISSED
    """Why nothing was planned since the watermark: the scheduler was away, or the job was paused or disabled."""
    keep: Missed | None = None
    """What a person chose on resuming, instead of the job's own policy."""
    skipped: tuple[Instant, ...] = ()
    """Occurrences after the watermark that the transaction of this plan enters as skipped already."""
    excluded: Mapping[Instant, Facts] = field(default_factory=dict)
    """Those of `planned` that a calendar excluded when they were entered, and what it said."""
    starts: Mapping[Instant, Instant] = field(default_factory=dict)
    """Those of `planned` that start later by jitter, and when."""

    @property
    def was_held(self) -> bool:
        return self.idle_reason is not SkipReason.MISSED

    @property
    def keeps(self) -> Missed:
        return self.job.policy.missed if self.keep is None else self.keep

    @property
    def keeps_newest_only(self) -> bool:
        """Whether a newer occurrence takes the place of every older one that has not started."""
        return self.keeps is Missed.LATEST and self.job.policy.overlap.kind is OverlapKind.LATEST

    def latest_start(self, at: Instant) -> Instant:
        """The last instant at which its jitter lets a planned occurrence start, whatever was edited since."""
        return max(at + self.job.policy.jitter_us, self.starts.get(at, 0))

    @property
    def instants_in_ledger(self) -> frozenset[Instant]:
        """What is there already, and must not be entered again where an edit lets the plan begin before it."""
        waiting = (key.scheduled_for for key in self.waiting if not key.origin)
        return frozenset(self.planned).union(waiting, self.skipped)


@dataclass(frozen=True, slots=True)
class Plan:
    entries: tuple[Entry, ...]
    """To commit, oldest first: runs to be (`planned`), skips, and gaps."""
    changes: tuple[Change, ...]
    """To entries that are in the ledger already."""
    watermark: Instant
    wake_at: Instant | None
    """When there is something to plan again; None: never."""

    @property
    def kept(self) -> int:
        """How many missed occurrences will run."""
        return sum(entry.trigger is Trigger.CATCHUP and entry.state is PLANNED for entry in self.entries) + sum(
            change.state is PLANNED for change in self.changes
        )

    @property
    def skipped(self) -> int:
        return sum(occurrences for _, _, occurrences in self.skips())

    def skips(self) -> Iterator[tuple[RunKey, SkipReason, int]]:
        """Where each skipped stretch begins, why, and how many occurrences it has."""
        told: tuple[Change | Entry, ...] = (*self.changes, *self.entries)
        for skip in told:
            if skip.state is SKIPPED:
                assert skip.reason is not None, "a skip is a result, with a reason"
                yield skip.key, skip.reason, skip.occurrences if isinstance(skip, Entry) else 1


def plan(view: JobView, now: Instant, preread_us: int) -> Plan:
    """Settle every occurrence after the watermark, up to `now + preread`."""
    job = view.job
    schedules = compile_all(job.schedules)
    # A clock that went backward must not decide anything a second time, nor call the future missed.
    through = max(now + preread_us, view.watermark)
    # The grace is for a scheduler that is a little late. While the job was held, none was late: all of it is settled.
    grace_us = 0 if view.was_held else job.policy.on_time_us
    missed_end = min(max(missed_through(now, grace_us), view.watermark), through)
    late_through = missed_through(now, job.policy.on_time_us)
    held_through = ended_through(job.blackouts, now) if job.blackouts else None
    if held_through is not None:
        # The same for a blackout that is over.
        missed_end = min(max(missed_end, held_through), through)
        late_through = max(late_through, held_through)
    late_planned = tuple(at for at in view.planned if _is_late(view, at, late_through, now))
    excluded = excluded_of(schedules)
    every: Sequence[Schedule] = (*schedules, *excluded) if excluded else schedules

    # On an excluded day it is entered like any other, so that an edit can withdraw it, and skipped when it is due.
    on_time = _enter_on_time(view, every, missed_end, through, now)
    planned_on_time = [at for at in view.planned if at not in late_planned]
    late_excluded: list[Change] = []
    if excluded or view.excluded:
        late_excluded = _skip_planned(view, late_planned, now)
        taken = {change.key.scheduled_for for change in late_excluded}
        late_planned = tuple(at for at in late_planned if at not in taken)
    candidates = [*planned_on_time, *(entry.key.scheduled_for for entry in on_time)]
    if excluded:
        candidates = [at for at in candidates if exclusion_of(job.schedules, at) is None]
    newest_on_time = max(candidates, default=None)
    on_excluded_days = (
        skip_excluded(job.id, schedules, excluded, view.watermark, missed_end, view.instants_in_ledger, now)
        if excluded
        else []
    )
    settled = _settle_missed(view, schedules, late_planned, missed_end, newest_on_time, on_excluded_days, now)
    entries = [*settled.entries, *on_time]
    changes = [*late_excluded, *settled.changes, *_clear_backlog(view, settled.kept, newest_on_time, now)]
    wake_at = next_of(every, through)
    return Plan(
        entries=tuple(entries),
        changes=tuple(changes),
        watermark=through,
        wake_at=None if wake_at is None else wake_at - preread_us,
    )


def _is_late(view: JobView, at: Instant, late_through: Instant, now: Instant) -> bool:
    """Whether a planned occurrence is; one that jitter delays is late by its start, unless a blackout holds it."""
    if not view.starts or at not in view.starts or blackout_at(view.job.blackouts, at) is not None:
        return at <= late_through
    return is_missed(view.latest_start(at), now, view.job.policy.grace_us)


@dataclass(frozen=True, slots=True)
class _Settled:
    entries: list[Entry]
    changes: list[Change]
    kept: tuple[Instant, ...]


def _settle_missed(
    view: JobView,
    schedules: Sequence[Schedule],
    late_planned: tuple[Instant, ...],
    end: Instant,
    newest_on_time: Instant | None,
    on_excluded_days: list[Entry],
    now: Instant,
) -> _Settled:
    """Decide about everything that is too late to be on time, around what the calendar excludes."""
    job, policy = view.job, view.job.policy
    keep = view.keeps
    if not late_planned and first_of(schedules, view.watermark, end) is None:
        return _Settled(on_excluded_days, [], ())

    # A window shorter than the grace must not reach into the stretch that is on time.
    window_start = min(replay_from(now, view.watermark, policy.catchup_window_us), end)
    # `late` only speaks for occurrences that would otherwise run.
    late_end = window_start
    if policy.max_delay_us is not None and keep is not Missed.NONE:
        late_end = max(window_start, min(now - policy.jitter_us - policy.max_delay_us - 1, end))

    in_time_planned = [
        at
        for at in late_planned
        if not (
            _is_outside(at, now, policy.catchup_window_us)
            or is_too_late(view.latest_start(at), now, policy.max_delay_us)
        )
    ]
    newer = newest_on_time if view.keeps_newest_only else None
    kept = [] if newer is not None else keep_missed(keep, in_time_planned, schedules, late_end, end, policy.backlog_max)
    runs_one_offs = policy.run_missed_one_off and view.keep is not Missed.NONE
    one_offs = _one_offs(view, late_planned, end) if runs_one_offs else set()
    late_one_offs = {at for at in one_offs if is_too_late(view.latest_start(at), now, policy.max_delay_us)}
    kept = sorted({*kept, *(one_offs - late_one_offs)})

    missed_by = facts_text(Facts(missed_by=str(keep)))
    entries: list[Entry] = [*on_excluded_days]
    stretches = (
        (view.watermark, window_start, view.idle_reason),
        (window_start, late_end, SkipReason.LATE),
        (late_end, end, view.idle_reason if keep is Missed.NONE else REASON_NOT_KEPT[keep]),
    )
    planned_before = set(late_planned)
    in_ledger = view.instants_in_ledger
    fresh_kept = [at for at in kept if at not in in_ledger]
    fresh_late = sorted(late_one_offs - in_ledger)
    apart = [(at, at) for at in {*fresh_kept, *fresh_late, *in_ledger}]
    apart = sorted([*apart, *((one.key.scheduled_for, one.through or one.key.scheduled_for) for one in entries)])
    for start, stop, reason in stretches:
        told = (_reason_in_words(reason, view, newer), _facts(reason, keep, view, newer))
        if not job.blackouts or reason is not view.idle_reason:
            entries += skip_stretch(job.id, schedules, start, stop, apart, reason, told, now)
            continue
        for low, high, inside in split_stretch(job.blackouts, start, stop):
            part, words = (reason, told) if inside is None else (SkipReason.PAUSED, _blackout_in_words(inside))
            entries += skip_stretch(job.id, schedules, low, high, apart, part, words, now)
    entries += (
        Entry(
            RunKey(job.id, at),
            PLANNED,
            Trigger.CATCHUP,
            now,
            detail=f"missed; caught up by missed: {keep}",
            facts=missed_by,
        )
        for at in fresh_kept
    )
    entries += (
        Entry(
            RunKey(job.id, at),
            SKIPPED,
            Trigger.SCHEDULER,
            now,
            reason=SkipReason.LATE,
            detail=_reason_in_words(SkipReason.LATE, view, newer),
            facts=missed_by,
        )
        for at in fresh_late
    )
    entries.sort(key=lambda entry: entry.key.scheduled_for)

    kept_before = planned_before.intersection(kept)
    changes = [
        Change(
            RunKey(job.id, at),
            PLANNED if at in kept_before else SKIPPED,
            now,
            trigger=Trigger.CATCHUP if at in kept_before else None,
            reason=None if at in kept_before else _reason_for_planned(at, now, view, keep, late_one_offs),
            detail="planned ahead, but missed",
            facts=missed_by,
        )
        for at in late_planned
    ]
    return _Settled(entries, changes, (*fresh_kept, *kept_before))


def _one_offs(view: JobView, late_planned: Iterable[Instant], end: Instant) -> set[Instant]:
    """Missed `at` instants: they run late whatever the window, except beyond the job's own delay bound."""
    late = set(late_planned)
    return {
        spec.instant
        for spec in view.job.schedules
        if isinstance(spec, AtSpec) and (view.watermark < spec.instant <= end or spec.instant in late)
    }


def _is_outside(at: Instant, now: Instant, window_us: int | None) -> bool:
    # The window is open on its left, like every stretch here.
    return window_us is not None and now - at >= window_us


def _reason_for_planned(
    at: Instant, now: Instant, view: JobView, keep: Missed, late_one_offs: Collection[Instant]
) -> SkipReason:
    policy = view.job.policy
    if at in late_one_offs:
        return SkipReason.LATE
    if keep is Missed.NONE or _is_outside(at, now, policy.catchup_window_us):
        return SkipReason.PAUSED if blackout_at(view.job.blackouts, at) else view.idle_reason
    if is_too_late(view.latest_start(at), now, policy.max_delay_us):
        return SkipReason.LATE
    return REASON_NOT_KEPT[keep]


def _skip_planned(view: JobView, planned: Iterable[Instant], now: Instant) -> list[Change]:
    """What was entered ahead for an excluded day and was not skipped when it was due, whatever the schedule is now."""
    changes: list[Change] = []
    for at in planned:
        why = exclusion_of(view.job.schedules, at)
        facts = view.excluded.get(at) if why is None else why.facts
        if facts is not None:
            detail = str(why or excluded_text(facts))
            skipped = Change(RunKey(view.job.id, at), SKIPPED, now, reason=SkipReason.CALENDAR, detail=detail)
            changes.append(skipped._replace(facts=facts_text(facts)))
    return changes


def _enter_on_time(
    view: JobView, schedules: Sequence[Schedule], start: Instant, end: Instant, now: Instant
) -> list[Entry]:
    in_ledger = view.instants_in_ledger
    return [
        Entry(RunKey(view.job.id, at), PLANNED, Trigger.SCHEDULER, now, facts=planned_facts(view.job, at))
        for at in occurrences(schedules, start, end)
        if at not in in_ledger
    ]


def _clear_backlog(
    view: JobView, kept: Collection[Instant], newest_on_time: Instant | None, now: Instant
) -> list[Change]:
    """Skip waiting runs that a newer occurrence supersedes; beyond the cap, skip the oldest ones."""
    newest = max((*kept, *(() if newest_on_time is None else (newest_on_time,))), default=None)
    if view.keeps_newest_only and newest is not None:
        detail = _superseded_by(newest)
        facts = facts_text(Facts(other=RunKey(view.job.id, newest).run_id))
        return [
            Change(key, SKIPPED, now, reason=SkipReason.SUPERSEDED, detail=detail, facts=facts)
            for key in view.waiting
            if not key.origin and key.scheduled_for < newest
        ]
    excess = len(view.waiting) + len(kept) - view.job.policy.backlog_max
    if excess <= 0:
        return []
    detail = f"more than {view.job.policy.backlog_max} runs were waiting"
    return [Change(key, SKIPPED, now, reason=SkipReason.CAP, detail=detail) for key in view.waiting[:excess]]


def _blackout_in_words(blackout: Blackout) -> tuple[str, str]:
    """The reason of an occurrence inside a blackout, in words and as facts."""
    return f"in {blackout}", facts_text(blackout_facts(blackout))


def _facts(reason: SkipReason, keep: Missed, view: JobView, newer: Instant | None) -> str:
    """The same as fields; a pause or a disabled job is its own reason."""
    if reason in (SkipReason.PAUSED, SkipReason.DISABLED):
        return facts_text(Facts(held_since=view.watermark))
    is_superseded = reason is SkipReason.SUPERSEDED and newer is not None
    other = RunKey(view.job.id, newer).run_id if is_superseded and newer else ""
    return facts_text(Facts(other=other, missed_by=str(keep)))


def _reason_in_words(reason: SkipReason, view: JobView, newer: Instant | None) -> str:
    """Why occurrences of a stretch do not run; `newer` is the on-time occurrence that supersedes them."""
    keep = view.keeps
    match reason:
        case SkipReason.LATE:
            return "later than the job's window allows"
        case SkipReason.PAUSED | SkipReason.DISABLED:
            return f"the job had been {reason} since {to_text(view.watermark)}"
        case SkipReason.MISSED if keep is not Missed.NONE:
            return "missed, and older than the catch-up window"
        case SkipReason.SUPERSEDED if newer is not None:
            return f"missed; {_superseded_by(newer)}"
        case SkipReason.CAP:
            return f"missed; more than {view.job.policy.backlog_max} were missed, and only the newest run"
        case _:
            return f"missed; not caught up by missed: {keep}"


def _superseded_by(newer: Instant) -> str:
    return f"superseded by the newer occurrence of {to_text(newer)}"
