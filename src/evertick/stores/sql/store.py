"""A ledger in a database: the part that SQLite, PostgreSQL and MySQL share.

Every write is one transaction, run again as a whole when the database breaks a deadlock. Statements on the hot path go
to the driver as text with a list of rows; SQLAlchemy keeps the connections, names the errors and writes the filters.
"""

from __future__ import annotations

import random
import secrets
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from evertick.errors import EvertickError, Fenced, GapRefused, StoreError
from evertick.model.instant import Instant
from evertick.model.ledger import STORED_JOBS, bucket_lease
from evertick.model.run import Change, Entry, LedgerRow, RunKey
from evertick.store import (
    Batch,
    Capabilities,
    Committed,
    Lease,
    Page,
    Request,
    RunFilter,
    ScheduleLine,
    Snapshot,
    StoredBlackout,
    StoredJob,
    Tally,
    WrongCount,
)
from evertick.stores.hour_counts import HourCounts, outcomes_of_job
from evertick.stores.sql import compact, hour_counts, migrations, overview, reads
from evertick.stores.sql.changes import apply_changes, end_counters
from evertick.stores.sql.entries import Entered, enter_all, is_stretch
from evertick.stores.sql.leases import find_runs_without_slot, take_leases
from evertick.stores.sql.rows import Params, entry_row, job_row, key_row, request_row, storable
from evertick.stores.sql.statements import Dialect, Statements

T = TypeVar("T")

TRIES: Final = 8
"""How often a transaction is tried when the database ends it to break a deadlock."""
SHARES: Final = 16
"""Rows per counter, so that nodes that write at once rarely meet."""


class SqlStore(ABC):
    dialect: ClassVar[Dialect]
    conflict_errors: ClassVar[tuple[type[Exception], ...]] = (exc.IntegrityError,)
    """What an insert raises that conflicts with a row; the driver's own where a statement bypasses SQLAlchemy."""

    def __init__(self, place: str, writer: sa.Engine, reader: sa.Engine) -> None:
        self.place = place
        """Where the ledger is, without its password."""
        self._writer = writer
        self._reader = reader
        self._sql = Statements(self.dialect)
        self._share = secrets.randbelow(SHARES)

    # Scheduling

    def load(self, buckets: Collection[int] | None = None) -> Snapshot:
        with self._naming_errors(), self._snapshot() as connection:
            return reads.load(connection, buckets)

    def commit(self, batch: Batch) -> Committed:
        return self._write(lambda connection: self._commit(connection, batch))

    def record(self, changes: Sequence[Change]) -> frozenset[RunKey]:
        return self._write(lambda connection: self._record(connection, changes)) if changes else frozenset()

    def claim(self, buckets: Collection[int] | None, limit: int) -> Sequence[Request]:
        with self._naming_errors(), self._reader.connect() as connection:
            return reads.claim(connection, buckets, limit)

    def lease(self, names: Collection[str], holder: str, ttl_us: int, now: Instant) -> Sequence[Lease]:
        def take(connection: sa.Connection) -> Sequence[Lease]:
            return take_leases(connection, self._sql, names, holder, ttl_us, lambda: self._now(connection, now))

        return self._write(take)

    # Reading, for people

    def query(self, where: RunFilter, after: RunKey | None = None, limit: int = 100) -> Page:
        with self._naming_errors(), self._reader.connect() as connection:
            return reads.query(connection, where, after, limit)

    def schedules(self, job_ids: Collection[str] | None = None) -> Sequence[ScheduleLine]:
        with self._naming_errors(), self._reader.connect() as connection:
            return reads.schedules(connection, job_ids)

    def definition(self, job_id: str, digest: str) -> str | None:
        with self._naming_errors(), self._reader.connect() as connection:
            return reads.definition(connection, job_id, digest)

    def stored_jobs(self) -> Mapping[str, str]:
        with self._naming_errors(), self._reader.connect() as connection:
            return reads.stored_jobs(connection)

    def blackouts(self) -> Mapping[str, str]:
        with self._naming_errors(), self._reader.connect() as connection:
            return reads.blackouts(connection)

    def requests(self, ids: Collection[str]) -> Sequence[Request]:
        with self._naming_errors(), self._reader.connect() as connection:
            return reads.requests(connection, ids)

    def newest(
        self, job_ids: Collection[str], count: int = 1, *, with_skips: bool = False
    ) -> Mapping[str, Sequence[LedgerRow]]:
        with self._naming_errors(), self._reader.connect() as connection:
            return overview.newest(connection, job_ids, count, with_skips=with_skips)

    def tally(self, where: RunFilter, width_us: int, *, by_job: bool = False) -> Sequence[Tally]:
        with self._naming_errors(), self._reader.connect() as connection:
            return overview.tally(connection, where, width_us, by_job=by_job)

    def outcomes(self, bounds: Sequence[Instant], job_id: str | None = None) -> Sequence[Tally]:
        if job_id is not None:
            return outcomes_of_job(self.tally, bounds, job_id)
        with self._naming_errors(), self._snapshot() as connection:
            return hour_counts.outcomes(connection, self._sql, bounds)

    def wrong_counts(self) -> Sequence[WrongCount]:
        with self._naming_errors(), self._snapshot() as connection:
            return hour_counts.find_wrong_counts(connection)

    def counters(self) -> Mapping[str, int]:
        with self._naming_errors(), self._reader.connect() as connection:
            return reads.counters(connection)

    def pause_reads_with(self, pause: Callable[[], None]) -> None:  # noqa: B027 - it has nothing to pause
        """The database reads outside of this interpreter."""

    # Keeping house

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def compact(self, before: Mapping[str, Instant], default_before: Instant | None, limit: int) -> int:
        def remove(connection: sa.Connection) -> int:
            removed, counts = compact.compact(connection, self._sql, before, default_before, limit)
            self._many(connection, self._sql.add_to_hour, hour_counts.count_params(counts, self._share))
            if counts:
                hours = [hour for hour, *_ in counts]
                connection.exec_driver_sql(self._sql.delete_empty_hours, (min(hours), max(hours)))
            return removed

        return self._write(remove)

    def recount(self) -> int:
        """Rebuild the hourly counts from the lines, where they disagree; answers how many were wrong."""

        def rebuild(connection: sa.Connection) -> int:
            self._lock_counts(connection)
            wrong = len(hour_counts.find_wrong_counts(connection))
            if wrong:
                hour_counts.recount(connection)
            return wrong

        return self._write(rebuild)

    def migrate(self) -> int:
        """Migrate the database to the current schema; returns the number of steps."""
        found = self.schema()
        migrations.refuse_newer(found, self.place)
        if found.version >= migrations.newest():
            return 0  # only the first start waits for the lock
        with self._naming_errors(), self._migration_lock() as connection:
            if migrations.is_breaking(found.version) and (alive := self._live_nodes(connection)):
                raise StoreError(
                    f"{self.place} has schema version {found.version} and needs a migration that its running nodes "
                    f"cannot use: {', '.join(alive)}. Stop all of them, then start this one."
                )
            return migrations.upgrade(connection, self.place)

    def schema(self) -> migrations.Schema:
        """The schema of the database."""
        with self._naming_errors(), self._reader.connect() as connection:
            return migrations.read_schema(connection)

    def read(self, look: Callable[[sa.Connection], T]) -> T:
        """Read the tables directly, all in one state, for `evertick db`."""
        with self._naming_errors(), self._snapshot() as connection:
            return look(connection)

    def live_nodes(self) -> Sequence[str]:
        """The nodes that share the ledger at this moment; of a file, the lock file says whether there is one."""
        return self._write(self._live_nodes)

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Write the tables directly, in one transaction, for `evertick db`."""
        return self._write(work)

    def close(self) -> None:
        self._writer.dispose()
        self._reader.dispose()

    # What the databases do differently

    @abstractmethod
    def _insert(self, connection: sa.Connection, rows: Sequence[Params]) -> None:
        """Insert rows of `ENTRY_COLUMNS`; a duplicate raises the driver's or SQLAlchemy's integrity error."""

    @abstractmethod
    def _update(self, connection: sa.Connection, rows: Sequence[Params]) -> int:
        """Apply rows of `CHANGE_COLUMNS` where the guard allows it; returns how many."""

    @abstractmethod
    def _lock_gaps(self, connection: sa.Connection, exclusive: bool) -> None:
        """Keep gaps from being entered beside entries: a line cannot conflict with a gap through a unique key."""

    @abstractmethod
    def _lock_counts(self, connection: sa.Connection) -> None:
        """Keep other nodes from adding to the hourly counts until the transaction ends."""

    @abstractmethod
    def _now(self, connection: sa.Connection, now: Instant) -> Instant:
        """The clock for leases."""

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[sa.Connection]:
        """A connection whose statements all see the same state."""

    @abstractmethod
    def _migration_lock(self) -> AbstractContextManager[sa.Connection]:
        """A connection that writes while no other node migrates."""

    def _live_nodes(self, connection: sa.Connection) -> Sequence[str]:  # noqa: ARG002 - a file has one at a time
        """The nodes that share the ledger at this moment."""
        return ()

    @abstractmethod
    def _named(self, error: Exception) -> StoreError | None:
        """The store error for an error of the driver; None if it is a bug of ours."""

    @abstractmethod
    def _is_deadlock(self, error: Exception) -> bool:
        """Whether the database ended the transaction to break a deadlock, so that it can be repeated."""

    def _announce_requests(self, connection: sa.Connection) -> None:  # noqa: B027 - not all can
        """Announce to waiting nodes that there are requests."""

    # The parts of a commit

    def _commit(self, connection: sa.Connection, batch: Batch) -> Committed:
        sql = self._sql
        self._check_epochs(connection, batch.epochs)
        self._many(connection, sql.withdraw, sorted(map(key_row, batch.withdrawn)))
        entered = self._enter(connection, batch.entries, batch.by)
        crowded, outranked = find_runs_without_slot(connection, sql, batch.claims)
        changes = batch.changes
        if entered.refused or crowded:
            changes = [change for change in changes if change.key not in entered.refused | crowded]
        recorded = apply_changes(connection, sql, changes, self._update)
        self._many(connection, sql.upsert_job, [job_row(job) for job in batch.jobs])
        self._many(connection, sql.rewind, [(watermark, job_id) for job_id, watermark in batch.rewinds.items()])
        self._many(connection, sql.upsert_floor, sorted(batch.floors.items()))
        lines = [(line.job_id, line.since, storable(line.specs)) for line in batch.schedules]
        self._many(connection, sql.upsert_schedule, lines)
        told = [(line.job_id, line.digest, line.since, storable(line.text)) for line in batch.definitions]
        self._many(connection, sql.upsert_definition, told)
        if batch.stored_jobs:
            self._store_jobs(connection, batch.stored_jobs)
        if batch.blackouts:
            self._store_blackouts(connection, batch.blackouts)
        requests = batch.requests_without(entered.refused | crowded | recorded.overruled)
        self._many(connection, sql.insert_request, [request_row(request) for request in requests])
        answers = [(storable(answer), request_id) for request_id, answer in batch.answers.items()]
        self._many(connection, sql.answer, answers)
        if requests or batch.blackouts:
            self._announce_requests(connection)
        counted, ended = entered.counts()
        ended.add_all(recorded.ended)
        self._count(connection, counted, ended)
        return Committed(frozenset(entered.refused), crowded, recorded.overruled, outranked)

    def _store_jobs(self, connection: sa.Connection, jobs: Sequence[StoredJob]) -> None:
        kept = [(job_id, storable(text)) for job_id, text in jobs if text is not None]
        self._many(connection, self._sql.upsert_stored_job, kept)
        self._many(connection, self._sql.delete_stored_job, [(job_id,) for job_id, text in jobs if text is None])
        self._many(connection, self._sql.add_to_counter, [(STORED_JOBS, self._share, len(jobs))])

    def _store_blackouts(self, connection: sa.Connection, blackouts: Sequence[StoredBlackout]) -> None:
        kept = [(one.id, storable(one.text)) for one in blackouts if one.text is not None]
        self._many(connection, self._sql.upsert_blackout, kept)
        self._many(connection, self._sql.delete_blackout, [(one.id,) for one in blackouts if one.text is None])

    def _check_epochs(self, connection: sa.Connection, epochs: Mapping[int, int]) -> None:
        """Lock the leases until the transaction ends, so that no node takes one over meanwhile."""
        if not epochs:
            return
        names = sorted(map(bucket_lease, epochs))
        statement = self._sql.lease_rows(len(names), self.dialect.share_lock)
        held = {row[0]: row[2] for row in connection.exec_driver_sql(statement, tuple(names))}
        lost = sorted(bucket for bucket, epoch in epochs.items() if held.get(bucket_lease(bucket), 0) != epoch)
        if lost:
            raise Fenced(tuple(lost))

    def _enter(self, connection: sa.Connection, entries: Sequence[Entry], by: str) -> Entered:
        if not entries:
            return Entered()
        self._lock_gaps(connection, exclusive=any(map(is_stretch, entries)))

        def insert(connection: sa.Connection, new: Sequence[Entry]) -> bool:
            rows = [entry_row(entry, by) for entry in new]
            rows.sort(key=_primary_key)
            gaps = [
                (entry.key.job_id, entry.through, entry.key.scheduled_for, entry.key.origin)
                for entry in new
                if is_stretch(entry)
            ]
            attempt = connection.begin_nested()
            try:
                self._insert(connection, rows)
            except self.conflict_errors:
                attempt.rollback()
                return False
            attempt.commit()
            self._many(connection, self._sql.insert_gap, gaps)
            return True

        entered = enter_all(connection, self._sql, entries, by, insert)
        gaps = frozenset(entry.key for entry in entries if is_stretch(entry) and entry.key in entered.refused)
        if gaps:
            raise GapRefused(gaps)
        return entered

    def _record(self, connection: sa.Connection, changes: Sequence[Change]) -> frozenset[RunKey]:
        recorded = apply_changes(connection, self._sql, changes, self._update)
        self._count(connection, Counter(), recorded.ended)
        return recorded.refused

    def _count(self, connection: sa.Connection, counted: Counter[str], ended: HourCounts) -> None:
        """Last in a transaction, so that others who count wait only for its commit."""
        counted += end_counters(ended)
        rows = [(name, self._share, value) for name, value in sorted(counted.items()) if value]
        self._many(connection, self._sql.add_to_counter, rows)
        self._many(connection, self._sql.add_to_hour, hour_counts.count_params(ended, self._share))

    def _many(self, connection: sa.Connection, statement: str, rows: Sequence[Params]) -> int:
        if not rows:
            return 0
        return connection.exec_driver_sql(statement, list(rows)).rowcount

    # Transactions and errors

    def _write(self, work: Callable[[sa.Connection], T]) -> T:
        with self._naming_errors():
            for attempt in range(1, TRIES):
                try:
                    return self._write_once(work)
                except Exception as error:
                    if not self._is_deadlock(error):
                        raise
                time.sleep(random.uniform(0, 0.01 * attempt))  # so that the two do not meet again
            return self._write_once(work)

    def _write_once(self, work: Callable[[sa.Connection], T]) -> T:
        with self._writer.connect() as connection:
            try:
                with connection.begin():
                    return work(connection)
            except self._driver_errors():
                # SQLAlchemy did not see this error: the state of the connection is unknown.
                connection.invalidate()
                raise

    def _driver_errors(self) -> tuple[type[Exception], ...]:
        """Errors of the driver that reach us without SQLAlchemy's wrapping."""
        error = getattr(self._writer.dialect.loaded_dbapi, "Error", None)
        return (error,) if error is not None else ()

    def _naming_errors(self) -> _NamingErrors:
        return _NamingErrors(self)


class _NamingErrors:
    """Turns errors of the driver into errors of the store."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, EvertickError) or not isinstance(error, Exception):
            return
        named = self._store._named(error)
        if named is not None:
            raise named from error


def _primary_key(row: Params) -> Params:
    return row[:3]
