"""Sends a test message to a channel of the settings, once, and returns the result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches

from evertick.dispatch.notify.announcer import trial_of
from evertick.dispatch.notify.channels import Outcome, deliver, receiver_of
from evertick.dispatch.notify.config import notify_settings
from evertick.dispatch.notify.egress import EgressGuard
from evertick.errors import NotFound
from evertick.model.instant import Instant
from evertick.settings import Settings


def send_trial(settings: Settings, name: str, now: Instant, environ: Mapping[str, str] = os.environ) -> Outcome:
    """One try, without the retries that a real message has."""
    channels = dict(settings.notifications.channels)
    if name not in channels:
        near = tuple(get_close_matches(name, channels, n=2, cutoff=0.5))
        raise NotFound(f"unknown channel '{name}'. Add it to [notifications.channels].", near)
    told = notify_settings(settings, environ)
    message = trial_of(channels[name], settings.node or os.uname().nodename, now)
    outcome = deliver(message, channels[name], told, EgressGuard.allowing(told.allowed_targets), environ)
    return outcome._replace(detail=f"{receiver_of(channels[name])}: {outcome.detail}")
