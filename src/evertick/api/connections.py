"""Which connections the server keeps: an idle one never takes the place of one with a request.

A connection is *quiet* while none of its requests is being answered: nothing was sent yet, a request is incomplete, or
the last response is sent. Quiet connections have deadlines, are limited for each address, and make room for new ones,
oldest first. No connection uses the last descriptors of the process: the ledger, and a scheduler in the same process,
need them.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

App = Callable[[Scope, Receive, Send], Awaitable[None]]

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""Answered even if the server is full: otherwise a supervisor would restart a server that is only busy."""


RESERVE = 64
"""Descriptors that no connection keeps. A process gets the lowest free descriptor, so these are the highest."""

RESERVE_FOR_PROBES = 8
"""How many of them a connection may use until its request is read, because it may be a probe."""


def first_reserved() -> int:
    """The lowest descriptor of the reserve; a process with very few keeps a quarter."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit - min(RESERVE, limit // 4)


def is_reserve_in_use() -> bool:
    try:
        lowest_free = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    os.close(lowest_free)
    return lowest_free >= first_reserved()


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    total: int = 1_000
    quiet_per_address: int = 100
    requests: int = 500
    """How many requests are answered at once; beyond it the response is 503, except for probes."""
    head_seconds: float = 10.0
    """From the first byte of a request, or the connection's start, until its headers are complete."""
    body_seconds: float = 30.0
    stall_seconds: float = 60.0
    """How long a caller may read nothing of a response that is being sent."""


class _Abortable(Protocol):
    def abort(self) -> None: ...


class Connection(Protocol):
    @property
    def transport(self) -> _Abortable: ...


class Connections:
    """All connections of one server; used by its event loop only."""

    def __init__(self, limits: ConnectionLimits, may_connect: Callable[[str], bool] = lambda _: True) -> None:
        self.limits = limits
        self.may_connect = may_connect
        self.requests = 0
        self._busy: set[Connection] = set()
        self._quiet: OrderedDict[Connection, str] = OrderedDict()
        self._by_address: Counter[str] = Counter()

    def opened(self, connection: Connection, address: str, descriptor: int) -> None:
        """Keep the connection, and drop a quiet one for it if the server is full; if there is none, drop it."""
        is_full = len(self._quiet) + len(self._busy) >= self.limits.total or descriptor >= first_reserved()
        if self._by_address[address] >= self.limits.quiet_per_address:
            self._drop(next(one for one, known in self._quiet.items() if known == address))
        elif is_full and self._quiet:
            self._drop(next(iter(self._quiet)))
        elif descriptor >= first_reserved() + RESERVE_FOR_PROBES:
            connection.transport.abort()
            return
        self.fell_quiet(connection, address)

    def fell_quiet(self, connection: Connection, address: str) -> None:
        self._busy.discard(connection)
        if connection not in self._quiet:
            self._by_address[address] += 1
        self._quiet[connection] = address
        self._quiet.move_to_end(connection)

    def became_busy(self, connection: Connection) -> None:
        self._leave_quiet(connection)
        self._busy.add(connection)

    def closed(self, connection: Connection) -> None:
        self._leave_quiet(connection)
        self._busy.discard(connection)

    def admit(self, app: App) -> App:
        """The application, with a limit on how many requests are answered at once."""

        async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            is_full = self.requests >= self.limits.requests or is_reserve_in_use()
            if is_full and scope["path"] not in PROBES:
                await _refuse(send)
                return
            self.requests += 1
            try:
                await app(scope, receive, send)
            finally:
                self.requests -= 1

        return admitted

    def _drop(self, connection: Connection) -> None:
        self.closed(connection)
        connection.transport.abort()

    def _leave_quiet(self, connection: Connection) -> None:
        address = self._quiet.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]


class BoundedProtocol(H11Protocol):
    """One connection, with deadlines for what the caller must send and read."""

    registry: Connections
    """Set on a separate class for each server, by `bounded`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._awaits = ""
        self._stalled: asyncio.TimerHandle | None = None

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self.registry.may_connect(self._address):
            transport.abort()
            return
        self.registry.opened(self, self._address, transport.get_extra_info("socket").fileno())
        self._await("head")

    def connection_lost(self, exc: Exception | None) -> None:
        self._await("")
        self.resume_writing()
        self.registry.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._awaits and not self._is_answering:
            self._await("head")
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # it may begin to answer a request that arrived together with the last one
        if self.transport.get_write_buffer_size() and self._stalled is None:
            # The end of a response too small to be waited for: nothing else would notice that the client does not read.
            self._stalled = self.loop.call_later(self.registry.limits.stall_seconds, self._give_up)
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.registry.limits.stall_seconds, self.transport.abort)

    def _give_up(self) -> None:
        self._stalled = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        if self._is_answering:
            self.registry.became_busy(self)
            self._await("body" if self.cycle.more_body else "")
        else:
            self.registry.fell_quiet(self, self._address)
            if self._awaits == "body":
                self._await("")

    def _await(self, part: str) -> None:
        """Start the deadline for a part of the request; an empty name: no deadline."""
        if part == self._awaits:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._awaits = part
        limits = self.registry.limits
        if part:
            seconds = limits.head_seconds if part == "head" else limits.body_seconds
            self._deadline = self.loop.call_later(seconds, self.transport.abort)


def bounded(registry: Connections) -> type[BoundedProtocol]:
    return type("BoundedProtocol", (BoundedProtocol,), {"registry": registry})


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"retry-after", b"1"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": b"The server is answering too many requests. Try again later.\n"})
