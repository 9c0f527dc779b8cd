"""The connection of a scheduler or a command to a fleet: one stream to its relay.

It uses Dask's protocol without Dask: messages are read by `frames`, which rebuilds no objects, because this process has
the scheduler's ledger, secrets and account.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evertick.errors import ExecutorUnavailable, SettingsError
from evertick.executors.fleet import frames, messages
from evertick.executors.fleet.identity import Role, is_of_an_evertick_authority, peer_of
from evertick.executors.fleet.settings import PORT, Certificates, certificates_of, settle_key
from evertick.settings.parts import FleetSettings

CONNECT_SECONDS = 10.0
RETRY_SECONDS = 0.1
CLOSE_SECONDS = 1.0
BUFFER = 1024 * 1024


class Control:
    """The stream. `read` returns the next messages, and raises `ExecutorUnavailable` when the stream has ended."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: list[dict[str, object]]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._first = first
        """The first message: the members."""
        self._waiting: list[dict[str, Any]] = []

    @classmethod
    async def open(cls, settings: FleetSettings, asker: str = "") -> Control:
        """Connected when the relay has sent the list of members; a server that does not is not a fleet.

        With an `asker`, only answers to that name follow.
        """
        try:
            reader, writer = await _connect(settings)
        except (OSError, TimeoutError, frames.FrameError, EOFError) as error:
            raise ExecutorUnavailable(f"the fleet at {settings.url} cannot be reached: {_in_words(error)}") from error
        try:
            hello = {"op": messages.CONTROL, "reply": False, "protocol": messages.PROTOCOL}
            writer.write(frames.encode({**hello, "asker": asker} if asker else hello))
            first = await asyncio.wait_for(_read(reader), CONNECT_SECONDS)
        except TimeoutError as error:
            _abort(writer)
            raise ExecutorUnavailable(
                f"{settings.url} is a Dask scheduler, but not the hub of a fleet. Start it with "
                "--preload evertick.executors.fleet.preload, or use 'evertick fleet start'."
            ) from error
        except BaseException:
            _abort(writer)
            raise
        return cls(reader, writer, first)

    async def read(self) -> list[dict[str, object]]:
        if self._first:
            first, self._first = self._first, []
            return first
        return await _read(self._reader)

    def send(self, member: str, lines: bytes) -> bool:
        """False if the connection is closed."""
        if self._writer.is_closing():
            return False
        if not self._waiting:
            # Lines of one turn of the event loop go out as one message.
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append({"member": member, "lines": lines})
        return True

    def release(self, member: str) -> None:
        """Free the name of a member on the hub."""
        self._writer.write(frames.encode({messages.RELEASE: member}))

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        size, portion = 0, list[dict[str, object]]()
        for message in waiting:
            # A batch has the same size limit as a message.
            if portion and size + len(message["lines"]) > frames.MESSAGE_MAX // 2:
                self._writer.write(frames.encode(portion))
                size, portion = 0, []
            size += len(message["lines"])
            portion.append(message)
        if portion:
            self._writer.write(frames.encode(portion))

    async def close(self) -> None:
        if self._waiting:
            self._flush()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._writer.drain(), CLOSE_SECONDS)
            self._writer.close()
            await asyncio.wait_for(self._writer.wait_closed(), CLOSE_SECONDS)
        _abort(self._writer)


async def probe(settings: FleetSettings) -> None:
    """Raises `ExecutorUnavailable` if no hub answers."""
    try:
        _, writer = await _connect(settings)
    except (OSError, TimeoutError, frames.FrameError, EOFError) as error:
        raise ExecutorUnavailable(f"the fleet at {settings.url} cannot be reached: {_in_words(error)}") from error
    _abort(writer)


async def _connect(settings: FleetSettings) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Retries a refused connection for a while: the hub may be restarting."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + CONNECT_SECONDS
    while True:
        try:
            return await asyncio.wait_for(_dial(settings), deadline - loop.time())
        except ConnectionRefusedError:
            if loop.time() + RETRY_SECONDS > deadline:
                raise
            await asyncio.sleep(RETRY_SECONDS)


async def _dial(settings: FleetSettings) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(settings.url)
    certificates = certificates_of(settings)
    context = client_context(certificates) if certificates else None
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or PORT, ssl=context, limit=BUFFER)
    try:
        _check_hub(writer)
        writer.write(frames.encode(frames.HANDSHAKE))
        await _read_message(reader)
    except BaseException:
        _abort(writer)
        raise
    return reader, writer


def _check_hub(writer: asyncio.StreamWriter) -> None:
    """A member has a certificate of the same authority, and must not be able to act as the hub."""
    certificate = writer.get_extra_info("peercert")
    if is_of_an_evertick_authority(certificate):
        peer = peer_of(certificate)
        if peer is None or peer.role is not Role.HUB:
            raise ConnectionAbortedError("the certificate is not the hub's")


def client_context(certificates: Certificates) -> ssl.SSLContext:
    """Both sides show certificates; the identity is in them, not in host names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(certificates.ca)
        try:
            context.load_cert_chain(certificates.cert, certificates.key)
        except ssl.SSLError:
            # They may have been replaced between the two reads.
            settle_key(Path(certificates.cert).parent)
            context.load_cert_chain(certificates.cert, certificates.key)
    except (OSError, ValueError) as error:
        raise SettingsError(f"the certificates in {certificates.cert} cannot be used: {error}") from None
    return context


async def _read_message(reader: asyncio.StreamReader) -> Any:
    size = frames.size_of(await reader.readexactly(frames.HEAD_SIZE))
    return frames.decode(await reader.readexactly(size))


async def _read(reader: asyncio.StreamReader) -> list[dict[str, object]]:
    try:
        messages = await _read_message(reader)
    except (OSError, EOFError, frames.FrameError) as error:
        raise ExecutorUnavailable(f"the connection to the fleet has ended: {_in_words(error)}") from error
    found = list(messages) if isinstance(messages, list | tuple) else [messages]
    for message in found:
        if not isinstance(message, dict):
            raise ExecutorUnavailable("it is not the hub of a fleet")
        if "refused" in message:
            raise ExecutorUnavailable(f"the fleet refused the connection: {str(message['refused'])[:200]}")
    return found


def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def _in_words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no response"
    if isinstance(error, OSError):
        return str(error) or type(error).__name__
    if isinstance(error, EOFError):
        return "the other side closed it"
    return f"it is not the hub of a fleet ({error})"
