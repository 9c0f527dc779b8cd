"""Delivers one message once: a POST, a POST for Slack, or a mail."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import json
import os
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Final, NamedTuple

from evertick.dispatch.notify.config import NotifySettings, SmtpServer, Tls
from evertick.dispatch.notify.egress import EgressGuard, Refused, connect, masked
from evertick.dispatch.notify.rules import Message
from evertick.model.instant import to_text
from evertick.model.notify import Channel, Mail, Slack, Webhook
from evertick.model.work import Secret, Value

SIGNATURE_HEADER: Final = "X-Evertick-Signature"
ANSWER_MAX: Final = 64 * 1024
DETAIL_MAX: Final = 2_000
SUBJECT_MAX: Final = 200
SECRET_MAX: Final = 64 * 1024
TRY_AGAIN: Final = frozenset({408, 425, 429})
"""Status codes to retry, besides 500 and above."""


class Outcome(NamedTuple):
    is_delivered: bool
    detail: str
    may_retry: bool = False


def deliver(
    message: Message,
    channel: Channel,
    settings: NotifySettings,
    guard: EgressGuard,
    environ: Mapping[str, str] = os.environ,
) -> Outcome:
    """Try once. It never raises for errors of the world, and its text shows no secret."""
    try:
        match channel:
            case Webhook(url, headers):
                body = json.dumps(payload_of(message), ensure_ascii=False).encode("utf-8", "replace")
                sent = {name: look_up(value, environ) for name, value in headers}
                sent |= {"X-Evertick-Event": message.event, "X-Evertick-Delivery": delivery_id(message)}
                if settings.signing_key:
                    sent[SIGNATURE_HEADER] = signature(settings.signing_key, body, int(time.time()))
                return _call(look_up(url, environ), "POST", body, sent, settings, guard)
            case Slack(url):
                body = json.dumps({"text": slack_text(message)}, ensure_ascii=False).encode("utf-8", "replace")
                return _call(look_up(url, environ), "POST", body, {}, settings, guard)
            case Mail(to):
                return _mail(message, to, settings)
    except Refused as error:
        return Outcome(False, str(error))


def ping(url: str, settings: NotifySettings, guard: EgressGuard) -> Outcome:
    """A GET as a sign of life."""
    try:
        return _call(url, "GET", None, {}, settings, guard)
    except Refused as error:
        return Outcome(False, str(error))


def receiver_of(channel: Channel) -> str:
    """The receiver as it may be shown; without a lookup."""
    match channel:
        case Webhook(url) | Slack(url):
            return f"secret {url.source} {url.name}" if isinstance(url, Secret) else masked(url)
        case Mail(to):
            return f"mail to {', '.join(to)}"


def payload_of(message: Message) -> dict[str, object]:
    return {
        "id": delivery_id(message),
        "event": str(message.event),
        "job": message.job_id,
        "name": message.job_name,
        "run": message.run_id,
        "scheduledFor": to_text(message.scheduled_for),
        "at": to_text(message.at),
        "text": text_of(message),
        "detail": message.detail[:DETAIL_MAX],
        "folded": message.folded,
    }


def text_of(message: Message) -> str:
    if not message.folded:
        return message.text
    return f"{message.text} {message.folded} more events of this kind since the last message."


def slack_text(message: Message) -> str:
    text = f"{text_of(message)}\n{message.detail[:DETAIL_MAX]}".strip()
    # The three characters with which Slack begins links, mentions and entities.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def delivery_id(message: Message) -> str:
    return hashlib.sha256(message.id.encode("utf-8", "replace")).hexdigest()[:32]


def signature(key: str, body: bytes, at: int) -> str:
    """`t=<seconds>,v1=<hex>`: HMAC-SHA256 of `<seconds>.<body>`, so that an old message cannot be sent again."""
    signed = hmac.new(key.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={signed}"


def look_up(value: Value, environ: Mapping[str, str]) -> str:
    if not isinstance(value, Secret):
        return value
    try:
        if value.source == "env":
            return environ[value.name].strip()
        # Not blocking: opening a pipe without a writer would block this thread forever.
        with open(os.open(value.name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(SECRET_MAX).decode().strip()
    except (KeyError, OSError, ValueError):
        raise Refused(
            f"the secret {value.source} {value.name!r} is not set. Set it in the environment of the scheduler."
        ) from None


def _call(
    url: str, method: str, body: bytes | None, headers: Mapping[str, str], settings: NotifySettings, guard: EgressGuard
) -> Outcome:
    started = time.monotonic()
    try:
        target = guard.check(url)
        connection = connect(target, settings.connect_seconds, settings.deadline_seconds)
    except (OSError, ssl.SSLError) as error:
        return Outcome(False, f"{masked(url)}: {_reason(error)}", may_retry=True)
    # A receiver that sends one byte a minute is never silent for long: the whole exchange has one deadline.
    rest = max(0.01, settings.deadline_seconds - (time.monotonic() - started))
    watchdog = threading.Timer(rest, _shut, [connection.sock])
    watchdog.daemon = True
    watchdog.start()
    try:
        sent = {"User-Agent": "evertick", "Connection": "close", **headers}
        if body is not None:
            sent.setdefault("Content-Type", "application/json; charset=utf-8")
        path = (target.parts.path or "/") + (f"?{target.parts.query}" if target.parts.query else "")
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        response.read(ANSWER_MAX)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Outcome(False, f"{masked(url)}: {_reason(error)}", may_retry=not isinstance(error, ValueError))
    finally:
        watchdog.cancel()
        connection.close()
    status = f"{masked(url)} answered {response.status}"
    if 200 <= response.status <= 299:
        return Outcome(True, status)
    if 300 <= response.status <= 399:
        return Outcome(False, f"{status}: redirects are not followed. Use the URL that it redirects to.")
    return Outcome(False, status, may_retry=response.status >= 500 or response.status in TRY_AGAIN)


def _shut(sock: socket.socket | None) -> None:
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _reason(error: BaseException) -> str:
    """The kind of error; its text could contain an address or a header."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def mail_of(message: Message, to: tuple[str, ...], sender: str) -> EmailMessage:
    mail = EmailMessage()
    # A line break in a subject would let the author of a job add a header.
    mail["Subject"] = " ".join(_encodable(f"[evertick] {message.text}").split())[:SUBJECT_MAX]
    mail["From"] = sender
    mail["To"] = ", ".join(to)
    mail["Date"] = formatdate()
    mail["Message-ID"] = make_msgid(delivery_id(message)[:12], "evertick.invalid")
    mail["Auto-Submitted"] = "auto-generated"
    about = [f"Job: {message.job_id}", f"Run: {message.run_id}"] if message.job_id else []
    lines = [text_of(message), "", *about, f"At: {to_text(message.at)}"]
    if message.detail:
        lines += ["", message.detail[:DETAIL_MAX]]
    mail.set_content(_encodable("\n".join(lines)))
    return mail


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _mail(message: Message, to: tuple[str, ...], settings: NotifySettings) -> Outcome:
    server = settings.smtp
    if server is None:
        return Outcome(False, "no SMTP server is configured. Set notifications.smtp.host.")
    if server.password and server.tls is Tls.NONE:
        return Outcome(False, f"the password for {server.host} would be sent unencrypted. Set notifications.smtp.tls.")
    try:
        refused = _send(mail_of(message, to, server.sender), to, server, settings.deadline_seconds)
    except smtplib.SMTPResponseException as error:
        may_retry = 400 <= error.smtp_code < 500
        return Outcome(False, f"{server.host} answered {error.smtp_code}", may_retry)
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _text in error.recipients.values()]
        return Outcome(False, f"{server.host} refused every recipient", any(400 <= code < 500 for code in codes))
    except (OSError, smtplib.SMTPException, ssl.SSLError) as error:
        may_retry = not isinstance(error, smtplib.SMTPNotSupportedError)
        return Outcome(False, f"{server.host}: {_reason(error)}", may_retry)
    except ValueError as error:
        return Outcome(False, f"the mail could not be written: {type(error).__name__}")
    if refused:
        return Outcome(True, f"{server.host} accepted it, but not for {', '.join(refused)}")
    return Outcome(True, f"{server.host} accepted it")


def _send(mail: EmailMessage, to: tuple[str, ...], server: SmtpServer, timeout: float) -> dict[str, object]:
    context = ssl.create_default_context()
    if server.tls is Tls.IMPLICIT:
        session: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=timeout, context=context)
    else:
        session = smtplib.SMTP(server.host, server.port, timeout=timeout)
    with session:
        if server.tls is Tls.STARTTLS:
            session.starttls(context=context)
        if server.user:
            session.login(server.user, server.password)
        return dict(session.send_message(mail, server.sender, list(to)))
