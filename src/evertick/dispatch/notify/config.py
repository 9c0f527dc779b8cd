"""The operator's notification channels and rules from the settings, validated, with secrets resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from evertick.dispatch.notify.rules import RateLimits
from evertick.model.instant import MINUTE, SECOND
from evertick.model.notify import Channel, Route
from evertick.settings import Settings
from evertick.settings.load import reveal


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
    """Private hosts and networks that notifications may call."""
    smtp: SmtpServer | None = None
    signing_key: str = field(default="", repr=False)
    """Signs webhooks, if it is set."""
    connect_seconds: float = 5.0
    deadline_seconds: float = 15.0
    """The time limit of one attempt, from the lookup to the end of the answer."""
    attempts: int = 6
    backoff_first_seconds: float = 1.0
    backoff_max_seconds: float = 300.0
    queue_max: int = 1_000
    """Messages that wait, over all receivers; further ones are dropped, counted and logged."""
    receiver_max: int = 100
    """The same for one receiver, so that a dead one does not fill the queue of the others."""
    workers: int = 8
    """Attempts in progress at once; each receiver has at most one of them."""


@dataclass(frozen=True, slots=True)
class NotifyConfig:
    settings: NotifySettings = field(default_factory=NotifySettings)
    routes: tuple[Route, ...] = ()
    """For every job, in addition to its own."""
    member_channels: tuple[Channel, ...] = ()
    """Receivers for missing members."""
    ledger_channels: tuple[Channel, ...] = ()
    """Receivers for a damaged ledger."""
    manners: RateLimits = field(default_factory=RateLimits)
    heartbeat_url: str = field(default="", repr=False)
    heartbeat_us: int = MINUTE
    behind_us: int = 30 * SECOND


def notify_config(settings: Settings, environ: Mapping[str, str]) -> NotifyConfig:
    """SettingsError if a secret is not where the settings say."""
    told, beat = settings.notifications, settings.notifications.heartbeat
    return NotifyConfig(
        notify_settings(settings, environ),
        told.routes,
        told.member_channels,
        told.ledger_channels,
        RateLimits(quiet_us=told.quiet_us, streak=told.streak, limit=told.hourly),
        reveal(beat.url, environ, "'notifications.heartbeat.url'"),
        beat.every_us,
        beat.behind_us,
    )


def notify_settings(settings: Settings, environ: Mapping[str, str]) -> NotifySettings:
    """The settings of the sender."""
    told, mail = settings.notifications, settings.notifications.smtp
    server = None
    if mail.host:
        password = reveal(mail.password, environ, "'notifications.smtp.password'")
        server = SmtpServer(mail.host, mail.port, Tls(mail.tls), mail.sender, mail.user, password)
    return NotifySettings(
        allowed_targets=told.allowed,
        smtp=server,
        signing_key=reveal(told.signing_key, environ, "'notifications.signing_key'"),
        attempts=told.attempts,
    )
