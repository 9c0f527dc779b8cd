"""A ledger in MySQL or MariaDB: server clock for leases, multi-row statements for large batches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pymysql
import sqlalchemy as sa
from pymysql.constants import ER
from sqlalchemy import exc

from evertick.errors import SettingsError, StoreError, StoreUnavailable
from evertick.model.instant import Instant
from evertick.stores.sql.migrations import FIRST
from evertick.stores.sql.rows import Params, chunks
from evertick.stores.sql.server_store import CONNECT_SECONDS, IDLE_SECONDS, MIGRATION_IDLE_SECONDS, ServerStore
from evertick.stores.sql.statements import CHANGE_COLUMNS, CHUNK, IS_OPEN, KEY_COLUMNS, MYSQL

NEEDED: Final = {"MySQL": (8, 0, 17), "MariaDB": (10, 6)}
"""The first with byte-wise collations that do not pad, and with row locks that can be relied on."""
ANSWER_SECONDS: Final = 60
MIGRATION_SECONDS: Final = 50  # less than the driver waits for an answer
_IDLE_READER: Final = "idle_readonly_transaction_timeout"
_OFF: Final = frozenset({0, "0", "OFF", "NO"})

_DEFAULTS: Final = {
    "connect_timeout": CONNECT_SECONDS,
    # A server that vanished must not block the scheduler forever.
    "read_timeout": ANSWER_SECONDS,
    "write_timeout": ANSWER_SECONDS,
    "charset": "utf8mb4",
}
_ALWAYS: Final = CHANGE_COLUMNS[:4]
_SETS: Final = ", ".join(
    f"r.{name} = c.{name}" if name in _ALWAYS else f"r.{name} = coalesce(c.{name}, r.{name})"
    for name in CHANGE_COLUMNS
    if name not in KEY_COLUMNS
)
_SAME_KEY: Final = " AND ".join(f"r.{name} = c.{name}" for name in KEY_COLUMNS)


class MysqlStore(ServerStore):
    dialect = MYSQL
    deadlocks = frozenset({ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT})
    # The last is what the driver calls a conversation that was cut in the middle.
    lost_errors = (pymysql.OperationalError, pymysql.InterfaceError, pymysql.InternalError)

    def __init__(self, url: str, *, migrate: bool = True) -> None:
        """Open the ledger of `mysql+pymysql://user:password@host/database`, which may be MariaDB."""
        # SQLAlchemy asks for FOUND_ROWS: an update that changes nothing counts as one that found its row.
        super().__init__(sa.make_url(url), _DEFAULTS, _prepare, migrate=migrate)

    def _insert(self, connection: sa.Connection, rows: Sequence[Params]) -> None:
        # The driver makes statements of many rows from this one.
        connection.exec_driver_sql(self._sql.insert_entry, list(rows))

    def _update(self, connection: sa.Connection, rows: Sequence[Params]) -> int:
        return sum(self._update_some(connection, some) for some in chunks(rows, CHUNK))

    def _update_some(self, connection: sa.Connection, rows: Sequence[Params]) -> int:
        table = self.dialect.literal_table("c", len(rows), **dict.fromkeys(CHANGE_COLUMNS, "text"))
        statement = (
            f"UPDATE {table} STRAIGHT_JOIN evertick_runs r ON {_SAME_KEY} SET {_SETS} "
            f"WHERE r.{IS_OPEN} AND r.fence <= c.fence"
        )
        return connection.exec_driver_sql(statement, tuple(value for row in rows for value in row)).rowcount

    def _lock_gaps(self, connection: sa.Connection, exclusive: bool) -> None:
        # The oldest row of the schema's history always exists and is otherwise only read.
        lock = "FOR UPDATE" if exclusive else "LOCK IN SHARE MODE"
        connection.exec_driver_sql(f"SELECT version FROM evertick_schema WHERE version = {FIRST} {lock}").all()

    def _lock_counts(self, connection: sa.Connection) -> None:
        # LOCK TABLES would commit, and without it nothing keeps new rows out of the table.
        if alive := self._live_nodes(connection):
            raise StoreError(
                f"the counts of {self.place} cannot be rebuilt while nodes add to them: {', '.join(alive)}. "
                "Stop them, then repeat the command."
            )

    @contextmanager
    def _taking_time(self, connection: sa.Connection) -> Iterator[None]:
        if not getattr(connection.dialect, "is_mariadb", False):
            yield
            return
        connection.exec_driver_sql(f"SET SESSION {_IDLE_READER} = 0")
        yield
        # Not for an error, which may have cost the connection: one that is left as it is only has more patience.
        connection.exec_driver_sql(f"SET SESSION {_IDLE_READER} = {IDLE_SECONDS}")

    def _limit_idle(self, connection: sa.Connection, seconds: int) -> None:
        if getattr(connection.dialect, "is_mariadb", False):
            connection.exec_driver_sql(
                f"SET SESSION {_IDLE_READER} = {seconds}, idle_write_transaction_timeout = {seconds}"
            )

    def _now(self, connection: sa.Connection, now: Instant) -> Instant:  # noqa: ARG002
        text = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
        return int(connection.exec_driver_sql(text).scalar_one())

    @contextmanager
    def _migration_lock(self) -> Iterator[sa.Connection]:
        with self._writer.connect() as connection:
            got = connection.exec_driver_sql(
                "SELECT GET_LOCK(concat('evertick.', left(database(), 50)), %s)", (MIGRATION_SECONDS,)
            ).scalar()
            if got != 1:
                raise StoreUnavailable(
                    f"another node has been migrating {self.place} for {MIGRATION_SECONDS} s. Try again later."
                )
            self._limit_idle(connection, MIGRATION_IDLE_SECONDS)
            try:
                yield connection
                connection.commit()
                self._limit_idle(connection, IDLE_SECONDS)
            finally:
                connection.rollback()
                connection.exec_driver_sql("SELECT RELEASE_LOCK(concat('evertick.', left(database(), 50)))")

    def _named(self, error: Exception) -> StoreError | None:
        cause = error.orig if isinstance(error, exc.DBAPIError) else error
        if isinstance(cause, pymysql.DataError) and self._code(cause) == ER.DATA_TOO_LONG:
            return StoreError(
                f"{self.place} refused a value: {cause.args[1]}. Names of jobs, requests and nodes may have 255 "
                "characters there."
            )
        return super()._named(error)

    def _code(self, cause: BaseException | None) -> object:
        return cause.args[0] if isinstance(cause, pymysql.MySQLError) and cause.args else None


def _prepare(connection: pymysql.connections.Connection[pymysql.cursors.Cursor]) -> None:
    """Set a new connection up, and refuse a server that is too old or cannot be written to."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT version(), @@global.read_only, @@global.innodb_read_only")
        row = cursor.fetchone()
        assert row is not None
        version, *read_only = row
        product = refuse_old(str(version))
        if any(value not in _OFF for value in read_only):
            raise StoreUnavailable(
                f"the {product} server {connection.host}:{connection.port} is read-only. "
                "Point the store at the primary; Evertick never reads decisions from a replica."
            )
        # Literals compare as the columns do; a value that does not fit is an error, never cut.
        collation = "utf8mb4_nopad_bin" if product == "MariaDB" else "utf8mb4_0900_bin"
        cursor.execute(f"SET NAMES utf8mb4 COLLATE {collation}")
        cursor.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'")
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        if product == "MariaDB":  # MySQL has no such settings
            cursor.execute(f"SET SESSION idle_write_transaction_timeout = {IDLE_SECONDS}")
            # To MariaDB a transaction that has only locked rows is one that reads; it blocks others all the same.
            cursor.execute(f"SET SESSION {_IDLE_READER} = {IDLE_SECONDS}")
    connection.commit()


def refuse_old(version: str) -> str:
    """The product that a version text names; one that is too old to be relied on is refused."""
    product = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    numbers = re.findall(r"\d+", version.removeprefix("5.5.5-"))
    found = tuple(int(number) for number in numbers[:3])
    if found < NEEDED[product]:
        needed = ".".join(map(str, NEEDED[product]))
        raise SettingsError(
            f"the server is {product} {version}; Evertick needs {product} {needed} or newer. Upgrade the server, or "
            "use PostgreSQL or SQLite."
        )
    return product
