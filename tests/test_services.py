"""Whether the servers of the store tests start, stay separate, survive and stop."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from tests import provision
from tests.services import MysqlServer, PostgresServer, Server

SERVERS = [pytest.param(PostgresServer, id="postgres"), pytest.param(MysqlServer, id="mysql")]


@pytest.fixture(params=["fresh_postgres", "fresh_mysql"])
def fresh(request: pytest.FixtureRequest) -> Callable[[], str]:
    made: Callable[[], str] = request.getfixturevalue(request.param)
    return made


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with request.param() as started:
        yield started


def write(url: str, text: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE IF NOT EXISTS notes (text VARCHAR(50))"))
        connection.execute(sa.text("INSERT INTO notes VALUES (:text)"), {"text": text})


def read(url: str) -> list[str]:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("notes"):
            return []
        return list(connection.execute(sa.text("SELECT text FROM notes ORDER BY text")).scalars())


def test_two_fresh_databases_do_not_see_each_other(fresh):
    one, other = fresh(), fresh()
    write(one, "here — ✓")
    assert read(one) == ["here — ✓"]
    assert read(other) == []


def test_the_url_names_the_driver_that_the_stores_use(postgres_url, mysql_url):
    assert postgres_url.startswith("postgresql+psycopg://")
    assert mysql_url.startswith("mysql+pymysql://")


def test_a_wrong_password_is_refused(fresh):
    url = sa.make_url(fresh()).set(password="guess")
    with pytest.raises(sa.exc.OperationalError):
        read(url.render_as_string(hide_password=False))


@pytest.mark.slow
def test_a_server_keeps_what_was_committed_when_it_is_killed_or_stopped_and_is_gone_when_closed(server):
    url = server.fresh()
    write(url, "before the kill")
    server.kill()
    assert not server.is_running
    server.start()
    write(url, "before the stop")
    server.stop()
    with pytest.raises(sa.exc.OperationalError):
        read(url)
    server.start()
    assert read(url) == ["before the kill", "before the stop"]
    process = psutil.Process(server.pid)
    server.close()
    assert not process.is_running()
    assert not server.folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_ends_with_the_process_that_started_it_even_by_kill_9(kind):
    program = f"""
        import sys
        from tests.services import {kind.__name__}
        server = {kind.__name__}()
        server.start()
        print(server.pid, server.folder, flush=True)
        sys.stdin.read()
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    with owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        server = psutil.Process(int(pid))
        keeper = server.parent()
        owner.kill()
    assert keeper is not None
    psutil.wait_procs([server, keeper], timeout=180)
    assert not server.is_running()
    assert not Path(folder).exists()


def refuse() -> str:
    raise provision.ProvisionError("it cannot be had. Install it by hand.")


@pytest.mark.parametrize(
    ("ci", "code"),
    [
        pytest.param("true", 1, id="fails the build on a build server"),
        pytest.param("", 0, id="only says so on a desk"),
    ],
)
def test_a_service_that_cannot_be_had(monkeypatch, capsys, ci, code):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(provision, "prefer_headless_shell", lambda: None)
    monkeypatch.setattr(provision, "find_mariadb", lambda: None)
    monkeypatch.setattr(provision, "obtain_mariadb", refuse)
    assert provision.main() == code
    assert "MariaDB: it cannot be had. Install it by hand." in capsys.readouterr().err


def test_a_service_that_is_here_is_named_and_nothing_is_fetched(monkeypatch, capsys):
    here = provision.MariaDB(Path("/somewhere/mariadbd"), Path("/somewhere/mariadb-install-db"))
    monkeypatch.setattr(provision, "prefer_headless_shell", lambda: None)
    monkeypatch.setattr(provision, "find_mariadb", lambda: here)
    monkeypatch.setattr(provision, "obtain_mariadb", refuse)
    assert provision.main() == 0
    assert "MariaDB: /somewhere/mariadbd (found)" in capsys.readouterr().err


@pytest.fixture
def browsers(tmp_path, monkeypatch):
    """A machine with no browser but those that a test puts there."""
    monkeypatch.setattr(provision, "CHROMIUM_PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(name: str) -> Path:
        (tmp_path / name).touch(mode=0o755)
        return tmp_path / name

    return put


def test_the_browser_without_windows_goes_before_the_whole_one(browsers):
    assert provision.find_chromium() is None
    whole = browsers("chromium")
    assert provision.find_chromium() == whole
    shell = browsers("chromium-headless-shell")
    assert provision.find_chromium() == shell


@pytest.mark.parametrize(
    ("there", "known", "fetched"),
    [
        pytest.param(["chromium"], "chromium-headless-shell\n", ["chromium-headless-shell"], id="is fetched"),
        pytest.param(["chromium"], "", [], id="is not, where the distribution has none"),
        pytest.param(["chromium", "chromium-headless-shell"], "chromium-headless-shell\n", [], id="nor where it is"),
        pytest.param([], "chromium-headless-shell\n", [], id="nor before any is looked for"),
    ],
)
def test_the_browser_without_windows_beside_a_whole_one(browsers, monkeypatch, there, known, fetched):
    for name in there:
        browsers(name)
    asked: list[str] = []

    def install(package: str, *_: str) -> str:
        asked.append(package)
        raise provision.ProvisionError("no network")

    monkeypatch.setattr(provision, "can_install", lambda: True)
    monkeypatch.setattr(provision, "call", lambda *_, **__: known)
    monkeypatch.setattr(provision, "install_package", install)
    provision.prefer_headless_shell()
    assert asked == fetched


def test_where_no_browser_without_windows_is_packaged_the_whole_one_is_fetched(monkeypatch):
    asked: list[str] = []

    def install(package: str, *_: str) -> str:
        asked.append(package)
        if package != "chromium":
            raise provision.ProvisionError("no such package")
        return "installed"

    monkeypatch.setattr(provision, "install_package", install)
    assert provision.obtain_chromium() == "installed"
    assert asked == ["chromium-headless-shell", "chromium"]


def test_an_unpacked_tree_brings_its_own_libraries(tmp_path):
    for name in ("usr/sbin/mariadbd", "usr/bin/mariadb-install-db", "usr/lib/here/liburing.so.2"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = provision.find_unpacked(tmp_path)
    assert found is not None
    assert found.options == [f"--basedir={tmp_path / 'usr'}"]
    assert found.environment == {"LD_LIBRARY_PATH": str(tmp_path / "usr/lib/here")}


def test_half_an_unpacked_tree_is_none(tmp_path):
    (tmp_path / "usr/sbin").mkdir(parents=True)
    (tmp_path / "usr/sbin/mariadbd").touch()
    assert provision.find_unpacked(tmp_path) is None
