"""The scheduler's connection to one keeper: starts it when needed, reconnects, and replaces one that hangs."""

from __future__ import annotations

import contextlib
import logging
import secrets
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from evertick.executors import protocol
from evertick.executors.keeper_process import KeeperProcess
from evertick.model.instant import SECOND
from evertick.settings.parts import KeeperSettings, LocalSettings

log = logging.getLogger("evertick.local")

READY_SECONDS = 20.0
"""How long a new keeper may take to listen; on a busy machine it takes a second at most."""
DEAF_SECONDS = READY_SECONDS
"""A keeper that holds the folder's lock for this long without accepting connections counts as hung."""
RETRY_FIRST_SECONDS = 0.05
RETRY_MAX_SECONDS = 5.0
LOCKED_SECONDS = 0.02
TICK_SECONDS = 0.1
POLL_SECONDS = 5.0
RECEIVE = 256 * 1024
PINGS_PER_TIMEOUT = 3


class KeeperUnresponsive(Exception):
    """The keeper's process exists and does not answer."""

    def __init__(self, pid: int | None, seconds: float) -> None:
        super().__init__(f"the keeper has not answered for {seconds:.0f} s")
        self.pid, self.seconds = pid, seconds


class KeeperListener(Protocol):
    """What a client calls, from its own thread."""

    def keeper_connected(self, client: KeeperClient, incarnation: str) -> None:
        """Send again whatever was not answered: it may have been lost with the last connection."""
        ...

    def keeper_sent(self, client: KeeperClient, messages: list[protocol.Message]) -> None: ...

    def keeper_failed(self, client: KeeperClient, reason: str) -> None:
        """No keeper could be reached or started."""
        ...

    def keeper_tick(self) -> bool:
        """Called after each message and on a timer; True: call again soon."""
        ...

    def needs_keeper(self, client: KeeperClient) -> bool:
        """Whether to reconnect when the keeper has closed the connection."""
        ...


class Wakeup:
    """Wakes a thread that polls file descriptors: any thread calls `set`, the polling one `clear` and then looks."""

    def __init__(self) -> None:
        # Not a pipe: a write after close could reach whatever file has the descriptor's number by then.
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._reader.setblocking(False)
        self._is_set = False

    def fileno(self) -> int:
        return self._reader.fileno()

    def set(self) -> None:
        """Call it after the change that the other thread should see."""
        # One system call for a batch: in a storm, hundreds call this before the other thread looks.
        if not self._is_set:
            self._is_set = True
            # A full buffer means that it is set already; a closed one, that no thread waits any more.
            with contextlib.suppress(OSError):
                self._writer.send(b"\0")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)
        # Last. The other way round, a `set` between the two is read away and yet counts as set: it would never wake.
        self._is_set = False

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class Liveness:
    """How long the other end of a connection has not answered. Times are seconds of the monotonic clock."""

    def __init__(self, timeout_seconds: float, now: float) -> None:
        self._timeout = timeout_seconds
        self._heard_at = now
        self._pinged_at: float | None = now
        """Since when an answer is due; the hello asks for the first one."""
        self.can_ping = False
        """Whether the other end answers pings; earlier versions do not."""

    def note_answer(self, now: float) -> None:
        """Anything received is a sign of life."""
        self._heard_at, self._pinged_at = now, None

    def should_ping(self, now: float) -> bool:
        is_due = now - self._heard_at >= self._timeout / PINGS_PER_TIMEOUT
        return self.can_ping and self._pinged_at is None and is_due

    def pinged(self, now: float) -> None:
        self._pinged_at = now

    def silent_seconds(self, now: float) -> float:
        """Since the unanswered ping; 0 when no answer is due."""
        return 0.0 if self._pinged_at is None else now - self._pinged_at

    def has_timed_out(self, now: float) -> bool:
        """Whether it was silent for the whole timeout, and had time to answer the ping."""
        had_time = self.silent_seconds(now) >= self._timeout / PINGS_PER_TIMEOUT
        return had_time and now - self._heard_at >= self._timeout

    @property
    def poll_seconds(self) -> float:
        return self._timeout / PINGS_PER_TIMEOUT / 2


class KeeperClient:
    """A thread that holds the connection. Lines that wait when it breaks are dropped: the listener sends them again."""

    def __init__(
        self,
        folder: Path,
        logs: Path,
        settings: KeeperSettings,
        environ: Mapping[str, str],
        listener: KeeperListener,
        *,
        keeper_timeout_us: int = LocalSettings().keeper_timeout_us,
    ) -> None:
        self.folder = folder
        self._process = KeeperProcess(folder, logs, settings, environ)
        self._timeout_seconds = keeper_timeout_us / SECOND
        self._listener = listener
        self._instance = secrets.token_hex(8)
        """Identifies this process to the keeper, which outlives several schedulers."""
        self._outbox: deque[bytes] = deque()
        self._sending = threading.Lock()
        self._open: socket.socket | None = None
        """The socket, while a line may be written to it directly: connected, and nothing queued before it."""
        self._wakeup = Wakeup()
        self._is_closing = False
        self.is_connected = False
        self.runs_items = False
        """Whether the keeper can run an item of another member's run; one of an earlier version would run all of it."""
        self._liveness: Liveness | None = None
        self.pid: int | None = None
        """The pid of the keeper last connected to."""
        self.replaced = 0
        """Keepers killed because they did not answer."""
        self._is_wanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"evertick-{folder.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, line: bytes) -> None:
        """From any thread; never waits. Starts a keeper if none runs."""
        self._outbox.append(line)
        self.wake()

    def send_now(self, line: bytes) -> None:
        """As `send`, but from the calling thread where possible: one thread switch less, one system call more."""
        with self._sending:
            if self._open is not None and not self._outbox:
                with contextlib.suppress(OSError):  # full or broken: the thread will notice
                    line = line[self._open.send(line) :]
                if not line:
                    return
                # Before what `send` has queued meanwhile: nothing may come between the two parts of a line.
                self._outbox.appendleft(line)
            else:
                self._outbox.append(line)
            self._open = None
        self.wake()

    def wake(self) -> None:
        """Connect, starting a keeper if none runs."""
        self._is_wanted.set()
        self._wakeup.set()

    def close(self, timeout: float) -> None:
        """Send what is queued, then disconnect; the keeper and its runs continue."""
        self._is_closing = True
        self.wake()
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self._wakeup.close()

    @property
    def silent_seconds(self) -> float:
        """How long the keeper has not answered; from any thread."""
        liveness = self._liveness
        return 0.0 if liveness is None else liveness.silent_seconds(time.monotonic())

    def _run(self) -> None:
        wait = RETRY_FIRST_SECONDS
        while True:
            # A keeper is started when there is something to send, and not before.
            self._is_wanted.wait()
            if self._is_closing and not self._outbox:
                return
            try:
                sock = self._connect()
            except KeeperUnresponsive as hangs:
                self._replace(hangs)
                continue
            except OSError as error:
                log.warning("keeper.unreachable folder=%s reason=%s", self.folder, error)
                self._outbox.clear()
                self._listener.keeper_failed(self, str(error))
                if self._is_closing:
                    return
                time.sleep(wait)
                wait = min(wait * 2, RETRY_MAX_SECONDS)
                continue
            try:
                with sock:
                    try:
                        self._exchange(sock)
                    finally:
                        with self._sending:
                            self._open = None
                wait = RETRY_FIRST_SECONDS
            except KeeperUnresponsive as hangs:
                if not self._replace(hangs):
                    time.sleep(wait)
                    wait = min(wait * 2, RETRY_MAX_SECONDS)
            except Exception:
                # The listener failed: the keeper repeats on the next connection what was not acknowledged.
                log.exception("keeper.message_failed folder=%s", self.folder)
                time.sleep(wait)
                wait = min(wait * 2, RETRY_MAX_SECONDS)
            self.is_connected = False
            self._liveness = None
            self._process.reap()
            if self._is_closing:
                return
            log.info("keeper.disconnected folder=%s", self.folder)
            if not self._listener.needs_keeper(self):
                self._is_wanted.clear()  # it exited because it had nothing to do
                if self._outbox or self._is_closing:  # since it was last looked at
                    self._is_wanted.set()

    def _connect(self) -> socket.socket:
        """Connect to the running keeper, or start one."""
        began = time.monotonic()
        while True:
            try:
                return protocol.connect(self.folder)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                waited = time.monotonic() - began
            if waited > max(DEAF_SECONDS, self._timeout_seconds):
                # A keeper holds the folder and accepts no connection: it hangs, or its socket was removed.
                raise KeeperUnresponsive(self._process.locked_by(), waited)
            answer = self._process.start(READY_SECONDS)
            if answer == b"taken\n":
                time.sleep(LOCKED_SECONDS)  # another keeper is about to listen, or about to exit
            elif answer != b"ready\n":
                raise OSError(f"the keeper did not start; see {self.folder / 'keeper.log'}")

    def _replace(self, hangs: KeeperUnresponsive) -> bool:
        """Kill a keeper that hangs; the next one finds its runs in the journal and continues them."""
        log.error("keeper.not_answering folder=%s pid=%s seconds=%.0f", self.folder, hangs.pid, hangs.seconds)
        is_gone = hangs.pid is not None and self._process.kill(hangs.pid)
        if is_gone:
            self.replaced += 1
            log.warning("keeper.killed folder=%s pid=%s", self.folder, hangs.pid)
        else:
            log.error("keeper.not_killed folder=%s pid=%s", self.folder, hangs.pid)
        return is_gone

    def _exchange(self, sock: socket.socket) -> None:
        """Send and receive until the connection breaks, or `close` is called."""
        sock.setblocking(False)
        self.pid = protocol.peer_pid(sock)
        liveness = self._liveness = Liveness(self._timeout_seconds, time.monotonic())
        self._outbox.clear()
        outgoing, buffer = protocol.encode(protocol.HELLO, protocol.VERSION, self._instance), b""
        has_greeted = needs_tick = is_blocked = False
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(sock, select.POLLIN)
        while True:
            with self._sending:
                if has_greeted and self._outbox:
                    outgoing += b"".join(self._outbox.popleft() for _ in range(len(self._outbox)))
                if liveness.should_ping(time.monotonic()):
                    outgoing += protocol.encode(protocol.PING)
                    liveness.pinged(time.monotonic())
                try:
                    if outgoing:
                        outgoing = outgoing[sock.send(outgoing) :]
                        if is_blocked:
                            liveness.note_answer(time.monotonic())  # it reads, though slowly
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
            events = poll.poll(1_000 * (TICK_SECONDS if soon else min(POLL_SECONDS, liveness.poll_seconds)))
            if any(fd == self._wakeup.fileno() for fd, _ in events):
                self._wakeup.clear()
            if any(fd == sock.fileno() and event & ~select.POLLOUT for fd, event in events):
                try:
                    data = sock.recv(RECEIVE)
                except BlockingIOError:
                    continue
                except OSError:
                    return
                if not data:
                    return
                liveness.note_answer(time.monotonic())
                *rows, buffer = (buffer + data).split(b"\n")
                messages = [words for row in rows if (words := protocol.decode(row))[0] != protocol.PONG]
                if messages and not has_greeted:
                    has_greeted = self._greeted(messages.pop(0), liveness)
                    if not has_greeted:
                        outgoing += protocol.encode(protocol.LEAVE)
                if messages and has_greeted:
                    self._listener.keeper_sent(self, messages)
            elif liveness.has_timed_out(time.monotonic()) and not self._is_closing:
                # Only when there was nothing to read: it may be this process that was suspended.
                raise KeeperUnresponsive(self.pid, liveness.silent_seconds(time.monotonic()))
            needs_tick = self._listener.keeper_tick()

    def _greeted(self, hello: protocol.Message, liveness: Liveness) -> bool:
        _, version, pid, incarnation, *verbs = hello
        liveness.can_ping = protocol.PING in verbs
        if version != protocol.VERSION:
            # A keeper of another version of Evertick: its runs end with it, new ones wait for the next keeper.
            log.warning("keeper.other_version pid=%s version=%s", pid, version)
            return False
        log.info("keeper.connected pid=%s folder=%s", pid, self.folder)
        self.is_connected, self.runs_items = True, protocol.ITEMS in verbs
        self._listener.keeper_connected(self, incarnation)
        return True
