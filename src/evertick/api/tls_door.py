"""How a TLS connection begins: counted and timed from its first moment, not from the end of its handshake.

A server with a certificate learns of a connection only after the handshake: connections that stall before it would be
in no limit, and have a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from socket import socket

from evertick.api.connections import Connections
from evertick.errors import SettingsError

PAUSE_SECONDS = 0.2
"""Wait before the next connection, if this process has no free descriptor."""


def tls_context(cert: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        reason = f"the certificate {cert} and its key {key} cannot be used: {error}."
        raise SettingsError(f"{reason} Correct 'api.tls_cert' and 'api.tls_key'.") from error
    return context


class TlsDoor:
    """Accepts the connections of a socket, and passes each on after its handshake."""

    def __init__(self, registry: Connections, context: ssl.SSLContext) -> None:
        self._registry = registry
        self._context = context
        self._accepting: asyncio.Task[None] | None = None
        self._shaking: set[_Handshake] = set()

    def open(self, listener: socket, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        listener.setblocking(False)
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listener, make_protocol))

    async def close(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._accepting
        for one in tuple(self._shaking):
            one.abort()

    async def _accept(self, listener: socket, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if not self._registry.may_connect(str(peer[0])):
                accepted.close()
                continue
            shaking = _Handshake(loop.create_task(self._shake_hands(accepted, make_protocol)))
            self._shaking.add(shaking)
            self._registry.opened(shaking, str(peer[0]), accepted.fileno())
            shaking.task.add_done_callback(partial(self._ended, shaking, accepted))

    async def _shake_hands(self, accepted: socket, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        seconds = self._registry.limits.head_seconds
        with contextlib.suppress(OSError, TimeoutError, ssl.SSLError):
            await asyncio.get_running_loop().connect_accepted_socket(
                make_protocol, accepted, ssl=self._context, ssl_handshake_timeout=seconds
            )

    def _ended(self, shaking: _Handshake, accepted: socket, task: asyncio.Task[None]) -> None:
        self._shaking.discard(shaking)
        self._registry.closed(shaking)
        if task.cancelled():
            accepted.close()  # perhaps before anything else could have closed it


class _Handshake:
    """A connection until its handshake is complete. It is quiet: it has a deadline, and makes room for others."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task

    @property
    def transport(self) -> _Handshake:
        return self

    def abort(self) -> None:
        self.task.cancel()
