"""A real `evertick serve` in a process of its own, and commands on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.cli.invoke import code_of, run

PATIENCE = 180


class Scheduler:
    """A `serve` that is waited for by what it says."""

    def __init__(self, folder: Path, *, has_server: bool = False) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "evertick", "serve", str(folder), "--node", "a1", "--patience", "0"]
        command += ["--port", "0"] if has_server else ["--no-web"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=self.env)
        self._lines: list[str] = []
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EVERTICK")}
        return {**kept, "EVERTICK_TIMEZONE": "UTC"}

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._said:
                self._lines.append(line.rstrip())
                self._said.notify_all()

    @property
    def store_url(self) -> str:
        return f"sqlite:///{self.folder}/.evertick/ledger.db"

    @property
    def server_url(self) -> str:
        """Where its server is, once it has said so."""
        self.wait_until_said("Web interface")
        url: str = json.loads((self.folder / ".evertick" / "server.json").read_text())["url"]
        return url

    def wait_until_said(self, *words: str) -> None:
        with self._said:
            said = self._said.wait_for(lambda: any(all(w in line for w in words) for line in self._lines), PATIENCE)
        assert said, f"{words} was not said; what was: {self._lines[-20:]}"

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def run(self, *arguments: str, code: int = 0) -> str:
        """A command, in this process; its standard output."""
        ended = run(*arguments, "--folder", self.folder)
        assert code_of(ended) == code, (arguments, ended.stdout, ended.stderr, ended.exception)
        return ended.stdout

    def data(self, *arguments: str, code: int = 0):
        return json.loads(self.run(*arguments, "-o", "json", code=code))

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            assert self._process.stderr is not None
            self._process.stderr.close()
