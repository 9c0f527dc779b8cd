"""What the operator has settled about notifications, outside of any job."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Tls(StrEnum):
    STARTTLS = "starttls"
    IMPLICIT = "tls"
    NONE = "none"
    """For a relay on this machine; a password is then refused."""


@dataclass(frozen=True, slots=True)
class SmtpServer:
    host: str
    port: int = 587
    tls: Tls = Tls.STARTTLS
    sender: str = "evertick@localhost"
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class NotifySettings:
    allowed_targets: tuple[str, ...] = ()
    """Hosts and networks that are not public and may be told all the same."""
    smtp: SmtpServer | None = None
    signing_key: str = field(default="", repr=False)
    """Webhooks are signed with it, where it is set."""
    connect_seconds: float = 5.0
    deadline_seconds: float = 15.0
    """All of one try, from the lookup to the end of the answer."""
    attempts: int = 6
    backoff_first_seconds: float = 1.0
    backoff_max_seconds: float = 300.0
    queue_max: int = 1_000
    """Messages that wait, over all receivers; further ones are dropped, counted and logged."""
    receiver_max: int = 100
    """The same for one receiver, so that a dead one does not take the room of the others."""
    workers: int = 8
    """Tries under way at once; one receiver has one of them at most."""
