"""What a change to the job files does: which occurrences it adds, removes and moves, and which rules differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import zip_longest
from typing import Final, Literal
from zoneinfo import ZoneInfo

from evertick.model.blackout import blackout_at, split_stretch
from evertick.model.instant import SECOND, Instant, to_datetime
from evertick.model.job import Job
from evertick.operations.jobs import zone_of
from evertick.operations.results.preview import JobDiff, MovedOccurrence, RuleChange, ScheduleDiff
from evertick.operations.rules import explain
from evertick.planning.schedules import compile_all, count_of, occurrences

LISTED_MAX: Final = 11_000
"""Occurrences of one job that are compared individually: a week of one each minute."""


def diff_jobs(before: Mapping[str, Job], after: Mapping[str, Job], since: Instant, until: Instant) -> ScheduleDiff:
    """Compare two versions of the jobs over the period after `since`, up to `until`."""
    found = (
        diff_job(before.get(job_id), after.get(job_id), since, until) for job_id in sorted(before.keys() | after.keys())
    )
    return ScheduleDiff(to_datetime(since), to_datetime(until), tuple(one for one in found if one is not None))


def diff_job(before: Job | None, after: Job | None, since: Instant, until: Instant) -> JobDiff | None:
    """None if the two are the same in everything that decides when and what they run."""
    job = after or before
    assert job is not None, "a job is compared that neither version has"
    rules = _rule_changes(before, after)
    is_work_changed = before is not None and after is not None and before.work != after.work
    if not rules and not is_work_changed:
        return None
    zone = zone_of(job, job.schedules)
    listed_until = min(_listed_until(one, since, until) for one in (before, after))
    old, new = (_occurrences(one, since, listed_until) for one in (before, after))
    moved, added, removed = _pair_by_day(sorted(new - old), sorted(old - new), zone)
    return JobDiff(
        job=job.id,
        change=_kind_of_change(before, after),
        timezone=zone,
        occurrences_before=_count(before, since, until),
        occurrences_after=_count(after, since, until),
        added=tuple(map(to_datetime, added)),
        removed=tuple(map(to_datetime, removed)),
        moved=moved,
        compared_until=to_datetime(listed_until),
        rules=rules,
        is_work_changed=is_work_changed,
    )


def _kind_of_change(before: Job | None, after: Job | None) -> Literal["added", "removed", "changed"]:
    if before is None:
        return "added"
    return "removed" if after is None else "changed"


def _rule_changes(before: Job | None, after: Job | None) -> tuple[RuleChange, ...]:
    old, new = ({} if job is None else {rule.name: rule.value for rule in explain(job)} for job in (before, after))
    return tuple(
        RuleChange(name, old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    )


def _count(job: Job | None, since: Instant, until: Instant) -> int:
    if job is None or not job.enabled:
        return 0
    schedules = compile_all(job.schedules)
    stretches = split_stretch(job.blackouts, since, until)
    return sum(count_of(schedules, start, end) for start, end, inside in stretches if inside is None)


def _occurrences(job: Job | None, since: Instant, until: Instant) -> set[Instant]:
    if job is None or not job.enabled:
        return set()
    due = occurrences(compile_all(job.schedules), since, until)
    return {at for at in due if blackout_at(job.blackouts, at) is None} if job.blackouts else set(due)


def _listed_until(job: Job | None, since: Instant, until: Instant) -> Instant:
    """Up to when the occurrences of a job are listed: the whole period, or a part with few enough."""
    schedules = () if job is None or not job.enabled else compile_all(job.schedules)
    while count_of(schedules, since, until) > LISTED_MAX:
        until = since + (until - since) // 2 // SECOND * SECOND
    return until


def _pair_by_day(
    added: Sequence[Instant], removed: Sequence[Instant], zone: str
) -> tuple[tuple[MovedOccurrence, ...], list[Instant], list[Instant]]:
    """Occurrences that come and go within one local day are moved ones, in order; the others are unchanged."""
    days: defaultdict[date, tuple[list[Instant], list[Instant]]] = defaultdict(lambda: ([], []))
    for number, instants in enumerate((added, removed)):
        for at in instants:
            days[to_datetime(at).astimezone(ZoneInfo(zone)).date()][number].append(at)
    moved: list[MovedOccurrence] = []
    new: list[Instant] = []
    gone: list[Instant] = []
    for day in sorted(days):
        for after, before in zip_longest(*days[day]):
            if after is None:
                gone.append(before)
            elif before is None:
                new.append(after)
            else:
                moved.append(MovedOccurrence(to_datetime(before), to_datetime(after)))
    return tuple(moved), new, gone
