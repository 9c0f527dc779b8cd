"""Keeps Dask's scheduler and workers running: starts them, and restarts them when they exit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from evertick.executors.fleet.settings import LEASE_US, Certificates
from evertick.model.instant import SECOND
from evertick.model.member import Labels
from evertick.model.resources import Resources, resources_of

LEFT = 42
"""The exit code of a member that was removed for good."""
RETRY_FIRST_SECONDS = 0.5
RETRY_MAX_SECONDS = 15.0
GOOD_SECONDS = 30.0
"""After this long a process counts as healthy: its next restart is immediate."""
CERTIFICATE_SECONDS = 2.0
RENEW_AGAIN_SECONDS = 60.0
"""After a failed renewal."""
HUB_ENVIRON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
"""The hub runs no jobs, and gets no other variables."""
PACKAGE_ROOT = str(Path(__file__).parents[3])


@dataclass(frozen=True, slots=True)
class Part:
    """The settings of a process of the fleet."""

    url: str
    certificates: Certificates | None = None
    name: str = ""
    labels: Labels = ()
    folder: str = ""
    """Where a member keeps its runs, and the hub its registry."""
    host: str = ""
    """Where a member listens; empty: its address towards the hub."""
    worker_port: int = 0
    """At which port; 0: any."""
    http_port: int = 0
    """Where Dask shows its state, on this machine only; 0: nowhere."""
    slots: int = 0
    lease_seconds: float = LEASE_US / SECOND
    """How long a member's attempts continue without contact with the fleet."""
    offers: Resources = ()
    patience_seconds: float = 60.0
    """How long a member tries to connect before it is restarted."""

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Part:
        plain = json.loads(text)
        certificates = plain.pop("certificates")
        labels = tuple((str(name), str(value)) for name, value in plain.pop("labels"))
        offers = resources_of(dict(plain.pop("offers")))
        known = Certificates(*certificates) if certificates else None
        return cls(certificates=known, labels=labels, offers=offers, **plain)


class Supervisor:
    """Runs one role until `stop`, or until its member was removed. `on_line` receives its lines."""

    def __init__(
        self, role: str, part: Part, on_line: Callable[[str], None], renew: Callable[[], float] | None = None
    ) -> None:
        self._command = [sys.executable, "-P", "-m", "evertick.executors.fleet", role, part.to_text()]
        self._on_line = on_line
        self._renew = renew
        """Renews the certificate if due; returns the seconds until the next check."""
        files = (part.certificates.cert, part.certificates.ca) if part.certificates else ()
        self._files = tuple(map(Path, files))
        self._is_replaced = False
        """Restart the process, because its certificate was replaced."""
        self._environ = _environ(role)
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None

    def run(self) -> int:
        wait = RETRY_FIRST_SECONDS
        if self._files:
            threading.Thread(target=self._watch_certificate, daemon=True).start()
        while True:
            began = time.monotonic()
            code = self._once()
            if self._is_replaced and not self._stopping.is_set():
                self._is_replaced = False
                continue
            if self._stopping.is_set() or code == LEFT:
                return 0
            if time.monotonic() - began > GOOD_SECONDS:
                wait = RETRY_FIRST_SECONDS
            self._on_line(f"ended with exit code {code}; starting again in {wait:g} s")
            if self._stopping.wait(wait):
                return 0
            wait = min(wait * 2, RETRY_MAX_SECONDS)

    def stop(self, *_: object) -> None:
        self._stopping.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)

    def _watch_certificate(self) -> None:
        """Restart the process for a new certificate or authority; a member's attempts continue meanwhile."""
        known, look_at, told = tuple(map(_stamp, self._files)), 0.0, ""
        while not self._stopping.wait(CERTIFICATE_SECONDS):
            if self._renew is not None and time.monotonic() >= look_at:
                try:
                    pause, trouble = self._renew(), ""
                except Exception as error:
                    pause, trouble = RENEW_AGAIN_SECONDS, f"could not renew its certificate: {error}"
                look_at = time.monotonic() + pause
                if trouble and trouble != told:
                    self._on_line(trouble)
                told = trouble
            found = tuple(map(_stamp, self._files))
            if None not in found and found != known:
                known, self._is_replaced = found, True
                process = self._process
                if process is not None and process.poll() is None:
                    process.send_signal(signal.SIGTERM)

    def _once(self) -> int:
        # It exits when the pipe to its standard input closes.
        self._process = process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environ,
            start_new_session=True,
        )
        if self._stopping.is_set():
            process.terminate()
        assert process.stdout is not None
        assert process.stdin is not None
        with process.stdin, process.stdout:
            for line in process.stdout:
                self._on_line(line.rstrip("\n"))
            return process.wait()


def _environ(role: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if role != "scheduler" or name in HUB_ENVIRON}
    return {**known, "PYTHONPATH": PACKAGE_ROOT}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
