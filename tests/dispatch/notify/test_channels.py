"""How one message is delivered, once, to real sockets on this machine."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading

import pytest

from evertick.dispatch.notify.channels import (
    SIGNATURE_HEADER,
    deliver,
    mail_of,
    ping,
    receiver_of,
    signature,
    slack_text,
)
from evertick.dispatch.notify.config import NotifySettings, SmtpServer, Tls
from evertick.dispatch.notify.egress import EgressGuard
from evertick.model.notify import Mail, Slack, Webhook
from evertick.model.work import Secret
from tests.dispatch.notify.mail_server import MailServer
from tests.dispatch.notify.notices import message, receiver

SETTINGS = NotifySettings(connect_seconds=5, deadline_seconds=5)
HERE = EgressGuard.allowing(["127.0.0.0/8"])


def send(channel, settings=SETTINGS, guard=HERE, what=None, environ=None):
    return deliver(what or message(detail="exit 3"), channel, settings, guard, environ or {})


def test_a_webhook_receives_everything_as_json():
    with receiver() as here:
        outcome = send(Webhook(here.url, (("Authorization", "Bearer x"),)))
    assert outcome.is_delivered
    method, path, headers, body = here.told[0]
    assert (method, path, headers["Authorization"]) == ("POST", "/hook/secret-token", "Bearer x")
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    told = json.loads(body)
    assert told == {
        "id": headers["X-Evertick-Delivery"],
        "event": "on_failure",
        "job": "report",
        "name": "Daily report",
        "run": "report@2027-01-15T08:00:00Z",
        "scheduledFor": "2027-01-15T08:00:00Z",
        "at": "2027-01-15T08:00:00Z",
        "text": "It failed.",
        "detail": "exit 3",
        "folded": 0,
    }


def test_without_leave_this_machine_is_not_called():
    with receiver() as here:
        outcome = send(Webhook(here.url), guard=EgressGuard.allowing())
        assert here.told == []
    assert (outcome.is_delivered, outcome.may_retry) == (False, False)
    assert "127.0.0.1, which is not a public address" in outcome.detail
    assert "secret-token" not in outcome.detail


def test_a_webhook_is_signed_where_a_key_is_set():
    with receiver() as here:
        send(Webhook(here.url), NotifySettings(signing_key="key"))
        send(Webhook(here.url))
    _, _, headers, body = here.told[0]
    at, _, signed = headers[SIGNATURE_HEADER].removeprefix("t=").partition(",v1=")
    assert signed == hmac.new(b"key", at.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert SIGNATURE_HEADER not in here.told[1][2]


def test_a_signature_is_of_the_time_and_the_body():
    assert signature("k", b"a", 1) != signature("k", b"a", 2)
    assert signature("k", b"a", 1) != signature("k", b"b", 1)


def test_a_secret_address_is_looked_up_when_it_is_needed(tmp_path):
    with receiver() as here:
        (tmp_path / "url").write_text(f"{here.url}\n")
        headers = (("X-Key", Secret("env", "KEY")),)
        assert send(Webhook(Secret("file", str(tmp_path / "url")), headers), environ={"KEY": "v"}).is_delivered
        assert send(Slack(Secret("env", "HOOK")), environ={"HOOK": here.url}).is_delivered
    assert here.told[0][2]["X-Key"] == "v"


@pytest.mark.parametrize("secret", [Secret("env", "NO_HOOK"), Secret("file", "/no/such/file")])
def test_a_missing_secret_is_not_retried(secret):
    outcome = send(Webhook(secret))
    assert not outcome.may_retry
    assert secret.name in outcome.detail


def test_slack_receives_a_text_in_which_nothing_is_a_mention():
    with receiver() as here:
        assert send(Slack(here.url), what=message(text="<!channel> & co", detail="a > b")).is_delivered
    assert json.loads(here.told[0][3]) == {"text": "&lt;!channel&gt; &amp; co\na &gt; b"}


def test_suppressed_events_are_counted_in_the_message():
    assert slack_text(message()._replace(folded=4)) == "It failed. 4 more events of this kind since the last message."


@pytest.mark.parametrize(
    ("status", "is_delivered", "may_retry"),
    [
        pytest.param(204, True, False, id="204"),
        pytest.param(302, False, False, id="a redirect is not followed"),
        pytest.param(400, False, False, id="400 will stay 400"),
        pytest.param(410, False, False, id="410"),
        pytest.param(408, False, True, id="408 may pass"),
        pytest.param(429, False, True, id="429 may pass"),
        pytest.param(500, False, True, id="500 may pass"),
        pytest.param(503, False, True, id="503 may pass"),
    ],
)
def test_an_answer(status, is_delivered, may_retry):
    with receiver(status) as here:
        outcome = send(Webhook(here.url))
    assert (outcome.is_delivered, outcome.may_retry) == (is_delivered, may_retry)
    assert len(here.told) == 1
    assert "secret-token" not in outcome.detail


def test_a_receiver_that_is_away_may_come_back():
    with receiver() as here:
        pass
    outcome = send(Webhook(here.url))
    assert (outcome.is_delivered, outcome.may_retry) == (False, True)
    assert outcome.detail == f"http://127.0.0.1:{here.port}/***: Connection refused"


def test_a_receiver_that_drips_is_given_up_at_the_deadline():
    listener = socket.create_server(("127.0.0.1", 0))
    is_over = threading.Event()

    def drip():
        connection, _ = listener.accept()
        with connection:
            try:
                while not is_over.wait(0.01):
                    connection.sendall(b"H")
            except OSError:
                pass

    thread = threading.Thread(target=drip)
    thread.start()
    outcome = send(Webhook(f"http://127.0.0.1:{listener.getsockname()[1]}/"), NotifySettings(deadline_seconds=0.2))
    is_over.set()
    thread.join(5)
    listener.close()
    assert (outcome.is_delivered, outcome.may_retry) == (False, True)


def test_a_header_that_breaks_the_line_is_refused_and_not_shown():
    with receiver() as here:
        outcome = send(Webhook(here.url, (("X-Key", Secret("env", "KEY")),)), environ={"KEY": "a\r\nX-Evil: secret"})
        assert here.told == []
    assert (outcome.is_delivered, outcome.may_retry) == (False, False)
    assert "secret" not in outcome.detail.replace("/***", "")


def test_a_webhook_over_tls(tls_receiver):
    guard = EgressGuard.allowing(["localhost"])
    assert send(Webhook(f"https://localhost:{tls_receiver}/x"), guard=guard).is_delivered


def test_a_ping_is_a_get():
    with receiver() as here:
        assert ping(here.url, SETTINGS, HERE).is_delivered
    assert here.told[0][:2] == ("GET", "/hook/secret-token")


def test_the_receiver_of_a_channel_is_shown_without_secrets():
    assert receiver_of(Webhook("https://example.org/token")) == "https://example.org/***"
    assert receiver_of(Slack(Secret("env", "HOOK"))) == "secret env HOOK"
    assert receiver_of(Mail(("a@b.c", "d@e.f"))) == "mail to a@b.c, d@e.f"


# --- mail


TO = ("ops@example.org", "dev@example.org")


def mail_settings(office, **known):
    return NotifySettings(smtp=SmtpServer("localhost", office.port, **{"tls": Tls.NONE, **known}), deadline_seconds=5)


def test_a_mail_reaches_the_server():
    with MailServer() as office:
        outcome = send(Mail(TO), mail_settings(office))
    assert outcome.is_delivered
    assert [line for line in office.commands if line.startswith("rcpt")] == [f"rcpt TO:<{one}>" for one in TO]
    assert "Subject: [evertick] It failed." in office.mails[0]
    assert "exit 3" in office.mails[0]


def test_a_mail_goes_through_tls_with_a_password(server_context):
    with MailServer(server_context) as office:
        outcome = send(Mail(TO), mail_settings(office, tls=Tls.STARTTLS, user="me", password="pw"))
    assert outcome.is_delivered, outcome
    assert office.commands[1] == "STARTTLS"
    assert any(line.startswith("AUTH PLAIN") for line in office.commands)


def test_a_server_that_offers_no_tls_gets_neither_password_nor_mail():
    with MailServer() as office:
        outcome = send(Mail(TO), mail_settings(office, tls=Tls.STARTTLS, user="me", password="pw"))
    assert (outcome.is_delivered, outcome.may_retry) == (False, False)
    assert office.mails == []
    assert not any(line.startswith("AUTH") for line in office.commands)


def test_a_password_is_never_sent_in_the_clear():
    with MailServer() as office:
        outcome = send(Mail(TO), mail_settings(office, user="me", password="pw"))
    assert "unencrypted" in outcome.detail
    assert office.commands == []


@pytest.mark.parametrize(
    ("answers", "may_retry"),
    [
        pytest.param({"MAIL": "451 later"}, True, id="later"),
        pytest.param({"MAIL": "550 never"}, False, id="never"),
        pytest.param({"RCPT": "450 busy"}, True, id="every recipient later"),
        pytest.param({"RCPT": "550 unknown"}, False, id="every recipient never"),
    ],
)
def test_a_server_that_refuses(answers, may_retry):
    with MailServer(answers=answers) as office:
        outcome = send(Mail(TO), mail_settings(office))
    assert (outcome.is_delivered, outcome.may_retry) == (False, may_retry)


def test_a_server_that_is_away_may_come_back():
    with MailServer() as office:
        pass
    assert send(Mail(TO), mail_settings(office)).may_retry


def test_without_a_server_no_mail_is_tried():
    outcome = send(Mail(TO))
    assert (outcome.is_delivered, outcome.may_retry) == (False, False)
    assert "no SMTP server" in outcome.detail


def test_a_line_break_in_a_message_begins_no_header():
    mail = mail_of(message(text="It failed\r\nBcc: evil@example.org"), TO, "me@example.org")
    assert mail["Subject"] == "[evertick] It failed Bcc: evil@example.org"
    assert mail["Bcc"] is None


def test_letters_that_no_encoding_has_do_not_stop_a_message():
    with receiver() as here:
        assert send(Webhook(here.url), what=message(text="\ud800")).is_delivered
    with MailServer() as office:
        assert send(Mail(TO), mail_settings(office), what=message(text="\ud800 é", detail="\udcff")).is_delivered
