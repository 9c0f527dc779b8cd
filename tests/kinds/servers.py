"""The servers that steps of this machine use: the distribution's own sshd and Podman, private to the tests."""

from __future__ import annotations

import base64
import getpass
import hashlib
import json
import os
import platform
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evertick.kinds.docker.engine import Engine, EngineUnavailable
from tests import provision, supervisor
from tests.executors.local_runs import until
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

    def stop(self, *, keeps_folder: bool = True) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            with self._process.stdin as pipe:
                pipe.write(b"keep" if keeps_folder else b"")
            self._process.wait()
            self._process.stdout.close()
            self._process = None

    def close(self) -> None:
        self.stop(keeps_folder=False)


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


IMAGE = "localhost/evertick-test:1"
LOGIN = "robot:geheim-1234"
"""The account of the private registry."""
_PROGRAMS = ("sh", "echo", "sleep", "cat", "id", "head", "tail", "touch", "mkdir")


class Registry:
    """A registry of images with one image, over HTTP on this machine; with a login, for that account only."""

    def __init__(self, layer: Path, login: str = "") -> None:
        expected = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None
        data = layer.read_bytes()
        config = json.dumps(
            {
                "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
                "os": "linux",
                "config": {"Entrypoint": ["/bin/echo", "from the registry:"], "Cmd": ["alone"]},
                "rootfs": {"type": "layers", "diff_ids": [_digest(data)]},
            }
        ).encode()
        kind = "application/vnd.oci.image"
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": f"{kind}.manifest.v1+json",
                "config": {"mediaType": f"{kind}.config.v1+json", "digest": _digest(config), "size": len(config)},
                "layers": [{"mediaType": f"{kind}.layer.v1.tar", "digest": _digest(data), "size": len(data)}],
            }
        ).encode()
        answers = {
            "/v2/": (b"{}", "application/json"),
            "/v2/tool/manifests/1": (manifest, f"{kind}.manifest.v1+json"),
            f"/v2/tool/manifests/{_digest(manifest)}": (manifest, f"{kind}.manifest.v1+json"),
            f"/v2/tool/blobs/{_digest(config)}": (config, "application/octet-stream"),
            f"/v2/tool/blobs/{_digest(data)}": (data, "application/octet-stream"),
        }
        asked: list[str] = []
        self.asked = asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                if expected is not None and self.headers.get("Authorization") != expected:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="tests"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body, kind = answers.get(self.path, (b"{}", ""))
                self.send_response(200 if kind else 404)
                self.send_header("Content-Type", kind or "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.image, self.digest = f"{self.host}/tool:1", f"{self.host}/tool@{_digest(manifest)}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class PodmanServer(Supervised):
    """Podman's API on a socket of its own, with storage of its own and one image: a shell of this machine."""

    def __init__(self) -> None:
        program = provision.find_podman()
        if program is None:
            pytest.fail(f"Podman is not installed. {provision.PODMAN_BY_HAND}", pytrace=False)
        super().__init__()
        self.socket = self.folder / "socket"
        settings = self.folder / "containers.conf"
        # Podman asks for limits that need a capability, and prints events to a journal that may not be there.
        most = min(4_096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        settings.write_text(
            f'[containers]\ndefault_ulimits = ["nofile={most}:{most}", "nproc={most}:{most}"]\n'
            '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        )
        image = self._write_image()
        self.registry, self.private = Registry(image), Registry(image, LOGIN)
        registries = self.folder / "registries.conf"
        hosts = (self.registry.host, self.private.host)
        registries.write_text("".join(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n' for host in hosts))
        self._env = {"CONTAINERS_CONF": str(settings), "CONTAINERS_REGISTRIES_CONF": str(registries)}
        places = ["--root", str(self.folder / "root"), "--runroot", str(self.folder / "run")]
        self._words = [*without_hybrid_cgroups(), str(program), *places, "--storage-driver", "vfs"]
        self.call("import", str(image), IMAGE)
        self.serve()

    def serve(self) -> None:
        self.start([*self._words, "system", "service", "--time", "0", f"unix://{self.socket}"], self._env)
        until(self._answers, "Podman to answer")

    def stop_serving(self) -> None:
        """The engine is gone for a while; with Podman its containers run on."""
        self.stop()
        self.socket.unlink(missing_ok=True)

    def close(self) -> None:
        self.call("rm", "--all", "--force", "--time", "0")
        self.registry.close()
        self.private.close()
        super().close()

    def _write_image(self) -> Path:
        image = self.folder / "image.tar"
        files = {f"/bin/{name}": str(shutil.which(name)) for name in _PROGRAMS}
        for path in tuple(files.values()):
            said = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
            files |= {word: word for word in said.split() if word.startswith("/")}
        with tarfile.open(image, "w", dereference=True) as tar:
            for name, path in files.items():
                tar.add(path, name.lstrip("/"))
        return image

    def call(self, *words: str) -> None:
        env = {**os.environ, **self._env}
        done = subprocess.run([*self._words, *words], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def _answers(self) -> bool:
        self.check()
        try:
            Engine(str(self.socket)).ping()
        except EngineUnavailable:
            return False
        return True


def without_hybrid_cgroups() -> list[str]:
    """crun refuses a machine with both versions of control groups; without the mount of the second it sees one."""
    second = Path("/sys/fs/cgroup/unified")
    if not second.is_dir():
        return []
    return ["unshare", "--mount", "sh", "-c", f'umount {second}; exec "$@"', "sh"]


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
