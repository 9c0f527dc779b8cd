"""How a migration step makes things: with Alembic's operations, and only what is not there yet."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations


class Making:
    """What a step may do to a database."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.operations = Operations(MigrationContext.configure(connection))

    @property
    def has_virtual_columns(self) -> bool:
        """Whether a column may be worked out when it is read, and have an index all the same."""
        return self._connection.dialect.name != "postgresql"

    def table(self, name: str, *columns: sa.Column[Any], **options: Any) -> None:
        if not sa.inspect(self._connection).has_table(name):
            self.operations.create_table(name, *columns, **options, **self._mysql_options())

    def _mysql_options(self) -> dict[str, Any]:
        """Byte-wise comparison without padding; the two servers name that collation differently."""
        is_mariadb = getattr(self._connection.dialect, "is_mariadb", False)
        collation = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
        return {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": collation}

    def column(self, table: str, column: sa.Column[Any]) -> None:
        if column.name not in {found["name"] for found in sa.inspect(self._connection).get_columns(table)}:
            self.operations.add_column(table, column)

    def wider(self, table: str, name: str, kind: sa.String) -> None:
        """Let a column that is never null and empty by default hold more, where the database counts: on MySQL only."""
        (found,) = [column for column in sa.inspect(self._connection).get_columns(table) if column["name"] == name]
        length = getattr(found["type"], "length", None)
        if self._connection.dialect.name not in {"mysql", "mariadb"} or length is None or length >= (kind.length or 0):
            return
        empty = sa.text("''")
        self.operations.alter_column(table, name, type_=kind, existing_nullable=False, existing_server_default=empty)

    def index(self, name: str, table: str, columns: list[str], *, where: str | None = None) -> None:
        """An index; partial where the database can."""
        if name in {index["name"] for index in sa.inspect(self._connection).get_indexes(table)}:
            return
        partial: dict[str, Any] = {"sqlite_where": sa.text(where), "postgresql_where": sa.text(where)} if where else {}
        self.operations.create_index(name, table, columns, **partial)
