"""The identity in a certificate: the role and name that the fleet's authority has written into it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from evertick.model.member import is_member_name

AUTHORITY: Final = "Evertick fleet"
_SCHEME: Final = "evertick"


class Role(StrEnum):
    HUB = "hub"
    """The server that all others connect to."""
    SCHEDULER = "scheduler"
    """Launches attempts: `evertick serve`, and the commands that manage a fleet."""
    MEMBER = "member"
    """Runs attempts, under one name."""


class Peer(NamedTuple):
    role: Role
    name: str
    serial: str


def uri_of(role: Role, name: str) -> str:
    """The URI that holds role and name in a certificate."""
    return f"{_SCHEME}:{role}:{name}"


def peer_of(certificate: Mapping[str, Any] | None) -> Peer | None:
    """From a verified certificate, as `getpeercert` returns it; None: it has no role."""
    found = []
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        scheme, _, rest = value.partition(":")
        role, _, name = rest.partition(":")
        if kind == "URI" and scheme == _SCHEME and role in Role.__members__.values() and is_member_name(name):
            found.append(Peer(Role(role), name, serial_of(str((certificate or {}).get("serialNumber", "0")))))
    return found[0] if len(found) == 1 else None


def is_of_an_evertick_authority(certificate: Mapping[str, Any] | None) -> bool:
    """Whether an Evertick authority signed it, which gives every peer a role."""
    issuer = (certificate or {}).get("issuer", ())
    return ("organizationName", AUTHORITY) in [pair for part in issuer for pair in part]


def serial_of(text: str) -> str:
    """A serial number without padding."""
    return f"{int(text, 16):X}"
