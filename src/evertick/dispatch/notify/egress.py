"""Where notifications may be sent: to public addresses, and to private ones only if the operator allows it.

The name of a receiver is looked up once, every address it has is checked, and the connection is made to such an address
and to no other. Otherwise a name that changes its meaning between the check and the call would reach inside.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from evertick.errors import SettingsError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Lookup: TypeAlias = Callable[[str, int], Iterable[tuple[Any, ...]]]
"""As `socket.getaddrinfo`, reduced to what is used."""

# Named although most are known to `ipaddress`: what that module calls global has changed between versions.
_INSIDE: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"),
        # By its number it is public; in a virtual machine of Azure it is the host, which returns secrets of it.
        "168.63.129.16/32",
        # `::/96` and `64:ff9b::/96` carry an IPv4 address, as `2002::/16` and `2001::/32` do.
        *("::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2002::/16", "3fff::/20", "5f00::/16"),
        *("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    )
)
_PUBLIC_IPV6: Final = ipaddress.IPv6Network("2000::/3")
"""All of it that has been given out; other forms, such as `::ffff:0:7f00:1`, can carry an IPv4 address."""


class Refused(Exception):
    """The address must not be called; trying again changes nothing. The text shows no secret."""


class Target(NamedTuple):
    """An address that was checked, and where it may be reached."""

    parts: SplitResult
    host: str
    port: int
    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class EgressGuard:
    """`allowed` names hosts (`hooks.internal`), addresses and networks (`10.1.0.0/16`) that may be reached inside."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    lookup: Lookup = lambda host, port: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    @classmethod
    def allowing(cls, allowed: Sequence[str] = ()) -> EgressGuard:
        hosts, networks = set(), []
        for entry in allowed:
            text = entry.strip().lower().rstrip(".")
            try:
                networks.append(ipaddress.ip_network(text.strip("[]"), strict=False))
            except ValueError:
                if not text or not all(c.isalnum() or c in ".-_" for c in text) or "/" in text:
                    raise SettingsError(
                        f"{entry!r} is neither a host nor a network. Write hooks.internal, 10.1.2.3 or 10.1.0.0/16."
                    ) from None
                hosts.add(text)
        return cls(frozenset(hosts), tuple(networks))

    def check(self, url: str) -> Target:
        """Look the receiver up, once, and refuse it if any of its addresses lies inside."""
        parts = _parts(url)
        host = (parts.hostname or "").rstrip(".")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            found = [row[4][0] for row in self.lookup(host, port)]
        except UnicodeError:
            raise Refused(f"{masked(url)} has no usable host") from None
        addresses = tuple(dict.fromkeys(ipaddress.ip_address(str(text)) for text in found))
        if not addresses:
            raise OSError(f"{host} has no address")
        for address in addresses:
            if host.lower() not in self.hosts and not self.may_reach(address):
                raise Refused(
                    f"{masked(url)} leads to {address}, which is not a public address. "
                    "To allow it, add it to 'notifications.allowed'."
                )
        return Target(parts, host, port, addresses)

    def may_reach(self, address: Address) -> bool:
        inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        address = inner or address
        return is_public(address) or any(
            address in network for network in self.networks if network.version == address.version
        )


def is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address not in _PUBLIC_IPV6:
        return False
    if any(address in network for network in _INSIDE if network.version == address.version):
        return False
    return address.is_global and not address.is_multicast


def connect(target: Target, timeout_seconds: float, all_seconds: float | None = None) -> http.client.HTTPConnection:
    """A connection to an address that was checked; the name stands only in the certificate and the Host header.

    A name may have many addresses: all of them together, and not each, are tried for `all_seconds`.
    """
    sock = _reach(target, timeout_seconds, time.monotonic() + (all_seconds or timeout_seconds))
    if target.parts.scheme == "https":
        context = ssl.create_default_context()
        try:
            sock = context.wrap_socket(sock, server_hostname=target.host)
        except BaseException:
            sock.close()
            raise
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(target.host, target.port, context=context)
    else:
        connection = http.client.HTTPConnection(target.host, target.port)
    # With a socket in place, and no leave to open another, it never looks the name up itself.
    connection.sock = sock
    connection.auto_open = 0
    return connection


def _reach(target: Target, timeout_seconds: float, until: float) -> socket.socket:
    problem: OSError | None = None
    for address in target.addresses:
        rest = until - time.monotonic()
        if problem is not None and rest <= 0:
            break
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.settimeout(max(0.01, min(timeout_seconds, rest)))
        try:
            sock.connect((str(address), target.port))
            sock.settimeout(timeout_seconds)
        except OSError as error:
            problem = error
            with contextlib.suppress(OSError):
                sock.close()
        else:
            return sock
    assert problem is not None
    raise problem


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Refused(f"{masked(url)} is not an address. Write https://host/path.") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Refused(f"{masked(url)} is not an address. Write https://host/path.")
    if parts.username is not None or parts.password is not None:
        raise Refused(f"{masked(url)} contains a user or a password. Send it as a header.")
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        raise Refused(f"{masked(url)} contains a character that is not allowed. Percent-encode it, for example %20.")
    return parts


def masked(url: str) -> str:
    """Scheme and host: the path and the query of such addresses are the secret that they are protected by."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an address"
    shown = f"{parts.scheme}://{host}{f':{port}' if port else ''}"
    return f"{shown}/***" if parts.path.strip("/") or parts.query else shown
