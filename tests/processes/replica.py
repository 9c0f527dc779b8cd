"""A PostgreSQL primary with a synchronous replica behind one address, and the failover from one to the other."""

from __future__ import annotations

from contextlib import suppress

import psycopg

from tests.relay import Relay
from tests.servers import USER, PostgresServer

REPLICA = "replica"


class Address(Relay):
    """Leads to one server, and after a failover to the other, as a floating address or a proxy does."""

    def lead_to(self, port: int) -> None:
        self._target = port
        self.break_all()


class Primary(PostgresServer):
    """Waits for its replica with each commit: a failover must not lose one that was answered."""

    def wait_for_replica(self) -> None:
        self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{REPLICA}'")
        self.execute("SELECT pg_reload_conf()")


class Replica(PostgresServer):
    """A copy of a primary that follows it until it is promoted."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self._primary = primary
        self.password = primary.password

    def prepare(self) -> None:
        source = f"postgresql://{USER}:{self.password}@127.0.0.1:{self._primary.port}/?application_name={REPLICA}"
        program = str(self.programs / "pg_basebackup")
        self.run([program, "-D", str(self.data), "-d", source, "--write-recovery-conf", "--wal-method=stream"])

    def promote(self) -> None:
        with suppress(psycopg.errors.ObjectNotInPrerequisiteState):
            self.execute("SELECT pg_promote()")
        # The settings were copied with the data: alone, it must not wait for another replica.
        self.execute("ALTER SYSTEM RESET synchronous_standby_names")
        self.execute("SELECT pg_reload_conf()")
