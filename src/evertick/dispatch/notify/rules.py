"""Which ends of runs and which skips become a message; pure, so that a test can try a day of events."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from evertick.model.duration import format_duration
from evertick.model.instant import HOUR, MINUTE, SECOND, Instant, to_text
from evertick.model.lifecycle import (
    FAILED,
    LOST,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    TERMINAL,
    TIMED_OUT,
    RunState,
    SkipReason,
)
from evertick.model.notify import Channel, NotifyEvent, Route
from evertick.model.run import Change, Entry, RunKey

FAILURES: Final = frozenset({FAILED, TIMED_OUT, LOST})
"""Failures. Cancelled, replaced, superseded and skipped runs are not failures; `retrying` is not an end."""
NOT_MADE_UP: Final = frozenset({SkipReason.MISSED, SkipReason.CAP, SkipReason.LATE})
STREAK: Final = frozenset(
    {
        SkipReason.OVERLAP,
        SkipReason.SUPERSEDED,
        SkipReason.CONDITION,
        SkipReason.LATE,
        SkipReason.NO_EXECUTOR,
        SkipReason.SATURATED,
    }
)
"""Skips that the owner did not choose by a pause, `enabled: false` or a success."""


class RunChange(NamedTuple):
    """A change of a run or an occurrence."""

    key: RunKey
    state: RunState
    at: Instant
    reason: SkipReason | None = None
    occurrences: int = 1
    through: Instant | None = None
    attempt: int | None = None
    exit_code: int | None = None
    started_at: Instant | None = None
    detail: str = ""
    is_stuck: bool = False
    """It is overdue, waits for nothing, and does not move."""
    missed_deadline: Instant | None = None
    """The deadline that passed without a success."""

    @classmethod
    def of(cls, told: Entry | Change) -> RunChange:
        """From a write to the ledger."""
        if isinstance(told, Entry):
            return cls(
                told.key,
                told.state,
                told.decided_at,
                told.reason,
                told.occurrences,
                told.through,
                detail=told.detail,
            )
        return cls(
            told.key,
            told.state,
            told.at,
            told.reason,
            attempt=told.attempt,
            exit_code=told.exit_code,
            started_at=told.started_at,
            detail=told.detail or "",
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """What the rules need to know about a job."""

    job_id: str
    name: str = ""
    routes: tuple[Route, ...] = ()
    late_after_us: int = 30 * SECOND
    """A run that starts later than this is late."""
    expected_us: int | None = None
    """A run that took longer than this is late too."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Rate limits."""

    quiet_us: int = 10 * MINUTE
    """The same event of the same job is sent once in this time; suppressed messages are sent at its end, as a count."""
    streak: int = 3
    """Skips in a row that cause a message; the next one follows when their number has doubled."""
    limit: int = 120
    """Messages in one `window_us`, for all jobs; more are suppressed in the same way."""
    window_us: int = HOUR


class Message(NamedTuple):
    id: str
    """The same for each delivery of a message, so that a receiver can detect duplicates."""
    event: str
    """One of `NotifyEvent`, or the name of a constraint that does not hold."""
    job_id: str
    job_name: str
    run_id: str
    scheduled_for: Instant
    at: Instant
    text: str
    detail: str
    channels: tuple[Channel, ...]
    folded: int = 0
    """The number of suppressed messages since the last one."""


@dataclass(slots=True)
class _QuietPeriod:
    until: Instant
    held: int = 0
    latest: Message | None = None


@dataclass(slots=True)
class _Notes:
    has_failed: bool = False
    is_failure_told: bool = False
    streak: int = 0
    streak_told: int = 0
    quiet: dict[str, _QuietPeriod] = field(default_factory=dict)


class SendHistory:
    """What was sent so far. One thread uses it."""

    def __init__(self) -> None:
        self.jobs: dict[str, _Notes] = {}
        self.sent: deque[Instant] = deque()
        self.holding: set[tuple[str, str]] = set()

    def remember_failure(self, job_id: str) -> None:
        """The job's last run failed, and an earlier process reported it: its next success is a recovery."""
        notes = self.jobs.setdefault(job_id, _Notes())
        notes.has_failed = notes.is_failure_told = True

    def forget(self, job_id: str) -> None:
        self.jobs.pop(job_id, None)
        self.holding = {one for one in self.holding if one[0] != job_id}


def judge(book: SendHistory, subject: Subject, happening: RunChange, manners: RateLimits) -> list[Message]:
    """The messages to send now."""
    if not subject.routes:
        return []
    notes = book.jobs.setdefault(subject.job_id, _Notes())
    found = [
        message
        for event, text in _events(book, notes, subject, happening, manners)
        if (message := _message(event, text, subject, happening)) is not None
    ]
    return [told for message in found if (told := _mannered(book, notes, message, happening.at, manners)) is not None]


def flush(book: SendHistory, now: Instant, manners: RateLimits) -> list[Message]:
    """The suppressed messages whose quiet time is over."""
    told = []
    # Those that have waited longest first: a noisy job must not delay the messages of the others.
    waiting = sorted(book.holding, key=lambda one: (book.jobs[one[0]].quiet[one[1]].until, one))
    for job_id, event in waiting:
        notes = book.jobs[job_id]
        quiet = notes.quiet[event]
        if now < quiet.until or not _has_room(book, now, manners):
            continue
        assert quiet.latest is not None
        message = quiet.latest._replace(folded=quiet.held - 1)
        if event == NotifyEvent.FAILURE:
            notes.is_failure_told = notes.has_failed
            if not notes.has_failed:
                message = message._replace(text=f"{message.text} It has succeeded since then.")
        book.holding.discard((job_id, event))
        notes.quiet[event] = _QuietPeriod(now + manners.quiet_us)
        book.sent.append(now)
        told.append(message)
    return told


def _events(
    book: SendHistory, notes: _Notes, subject: Subject, happening: RunChange, manners: RateLimits
) -> list[tuple[NotifyEvent, str]]:
    """The events of a change, with their texts; updates the notes about its job."""
    name = subject.name or subject.job_id
    due = to_text(happening.key.scheduled_for)
    found: list[tuple[NotifyEvent, str]] = []
    if happening.is_stuck:
        text = f"{name}: the run due at {due} was stuck in state {happening.state}. The scheduler has resumed it."
        return [(NotifyEvent.LATE, text)]
    if happening.missed_deadline is not None:
        by = to_text(happening.missed_deadline)
        text = f"{name} is past its deadline: the occurrence of {due} has not succeeded by {by}."
        return [(NotifyEvent.DEADLINE_MISSED, text)]
    if happening.state is SKIPPED:
        return _skipped(notes, happening, manners, name, due)
    if happening.state is RUNNING or happening.state in TERMINAL:
        notes.streak = notes.streak_told = 0
    if happening.state is RUNNING:
        late_us = (happening.started_at or happening.at) - happening.key.scheduled_for
        # A requested run is due when it was requested, and a second attempt is always late.
        if late_us > subject.late_after_us and not happening.key.origin and (happening.attempt or 1) == 1:
            found.append((NotifyEvent.LATE, f"{name} started {_round(late_us)} late; it was due at {due}."))
        return found
    if happening.state in FAILURES:
        notes.has_failed = True
        # A suppressed recovery is out of date.
        book.holding.discard((subject.job_id, NotifyEvent.RECOVERED))
        notes.quiet.pop(NotifyEvent.RECOVERED, None)
        ended = {TIMED_OUT: "timed out", LOST: "was lost"}.get(happening.state, "failed")
        code = f" with exit code {happening.exit_code}" if happening.exit_code is not None else ""
        found.append((NotifyEvent.FAILURE, f"{name} {ended}{code}: the run due at {due}."))
    elif happening.state is SUCCEEDED:
        if notes.has_failed:
            if notes.is_failure_told or not _is_routed(subject, NotifyEvent.FAILURE):
                found.append((NotifyEvent.RECOVERED, f"{name} recovered: the run due at {due} succeeded."))
            notes.has_failed = notes.is_failure_told = False
        found.append((NotifyEvent.SUCCESS, f"{name} succeeded: the run due at {due}."))
    if subject.expected_us is not None and happening.started_at is not None and happening.state in TERMINAL:
        took_us = happening.at - happening.started_at
        if took_us > subject.expected_us:
            text = f"{name} took {_round(took_us)}; expected at most {format_duration(subject.expected_us)}."
            found.append((NotifyEvent.LATE, text))
    return found


def _skipped(
    notes: _Notes, happening: RunChange, manners: RateLimits, name: str, due: str
) -> list[tuple[NotifyEvent, str]]:
    found = []
    count = happening.occurrences
    if happening.reason in NOT_MADE_UP:
        if count > 1:
            last = to_text(happening.through) if happening.through is not None else "later"
            text = f"{name} missed {count:,} occurrences from {due} to {last}. They will not run."
        else:
            text = f"{name} missed the occurrence of {due}. It will not run."
        found.append((NotifyEvent.MISSED, text))
    if happening.reason in STREAK:
        notes.streak += count
        if notes.streak >= max(manners.streak, 2 * notes.streak_told):
            notes.streak_told = notes.streak
            text = f"{name} was skipped {notes.streak:,} times in a row, last at {due} (reason: {happening.reason})."
            found.append((NotifyEvent.SKIPPED_STREAK, text))
    return found


def _message(event: NotifyEvent, text: str, subject: Subject, happening: RunChange) -> Message | None:
    channels = tuple(channel for route in subject.routes if route.event is event for channel in route.channels)
    if not channels:
        return None
    return Message(
        f"{happening.key.run_id}/{event}/{happening.state}",
        event,
        subject.job_id,
        subject.name or subject.job_id,
        happening.key.run_id,
        happening.key.scheduled_for,
        happening.at,
        text,
        happening.detail,
        tuple(dict.fromkeys(channels)),
    )


def _mannered(book: SendHistory, notes: _Notes, message: Message, now: Instant, manners: RateLimits) -> Message | None:
    """The message, unless it is suppressed for now."""
    quiet = notes.quiet.get(message.event)
    if (quiet is not None and now < quiet.until) or not _has_room(book, now, manners):
        if quiet is None:
            quiet = notes.quiet[message.event] = _QuietPeriod(now + manners.quiet_us)
        quiet.held += 1
        quiet.latest = message
        book.holding.add((message.job_id, message.event))
        return None
    folded = quiet.held if quiet is not None else 0
    book.holding.discard((message.job_id, message.event))
    notes.quiet[message.event] = _QuietPeriod(now + manners.quiet_us)
    book.sent.append(now)
    if message.event == NotifyEvent.FAILURE:
        notes.is_failure_told = True
    return message._replace(folded=folded)


def _has_room(book: SendHistory, now: Instant, manners: RateLimits) -> bool:
    while book.sent and book.sent[0] <= now - manners.window_us:
        book.sent.popleft()
    return len(book.sent) < manners.limit


def _is_routed(subject: Subject, event: NotifyEvent) -> bool:
    return any(route.event is event for route in subject.routes)


def _round(duration_us: int) -> str:
    """To the second: the microseconds of a delay help no reader."""
    return format_duration(max(SECOND, duration_us // SECOND * SECOND))
