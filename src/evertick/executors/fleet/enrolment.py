"""Issues certificates to machines that join: against a token the first time, against their certificate afterwards.

`fleet start` listens on a second port, beside the hub's, in a process that does not speak Dask. The request is one line
of JSON, and so is the response. The token has the fingerprint of the authority, so a machine sends its token only to a
server that proves to be that authority.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from evertick.errors import Conflict, EvertickError, ExecutorUnavailable, SettingsError
from evertick.executors.fleet.authority import Authority, check_name
from evertick.executors.fleet.certs import HubAddress, hub_address_of, new_request, write_folder
from evertick.executors.fleet.control import client_context
from evertick.executors.fleet.identity import Peer, Role, peer_of
from evertick.executors.fleet.settings import Certificates
from evertick.executors.fleet.silent_connections import SilentConnections
from evertick.model.plain_json import parse_json

log = logging.getLogger("evertick.fleet")

LINE_MAX = 32 * 1024
SECONDS = 10.0
LIMIT_SECONDS = 20.0
PAUSE_SECONDS = 0.2
"""Before the next one is accepted, when this process has no descriptor left for it."""
_END = "-----END CERTIFICATE-----"


class Token(NamedTuple):
    join_port: int
    secret: str
    fingerprint: str

    @classmethod
    def parse(cls, text: str) -> Token:
        port, _, rest = text.strip().partition(".")
        secret, _, fingerprint = rest.partition(".")
        if not port.isdecimal() or not 0 < int(port) < 65_536 or not secret or not fingerprint:
            raise SettingsError("this is not a fleet token. Create one on the machine of the hub: evertick fleet token")
        return cls(int(port), secret, fingerprint)


class EnrolmentServer:
    """Serves each connection in a thread of its own, within a time limit, until it is closed."""

    def __init__(self, authority: Authority, certificates: Certificates, host: str, port: int) -> None:
        self._authority = authority
        self._certificates = certificates
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family)
        self.port = int(self._socket.getsockname()[1])
        self._is_closed = False
        self._silent: SilentConnections[socket.socket] = SilentConnections(_cut)
        """Connections that have sent no request yet."""
        self._thread = threading.Thread(target=self._accept, name="evertick-enrolment", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._is_closed = True
        # Closing alone is not enough: a thread that waits in accept() would continue to wait.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        if self._thread.is_alive():
            self._thread.join(SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                plain, (address, *_) = self._socket.accept()
                connection = self._opened(plain, address)
            except OSError as error:
                if self._is_closed:
                    return
                log.warning("enrolment.not_accepted reason=%s", error)
                time.sleep(PAUSE_SECONDS)
                continue
            threading.Thread(target=self._serve, args=(plain, address, connection), daemon=True).start()

    def _opened(self, plain: socket.socket, address: str) -> socket.socket:
        """A duplicate to cut the connection with: the TLS handshake takes over the socket itself."""
        try:
            connection = plain.dup()
        except OSError:
            plain.close()
            raise
        self._silent.opened(connection, address)
        return connection

    def _serve(self, plain: socket.socket, address: str, connection: socket.socket) -> None:
        # A client that sends a byte now and then must not hold its slot either.
        limit = threading.Timer(LIMIT_SECONDS, _cut, (connection,))
        limit.daemon = True
        limit.start()
        try:
            plain.settimeout(SECONDS)
            with plain, self._context().wrap_socket(plain, server_side=True) as secure:
                secure.settimeout(SECONDS)
                peer = peer_of(secure.getpeercert())
                asked = parse_json(_read_line(secure))
                self._silent.spoke(connection)
                answer = self._answer(asked, peer, address)
                secure.sendall(json.dumps(answer).encode() + b"\n")
        except (OSError, ValueError) as error:
            log.info("enrolment.ended address=%s reason=%s", address, f"{error}"[:200])
        except Exception:
            log.exception("enrolment.failed address=%s", address)
        finally:
            limit.cancel()
            self._silent.spoke(connection)
            connection.close()

    def _context(self) -> ssl.SSLContext:
        """Read from the files each time: a renewal replaces them."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._certificates.cert, self._certificates.key)
        context.load_verify_locations(self._certificates.ca)
        # A machine that joins for the first time has no certificate.
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _answer(self, asked: object, peer: Peer | None, address: str) -> dict[str, str]:
        try:
            match asked:
                case {"ask": "authority"}:
                    return {"ca": self._authority.ca.decode()}
                case {"ask": "trust"} if peer is not None:
                    self._check_good(peer)
                    trusted = self._authority.ca.decode()
                    self._authority.note_trust(peer.serial)
                    return {"ca": trusted}
                case {"ask": "join", "token": str(secret), "name": str(name), "csr": str(csr)}:
                    cert = self._authority.redeem(secret, name, csr.encode())
                case {"ask": "renew", "csr": str(csr)} if peer is not None:
                    name = peer.name
                    cert = self._authority.renew(csr.encode(), peer.serial)
                case _:
                    return {"refused": "Unknown request."}
        except EvertickError as error:
            log.warning("enrolment.refused address=%s reason=%s", address, error)
            return {"refused": str(error)}
        log.info("enrolment.signed name=%s address=%s", name, address)
        return {"cert": cert.decode(), "ca": self._authority.ca.decode()}

    def _check_good(self, peer: Peer) -> None:
        now = time.time_ns() // 1_000
        if not any(one.serial == peer.serial and one.is_good(now) for one in self._authority.read().issued):
            raise Conflict("the certificate was revoked, or this fleet did not issue it.")


def enrol(url: str, token_text: str, name: str, folder: Path) -> Certificates:
    """Redeem a token for a certificate under this name."""
    check_name(name)
    token = Token.parse(token_text)
    address = HubAddress(url, token.join_port)
    told = str(_ask(address, _blind_context(), {"ask": "authority"}, is_hub_known=False).get("ca", ""))
    # Only the authority that the token names: an attacker could send it beside an authority of their own.
    ca = next((one for one in _certificates_in(told) if _is_named(one, token.fingerprint)), None)
    if ca is None:
        raise ExecutorUnavailable(f"the fleet at {url} is not the one that the token was created for.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=ca)
    request = new_request(name)
    asked = {"ask": "join", "token": token.secret, "name": name, "csr": request.csr.decode()}
    answer = _ask(address, context, asked)
    return write_folder(folder, answer["ca"].encode(), answer["cert"].encode(), request.key, address)


def _certificates_in(text: str) -> list[str]:
    return [f"{part}{_END}\n" for part in text.split(_END)[:-1]]


def _is_named(ca: str, fingerprint: str) -> bool:
    try:
        der = ssl.PEM_cert_to_DER_cert(ca.strip())
    except ValueError:
        return False
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=") == fingerprint


def ask_trust(address: HubAddress, certificates: Certificates) -> bytes:
    """The authorities to trust now; the one that signs comes first."""
    return _ask(address, client_context(certificates), {"ask": "trust"})["ca"].encode()


def renew(folder: Path) -> Certificates:
    """Replace a valid key and certificate by new ones."""
    certificates, address = Certificates.in_folder(folder), hub_address_of(folder)
    if address is None:
        raise SettingsError(f"{folder} does not name the fleet of its certificate. Next: join again with a new token.")
    request = new_request("renewal")
    answer = _ask(address, client_context(certificates), {"ask": "renew", "csr": request.csr.decode()})
    return write_folder(folder, answer["ca"].encode(), answer["cert"].encode(), request.key)


def _ask(
    address: HubAddress, context: ssl.SSLContext, asked: Mapping[str, str], *, is_hub_known: bool = True
) -> dict[str, str]:
    host = urlsplit(address.url).hostname or ""
    try:
        with (
            socket.create_connection((host, address.join_port), SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            if is_hub_known:
                peer = peer_of(secure.getpeercert())
                if peer is None or peer.role is not Role.HUB:
                    raise ExecutorUnavailable(f"{host}:{address.join_port} is not the hub of the fleet.")
            secure.sendall(json.dumps(asked).encode() + b"\n")
            answer = json.loads(_read_line(secure))
    except (OSError, ValueError) as error:
        reason = f"{host}:{address.join_port} does not respond as the hub of a fleet: {error}"
        raise ExecutorUnavailable(reason) from None
    if not isinstance(answer, dict) or not all(isinstance(value, str) for value in answer.values()):
        raise ExecutorUnavailable(f"{host}:{address.join_port} does not respond as the hub of a fleet.")
    if "refused" in answer:
        raise Conflict(answer["refused"])
    return answer


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _blind_context() -> ssl.SSLContext:
    """For the one request whose response is verified by the fingerprint instead."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _read_line(secure: ssl.SSLSocket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        piece = secure.recv(4_096)
        if not piece or len(data) > LINE_MAX:
            raise ValueError("not one line")
        data += piece
    return data
