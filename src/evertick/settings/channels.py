"""The notification channels that the settings declare, and how each is reached."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from evertick.model.notify import Channel, Mail, Slack, Webhook
from evertick.model.work import Secret
from evertick.settings.kinds import ADDRESS, LINES, InvalidSetting, Kind, show_value, value_of

_SLACK_HOST: Final = "hooks.slack.com"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MAIL: Final = re.compile(r"[^@\s,<>]+@[^@\s,<>]+")
_WAYS: Final = ("webhook", "slack", "smtp")
_HINT: Final = 'Write ops = "https://host/path", {slack = "env:HOOK"} or {smtp = "name@host"}.'

Named = tuple[str, Channel]


def _channels(value: object) -> tuple[Named, ...]:
    if not isinstance(value, Mapping):
        raise InvalidSetting("it is not a table of names", _HINT)
    for name in value:
        if not _NAME.fullmatch(str(name)):
            raise InvalidSetting(f"'{name}' is not a name", "Write it in lower case, with digits, '-' and '_'.")
    return tuple((str(name), _channel(str(name), way)) for name, way in value.items())


def _channel(name: str, value: object) -> Channel:
    if isinstance(value, str):
        return _by_text(name, value)
    ways = [way for way in _WAYS if isinstance(value, Mapping) and way in value]
    if not isinstance(value, Mapping) or len(ways) != 1:
        raise InvalidSetting(f"'{name}' has no address", _HINT)
    (way,) = ways
    others = set(value) - {way, "headers"} if way == "webhook" else set(value) - {way}
    if others:
        raise InvalidSetting(f"'{name}' has the unknown key '{min(others)}'", _HINT)
    match way:
        case "slack":
            return Slack(ADDRESS.read(value["slack"]))
        case "smtp":
            return Mail(_addresses(name, value["smtp"]))
        case _:
            return Webhook(ADDRESS.read(value["webhook"]), _headers(name, value.get("headers", {})))


def _by_text(name: str, text: str) -> Channel:
    if _MAIL.fullmatch(text) and ":" not in text:
        return Mail((text,))
    address = ADDRESS.read(text)
    if not address:
        raise InvalidSetting(f"'{name}' is empty", _HINT)
    is_slack = not isinstance(address, Secret) and urlsplit(address).hostname == _SLACK_HOST
    return Slack(address) if is_slack else Webhook(address)


def _addresses(name: str, value: object) -> tuple[str, ...]:
    found: tuple[str, ...] = LINES.read(value)
    for text in found:
        if not _MAIL.fullmatch(text):
            raise InvalidSetting(f"'{name}' has {text!r}, which is not a mail address", "Write name@host.")
    if not found:
        raise InvalidSetting(f"'{name}' has no mail address", "Write name@host.")
    return found


def _headers(name: str, value: object) -> tuple[tuple[str, str | Secret], ...]:
    if not isinstance(value, Mapping):
        raise InvalidSetting(f"the headers of '{name}' are not a table", 'Write {Authorization = "env:TOKEN"}.')
    for header in value:
        if not re.fullmatch(r"[A-Za-z0-9-]{1,100}", header):
            raise InvalidSetting(f"'{header}' is not the name of a header", "Write letters, digits and '-'.")
    return tuple((header, value_of(text)) for header, text in value.items())


def _show(value: tuple[Named, ...]) -> str:
    return ", ".join(f"{name}={_way(channel)}" for name, channel in value)


def _way(channel: Channel) -> str:
    match channel:
        case Webhook(url) | Slack(url):
            return show_value(url)
        case Mail(to):
            return " ".join(to)


CHANNELS: Final = Kind("table of receivers", _channels, _show, has_variable=False)
