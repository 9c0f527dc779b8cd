"""The ledger in a file as a command asks for it: the usual reads and a request, without loading SQLAlchemy.

A command lives for a quarter of a second, and SQLAlchemy takes most of that to import. Here the reads of `reads` and
`overview` are written as text, and one suite proves that both answer the same (`tests/stores`). Everything else opens
the whole store when it is first asked for.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evertick.errors import EvertickError
from evertick.model.instant import HOUR, Instant
from evertick.model.ledger import WrongCount
from evertick.model.lifecycle import ENDED, SKIPPED, TERMINAL, RunState, SkipReason, Trigger
from evertick.model.run import Change, LedgerRow, RunKey, newest_first
from evertick.store import (
    Batch,
    Committed,
    Lease,
    Page,
    Request,
    RequestKind,
    RunFilter,
    ScheduleLine,
    Snapshot,
    Tally,
)
from evertick.stores.hour_counts import Cells, count_rows, equal_cells, outcomes_of_job, wrong_counts
from evertick.stores.sql.rows import chunks, request_row, to_count, to_job, to_kind, to_line, to_request
from evertick.stores.sql.sqlite_file import SqliteFile, connect_to
from evertick.stores.sql.sqlite_filters import (
    COLUMNS,
    NAMES_PER_QUERY,
    NOT_AN_ITEM,
    conditions,
    ended_as,
    is_found_by_end,
    marks,
    page_texts,
)
from evertick.stores.sql.statements import CHUNK, JOB_COLUMNS, REQUEST_COLUMNS, SQLITE, Statements

if TYPE_CHECKING:
    from evertick.stores.sql.sqlite import SqliteStore

SCHEMA: Final = 15
"""The schema that these texts are about; the whole store opens a ledger with another one."""
CACHE_KIB: Final = 4_000

_JOBS: Final = f"SELECT {', '.join(JOB_COLUMNS)} FROM evertick_jobs"
_OPEN: Final = f"SELECT {COLUMNS} FROM evertick_runs WHERE is_open = 1"
_FLOORS: Final = "SELECT bucket, planned_through FROM evertick_floors"
_REQUESTS: Final = f"SELECT {', '.join(REQUEST_COLUMNS)} FROM evertick_requests"
_BY_HOUR: Final = (
    "SELECT (hour - ?) / ? AS cell, state, trigger_kind, reason, sum(entries), sum(occurrences) "
    "FROM evertick_hour_counts WHERE hour >= ? AND hour < ? GROUP BY cell, state, trigger_kind, reason"
)
_KEPT_COUNTS: Final = (
    "SELECT hour, state, trigger_kind, reason, sum(entries), sum(occurrences) FROM evertick_hour_counts "
    "GROUP BY hour, state, trigger_kind, reason"
)
_COUNTS: Final = (
    f"SELECT scheduled_for - scheduled_for % {HOUR} AS hour, state, trigger_kind, "
    f"CASE WHEN state = '{SKIPPED.value}' THEN coalesce(reason, '') ELSE '' END AS why, count(*), sum(occurrences) "
    "FROM evertick_runs WHERE is_open = 0 GROUP BY hour, state, trigger_kind, why"
)
_STILL_OPEN: Final = (
    "SELECT scheduled_for, state, trigger_kind, reason, count(*), sum(occurrences) FROM evertick_runs "
    "WHERE is_open = 1 AND scheduled_for >= ? AND scheduled_for < ? GROUP BY scheduled_for, state, trigger_kind, reason"
)
_KINDS: Final = tuple(kind.value for kind in RequestKind)


class SqliteReader(SqliteFile):
    """A whole `Store`, of which the usual reads take a fraction of the time; any thread may use it."""

    def __init__(self, path: Path, *, force: bool = False, migrate: bool = True) -> None:
        super().__init__(path, force=force)
        self._force, self._migrate = force, migrate
        self._lock = threading.RLock()
        self._has_whole = False
        self._connection: sqlite3.Connection | None = None
        try:
            self.check_opened(self._open)
            self.has_known_schema = self._read_schema() == SCHEMA
            if migrate and not self.has_known_schema:
                self._whole.schema()  # opened, it has migrated or refused the ledger
        except BaseException:
            self.close()
            raise

    @cached_property
    def _whole(self) -> SqliteStore:
        from evertick.stores.sql.sqlite import SqliteStore

        whole = SqliteStore(self.path, force=self._force, check=False, migrate=self._migrate)
        self._has_whole = True
        return whole

    def close(self) -> None:
        if self._has_whole:
            self._whole.close()
        if self._connection is not None:
            self._connection.close()

    # Reads

    def load(self, buckets: Collection[int] | None = None) -> Snapshot:
        values = () if buckets is None else tuple(sorted(set(buckets)))
        some = also = ""
        if buckets is not None:
            some, also = f" WHERE bucket IN ({marks(values)})", f" AND bucket IN ({marks(values)})"
        with self._reading() as read:
            read("BEGIN", ())
            try:
                jobs, lines, floors = (
                    read(text, values) for text in (f"{_JOBS}{some}", f"{_OPEN}{also}", f"{_FLOORS}{some}")
                )
            finally:
                read("ROLLBACK", ())
        open_runs = sorted(map(to_line, lines), key=_place_of)
        return Snapshot(jobs=list(map(to_job, jobs)), open_runs=open_runs, floors=dict(floors))

    def claim(self, buckets: Collection[int] | None, limit: int) -> Sequence[Request]:
        values = () if buckets is None else tuple(sorted(set(buckets)))
        some = "" if buckets is None else f" AND bucket IN ({marks(values)})"
        text = f"{_REQUESTS} WHERE is_open = 1 AND kind IN ({marks(_KINDS)}){some} ORDER BY submitted_at, id LIMIT ?"
        return list(map(to_request, self._read(text, (*_KINDS, *values, limit))))

    def requests(self, ids: Collection[str]) -> Sequence[Request]:
        found = map(to_request, self._read_some(f"{_REQUESTS} WHERE id IN", sorted(set(ids))))
        return sorted(found, key=lambda request: (request.submitted_at, request.id))

    def query(self, where: RunFilter, after: RunKey | None = None, limit: int = 100) -> Page:
        found = list(islice(self._lines(where, after, limit + 1), limit + 1))
        rows = found[:limit]
        return Page(rows, rows[-1].key if len(found) > limit and rows else None)

    def _lines(self, where: RunFilter, after: RunKey | None, limit: int) -> Iterator[LedgerRow]:
        for texts in page_texts(where, after, limit):
            found = [to_line(row) for text, values in texts for row in self._read(text, values)]
            if len(texts) > 1:
                found.sort(key=_place_of, reverse=not where.oldest_first)
            yield from found
            if len(found) >= limit:
                return

    def newest(
        self, job_ids: Collection[str], count: int = 1, *, with_skips: bool = False
    ) -> Mapping[str, Sequence[LedgerRow]]:
        states = tuple(sorted(state.value for state in (TERMINAL if with_skips else ENDED)))

        def ended(table: str) -> str:
            return f"{table}.state IN ({marks(states)}) AND {table}.{NOT_AN_ITEM}"

        # For each job, find in the index where its last `count` runs begin, and read from there.
        begin = (
            "SELECT begun.scheduled_for FROM evertick_runs AS begun WHERE begun.job_id = evertick_jobs.job_id "
            f"AND {ended('begun')} ORDER BY begun.scheduled_for DESC LIMIT 1 OFFSET ?"
        )
        text = (
            f"SELECT {COLUMNS} FROM evertick_jobs JOIN evertick_runs ON evertick_runs.job_id = evertick_jobs.job_id "
            f"AND evertick_runs.scheduled_for >= coalesce(({begin}), 0) WHERE {ended('evertick_runs')} "
            "AND evertick_jobs.job_id IN"
        )
        found: dict[str, list[LedgerRow]] = {}
        for row in map(to_line, self._read_some(text, sorted(set(job_ids)), (*states, count - 1, *states))):
            found.setdefault(row.key.job_id, []).append(row)
        return {job_id: newest_first(rows)[:count] for job_id, rows in found.items()}

    def tally(self, where: RunFilter, width_us: int, *, by_job: bool = False) -> Sequence[Tally]:
        from evertick.stores.memory.tally import merge

        assert where.since is not None
        assert where.until is not None
        told, values = conditions(where)
        if is_found_by_end(where):
            told.append(ended_as(where.states))
        told.append("scheduled_for >= ?")
        job_id = "job_id" if by_job else "''"
        text = (
            f"SELECT (scheduled_for - ?) / ? AS cell, {job_id}, state, trigger_kind, reason, count(*), "
            "sum(occurrences), max(finished_at - started_at), max(started_at - scheduled_for) FROM evertick_runs "
            f"WHERE {' AND '.join(told)}"
        )
        kinds = f" GROUP BY cell, {'job_id, ' if by_job else ''}state, trigger_kind, reason"
        values = (where.since, width_us, *values, where.since)
        if not where.job_ids:
            return merge(map(_to_tally, self._read(text + kinds, values)))
        jobs = sorted(set(where.job_ids))
        return merge(map(_to_tally, self._read_some(f"{text} AND job_id IN", jobs, values, kinds)))

    def schedules(self, job_ids: Collection[str] | None = None) -> Sequence[ScheduleLine]:
        text = "SELECT job_id, since, specs FROM evertick_schedules"
        rows = (
            self._read(text, ())
            if job_ids is None
            else self._read_some(f"{text} WHERE job_id IN", sorted(set(job_ids)))
        )
        return sorted(ScheduleLine(*row) for row in rows)

    def definition(self, job_id: str, digest: str) -> str | None:
        text = "SELECT text FROM evertick_definitions WHERE job_id = ? AND digest = ?"
        return next((str(row[0]) for row in self._read(text, (job_id, digest))), None)

    def stored_jobs(self) -> Mapping[str, str]:
        return dict(self._read("SELECT job_id, text FROM evertick_stored_jobs", ()))

    def blackouts(self) -> Mapping[str, str]:
        return dict(self._read("SELECT id, text FROM evertick_blackouts", ()))

    def counters(self) -> Mapping[str, int]:
        return dict(self._read("SELECT name, sum(value) FROM evertick_counters GROUP BY name", ()))

    def outcomes(self, bounds: Sequence[Instant], job_id: str | None = None) -> Sequence[Tally]:
        if job_id is not None:
            return outcomes_of_job(self.tally, bounds, job_id)
        cells = Cells(bounds)
        with self._reading() as read:
            read("BEGIN", ())
            try:
                for group in equal_cells(bounds):
                    window = (group.start, group.width_us, group.start, group.end)
                    for number, *kind, entries, occurrences in read(_BY_HOUR, window):
                        cells.add(group.first + number, to_kind(kind), entries, occurrences)
                for some in chunks(cells.rests(), CHUNK):
                    text = Statements(SQLITE).ended_between(len(some))
                    for bound, *kind, entries, occurrences in read(text, [at for rest in some for at in rest]):
                        cells.move_rest(bound, to_kind(kind), entries, occurrences)
                for at, *kind, entries, occurrences in read(_STILL_OPEN, (bounds[0], bounds[-1])):
                    cells.add_at(at, to_kind(kind), entries, occurrences)
            finally:
                read("ROLLBACK", ())
        return cells.tallies()

    def wrong_counts(self) -> Sequence[WrongCount]:
        with self._reading() as read:
            read("BEGIN", ())
            try:
                kept, told = (count_rows(map(to_count, read(text, ()))) for text in (_KEPT_COUNTS, _COUNTS))
            finally:
                read("ROLLBACK", ())
        return wrong_counts(kept, told)

    def pause_reads_with(self, pause: Callable[[], None]) -> None:
        """SQLite reads outside of this interpreter."""

    def made_by(self) -> str:
        """The Evertick version that made the schema."""
        [(version,)] = self._read("SELECT evertick FROM evertick_schema ORDER BY version DESC LIMIT 1", ())
        return str(version)

    def sizes(self) -> tuple[int, int, int, int]:
        """How many entries there are, how many of them are open, how many jobs, and how many unanswered requests."""
        tables = ("runs", "runs WHERE is_open = 1", "jobs", "requests WHERE is_open = 1")
        counts = [self._read(f"SELECT count(*) FROM evertick_{table}", ())[0][0] for table in tables]
        entries, active, jobs, waiting = map(int, counts)
        return entries, active, jobs, waiting

    # Writes

    def commit(self, batch: Batch) -> Committed:
        if batch != Batch(by=batch.by, requests=batch.requests):
            return self._whole.commit(batch)
        with self._naming_errors():
            connection = connect_to(self.path, CACHE_KIB)
            try:
                # As every writer: it waits for its turn first, and a crash leaves all of the requests or none.
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(Statements(SQLITE).insert_request, map(request_row, batch.requests))
                connection.execute("COMMIT")
            finally:
                connection.close()
        return Committed()

    def record(self, changes: Sequence[Change]) -> frozenset[RunKey]:
        return self._whole.record(changes)

    def lease(self, names: Collection[str], holder: str, ttl_us: int, now: Instant) -> Sequence[Lease]:
        if names:
            return self._whole.lease(names, holder, ttl_us, now)
        text = "SELECT name, holder, epoch, expires_at FROM evertick_leases WHERE expires_at > ?"
        return sorted(Lease(*row) for row in self._read(text, (now,)))

    def compact(self, before: Mapping[str, Instant], default_before: Instant | None, limit: int) -> int:
        return self._whole.compact(before, default_before, limit)

    # The connection

    def _read(self, text: str, values: Sequence[object]) -> list[Any]:
        with self._reading() as read:
            return read(text, values)

    def _read_some(
        self, text: str, names: Sequence[str], values: Sequence[object] = (), behind: str = ""
    ) -> Iterator[Any]:
        """The rows of a text that ends in `IN`, queried in chunks: SQLite limits the number of values."""
        for some in chunks(names, NAMES_PER_QUERY):
            yield from self._read(f"{text} ({marks(some)}){behind}", (*values, *some))

    @contextmanager
    def _reading(self) -> Iterator[Callable[[str, Sequence[object]], list[Any]]]:
        connection = self._connection
        assert connection is not None
        with self._lock, self._naming_errors():
            yield lambda text, values: connection.execute(text, values).fetchall()

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except EvertickError:
            raise
        except Exception as error:
            named = self.named_error(error)
            if named is None:
                raise
            raise named from error

    def _open(self) -> None:
        with self._naming_errors():
            self._connection = connect_to(self.path, CACHE_KIB)
            self._connection.execute("PRAGMA query_only = ON")
        [(found,)] = self._read("PRAGMA quick_check(1)", ())
        if found != "ok":
            raise self.corrupt(str(found))

    def _read_schema(self) -> int | None:
        try:
            assert self._connection is not None
            row = self._connection.execute("SELECT max(version) FROM evertick_schema").fetchone()
        except sqlite3.Error:
            return None  # the whole store says what is wrong, or creates the tables
        return None if row[0] is None else int(row[0])


def _place_of(line: LedgerRow) -> tuple[int, str, str]:
    return line.key.scheduled_for, line.key.job_id, line.key.origin


def _to_tally(row: Sequence[Any]) -> Tally:
    cell, job_id, state, trigger, reason, *numbers = row
    return Tally(
        cell, job_id, RunState(state), Trigger(trigger), None if reason is None else SkipReason(reason), *numbers
    )
