"""Who shows a certificate: its role in the fleet and its name, as the fleet's authority has written them into it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from evertick.model.member import is_member_name

AUTHORITY: Final = "Evertick fleet"
_SCHEME: Final = "evertick"


class Role(StrEnum):
    HUB = "hub"
    """What everybody dials to."""
    SCHEDULER = "scheduler"
    """One that gives orders: `evertick serve`, and the commands that look after a fleet."""
    MEMBER = "member"
    """One that carries them out, under one name."""


class Peer(NamedTuple):
    role: Role
    name: str
    serial: str


def uri_of(role: Role, name: str) -> str:
    """How role and name are written into a certificate, beside its other names."""
    return f"{_SCHEME}:{role}:{name}"


def peer_of(certificate: Mapping[str, Any] | None) -> Peer | None:
    """From a verified certificate, in the form that `getpeercert` has; None: it says no role."""
    found = []
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        scheme, _, rest = value.partition(":")
        role, _, name = rest.partition(":")
        if kind == "URI" and scheme == _SCHEME and role in Role.__members__.values() and is_member_name(name):
            found.append(Peer(Role(role), name, serial_of(str((certificate or {}).get("serialNumber", "0")))))
    return found[0] if len(found) == 1 else None


def is_of_an_evertick_authority(certificate: Mapping[str, Any] | None) -> bool:
    """Whether it was signed by an authority of ours, which gives everyone a role."""
    issuer = (certificate or {}).get("issuer", ())
    return ("organizationName", AUTHORITY) in [pair for part in issuer for pair in part]


def serial_of(text: str) -> str:
    """One form for a number that everybody pads in another way."""
    return f"{int(text, 16):X}"
