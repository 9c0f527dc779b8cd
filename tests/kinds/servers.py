"""The servers that steps of this machine talk to: the distribution's own sshd, private to the tests."""

from __future__ import annotations

import getpass
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests import provision, supervisor
from tests.executors.running import until
from tests.ports import free_port
from tests.relay import Relay


class Supervised:
    """A process that ends with the test that started it, however that ends; its folder is removed with it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="evertick-"))
        self.log = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: list[str], env: dict[str, str] | None = None) -> None:
        order = {
            "command": command,
            "uid": None,
            "gid": None,
            "signal": signal.SIGTERM,
            "folder": str(self.folder),
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, json.dumps(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **(env or {})},
            )

    def check(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()[-2_000:]

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()


class SshServer(Supervised):
    """An sshd with keys of its own, which lets in the account that the tests run as."""

    def __init__(self) -> None:
        program = provision.find_sshd()
        if program is None:
            pytest.fail(f"sshd is not installed. {provision.SSHD_BY_HAND}", pytrace=False)
        super().__init__()
        self.host, self.user, self.port = "127.0.0.1", getpass.getuser(), free_port()
        self.key, self.known_hosts = self.folder / "client", self.folder / "known_hosts"
        for name in ("host", "client", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        self.allowed = self.folder / "authorized_keys"
        self.allowed.write_text((self.folder / "client.pub").read_text())
        self.write_known_hosts(self.port)
        settings = {
            "ListenAddress": f"{self.host}:{self.port}",
            "HostKey": self.folder / "host",
            "AuthorizedKeysFile": self.allowed,
            "PidFile": "none",
            "StrictModes": "no",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            # As many tests as there are connect at once.
            "MaxStartups": "100",
        }
        (self.folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.start([str(program), "-D", "-e", "-f", str(self.folder / "sshd_config")])
        until(self._answers, "sshd to listen")

    def write_known_hosts(self, *ports: int, key: str = "host") -> Path:
        """Say that this host has that key on each of these ports."""
        words = (self.folder / f"{key}.pub").read_text().split()[:2]
        path = self.known_hosts if key == "host" else self.folder / f"known_{key}"
        with path.open("a") as file:
            file.writelines(f"[{self.host}]:{port} {' '.join(words)}\n" for port in ports)
        return path

    def _answers(self) -> bool:
        self.check()
        try:
            socket.create_connection((self.host, self.port), 5).close()
        except OSError:
            return False
        return True


class SilentRelay(Relay):
    """A connection that can be cut without either side being informed, as by a firewall or a pulled cable."""

    def __init__(self, port: int) -> None:
        self._passes = threading.Event()
        self._passes.set()
        super().__init__(port)

    def cut(self) -> None:
        self._passes.clear()

    def carry(self, data: bytes, *, is_answer: bool) -> None:  # noqa: ARG002 - all of it waits
        self._passes.wait()

    def release(self) -> None:
        self._passes.set()
