"""A relay of bytes between clients and a server on this machine: the base of links that a test slows or cuts."""

from __future__ import annotations

import contextlib
import socket
import threading


class Relay:
    """Threads and plain sockets: asyncio leaves a socket open that arrives while its server is closed."""

    chunk_bytes = 65_536

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock = threading.Lock()
        self._is_closed = False
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        shut(self._listener)
        self.break_all()
        self.release()
        for thread in self._threads:
            thread.join()
        for one in (self._listener, *self._sockets):
            one.close()

    def break_all(self) -> None:
        """End every open connection."""
        with self._lock:
            for one in self._sockets:
                shut(one)

    def release(self) -> None:
        """Let every thread that waits in `admit` or `carry` go on: the relay is being closed."""

    def admit(self) -> bool:
        """Whether a new connection is passed on; it may wait."""
        return True

    def carry(self, data: bytes, *, is_answer: bool) -> None:
        """Called before each piece is passed on: it may wait."""

    def _keep(self, one: socket.socket) -> socket.socket:
        """So that `close` wakes every thread that waits for it."""
        with self._lock:
            self._sockets.append(one)
            if self._is_closed:
                shut(one)
        return one

    def _start(self, act, *args) -> None:
        thread = threading.Thread(target=act, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._start(self._connect, self._keep(near))

    def _connect(self, near: socket.socket) -> None:
        if not self.admit() or self._is_closed:
            shut(near)
            return
        try:
            far = self._keep(socket.create_connection(("127.0.0.1", self._target)))
        except OSError:
            shut(near)
            return
        self._start(self._pump, far, near, True)
        self._pump(near, far, False)

    def _pump(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(self.chunk_bytes):
                self.carry(data, is_answer=is_answer)
                target.sendall(data)
        self.carry(b"", is_answer=is_answer)
        shut(source)
        shut(target)


def shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
