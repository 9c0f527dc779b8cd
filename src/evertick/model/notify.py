"""Which events of a job are sent to which channels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from evertick.model.work import Env, Value


class NotifyEvent(StrEnum):
    FAILURE = "on_failure"
    """A run failed, and no attempt is left."""
    SUCCESS = "on_success"
    MISSED = "on_missed"
    """Occurrences were due while no scheduler was running, and were not caught up."""
    LATE = "on_late"
    """A run started later than its grace, or takes longer than expected."""
    DEADLINE_MISSED = "on_deadline_missed"
    """A deadline of an occurrence passed without a success."""
    RECOVERED = "on_recovered"
    """The first success after a failure."""
    SKIPPED_STREAK = "on_skipped_streak"
    """Several occurrences in a row were skipped."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A POST with the event as JSON."""

    url: Value
    headers: Env = ()


@dataclass(frozen=True, slots=True)
class Slack:
    """A message through an incoming webhook."""

    url: Value


@dataclass(frozen=True, slots=True)
class Mail:
    """A message through the SMTP server that the settings name."""

    to: tuple[str, ...]


Channel: TypeAlias = Webhook | Slack | Mail


@dataclass(frozen=True, slots=True)
class Route:
    event: NotifyEvent
    channels: tuple[Channel, ...]
