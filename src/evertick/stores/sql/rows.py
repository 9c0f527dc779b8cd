"""Converts values of the ledger to rows of a database, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from evertick.errors import StoreUnavailable
from evertick.model.instant import Instant
from evertick.model.ledger import bucket_of
from evertick.model.lifecycle import OPEN, SKIPPED, RunState, SkipReason, Trigger
from evertick.model.run import Change, Entry, LedgerRow, RunKey
from evertick.store import JobRecord, Request, RequestKind
from evertick.stores.hour_counts import Kind

if TYPE_CHECKING:
    import sqlalchemy as sa

Params: TypeAlias = tuple[str | int | None, ...]
"""The values of a row, in the order of a list of columns."""
Row: TypeAlias = Sequence[Any]
"""What a query returned: the columns of its select."""
Select: TypeAlias = "sa.Select[*tuple[Any, ...]]"
T = TypeVar("T")

# A lookup instead of `Enum(text)` and `.value`, which together would be a third of the time of a large commit.
_STATES: Final = {state.value: state for state in RunState}
_TRIGGERS: Final = {trigger.value: trigger for trigger in Trigger}
_REASONS: Final[dict[str | None, SkipReason | None]] = {None: None, **{reason.value: reason for reason in SkipReason}}
_IS_OPEN: Final = {state.value: int(state in OPEN) for state in RunState}

_bucket_of = lru_cache(maxsize=1 << 17)(bucket_of)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def storable(text: str) -> str:
    """The text without what some database refuses: NUL, and halves of a surrogate pair from broken input."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def entry_row(entry: Entry, by: str) -> Params:
    """In the order of `ENTRY_COLUMNS`."""
    (job_id, scheduled_for, origin), state, trigger, decided_at, reason, through, occurrences, *texts = entry
    detail, params, facts = texts
    word = state._value_
    return (
        scheduled_for,
        job_id,
        origin,
        _bucket_of(job_id),
        word,
        _IS_OPEN[word],
        trigger._value_,
        decided_at,
        by,
        None if reason is None else reason._value_,
        through,
        occurrences,
        detail and storable(detail),
        params and storable(params),
        decided_at,
        facts and storable(facts),
    )


def change_row(change: Change) -> Params:
    """In the order of `CHANGE_COLUMNS`."""
    (job_id, scheduled_for, origin), state, at, fence, attempt, reason, trigger = change[:7]
    executor, started_at, finished_at, retry_at, exit_code, detail, steps, definition, earlier, facts = change[7:]
    word = state._value_
    return (
        word,
        _IS_OPEN[word],
        fence,
        at,
        attempt,
        None if reason is None else reason._value_,
        None if trigger is None else trigger._value_,
        executor,
        started_at,
        finished_at,
        retry_at,
        exit_code,
        detail and storable(detail),
        steps and storable(steps),
        definition,
        earlier and storable(earlier),
        facts and storable(facts),
        scheduled_for,
        job_id,
        origin,
    )


def job_row(job: JobRecord) -> Params:
    job_id, watermark, held, fingerprint, paused_at, pause_note, retired_at, last_success_at, error = job[:9]
    failed, since, skip_next, definition, asked_at, *deadlines = job[9:]
    times = (retired_at, last_success_at)
    note, error = storable(pause_note), storable(error)
    known = (job_id, watermark, int(held), fingerprint, paused_at, note, *times, error, int(failed), since, skip_next)
    return (*known, definition, asked_at, *deadlines, _bucket_of(job_id))


def request_row(request: Request) -> Params:
    request_id, kind, job_id, payload, submitted_at, submitted_by, answer = request
    known = (request_id, kind.value, job_id, storable(payload), submitted_at, submitted_by, answer)
    return (*known, _bucket_of(job_id), int(answer is None))


def key_row(key: RunKey) -> Params:
    """As the primary key is: (scheduled_for, job_id, origin)."""
    return (key.scheduled_for, key.job_id, key.origin)


def to_line(row: Row) -> LedgerRow:
    """From a row in the order of `LINE_COLUMNS`."""
    job_id, scheduled_for, origin, state, trigger, decided_at, decided_by, reason, *rest = row
    rest[-4:] = [text or "" for text in rest[-4:]]  # lines from before there were steps, definitions or facts have none
    key = RunKey(job_id, scheduled_for, origin)
    return LedgerRow(key, _STATES[state], _TRIGGERS[trigger], decided_at, decided_by, _REASONS[reason], *rest)


def to_job(row: Row) -> JobRecord:
    """From a row in the order of `JOB_COLUMNS`."""
    a, b, held, c, d, e, f, g, h, has_failed, i, j, definition, asked_at, settled, late_since = row
    known = (a, b, held != 0, c, d, e, f, g, h, has_failed != 0, i, j, definition or "", asked_at or 0, settled or 0)
    # A page shows ten thousand of them: past the constructor this takes half as long.
    return tuple.__new__(JobRecord, (*known, late_since))


def to_request(row: Row) -> Request:
    """From a row in the order of `REQUEST_COLUMNS`."""
    request_id, kind, *rest = row
    return Request(request_id, RequestKind(kind), *rest)


def to_state(word: str) -> RunState:
    return _STATES[word]


def to_trigger(word: str) -> Trigger:
    return _TRIGGERS[word]


def to_reason(word: str | None) -> SkipReason | None:
    return _REASONS[word or None]


def to_kind(words: Sequence[str | None]) -> Kind:
    state, trigger, reason = words
    assert state is not None
    assert trigger is not None
    found = to_state(state)
    return found, to_trigger(trigger), to_reason(reason) if found is SKIPPED else None


def to_count(row: Row) -> tuple[Instant, RunState, Trigger, SkipReason | None, int, int]:
    hour, *kind, entries, occurrences = row
    state, trigger, reason = to_kind(kind)
    return int(hour), state, trigger, reason, int(entries), int(occurrences)


def unavailable(place: str, error: Exception, look: str) -> StoreUnavailable:
    """`look` says what the reader should check first."""
    reason = " ".join(str(getattr(error, "orig", None) or error).split())
    return StoreUnavailable(
        f"the ledger at {place} did not answer: {reason.rstrip('.?')}. Next: {look}. "
        "The call can be repeated; a scheduler retries it by itself."
    )
