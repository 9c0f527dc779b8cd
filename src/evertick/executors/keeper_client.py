"""The scheduler's connection to a keeper: starts one when there is none, and reconnects when the connection breaks."""

from __future__ import annotations

import contextlib
import logging
import secrets
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evertick.executors import protocol
from evertick.executors.keeper_process import KeeperProcess
from evertick.executors.liveness import Liveness
from evertick.executors.settings import KEEPER_TIMEOUT_US, KeeperSettings
from evertick.executors.wakeup import Wakeup
from evertick.model.instant import SECOND

log = logging.getLogger("evertick.local")

READY_SECONDS = 20.0
"""How long a keeper may take to be there; a busy machine needs a second at most."""
DEAF_SECONDS = READY_SECONDS
"""One that has the folder for this long and takes no connection does not come to it any more."""
RETRY_FIRST_SECONDS = 0.05
RETRY_MAX_SECONDS = 5.0
TAKEN_SECONDS = 0.02
TICK_SECONDS = 0.1
LOOK_SECONDS = 5.0
RECEIVE = 256 * 1024


class KeeperHangs(Exception):
    """It is there, and does not answer."""

    def __init__(self, pid: int | None, seconds: float) -> None:
        super().__init__(f"the keeper has not answered for {seconds:.0f} s")
        self.pid, self.seconds = pid, seconds


class KeeperClient:
    """A thread that holds the connection. Lines that wait when it breaks are dropped: `connected` sends them again."""

    def __init__(
        self,
        folder: Path,
        logs: Path,
        settings: KeeperSettings,
        environ: Mapping[str, str],
        connected: Callable[[KeeperClient, str], None],
        heard: Callable[[KeeperClient, list[list[Any]]], None],
        failed: Callable[[KeeperClient, str], None],
        tick: Callable[[], bool],
        is_needed: Callable[[KeeperClient], bool],
        *,
        keeper_timeout_us: int = KEEPER_TIMEOUT_US,
    ) -> None:
        self.folder = folder
        self._process = KeeperProcess(folder, logs, settings, environ)
        self._timeout_seconds = keeper_timeout_us / SECOND
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
        self._bell = Wakeup()
        self._is_closing = False
        self.is_connected = False
        """Whether what is sent now may arrive."""
        self._pulse: Liveness | None = None
        self.pid: int | None = None
        """Of the keeper that was heard last."""
        self.replaced = 0
        """Keepers that were killed because they did not answer."""
        self._is_wanted = threading.Event()
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
                # Before what `send` has put there meanwhile: nothing may come between the two parts of a line.
                self._outbox.appendleft(line)
            else:
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

    @property
    def silent_seconds(self) -> float:
        """For how long the keeper has not answered; from any thread."""
        pulse = self._pulse
        return 0.0 if pulse is None else pulse.silent_seconds(time.monotonic())

    def _run(self) -> None:
        wait = RETRY_FIRST_SECONDS
        while True:
            # A keeper is started when there is something to tell it, and not before.
            self._is_wanted.wait()
            if self._is_closing and not self._outbox:
                return
            try:
                sock = self._reach()
            except KeeperHangs as hangs:
                self._replace(hangs)
                continue
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
            except KeeperHangs as hangs:
                if not self._replace(hangs):
                    time.sleep(wait)
                    wait = min(wait * 2, RETRY_MAX_SECONDS)
            except Exception:
                # Whoever was told has failed: what was not taken is told again, and nothing is lost.
                log.exception("keeper.not_heard folder=%s", self.folder)
                time.sleep(wait)
                wait = min(wait * 2, RETRY_MAX_SECONDS)
            self.is_connected = False
            self._pulse = None
            self._process.reap()
            if self._is_closing:
                return
            log.info("keeper.disconnected folder=%s", self.folder)
            if not self._is_needed(self):
                self._is_wanted.clear()  # it went because it had nothing to do
                if self._outbox:
                    self._is_wanted.set()

    def _reach(self) -> socket.socket:
        """The keeper that is there, or a new one."""
        began = time.monotonic()
        while True:
            try:
                return protocol.connect(self.folder)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                waited = time.monotonic() - began
            if waited > max(DEAF_SECONDS, self._timeout_seconds):
                # One has the folder, and takes no connection: it hangs, or its socket was removed.
                raise KeeperHangs(self._process.locked_by(), waited)
            answer = self._process.start(READY_SECONDS)
            if answer == b"taken\n":
                time.sleep(TAKEN_SECONDS)  # it is about to listen, or about to go
            elif answer != b"ready\n":
                raise OSError(f"the keeper did not start; {self.folder / 'keeper.log'} may say why")

    def _replace(self, hangs: KeeperHangs) -> bool:
        """Kill a keeper that hangs: the next one finds in its journal what runs, and goes on with it."""
        log.error("keeper.not_answering folder=%s pid=%s seconds=%.0f", self.folder, hangs.pid, hangs.seconds)
        is_gone = hangs.pid is not None and self._process.kill(hangs.pid)
        if is_gone:
            self.replaced += 1
            log.warning("keeper.killed folder=%s pid=%s", self.folder, hangs.pid)
        else:
            log.error("keeper.not_killed folder=%s pid=%s", self.folder, hangs.pid)
        return is_gone

    def _talk(self, sock: socket.socket) -> None:
        """Until the connection breaks, or we go."""
        sock.setblocking(False)
        self.pid = protocol.peer_pid(sock)
        pulse = self._pulse = Liveness(self._timeout_seconds, time.monotonic())
        self._outbox.clear()
        outgoing, buffer, has_greeted = protocol.encode(protocol.HELLO, protocol.VERSION, self._instance), b"", False
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        poll.register(sock, select.POLLIN)
        needs_tick = is_blocked = False
        while True:
            with self._sending:
                if has_greeted and self._outbox:
                    outgoing += self._take()
                if pulse.should_ask(time.monotonic()):
                    outgoing += protocol.encode(protocol.PING)
                    pulse.asked(time.monotonic())
                try:
                    if outgoing:
                        outgoing = outgoing[sock.send(outgoing) :]
                        if is_blocked:
                            pulse.heard(time.monotonic())  # it reads, though slowly
                    is_blocked = bool(outgoing)
                except BlockingIOError:
                    pass
                except OSError:
                    return
                self._open = sock if has_greeted and not outgoing else None
            if self._is_closing and has_greeted and not outgoing and not self._outbox:
                return
            poll.modify(sock, select.POLLIN | (select.POLLOUT if outgoing else 0))
            soon = needs_tick or self._is_closing
            events = poll.poll(1_000 * (TICK_SECONDS if soon else min(LOOK_SECONDS, pulse.look_seconds)))
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
                pulse.heard(time.monotonic())
                *rows, buffer = (buffer + data).split(b"\n")
                messages = [words for row in rows if (words := protocol.decode(row))[0] != protocol.PONG]
                if messages and not has_greeted:
                    has_greeted = self._greet(messages.pop(0), pulse)
                    if not has_greeted:
                        outgoing += protocol.encode(protocol.LEAVE)
                if messages and has_greeted:
                    self._heard(self, messages)
            elif pulse.is_over(time.monotonic()) and not self._is_closing:
                # Only where nothing was there to be read: it may be this process that stood still.
                raise KeeperHangs(self.pid, pulse.silent_seconds(time.monotonic()))
            needs_tick = self._tick()

    def _greet(self, words: list[Any], pulse: Liveness) -> bool:
        _, version, pid, incarnation, *skills = words
        pulse.can_ask = protocol.PING in skills
        if version != protocol.VERSION:
            # Of another version of ours: its runs end with it, and what comes meanwhile waits for the next keeper.
            log.warning("keeper.of_another_version pid=%s version=%s", pid, version)
            return False
        log.info("keeper.connected pid=%s folder=%s", pid, self.folder)
        self.is_connected = True
        self._connected(self, incarnation)
        return True

    def _take(self) -> bytes:
        lines = [self._outbox.popleft() for _ in range(len(self._outbox))]
        return b"".join(lines)
