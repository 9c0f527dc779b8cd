"""What is entered in the ledger for occurrences: those that will run, and those that do not, one by one or as gaps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from evertick.model.blackout import Blackout, blackout_at
from evertick.model.facts import NO_FACTS, Facts, facts_text
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.lifecycle import SKIPPED, SkipReason, Trigger
from evertick.model.run import Entry, RunKey
from evertick.model.schedule import has_calendar
from evertick.planning.calendar import ExcludedOccurrences, Exclusion
from evertick.planning.jitter import starts_at
from evertick.planning.schedules import At, Engine, Schedule, count_of, exclusion_of, first_of, occurrences, previous_of

GAP_FROM = 11
"""Skips next to each other, from this many on, are entered as one gap; fewer are easier to read one by one."""


def planned_facts(job: Job, at: Instant) -> str:
    """When its run starts, if jitter delays it, or the calendar or blackout that prevents it; empty: nothing."""
    why = exclusion_of(job.schedules, at) if has_calendar(job.schedules) else None
    if why is not None:
        return facts_text(why.facts)
    inside = blackout_at(job.blackouts, at) if job.blackouts else None
    if inside is None and not job.policy.jitter_us:
        return ""
    facts = NO_FACTS if inside is None else blackout_facts(inside)
    return facts_text(facts._replace(starts_at=starts_at(job, at)) if job.policy.jitter_us else facts)


def blackout_facts(blackout: Blackout) -> Facts:
    """Why an occurrence inside a blackout does not run."""
    return Facts(held_since=blackout.start, held_until=blackout.end)


def skip_around(gap: Entry, schedules: Sequence[Schedule], lines: Iterable[tuple[Instant, Instant]]) -> list[Entry]:
    """What is left of a gap around existing entries, each given by its first and last instant."""
    assert gap.through is not None
    assert gap.reason is not None
    told = (gap.detail, gap.facts)
    start = gap.key.scheduled_for - 1
    return skip_stretch(gap.key.job_id, schedules, start, gap.through, sorted(lines), gap.reason, told, gap.decided_at)


def skip_stretch(
    job_id: str,
    schedules: Sequence[Schedule],
    start: Instant,
    end: Instant,
    around: Sequence[tuple[Instant, Instant]],
    reason: SkipReason,
    told: tuple[str, str],
    now: Instant,
) -> list[Entry]:
    """Entries for every occurrence in `(start, end]`, long periods as gaps.

    `around` are the existing entries, each by its first and last instant, in order: nothing is entered inside one.
    """
    detail, facts = told
    entries: list[Entry] = []
    for left, right in _windows(start, end, around):
        first = first_of(schedules, left, right)
        if first is None:
            continue
        occurrences_in = count_of(schedules, left, right)
        if occurrences_in < GAP_FROM:
            entries += (
                Entry(RunKey(job_id, at), SKIPPED, Trigger.SCHEDULER, now, reason=reason, detail=detail, facts=facts)
                for at in occurrences(schedules, left, right)
            )
        else:
            entries.append(
                Entry(
                    RunKey(job_id, first),
                    SKIPPED,
                    Trigger.SCHEDULER,
                    now,
                    reason=reason,
                    through=previous_of(schedules, right + 1),
                    occurrences=occurrences_in,
                    detail=detail,
                    facts=facts,
                )
            )
    return entries


def _windows(
    start: Instant, end: Instant, around: Sequence[tuple[Instant, Instant]]
) -> Iterator[tuple[Instant, Instant]]:
    """What is left of `(start, end]` between existing entries."""
    for first, last in around:
        if last <= start:
            continue
        if first > end:
            break
        yield start, first - 1
        start = last
    if start < end:
        yield start, end


def skip_excluded(
    job_id: str,
    schedules: Sequence[Engine],
    excluded: Sequence[ExcludedOccurrences],
    start: Instant,
    end: Instant,
    in_ledger: Collection[Instant],
    now: Instant,
) -> list[Entry]:
    """Entries for what the calendar takes away in `(start, end]`; many in days next to each other are one gap."""
    one_offs = {one.instant for one in schedules if isinstance(one, At)}
    around = sorted((at, at) for at in one_offs.union(in_ledger))
    entries: list[Entry] = []
    for low, high in excluded[0].stretches(start, end):
        for left, right in _windows(low, high, around):
            total = count_of(excluded, left, right)
            if total < GAP_FROM or excluded[0].is_moving:
                found = ((at, excluded[0].exclusion(at)) for at in occurrences(excluded, left, right))
                entries += (_excluded_entry(job_id, at, why, now) for at, why in found if why is not None)
                continue
            first, last = first_of(excluded, left, right), previous_of(excluded, right + 1)
            assert first is not None
            assert last is not None
            ends = [why for at in (first, last) if (why := excluded[0].exclusion(at)) is not None]
            gap = _excluded_entry(job_id, first, ends[0].until(ends[-1]), now)
            entries.append(gap._replace(through=last, occurrences=total))
    return entries


def _excluded_entry(job_id: str, at: Instant, why: Exclusion, now: Instant) -> Entry:
    return Entry(
        RunKey(job_id, at),
        SKIPPED,
        Trigger.SCHEDULER,
        now,
        reason=SkipReason.CALENDAR,
        detail=str(why),
        facts=facts_text(why.facts),
    )
