"""How a scheduler, or a person at the command line, is connected to a fleet: one stream to its switchboard."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from distributed.batched import BatchedSend
from distributed.comm.core import Comm, CommClosedError, connect
from distributed.security import Security
from tornado.ioloop import IOLoop

from evertick.errors import ExecutorUnavailable
from evertick.executors.fleet import talk
from evertick.executors.fleet.settings import Certificates, FleetSettings

CONNECT_SECONDS = 10.0


def security_of(certificates: Certificates | None) -> Security:
    """The same three files for whatever part one takes; both sides must show theirs."""
    if certificates is None:
        return Security(require_encryption=False)
    ca, cert, key = certificates
    roles = {
        f"tls_{role}_{kind}": file
        for role in ("scheduler", "worker", "client")
        for kind, file in (("cert", cert), ("key", key))
    }
    return Security(require_encryption=True, tls_ca_file=ca, **roles)


class Control:
    """The stream. `read` answers what was said next, and raises `ExecutorUnavailable` when the stream has ended."""

    def __init__(self, comm: Comm, first: list[dict[str, Any]]) -> None:
        self._comm = comm
        self._first = first
        """What was said before anybody read: who is there."""
        self._out = BatchedSend(interval="1ms", loop=IOLoop.current())
        self._out.start(comm)

    @classmethod
    async def open(cls, settings: FleetSettings) -> Control:
        """Connected when the switchboard has said who is there; whoever cannot say that is no fleet."""
        arguments = security_of(settings.certificates).get_connection_args("client")
        try:
            # Its own limit is not for one who accepts and says nothing.
            connecting = connect(settings.url, timeout=CONNECT_SECONDS, **arguments)
            comm = await asyncio.wait_for(connecting, CONNECT_SECONDS + 1)
        except Exception as error:
            raise ExecutorUnavailable(f"the fleet at {settings.url} cannot be reached: {_in_words(error)}") from error
        try:
            await comm.write({"op": talk.CONTROL, "reply": False, "protocol": talk.PROTOCOL})
            first = await asyncio.wait_for(_read(comm), CONNECT_SECONDS)
        except TimeoutError as error:
            comm.abort()
            raise ExecutorUnavailable(
                f"a Dask scheduler answers at {settings.url}, but not as a fleet does. Start it with "
                "--preload evertick.executors.fleet.preload, or use 'evertick fleet start'."
            ) from error
        except BaseException:
            comm.abort()
            raise
        return cls(comm, first)

    async def read(self) -> list[dict[str, Any]]:
        if self._first:
            first, self._first = self._first, []
            return first
        return await _read(self._comm)

    def tell(self, member: str, lines: bytes) -> bool:
        """Whether it may arrive."""
        try:
            self._out.send({"member": member, "lines": lines})
        except CommClosedError:
            return False
        return True

    async def close(self) -> None:
        with contextlib.suppress(Exception):
            await self._out.close(timeout=1)
        self._comm.abort()


async def _read(comm: Comm) -> list[dict[str, Any]]:
    try:
        messages = await comm.read()
    except Exception as error:  # whatever Dask makes of bytes that are none of its own
        raise ExecutorUnavailable(f"the connection to the fleet has ended: {_in_words(error)}") from error
    found = list(messages) if isinstance(messages, list | tuple) else [messages]
    for message in found:
        if not isinstance(message, dict):
            raise ExecutorUnavailable("what answers there does not speak as a fleet does")
        if "refused" in message:
            raise ExecutorUnavailable(f"the fleet refused the connection: {message['refused']}")
    return found


def _in_words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "nobody answers"
    if isinstance(error, OSError):
        return str(error) or type(error).__name__
    return f"what answers there does not speak as a fleet does ({type(error).__name__})"
