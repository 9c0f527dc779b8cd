"""A ledger in PostgreSQL, for several nodes: server clock for leases, COPY for large batches, NOTIFY for requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
import sqlalchemy as sa
from psycopg import errors

from evertick.errors import StoreUnavailable
from evertick.model.instant import Instant
from evertick.store import Capabilities
from evertick.stores.sql.rows import Params
from evertick.stores.sql.server_store import CONNECT_SECONDS, IDLE_SECONDS, MIGRATION_IDLE_SECONDS, ServerStore
from evertick.stores.sql.statements import CHANGE_COLUMNS, ENTRY_COLUMNS, IS_OPEN, KEY_COLUMNS, POSTGRES

COPY_FROM: Final = 100
"""Rows from which COPY is faster than one statement each."""
TRANSACTION_SECONDS: Final = 60
"""A node that freezes amid the statements that it sends in one go is not idle to the server, and would keep its locks
for as long as it is frozen. PostgreSQL 17 and newer can end such a transaction."""
CHANNEL: Final = "evertick_requests"
# Locks of this database that are ours by agreement: "evertick" read as a number, and the next one.
MIGRATION_LOCK: Final = 0x6576657274696B00
GAP_LOCK: Final = MIGRATION_LOCK + 1

_DEFAULTS: Final = {
    "connect_timeout": CONNECT_SECONDS,
    # A server that vanished without a word is noticed within a minute, not after the kernel's two hours.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_NUMBERS: Final = frozenset({"fence", "changed_at", "started_at", "finished_at", "retry_at", "scheduled_for"})
_SMALL: Final = frozenset({"is_open", "attempt", "exit_code"})
_COPY_ENTRIES: Final = f"COPY evertick_runs ({', '.join(ENTRY_COLUMNS)}) FROM STDIN"
_COPY_CHANGES: Final = f"COPY evertick_changes ({', '.join(CHANGE_COLUMNS)}) FROM STDIN"
_MAKE_CHANGES: Final = (
    "CREATE TEMPORARY TABLE IF NOT EXISTS evertick_changes ("
    + ", ".join(
        f"{name} {'bigint' if name in _NUMBERS else 'integer' if name in _SMALL else 'text'}" for name in CHANGE_COLUMNS
    )
    + ") ON COMMIT DELETE ROWS"
)
_ALWAYS: Final = CHANGE_COLUMNS[:4]
_APPLY_CHANGES: Final = (
    "UPDATE evertick_runs r SET "
    + ", ".join(
        f"{name} = c.{name}" if name in _ALWAYS else f"{name} = coalesce(c.{name}, r.{name})"
        for name in CHANGE_COLUMNS
        if name not in KEY_COLUMNS
    )
    + " FROM evertick_changes c WHERE "
    + " AND ".join(f"r.{name} = c.{name}" for name in KEY_COLUMNS)
    + f" AND r.{IS_OPEN} AND r.fence <= c.fence"
)
# Every join here is a few keys against a long history. Lists of parameters have no statistics: left alone, the planner
# may read the whole history to join them.
_JOIN_BY_KEY: Final = "SELECT set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false)"


class PostgresStore(ServerStore):
    dialect = POSTGRES
    conflict_errors = (*ServerStore.conflict_errors, psycopg.IntegrityError)
    deadlocks = frozenset({"40001", "40P01"})
    lost_errors = (
        psycopg.OperationalError,
        psycopg.InterfaceError,
        errors.ReadOnlySqlTransaction,
        errors.IdleInTransactionSessionTimeout,
        errors.TransactionTimeout,
    )

    def __init__(self, url: str, *, migrate: bool = True) -> None:
        """Open the ledger of `postgresql+psycopg://user:password@host/database`."""
        self._listener: psycopg.Connection | None = None
        super().__init__(sa.make_url(url), _DEFAULTS, _prepare, migrate=migrate)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(announcements=self)

    def wait_for_requests(self, timeout_seconds: float) -> bool:
        with self._naming_errors():
            try:
                if self._listener is None:
                    self._listener = self._listen()
                    return True  # what was submitted before was not announced to us
                return any(True for _ in self._listener.notifies(timeout=timeout_seconds, stop_after=1))
            except psycopg.Error:
                self._stop_listening()
                raise

    @contextmanager
    def _taking_time(self, connection: sa.Connection) -> Iterator[None]:
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        self._unlimit(connection)
        yield

    def _unlimit(self, connection: sa.Connection) -> None:
        if _limits_transactions(_driver(connection)):
            connection.exec_driver_sql("SET LOCAL transaction_timeout = 0")

    def close(self) -> None:
        self._stop_listening()
        super().close()

    def _listen(self) -> psycopg.Connection:
        args, options = self._writer.dialect.create_connect_args(self._writer.url)
        connection = psycopg.connect(*args, **{**_DEFAULTS, **options, "autocommit": True})
        connection.execute(f"LISTEN {CHANNEL}".encode())
        return connection

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(psycopg.Error):
                listener.close()

    def _announce_requests(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"NOTIFY {CHANNEL}")

    def _insert(self, connection: sa.Connection, rows: Sequence[Params]) -> None:
        if len(rows) < COPY_FROM:
            connection.exec_driver_sql(self._sql.insert_entry, list(rows))
        else:
            _copy(connection, _COPY_ENTRIES, rows)

    def _update(self, connection: sa.Connection, rows: Sequence[Params]) -> int:
        if len(rows) < COPY_FROM:
            return self._many(connection, self._sql.change, [(*row, row[2]) for row in rows])
        connection.exec_driver_sql(_MAKE_CHANGES)
        connection.exec_driver_sql("DELETE FROM evertick_changes")
        _copy(connection, _COPY_CHANGES, rows)
        return connection.exec_driver_sql(_APPLY_CHANGES).rowcount

    def _lock_gaps(self, connection: sa.Connection, exclusive: bool) -> None:
        function = "pg_advisory_xact_lock" if exclusive else "pg_advisory_xact_lock_shared"
        connection.exec_driver_sql(f"SELECT {function}({GAP_LOCK})")

    def _lock_counts(self, connection: sa.Connection) -> None:
        # It waits for those who have added and not committed; others wait for it, and add to the new counts.
        connection.exec_driver_sql("LOCK TABLE evertick_hour_counts IN SHARE ROW EXCLUSIVE MODE")
        self._unlimit(connection)

    def _now(self, connection: sa.Connection, now: Instant) -> Instant:  # noqa: ARG002
        text = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        return int(connection.exec_driver_sql(text).scalar_one())

    @contextmanager
    def _migration_lock(self) -> Iterator[sa.Connection]:
        with self._writer.begin() as connection:
            connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = '{MIGRATION_IDLE_SECONDS}s'")
            self._unlimit(connection)
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
            yield connection

    def _code(self, cause: BaseException | None) -> object:
        return cause.sqlstate if isinstance(cause, psycopg.Error) else None


def _copy(connection: sa.Connection, statement: str, rows: Sequence[Params]) -> None:
    with _driver(connection).cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _driver(connection: sa.Connection) -> psycopg.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


def _limits_transactions(connection: psycopg.Connection) -> bool:
    return connection.info.server_version >= 170_000


def _prepare(connection: psycopg.Connection) -> None:
    """Set a new connection up, and refuse a server that cannot be written to."""
    connection.autocommit = True
    connection.execute("SET client_min_messages = warning")
    connection.execute(_JOIN_BY_KEY)
    connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'".encode())
    if _limits_transactions(connection):
        connection.execute(f"SET transaction_timeout = '{TRANSACTION_SECONDS}s'".encode())
    # A node that vanished inside a COPY is not idle to the server: its network must tell, and sooner than in two hours.
    connection.execute("SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3")
    row = connection.execute("SELECT pg_is_in_recovery(), current_setting('transaction_read_only')").fetchone()
    connection.autocommit = False
    if row is not None and (row[0] or row[1] == "on"):
        what = "a replica" if row[0] else "read-only"
        raise StoreUnavailable(
            f"the PostgreSQL server {connection.info.host}:{connection.info.port} is {what}. "
            "Point the store at the primary; Evertick never reads decisions from a replica."
        )
