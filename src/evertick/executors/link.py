"""How the scheduler reaches a keeper: started when there is none, found again when the connection breaks."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evertick.executors import wire
from evertick.executors.bell import Bell
from evertick.executors.settings import KeeperSettings

log = logging.getLogger("evertick.local")

READY_SECONDS = 20.0
"""How long a keeper may take to be there; a busy machine needs a second at most."""
RETRY_FIRST_SECONDS = 0.05
RETRY_MAX_SECONDS = 5.0
TICK_SECONDS = 0.1
RECEIVE = 256 * 1024
PACKAGE_ROOT = str(Path(__file__).parents[2])


class Link:
    """A thread that holds the connection. Lines that wait when it breaks are dropped: `connected` sends them again."""

    def __init__(
        self,
        folder: Path,
        logs: Path,
        settings: KeeperSettings,
        environ: Mapping[str, str],
        connected: Callable[[Link, str], None],
        heard: Callable[[Link, list[list[Any]]], None],
        failed: Callable[[Link, str], None],
        tick: Callable[[], bool],
        is_needed: Callable[[Link], bool],
    ) -> None:
        self.folder = folder
        self._logs = logs
        self._settings = settings
        self._environ = environ
        self._connected = connected
        self._heard = heard
        self._failed = failed
        self._tick = tick
        self._is_needed = is_needed
        self._instance = secrets.token_hex(8)
        """Which process this is: a keeper hears several, one after another."""
        self._outbox: deque[bytes] = deque()
        self._sending = threading.Lock()
        self._open: socket.socket | None = None
        """Where a line may be written at once: there is a keeper, and nothing waits to be written before it."""
        self._bell = Bell()
        self._is_closing = False
        self.is_connected = False
        """Whether what is sent now may arrive."""
        self._is_wanted = threading.Event()
        self._children: list[int] = []
        self._thread = threading.Thread(target=self._run, name=f"evertick-{folder.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, line: bytes) -> None:
        """From any thread; never waits."""
        self._outbox.append(line)
        self.wake()

    def send_now(self, line: bytes) -> None:
        """As `send`, without the thread where that can be: it saves a change of threads, and costs a call each."""
        with self._sending:
            if self._open is not None and not self._outbox:
                with contextlib.suppress(OSError):  # full, or broken: the thread will see
                    line = line[self._open.send(line) :]
                if not line:
                    return
            self._outbox.append(line)
            self._open = None
        self.wake()

    def wake(self) -> None:
        self._is_wanted.set()
        self._bell.ring()

    def close(self, timeout: float) -> None:
        """Send what waits, then go; the keeper and its runs stay."""
        self._is_closing = True
        self.wake()
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self._bell.close()

    def _run(self) -> None:
        wait = RETRY_FIRST_SECONDS
        while True:
            # A keeper is started when there is something to tell it, and not before.
            self._is_wanted.wait()
            if self._is_closing and not self._outbox:
                return
            try:
                sock = self._reach()
            except OSError as error:
                log.warning("keeper.unreachable folder=%s reason=%s", self.folder, error)
                self._outbox.clear()
                self._failed(self, str(error))
                if self._is_closing:
                    return
                time.sleep(wait)
                wait = min(wait * 2, RETRY_MAX_SECONDS)
                continue
            try:
                with sock:
                    try:
                        self._talk(sock)
                    finally:
                        with self._sending:
                            self._open = None
                wait = RETRY_FIRST_SECONDS
            except Exception:
                # Whoever was told has failed: what was not taken is told again, and nothing is lost.
                log.exception("keeper.not_heard folder=%s", self.folder)
                time.sleep(wait)
                wait = min(wait * 2, RETRY_MAX_SECONDS)
            self.is_connected = False
            self._reap()
            if self._is_closing:
                return
            log.info("keeper.disconnected folder=%s", self.folder)
            if not self._is_needed(self):
                self._is_wanted.clear()  # it went because it had nothing to do
                if self._outbox:
                    self._is_wanted.set()

    def _reach(self) -> socket.socket:
        """The keeper that is there, or a new one."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                return wire.connect(self.folder)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                if time.monotonic() > deadline:
                    raise
            answer = self._start_keeper(max(deadline - time.monotonic(), 0.1))
            if answer == b"taken\n":
                time.sleep(0.02)  # it is about to listen, or about to go
            elif answer != b"ready\n":
                raise OSError(f"the keeper did not start; {self.folder / 'keeper.log'} may say why")

    def _start_keeper(self, timeout: float) -> bytes:
        reader, writer = os.pipe()
        arguments = ("--folder", str(self.folder), "--logs", str(self._logs), "--settings", self._settings.to_text())
        complaints = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-P", "-m", "evertick.executors.keeper", *arguments],
                {**self._environ, "PYTHONPATH": PACKAGE_ROOT},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, writer, 1),
                    (os.POSIX_SPAWN_OPEN, 2, str(self.folder / "keeper.log"), complaints, 0o600),
                ],
                setsid=True,
                setsigmask=(),
            )
        finally:
            os.close(writer)
        self._children.append(pid)
        try:
            readable, _, _ = select.select([reader], [], [], timeout)
            return os.read(reader, 64) if readable else b""
        finally:
            os.close(reader)
            self._reap()

    def _reap(self) -> None:
        for pid in tuple(self._children):
            try:
                ended, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                ended = pid  # somebody else has
            if ended:
                self._children.remove(pid)

    def _talk(self, sock: socket.socket) -> None:
        """Until the connection breaks, or we go."""
        sock.setblocking(False)
        self._outbox.clear()
        outgoing, buffer, has_greeted = wire.line(wire.HELLO, wire.PROTOCOL, self._instance), b"", False
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        poll.register(sock, select.POLLIN)
        needs_tick = False
        while True:
            with self._sending:
                if has_greeted and self._outbox:
                    outgoing += self._take()
                try:
                    if outgoing:
                        outgoing = outgoing[sock.send(outgoing) :]
                except BlockingIOError:
                    pass
                except OSError:
                    return
                self._open = sock if has_greeted and not outgoing else None
            if self._is_closing and has_greeted and not outgoing and not self._outbox:
                return
            poll.modify(sock, select.POLLIN | (select.POLLOUT if outgoing else 0))
            events = poll.poll(TICK_SECONDS * 1_000 if needs_tick or self._is_closing else 5_000)
            if any(fd == self._bell.fileno() for fd, _ in events):
                self._bell.heard()
            if any(fd == sock.fileno() and event & ~select.POLLOUT for fd, event in events):
                try:
                    data = sock.recv(RECEIVE)
                except BlockingIOError:
                    continue
                except OSError:
                    return
                if not data:
                    return
                *rows, buffer = (buffer + data).split(b"\n")
                messages = [wire.words_of(row) for row in rows]
                if messages and not has_greeted:
                    has_greeted = self._greet(messages.pop(0))
                    if not has_greeted:
                        outgoing += wire.line(wire.LEAVE)
                if messages and has_greeted:
                    self._heard(self, messages)
            needs_tick = self._tick()

    def _greet(self, words: list[Any]) -> bool:
        _, protocol, pid, incarnation = words
        if protocol != wire.PROTOCOL:
            # Of another version of ours: its runs end with it, and what comes meanwhile waits for the next keeper.
            log.warning("keeper.of_another_version pid=%s protocol=%s", pid, protocol)
            return False
        log.info("keeper.connected pid=%s folder=%s", pid, self.folder)
        self.is_connected = True
        self._connected(self, incarnation)
        return True

    def _take(self) -> bytes:
        lines = [self._outbox.popleft() for _ in range(len(self._outbox))]
        return b"".join(lines)
