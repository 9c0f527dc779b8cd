"""How the processes of a fleet read each other: Dask's connections, of which only plain values are taken.

Dask lets a transport be put in the place of its own, by the scheme of an address. This one reads with `frames`, so
that nothing that a member sends is unpickled, neither by the hub nor by another member. Over TLS it also looks at the
role in the certificate of the other side: Dask lets in whoever the authority has signed, and takes anyone for the hub.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from ssl import SSLError
from typing import Any
from urllib.parse import urlsplit

from distributed.comm import registry
from distributed.comm.core import CommClosedError, FatalCommClosedError
from distributed.comm.tcp import (
    TCP,
    TLS,
    BaseTCPBackend,
    TCPConnector,
    TCPListener,
    TLSConnector,
    TLSListener,
    convert_stream_closed_error,
)
from distributed.security import Security
from tornado.iostream import IOStream, StreamClosedError

from evertick.executors.fleet import frames
from evertick.executors.fleet.identity import Peer, Role, peer_of
from evertick.executors.fleet.settings import Certificates
from evertick.executors.fleet.silent_connections import SilentConnections

log = logging.getLogger("evertick.fleet")

HANDSHAKE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Rules:
    """With whom a process of the fleet speaks, over TLS."""

    callers: frozenset[Role]
    """Whose calls it takes."""
    called: frozenset[Role]
    """Whom it calls."""
    is_revoked: Callable[[Peer], bool] = lambda _: False

    def refusal(self, peer: Peer | None, allowed: frozenset[Role]) -> str:
        """Why it does not speak with this one; empty: it does."""
        if peer is None:
            return "its certificate says no role in a fleet"
        if peer.role not in allowed:
            return f"its certificate is that of the {peer.role} {peer.name}"
        return f"the certificate of {peer.name} was revoked" if self.is_revoked(peer) else ""


_rules = Rules(frozenset(), frozenset())


class _PlainReader:
    """In front of one of Dask's connections: reads as it does, but only plain values."""

    stream: IOStream | None
    peer_address: str
    _closed: bool

    async def read(self, deserializers: Any = None) -> Any:  # noqa: ARG002 - as Dask calls it
        stream = self.stream
        if stream is None:
            raise CommClosedError
        try:
            size = frames.size_of(await stream.read_bytes(frames.HEAD_SIZE))
            return frames.decode(await stream.read_bytes(size))
        except (StreamClosedError, SSLError) as error:
            self.stream = None
            self._closed = True
            convert_stream_closed_error(self, error)
        except frames.FrameError as error:
            log.warning("connection.refused address=%s reason=%s", self.peer_address, error)
            self.abort()
            raise CommClosedError(f"{self.peer_address} sent {error}") from error
        except BaseException:
            # How much of the message was read is not known.
            self.abort()
            raise

    def abort(self) -> None:
        raise NotImplementedError


class PlainTCP(_PlainReader, TCP):
    abort = TCP.abort


class PlainTLS(_PlainReader, TLS):
    abort = TLS.abort

    @property
    def peer(self) -> Peer | None:
        return peer_of(self._extra.get("peercert"))


class _PlainTCPConnector(TCPConnector):
    comm_class = PlainTCP


class _PlainTCPListener(TCPListener):
    comm_class = PlainTCP


class _PlainTLSConnector(TLSConnector):
    comm_class = PlainTLS

    async def connect(self, address: str, deserialize: bool = True, **known: Any) -> PlainTLS:
        comm: PlainTLS = await super().connect(address, deserialize, **known)
        if refusal := _rules.refusal(comm.peer, _rules.called):
            comm.abort()
            raise FatalCommClosedError(f"what answers at {address} is not the hub: {refusal}")
        return comm


class _PlainTLSListener(TLSListener):
    comm_class = PlainTLS

    def __init__(self, *arguments: Any, **known: Any) -> None:
        super().__init__(*arguments, **known)
        self._silent: SilentConnections[IOStream] = SilentConnections(IOStream.close)

    async def _prepare_stream(self, stream: Any, address: str) -> Any:
        self._silent.opened(stream, urlsplit(address).hostname or "")
        try:
            # Dask waits for ever for one that connects and says nothing.
            prepared = await asyncio.wait_for(super()._prepare_stream(stream, address), HANDSHAKE_SECONDS)
        except TimeoutError:
            prepared = None
        finally:
            self._silent.spoke(stream)
        if prepared is None:
            stream.close()
            return None
        if refusal := _rules.refusal(peer_of(prepared.socket.getpeercert()), _rules.callers):
            log.warning("connection.refused address=%s reason=%s", address, refusal)
            prepared.close()
            return None
        return prepared


class _PlainTCPBackend(BaseTCPBackend):
    _connector_class = _PlainTCPConnector
    _listener_class = _PlainTCPListener


class _PlainTLSBackend(BaseTCPBackend):
    _connector_class = _PlainTLSConnector
    _listener_class = _PlainTLSListener


def install(rules: Rules) -> None:
    """Before anything of Dask is opened in this process; other ways to connect are closed."""
    global _rules
    _rules = rules
    registry.backends.clear()
    registry.backends.update({"tcp": _PlainTCPBackend(), "tls": _PlainTLSBackend()})


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
