"""An S3 server as a process of its own that a test can kill and start again; it then starts empty."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from pathlib import Path

from tests.ports import free_port

START_SECONDS = 180.0
BUCKET = "evertick-tests"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


class S3Server:
    """moto's server on a port of this machine, with one bucket."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._log = folder / "s3.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environ(self) -> dict[str, str]:
        """What a program needs to find it and to prove itself."""
        return {**KEYS, "AWS_MAX_ATTEMPTS": "1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}

    def start(self) -> None:
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        with self._log.open("ab") as told:
            self._process = subprocess.Popen(words, stdout=told, stderr=told, cwd=self._log.parent)
        deadline = time.monotonic() + START_SECONDS
        while not self._make_bucket():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, "the S3 server does not answer"
            time.sleep(0.05)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _make_bucket(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)
        try:
            connection.request("PUT", f"/{BUCKET}", headers={"content-length": "0"})
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()
