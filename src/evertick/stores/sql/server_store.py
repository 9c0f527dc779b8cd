"""Connections to a ledger on a database server: each is checked before its first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Final, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy import event, exc

from evertick.errors import StoreError
from evertick.model.ledger import NODE_PREFIX
from evertick.stores.sql.leases import take_leases
from evertick.stores.sql.rows import unavailable
from evertick.stores.sql.store import SqlStore

CONNECT_SECONDS: Final = 10
READERS: Final = 8
IDLE_SECONDS: Final = 4
"""A node that freezes inside a transaction keeps its locks from other nodes no longer than this, where the server
supports that. Less than a lease, so that the node that takes over its jobs does not wait for it."""
MIGRATION_IDLE_SECONDS: Final = 60
"""The same while a node migrates: it loads Alembic between two statements, which takes seconds on a busy machine."""


class _DriverConnection(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_DriverConnection)


class ServerStore(SqlStore):
    """What PostgreSQL and MySQL have in common beside the SQL."""

    deadlocks: ClassVar[frozenset[object]]
    """The codes of errors with which the server ends a transaction in favour of another."""

    lost_errors: ClassVar[tuple[type[Exception], ...]]
    """The driver's errors for an unreachable or refusing server."""

    def __init__(
        self, url: sa.URL, defaults: Mapping[str, object], prepare: Callable[[C], None], *, migrate: bool
    ) -> None:
        engine = sa.create_engine(
            url, isolation_level="READ COMMITTED", pool_size=READERS, max_overflow=READERS, pool_timeout=30
        )
        event.listen(engine, "do_connect", _connecting(defaults, prepare))
        super().__init__(
            url.render_as_string(hide_password=True),
            engine,
            # One statement is one transaction: no round trips to begin and end it.
            engine.execution_options(isolation_level="AUTOCOMMIT"),
        )
        try:
            with self._naming_errors(), engine.connect():
                pass
            if migrate:
                self.migrate()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _snapshot(self) -> Iterator[sa.Connection]:
        engine = self._writer.execution_options(isolation_level="REPEATABLE READ")
        with engine.begin() as connection, self._taking_time(connection):
            yield connection

    def _taking_time(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """A read-only transaction blocks no other, and may take long to process what it has read."""
        raise NotImplementedError

    def _live_nodes(self, connection: sa.Connection) -> Sequence[str]:
        now = self._now(connection, 0)
        held = take_leases(connection, self._sql, (), "", 0, lambda: now)
        return [lease.holder.partition("/")[0] for lease in held if lease.name.startswith(NODE_PREFIX)]

    def _named(self, error: Exception) -> StoreError | None:
        cause = error.orig if isinstance(error, exc.DBAPIError) else error
        if isinstance(error, exc.TimeoutError) or isinstance(cause, self.lost_errors):
            return unavailable(self.place, error, "check that its server is running and accepts your credentials")
        if isinstance(cause, OSError):
            # Drivers hand some errors of the system on as they are, such as the lack of a descriptor to wait with.
            return unavailable(self.place, error, "raise the limit of open files ('ulimit -n')")
        return None

    def _is_deadlock(self, error: Exception) -> bool:
        cause = error.orig if isinstance(error, exc.DBAPIError) else error
        return self._code(cause) in self.deadlocks

    def _code(self, cause: BaseException | None) -> object:
        raise NotImplementedError


def _connecting(defaults: Mapping[str, object], prepare: Callable[[C], None]) -> Callable[..., C]:
    def connect(dialect: Any, _record: object, args: list[object], options: dict[str, object]) -> C:
        connection: C = dialect.loaded_dbapi.connect(*args, **{**defaults, **options})
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    return connect
