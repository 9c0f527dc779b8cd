"""Dask's connections with plain values only, for the processes of a fleet.

Dask allows to replace its transport, by the scheme of an address. This one reads with `frames`, so that neither the hub
nor a member unpickles anything. Over TLS it also checks the role in the peer's certificate: Dask accepts every peer
that the authority has signed, and takes any of them for the hub.
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
    """The roles that a process of the fleet talks to, over TLS."""

    callers: frozenset[Role]
    """Accepted on incoming connections."""
    called: frozenset[Role]
    """Accepted on outgoing connections."""
    is_revoked: Callable[[Peer], bool] = lambda _: False

    def refusal(self, peer: Peer | None, allowed: frozenset[Role]) -> str:
        """Why this peer is rejected; empty: it is accepted."""
        if peer is None:
            return "its certificate has no role in a fleet"
        if peer.role not in allowed:
            return f"its certificate belongs to the {peer.role} {peer.name}"
        return f"the certificate of {peer.name} was revoked" if self.is_revoked(peer) else ""


_rules = Rules(frozenset(), frozenset())


class _PlainReader:
    """Reads as Dask's connections do, but plain values only."""

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
            # The position in the stream is unknown.
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

    async def connect(self, address: str, deserialize: bool = True, **known: object) -> PlainTLS:
        comm: PlainTLS = await super().connect(address, deserialize, **known)
        if refusal := _rules.refusal(comm.peer, _rules.called):
            comm.abort()
            raise FatalCommClosedError(f"{address} is not the hub: {refusal}")
        return comm


class _PlainTLSListener(TLSListener):
    comm_class = PlainTLS

    def __init__(self, *arguments: object, **known: object) -> None:
        super().__init__(*arguments, **known)
        self._silent: SilentConnections[IOStream] = SilentConnections(IOStream.close)

    async def _prepare_stream(self, stream: Any, address: str) -> Any:
        self._silent.opened(stream, urlsplit(address).hostname or "")
        try:
            # Dask waits forever for a peer that connects and sends nothing.
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
    """Call it before Dask opens anything in this process; it removes all other transports."""
    global _rules
    _rules = rules
    registry.backends.clear()
    registry.backends.update({"tcp": _PlainTCPBackend(), "tls": _PlainTLSBackend()})


def security_of(certificates: Certificates | None) -> Security:
    """The same files for every role; both sides must show a certificate."""
    if certificates is None:
        return Security(require_encryption=False)
    ca, cert, key = certificates
    roles = {
        f"tls_{role}_{kind}": file
        for role in ("scheduler", "worker", "client")
        for kind, file in (("cert", cert), ("key", key))
    }
    return Security(require_encryption=True, tls_ca_file=ca, **roles)
