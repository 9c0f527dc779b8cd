"""Which database servers the tests use: private ones, started on demand and always stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.servers import MysqlServer, PostgresServer, Server, ServiceError

__all__ = ["MysqlServer", "PostgresServer", "Server", "ServiceError"]


def _serve(kind: Callable[[], Server]) -> Iterator[Server]:
    try:
        server = kind()
    except ServiceError as missing:
        pytest.fail(str(missing), pytrace=False)  # never a skip: a store that was not tried is not proven
    with server:
        yield server


def _fresh(server: Server) -> Iterator[Callable[[], str]]:
    made: list[str] = []

    def fresh() -> str:
        made.append(server.fresh())
        return made[-1]

    yield fresh
    for url in made:
        server.drop(url)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    yield from _serve(PostgresServer)


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[Server]:
    yield from _serve(MysqlServer)


@pytest.fixture(scope="session")
def postgres_url(postgres_server: Server) -> str:
    """A database that all tests of this process share; most want `fresh_postgres`."""
    return postgres_server.fresh()


@pytest.fixture(scope="session")
def mysql_url(mysql_server: Server) -> str:
    return mysql_server.fresh()


@pytest.fixture
def fresh_postgres(postgres_server: Server) -> Iterator[Callable[[], str]]:
    """Call it for the URL of an empty database; it is dropped when the test ends."""
    yield from _fresh(postgres_server)


@pytest.fixture
def fresh_mysql(mysql_server: Server) -> Iterator[Callable[[], str]]:
    yield from _fresh(mysql_server)
