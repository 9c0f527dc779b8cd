"""A job with notification routes, events of its runs, and receivers on this machine."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from evertick.dispatch.notify.rules import Message, RunChange, Subject
from evertick.model.instant import MINUTE, SECOND
from evertick.model.lifecycle import SKIPPED, RunState, SkipReason
from evertick.model.notify import Mail, NotifyEvent, Route, Webhook
from evertick.model.run import RunKey

NOON = 1_800_000_000 * SECOND
HOOK = Webhook("https://example.org/hook/secret-token")


def subject(*events: NotifyEvent, **known: Any) -> Subject:
    """A job that tells about these events; about all of them when none is named."""
    routes = tuple(Route(event, (HOOK,)) for event in events or NotifyEvent)
    return Subject("report", "Daily report", routes, **known)


def ended(state: RunState, minute: int = 0, **known: Any) -> RunChange:
    at = NOON + minute * MINUTE
    return RunChange(RunKey("report", at), state, at + SECOND, **known)


def skipped(reason: SkipReason, minute: int = 0, **known: Any) -> RunChange:
    at = NOON + minute * MINUTE
    return RunChange(RunKey("report", at), SKIPPED, at, reason, **known)


def message(number: int = 0, *channels: Webhook | Mail, text: str = "It failed.", detail: str = "") -> Message:
    key = RunKey("report", NOON + number * SECOND)
    return Message(
        f"{key.run_id}/on_failure/failed",
        NotifyEvent.FAILURE,
        "report",
        "Daily report",
        key.run_id,
        key.scheduled_for,
        NOON,
        text,
        detail,
        channels or (HOOK,),
    )


class Receiver:
    """An HTTP server that keeps what it was told and answers with the statuses it is given, the last one for ever."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses or [200])
        self.told: list[tuple[str, str, dict[str, str], bytes]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.is_called = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                receiver.told.append((self.command, self.path, dict(self.headers), body))
                receiver.is_called.set()
                receiver.may_answer.wait(10)
                status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
                with contextlib.suppress(ConnectionError):
                    self.send_response(status)
                    self.send_header("Location", receiver.url + "elsewhere")
                    self.end_headers()

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook/secret-token"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.may_answer.set()
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def receiver(*statuses: int) -> Iterator[Receiver]:
    one = Receiver(*statuses)
    try:
        yield one
    finally:
        one.close()
