"""A private PostgreSQL server that keeps what it has committed through a power cut, as one in production does.

The servers of the tests do not wait for the disk; a figure of such a server would say nothing about durable writes.
"""

from __future__ import annotations

from tests.servers import PostgresServer

DURABLE = {"fsync=off": "fsync=on", "full_page_writes=off": "full_page_writes=on"}
ROOMIER = {"shared_buffers=32MB": "shared_buffers=256MB"}


class DurablePostgres(PostgresServer):
    def command(self) -> list[str]:
        changed = {**DURABLE, **ROOMIER}
        command = [changed.get(part, part) for part in super().command()]
        assert changed.keys().isdisjoint(command), "an option of the tests' server was not replaced"
        assert set(changed.values()) <= set(command), "the tests' server no longer has an option that is replaced here"
        return command
