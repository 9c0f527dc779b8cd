"""A cable between a member and its fleet that a test can cut and mend."""

from __future__ import annotations

import contextlib
import socket
import threading


class Cable:
    """Carries bytes both ways. A way that is cut lets nothing pass and gives no error, as when a switch is dead.

    Threads and plain sockets: asyncio leaves a socket open that arrives while its server is closed.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._ways = {"there": threading.Event(), "back": threading.Event()}
        """From the member to its fleet, and back: whether each is whole."""
        self._lock = threading.Lock()
        self._is_closed = False
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.mend()
        self._listener = self._keep(socket.create_server(("127.0.0.1", 0)))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def cut(self, *ways: str) -> None:
        """Both ways by default: `there` is from the member to the fleet, `back` from the fleet."""
        for way in ways or self._ways:
            self._ways[way].clear()

    def mend(self) -> None:
        for way in self._ways.values():
            way.set()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        self.mend()
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def _keep(self, one: socket.socket) -> socket.socket:
        """So that `close` wakes every thread that waits for it."""
        with self._lock:
            self._sockets.append(one)
            if self._is_closed:
                one.shutdown(socket.SHUT_RDWR)
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
        self._ways["there"].wait()
        if self._is_closed:
            return
        try:
            far = self._keep(socket.create_connection(("127.0.0.1", self._target)))
        except OSError:
            near.close()
            return
        self._start(self._carry, far, near, "back")
        self._carry(near, far, "there")

    def _carry(self, source: socket.socket, target: socket.socket, way: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self._ways[way].wait()
                target.sendall(data)
        self._ways[way].wait()
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
