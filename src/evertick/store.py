"""What a ledger must be able to do: the contracts of every store.

`Ledger` holds the verbs that scheduling needs, `LedgerReader` those that only read for people. A `Store` is both, and
declares in `capabilities` what only some stores can do. Three rules hold for all of them, and one suite proves it
(`tests/stores/contract.py`):

- `commit` is one transaction: entries, watermarks, floors and answers are all there, or none is.
- No occurrence is decided twice: an entry is refused when its occurrence has a line already, or lies inside a gap
  (`scheduled_for` .. `through`) of another line. A gap with a line of the schedule inside it refuses the whole batch
  (`GapRefused`), because the watermark that goes with it would vouch for entries that are missing.
- Every call may be repeated after `StoreUnavailable`, whose outcome is unknown: an entry that is there already
  with the same `by` is ours, a change that is there already is applied, a lease that is held is renewed.

Stores are synchronous. Whatever only reads, and `commit` of requests, stored jobs or blackouts, may be called by any
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from evertick.model.instant import Instant
from evertick.model.ledger import (
    Batch,
    Committed,
    DefinitionLine,
    JobRecord,
    Lease,
    Request,
    RequestKind,
    ScheduleLine,
    Snapshot,
    StoredBlackout,
    StoredJob,
    WrongCount,
)
from evertick.model.lifecycle import RunState, SkipReason, Trigger
from evertick.model.run import Change, LedgerRow, RunKey

__all__ = [
    "Backups",
    "Batch",
    "Capabilities",
    "ChangeStamps",
    "Committed",
    "DefinitionLine",
    "IntegrityChecks",
    "JobRecord",
    "Lease",
    "Ledger",
    "LedgerReader",
    "NextRunFiles",
    "Page",
    "Request",
    "RequestAnnouncements",
    "RequestKind",
    "RunFilter",
    "ScheduleLine",
    "Snapshot",
    "Store",
    "StoredBlackout",
    "StoredJob",
    "Tally",
    "WrongCount",
]


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which lines of the ledger to read; an empty collection means any."""

    job_ids: Collection[str] = ()
    states: Collection[RunState] = ()
    triggers: Collection[Trigger] = ()
    reasons: Collection[SkipReason] = ()
    since: Instant | None = None
    """Lines whose stretch ends at or after this instant."""
    until: Instant | None = None
    """Lines scheduled before this instant."""
    occurrences_only: bool = False
    """Leave out requested runs."""
    oldest_first: bool = False
    executors: Collection[str] = ()
    gaps: bool | None = None
    """True: only stretches; False: leave them out; None: both."""
    with_items: bool = False
    """Also runs of items of a step, which otherwise only `triggers` can name: each is a part of its parent's run."""

    @property
    def leaves_out_items(self) -> bool:
        """Whether items have to be left out; triggers that are named, and `occurrences_only`, decide it already."""
        return not (self.with_items or self.triggers or self.occurrences_only)


class Tally(NamedTuple):
    """How many lines of one kind fell into one cell of time."""

    cell: int
    """Counted from the start of the window."""
    job_id: str
    """Empty where jobs were not told apart."""
    state: RunState
    trigger: Trigger
    reason: SkipReason | None
    lines: int
    occurrences: int
    longest_us: int | None
    """The longest that one of them ran, from its start to its end."""
    latest_us: int | None
    """The most that one of them started after its time."""


@dataclass(frozen=True, slots=True)
class Page:
    rows: Sequence[LedgerRow]
    after: RunKey | None
    """Where the next page begins; None: this was the last."""


class Ledger(Protocol):
    """What scheduling needs of a ledger: eleven verbs."""

    def load(self, buckets: Collection[int] | None = None) -> Snapshot:
        """Everything about the jobs of these buckets that planning needs; None: of all."""
        ...

    def commit(self, batch: Batch) -> Committed:
        """Write the batch in one transaction."""
        ...

    def record(self, changes: Sequence[Change]) -> frozenset[RunKey]:
        """Apply changes of runs; returns the keys of those that were refused.

        Refused is a change to a run that has ended, with an older fence than the ledger's, or to a run that is
        not there. Several changes to one run apply in order.
        """
        ...

    def claim(self, buckets: Collection[int] | None, limit: int) -> Sequence[Request]:
        """The oldest unanswered requests about jobs of these buckets; None: of all."""
        ...

    def query(self, where: RunFilter, after: RunKey | None = None, limit: int = 100) -> Page:
        """One page of the ledger, newest first unless `where` says otherwise, by (scheduled_for, job, origin)."""
        ...

    def lease(self, names: Collection[str], holder: str, ttl_us: int, now: Instant) -> Sequence[Lease]:
        """Take or renew what is free of `names`, and return all leases that have not expired.

        A ttl of zero releases what the holder has of `names`. A renewal makes a lease on runs longer, never shorter:
        their keeper may rely on the end that it knows. A store with its own clock uses that instead of `now`, so that
        nodes with wrong clocks agree.
        """
        ...

    def compact(self, before: Mapping[str, Instant], default_before: Instant | None, limit: int) -> int:
        """Remove at most `limit` ended lines older than their job's bound, oldest first; answers how many.

        The job's schedule lines move up with it, so that `verify` does not look for what was removed, and of its
        definitions those go that were replaced before the bound.
        """
        ...

    def requests(self, ids: Collection[str]) -> Sequence[Request]:
        """The requests of these ids, with their answers."""
        ...

    def stored_jobs(self) -> Mapping[str, str]:
        """The definitions of the jobs that programs added while they ran, by job; the counter
        `changes.stored_jobs` grows with each change of one."""
        ...

    def blackouts(self) -> Mapping[str, str]:
        """The blackouts that were added at run time, by id."""
        ...

    def newest(
        self, job_ids: Collection[str], count: int = 1, *, with_skips: bool = False
    ) -> Mapping[str, Sequence[LedgerRow]]:
        """Of each of these jobs that the ledger knows, the last runs that ended, newest first.

        A skip is a run only `with_skips`, and the run of an item never is. A run and its retries have one due time: the
        one that ended last is the newest.
        """
        ...


class LedgerReader(Protocol):
    """What a ledger is asked for people only: nothing is scheduled by it."""

    def schedules(self, job_ids: Collection[str] | None = None) -> Sequence[ScheduleLine]:
        """Schedule lines, by job and time."""
        ...

    def definition(self, job_id: str, digest: str) -> str | None:
        """What a job was when its runs began to name this digest; None: it is not kept, or no longer."""
        ...

    def tally(self, where: RunFilter, width_us: int, *, by_job: bool = False) -> Sequence[Tally]:
        """How many lines there are in each cell of a window, by kind; without reading them one by one.

        The window is `since` up to `until`, which must be given. A line is in the cell of its `scheduled_for`, so a
        gap that began before the window is in none.
        """
        ...

    def outcomes(self, bounds: Sequence[Instant], job_id: str | None = None) -> Sequence[Tally]:
        """How many lines there are between consecutive bounds, by kind: cell 0 begins at the first bound.

        As `tally` counts them, without the times that runs took, and without runs of items. Of all jobs it comes from
        the counts that are kept by hour, so that it takes as long for many runs as for few, and no hour may have two
        bounds inside it. Of one job it is counted from its lines.
        """
        ...

    def wrong_counts(self) -> Sequence[WrongCount]:
        """Compare the counts that are kept by hour with the lines; reads all of the ledger."""
        ...

    def counters(self) -> Mapping[str, int]:
        """How many lines were ever written, by outcome, without counting rows.

        `entries.<trigger>` counts lines as they are entered, `ended.<state>` runs as they end,
        `skipped.<reason>` occurrences that were skipped (a gap counts all of its occurrences), both without runs of
        items, and
        `changes.stored_jobs` how often a program has added, changed or removed a job.
        """
        ...

    def pause_reads_with(self, pause: Callable[[], None]) -> None:
        """Call `pause` between parts of a long read that runs in this interpreter, which may have jobs to fire.

        A store whose database does the reading never calls it.
        """
        ...


class RequestAnnouncements(Protocol):
    """A database that announces new requests to its clients; elsewhere a node polls for them."""

    def wait_for_requests(self, timeout_seconds: float) -> bool:
        """Wait until a request is submitted; one thread may do so while others use the store."""
        ...


class ChangeStamps(Protocol):
    """A file that shows without being read whether anything was committed to it."""

    def change_stamp(self) -> object:
        """Differs from an earlier one if there was a commit since."""
        ...


class IntegrityChecks(Protocol):
    """A file that can be read in full while it is written; a database server checks its own."""

    def full_check(self, is_stopping: Callable[[], bool]) -> str | None:
        """What is wrong with it; None: nothing. `InterruptedError` when `is_stopping` returns true."""
        ...


class Backups(Protocol):
    """A file that can be copied while it is written; a database server has its own tools."""

    def backup(self, now: Instant, keep_days: int) -> Path | None:
        """Copy the ledger unless that was done within a day, and remove old copies; answers where the new one is."""
        ...


class NextRunFiles(Protocol):
    """Files for people beside their pipelines, which say when each is due next; a ledger does not know that."""

    def show_next_runs(self, now: Instant, next_runs: Mapping[str, Instant]) -> None: ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What only some stores can do; None where this one cannot."""

    announcements: RequestAnnouncements | None = None
    change_stamps: ChangeStamps | None = None
    integrity_checks: IntegrityChecks | None = None
    backups: Backups | None = None
    next_run_files: NextRunFiles | None = None


class Store(Ledger, LedgerReader, Protocol):
    """A whole ledger, as it is opened by its URL."""

    @property
    def capabilities(self) -> Capabilities: ...

    def close(self) -> None: ...


def find_line(store: Ledger, key: RunKey) -> LedgerRow | None:
    """The line of one run, without reading the others of its instant: of a step there may be a thousand items."""
    # The first line that is not behind this mark; '!' sorts after the blanks with which a database may fill up.
    mark = key._replace(origin=f"{key.origin}!")
    where = RunFilter(job_ids=[key.job_id], until=key.scheduled_for + 1, with_items=True)
    return next((row for row in store.query(where, mark, 1).rows if row.key == key), None)


def every_line(store: Ledger, where: RunFilter, page: int = 1_000) -> Iterator[LedgerRow]:
    """All lines of a filter, read page by page."""
    after = None
    while True:
        found = store.query(where, after, page)
        yield from found.rows
        if found.after is None:
            return
        after = found.after
