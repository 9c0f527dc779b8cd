"""A deadline on a real scheduler: reported once, to the channel of the job, across restarts."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evertick.model.instant import SECOND, to_text
from evertick.settings import Settings
from tests.serving.served import PATIENCE_SECONDS, Served

pytestmark = pytest.mark.slow


@pytest.fixture
def pager():
    """A receiver of webhooks: its address, and `wait(count)` for what it was sent."""
    told: list[dict[str, object]] = []
    happened = threading.Condition()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with happened:
                told.append(json.loads(body))
                happened.notify_all()
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    def wait(jobs: set[str]) -> list[str]:
        with happened:
            heard = happened.wait_for(lambda: jobs <= {str(one["job"]) for one in told}, PATIENCE_SECONDS)
            assert heard, f"only {told} was told"
            return [f"{one['event']} {one['job']}" for one in told]

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", wait
    server.shutdown()
    server.server_close()


def test_a_deadline_that_passes_calls_the_webhook_once_also_across_a_restart(tmp_path, pager):
    url, wait = pager
    settings = Settings.load(tmp_path, {}, {"notifications.allowed": "127.0.0.1"})

    def write(name: str) -> None:
        # An occurrence from before the scheduler knew its job has no deadline: it must have read the file by then.
        due = to_text(time.time_ns() // 1_000 + 6 * SECOND)
        lines = (f"schedule: {{at: '{due}'}}", "expectWithin: 1s", "command: 'false'")
        notify = f"notify: {{on_deadline_missed: {url}}}"
        (tmp_path / f"{name}.yaml").write_text("\n".join((*lines, notify, "")))

    served = Served(tmp_path, settings)
    try:
        write("first")
        assert wait({"first"}) == ["on_deadline_missed first"]
    finally:
        served.stop()
    served = Served(tmp_path, settings)
    try:
        write("second")
        assert wait({"second"}) == ["on_deadline_missed first", "on_deadline_missed second"]
    finally:
        served.stop()
