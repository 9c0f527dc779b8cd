"""Which channels a job notifies of which events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final
from urllib.parse import urlsplit

from evertick.definitions.catalogue.job import CHANNEL, NOTIFY, WEBHOOK
from evertick.definitions.catalogue.limits import CHANNELS_MAX
from evertick.definitions.catalogue.work import SECRET
from evertick.definitions.fields.environment import read_secret
from evertick.definitions.fields.kinds import read_headers
from evertick.definitions.fields.values import line_of, url_of
from evertick.definitions.nodes import ListNode, MapNode, Node, ScalarNode
from evertick.definitions.report import Report, Section, section_of
from evertick.model.notify import Channel, Mail, NotifyEvent, Route, Slack, Webhook
from evertick.model.work import Value

_SHAPE: Final = "notify: {on_failure: https://host/path}"
_SLACK_HOST: Final = "hooks.slack.com"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def read_notify(node: Node, field: str, named: Mapping[str, Channel], report: Report) -> tuple[Route, ...]:
    """Events, each with an address or some channels; `named` are those of the settings."""
    section = section_of(_snake_cased(node), field, report, NOTIFY, _SHAPE)
    if section is None:
        return ()
    routes = []
    for event in NotifyEvent:
        place = section.take(event)
        channels = _read_channels(place, section.field(event), named, report) if place else ()
        if channels:
            routes.append(Route(event, channels))
    section.finish(f"'{field}'")
    return tuple(routes)


def read_address(node: Node, field: str, report: Report) -> Value | None:
    """An address to notify, or the secret that holds it."""
    if isinstance(node, MapNode):
        return read_secret(Section(node, field, report, SECRET), report)
    return url_of(node, field, report, has_dates=False)


def _snake_cased(node: Node) -> Node:
    """`onFailure` is `on_failure`; the position is kept, so that errors point to what was written."""
    if not isinstance(node, MapNode):
        return node
    written = {key.text for key, _value in node.entries}
    camel = {_camel(event): str(event) for event in NotifyEvent if str(event) not in written}
    return MapNode(
        tuple(
            (ScalarNode(camel.get(key.text, key.text), key.value, key.line, key.column), value)
            for key, value in node.entries
        ),
        node.line,
        node.column,
    )


def _camel(event: str) -> str:
    first, *others = event.split("_")
    return first + "".join(word.capitalize() for word in others)


def _read_channels(node: Node, field: str, named: Mapping[str, Channel], report: Report) -> tuple[Channel, ...]:
    items = node.items if isinstance(node, ListNode) else (node,)
    if not items:
        report.error(node, field, f"'{field}' is an empty list.", "Write an address, or remove the field.")
    if len(items) > CHANNELS_MAX:
        report.error(node, field, f"'{field}' has {len(items):,} channels; {CHANNELS_MAX} are allowed.")
    return tuple(channel for item in items[:CHANNELS_MAX] for channel in _read_channel(item, field, named, report))


def _read_channel(node: Node, field: str, named: Mapping[str, Channel], report: Report) -> list[Channel]:
    if isinstance(node, ScalarNode) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
        if node.value in named:
            return [named[node.value]]
        near = get_close_matches(node.value, named, n=1, cutoff=0.5)
        hint = f"Did you mean '{near[0]}'?" if near else "Name it in [notifications.channels], or write an address."
        report.error(node, field, f"Unknown channel '{node.value}'.", hint)
        return []
    if not isinstance(node, MapNode):
        url = url_of(node, field, report, has_dates=False)
        if url is None:
            return []
        return [Slack(url) if urlsplit(url).hostname == _SLACK_HOST else Webhook(url)]
    section = Section(node, field, report, CHANNEL)
    webhook, slack, smtp = (section.take(name) for name in CHANNEL)
    if not node.entries:
        hint = "Write {webhook: https://...}, {slack: https://...} or {smtp: name@host}."
        report.error(node, field, f"'{field}' names no channel.", hint)
    section.finish(f"a channel of '{field}'")
    found: list[Channel | None] = []
    if webhook is not None:
        found.append(_read_webhook(webhook, section.field("webhook"), report))
    if slack is not None:
        address = read_address(slack, section.field("slack"), report)
        found.append(None if address is None else Slack(address))
    if smtp is not None:
        found.append(_read_mail(smtp, section.field("smtp"), report))
    return [channel for channel in found if channel is not None]


def _read_webhook(node: Node, field: str, report: Report) -> Webhook | None:
    if not isinstance(node, MapNode):
        url = url_of(node, field, report, has_dates=False)
        return None if url is None else Webhook(url)
    if all(key.text in SECRET for key, _value in node.entries):
        secret = read_secret(Section(node, field, report, SECRET), report)
        return None if secret is None else Webhook(secret)
    section = Section(node, field, report, WEBHOOK)
    place, headers = section.take("url"), section.take("headers")
    if "url" not in section:
        report.error(node, section.field("url"), f"'{field}' has no address.", "Add 'url'.")
    address = read_address(place, section.field("url"), report) if place else None
    sent = read_headers(headers, section.field("headers"), report) if headers else ()
    section.finish(f"'{field}'")
    return None if address is None else Webhook(address, sent)


def _read_mail(node: Node, field: str, report: Report) -> Mail | None:
    items = node.items if isinstance(node, ListNode) else (node,)
    found = []
    for item in items:
        text = line_of(item, field, report, longest=320)
        if text is not None and (text.count("@") != 1 or text[0] == "@" or text[-1] == "@" or " " in text):
            report.error(item, field, f"'{text[:60]}' is not a mail address.", "Write name@host.")
        elif text is not None:
            found.append(text)
    if not items:
        report.error(node, field, f"'{field}' is an empty list.", "Write name@host.")
    return Mail(tuple(dict.fromkeys(found))) if found else None
