"""Blackouts: list those of the settings and those that were added at run time, add one, remove one."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import Final

from evertick.errors import Conflict, InvalidArgument, NotFound
from evertick.model.blackout import AddedBlackout, blackout_text, concerns
from evertick.model.ids import digest
from evertick.model.instant import DAY, SECOND, Instant, from_datetime, to_datetime
from evertick.model.job import Job
from evertick.model.ledger import Batch, StoredBlackout
from evertick.operations.context import Context
from evertick.operations.jobs import name_of, zone_of
from evertick.operations.ledger_rows import moment
from evertick.operations.preview import why_held
from evertick.operations.protocol import Moment
from evertick.operations.results.blackouts import (
    AffectedJob,
    Blackout,
    BlackoutChange,
    BlackoutOrigin,
    Blackouts,
    BlackoutState,
)
from evertick.operations.time_text import check_zone
from evertick.planning.schedules import Schedule, compile_all, count_of, next_of
from evertick.settings.blackouts import BLACKOUTS_MAX, BlackoutRule

KEPT_US: Final = 30 * DAY
"""How long one that is over stays in the ledger: a scheduler that was away says by it why nothing ran."""
NAMES_MAX: Final = 500
REASON_MAX: Final = 1_000
SHOWN_MAX: Final = 100
TIMES_MAX: Final = 10
"""Occurrences of one job that a preview names."""


def blackouts(context: Context, over: bool = False) -> Blackouts:
    found = _all(context)
    kept = found if over else [one for one in found if one.state is not BlackoutState.OVER]
    return Blackouts(tuple(kept), context.timezone)


def find_blackouts(context: Context, job_id: str | None, start: Instant, end: Instant) -> tuple[Blackout, ...]:
    """Those of a period that concern a job, or any job."""
    bounds = to_datetime(start), to_datetime(end)
    found = [one for one in _all(context) if one.from_ < bounds[1] and one.to > bounds[0]]
    if job_id is None:
        return tuple(found)
    job = context.jobs.get(job_id)
    tags = () if job is None else job.tags
    return tuple(one for one in found if concerns(one.is_for_all, one.jobs, one.tags, job_id, tags))


def _all(context: Context) -> list[Blackout]:
    now = context.now()
    found = [*_declared(context, now), *(_shown(one, now) for one in context.added_blackouts.found())]
    return sorted(found, key=lambda one: (one.from_, one.id))


def add_blackout(
    context: Context,
    start: Moment,
    end: Moment,
    jobs: Collection[str] = (),
    tags: Collection[str] = (),
    is_for_all: bool = False,
    reason: str = "",
    timezone: str | None = None,
    preview: bool = False,
    *,
    request_id: str = "",
    by: str = "",
) -> BlackoutChange:
    """`timezone` is that of times without an offset. A blackout begins now at the earliest."""
    now = context.now()
    context.added_blackouts.forget()
    known = context.added_blackouts.found()
    blackout_id = f"b{digest(request_id or secrets.token_hex(16))[:8]}"
    if any(one.id == blackout_id for one in known):  # the same request, once more
        added = next(one for one in known if one.id == blackout_id)
        return _change(context, added, now, is_preview=preview)
    _check_names(context, jobs, tags, is_for_all)
    if not reason.isprintable() or len(reason) > REASON_MAX:
        raise InvalidArgument(f"the reason is not one line of at most {REASON_MAX:,} characters.", field="reason")
    if timezone is not None:
        check_zone(timezone)
    first, last = (_whole_second(context, at, timezone, now) for at in (start, end))
    if last <= first:
        raise InvalidArgument(
            "the blackout does not end after its start, which is now at the earliest.",
            hint="Write a later end.",
            field="to",
        )
    names = (tuple(dict.fromkeys(jobs)), tuple(dict.fromkeys(tags)))
    added = AddedBlackout(
        blackout_id, first, last, reason.strip(), *names, is_for_all, added_at=now, added_by=by or context.by
    )
    if not preview:
        old = [one for one in known if one.end <= now - KEPT_US]
        if len(known) - len(old) >= BLACKOUTS_MAX:
            raise Conflict(f"there are {BLACKOUTS_MAX:,} blackouts. Remove those that have not begun, or wait.")
        _write(context, StoredBlackout(added.id, blackout_text(added)), *(StoredBlackout(one.id, None) for one in old))
    return _change(context, added, now, is_preview=preview)


def remove_blackout(context: Context, blackout_id: str, preview: bool = False) -> BlackoutChange:
    """One that lasts ends now, by the rules of a resume; of one that is over, nothing changes."""
    now = context.now()
    context.added_blackouts.forget()
    known = {one.id: one for one in context.added_blackouts.found()}
    if blackout_id not in known:
        raise _not_removable(context, blackout_id, known)
    found = known[blackout_id]
    change = _change(context, found, now, is_preview=preview)
    if preview or found.end <= now:
        return change
    left = found.ended(now)
    _write(context, StoredBlackout(found.id, None if left is None else blackout_text(left)))
    return replace(change, blackout=replace(change.blackout, state=BlackoutState.OVER, to=to_datetime(now)))


def _write(context: Context, *blackouts: StoredBlackout) -> None:
    context.store.commit(Batch(by=f"blackout/{blackouts[0].id}", blackouts=blackouts))
    context.added_blackouts.forget()
    context.forget()
    if context.live is not None:
        context.live.announce_requests()


def _not_removable(context: Context, blackout_id: str, known: Collection[str]) -> Exception:
    declared = next((one for one in _declared(context, context.now()) if one.id == blackout_id), None)
    if declared is not None:
        return Conflict(
            f"the settings declare the blackout '{blackout_id}'. "
            f"Remove it in {declared.file}, and restart the scheduler."
        )
    near = tuple(get_close_matches(blackout_id, sorted(known), n=3, cutoff=0.5))
    return NotFound(f"unknown blackout '{blackout_id}'. Next: list the blackouts", near)


def _check_names(context: Context, jobs: Collection[str], tags: Collection[str], is_for_all: bool) -> None:
    if is_for_all == bool(jobs or tags):
        raise InvalidArgument(
            "the blackout must concern some jobs, some tags, or all jobs.", hint="Name jobs or tags, or choose all."
        )
    if len(jobs) + len(tags) > NAMES_MAX:
        raise InvalidArgument(f"more than {NAMES_MAX} names.", hint="Use a tag.", field="jobs")
    for job_id in jobs:
        context.require_job(job_id)
    used = {tag for job in context.jobs.values() for tag in job.tags}
    for tag in tags:
        if tag not in used:
            near = get_close_matches(tag, sorted(used), n=1, cutoff=0.5)
            hint = f"Did you mean '{near[0]}'?" if near else "Tags are in the job files."
            raise InvalidArgument(f"no job has the tag '{tag}'.", hint=hint, field="tags")


def _whole_second(context: Context, at: Moment, timezone: str | None, now: Instant) -> Instant:
    """A bound of a blackout; one in the past is now."""
    found = max(context.instant(at, zone=timezone or context.timezone, is_ahead=True), now)
    return found - found % SECOND


def _declared(context: Context, now: Instant) -> list[Blackout]:
    file, rules = context.declared_blackouts
    return [
        _from_settings(f"settings-{number}", rule, rule.origin or file, context, now)
        for number, rule in enumerate(rules, 1)
    ]


def _from_settings(number: str, rule: BlackoutRule, file: str, context: Context, now: Instant) -> Blackout:
    start, end = rule.window(context.timezone)
    return Blackout(
        id=number,
        state=_state(from_datetime(start), from_datetime(end), now),
        from_=start,
        to=end,
        reason=rule.reason,
        jobs=rule.jobs,
        tags=rule.tags,
        is_for_all=rule.is_for_all,
        origin=BlackoutOrigin.SETTINGS,
        file=file,
        added_at=None,
        added_by="",
    )


def _shown(one: AddedBlackout, now: Instant) -> Blackout:
    return Blackout(
        id=one.id,
        state=_state(one.start, one.end, now),
        from_=to_datetime(one.start),
        to=to_datetime(one.end),
        reason=one.reason,
        jobs=one.jobs,
        tags=one.tags,
        is_for_all=one.is_for_all,
        origin=BlackoutOrigin.ADDED,
        file=None,
        added_at=moment(one.added_at or None),
        added_by=one.added_by,
    )


def _state(start: Instant, end: Instant, now: Instant) -> BlackoutState:
    if now < start:
        return BlackoutState.PLANNED
    return BlackoutState.ACTIVE if now < end else BlackoutState.OVER


def _change(context: Context, one: AddedBlackout, now: Instant, *, is_preview: bool) -> BlackoutChange:
    start, end = max(one.start, now) - 1, one.end - 1
    affected = sorted(_affected(context, one, start, end), key=lambda found: (found.times[0], found.job))
    return BlackoutChange(
        blackout=_shown(one, now),
        is_preview=is_preview,
        jobs=len(affected),
        occurrences=sum(found.occurrences for found in affected),
        affected=tuple(affected[:SHOWN_MAX]),
    )


def _affected(context: Context, one: AddedBlackout, start: Instant, end: Instant) -> Iterable[AffectedJob]:
    """The jobs with occurrences in `(start, end]`; those that are held have none."""
    view = context.view()
    for job in view.jobs.values():
        if not job.schedules or not one.concerns(job.id, job.tags) or why_held(job, view.records.get(job.id))[0]:
            continue
        schedules = compile_all(job.schedules)
        if count := count_of(schedules, start, end) if start < end else 0:
            yield _affected_job(job, count, islice(_times(schedules, start, end), TIMES_MAX))


def _affected_job(job: Job, count: int, times: Iterable[Instant]) -> AffectedJob:
    zone = zone_of(job, job.schedules)
    return AffectedJob(job.id, name_of(job.id, job), zone, count, tuple(map(to_datetime, times)))


def _times(schedules: Sequence[Schedule], start: Instant, end: Instant) -> Iterable[Instant]:
    at = next_of(schedules, start)
    while at is not None and at <= end:
        yield at
        at = next_of(schedules, at)
