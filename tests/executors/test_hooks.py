"""Are the hooks called on which a run depends, and do their answers decide?"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from evertick.model.instant import SECOND, to_text
from evertick.model.lifecycle import CANCELLED, FAILED, SKIPPED, SUCCEEDED, TIMED_OUT
from evertick.model.work import Handlers, Secret
from tests.executors.contract import KEY
from tests.executors.local_runs import job_of, launch, sh


class GateServer(ThreadingHTTPServer):
    asked: list[tuple[str, dict[str, str]]]
    gate: threading.Event
    has_been_asked: threading.Event
    url: str


class Gatekeeper(BaseHTTPRequestHandler):
    server: GateServer

    """Answers with the status that the path names; `/wait` only when it is let."""

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        self.server.has_been_asked.set()
        if self.path == "/wait":
            self.server.gate.wait(60)
        word = self.path[1:].partition("?")[0]
        self.send_response(int(word) if word.isdigit() else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_) -> None:
        """Nothing: pytest has enough to say."""


@pytest.fixture
def gate():
    server = GateServer(("127.0.0.1", 0), Gatekeeper)
    server.daemon_threads = True
    server.asked, server.gate, server.has_been_asked = [], threading.Event(), threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.gate.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_run_starts_when_its_hook_agrees_and_the_call_names_the_run(place, gate):
    assert place.run(job_of(sh("true"), pre_run_hooks=(f"{gate.url}/200",))).state == SUCCEEDED
    ((_, headers),) = gate.asked
    assert (headers["Evertick-Job"], headers["Evertick-Run"], headers["Evertick-Attempt"]) == (
        "report",
        KEY.run_id,
        "1",
    )


def test_the_address_of_a_hook_may_hold_the_date(place, gate):
    hooks = (f"{gate.url}/200?due={{{{ scheduled_for }}}}",)
    assert place.run(job_of(sh("true"), pre_run_hooks=hooks, post_run_hooks=hooks)).state == SUCCEEDED
    due = to_text(KEY.scheduled_for).replace(":", "%3A")
    assert [path for path, _ in gate.asked] == [f"/200?due={due}"] * 2


@pytest.mark.parametrize("status", [204, 403, 503])
def test_a_run_is_skipped_when_the_hook_before_it_does_not_answer_with_200(place, gate, tmp_path, status):
    job = job_of(sh(f"touch {tmp_path}/ran"), pre_run_hooks=(f"{gate.url}/{status}",))
    end = place.run(job)
    assert (end.state, end.broken) == (SKIPPED, "preRunHook")
    assert f"answered {status}" in end.detail
    assert not (tmp_path / "ran").exists()


def test_a_hook_that_cannot_be_reached_does_not_agree(place):
    end = place.run(job_of(sh("true"), pre_run_hooks=("http://127.0.0.1:1/",)))
    assert (end.state, end.broken) == (SKIPPED, "preRunHook")


def test_a_run_counts_when_the_hook_behind_it_agrees(place, gate):
    assert place.run(job_of(sh("true"), post_run_hooks=(f"{gate.url}/200",))).state == SUCCEEDED
    ((_, headers),) = gate.asked
    assert headers["Evertick-State"] == "succeeded"


def test_a_run_fails_when_the_hook_behind_it_does_not_and_its_handlers_know(place, gate, tmp_path):
    handlers = Handlers(
        on_success=sh(f"touch {tmp_path}/glad", "glad"), on_failure=sh(f"touch {tmp_path}/sorry", "sorry")
    )
    end = place.run(job_of(sh("true"), post_run_hooks=(f"{gate.url}/500",), handlers=handlers))
    assert (end.state, end.exit_code, end.broken) == (FAILED, 0, "postRunHook")
    assert [path.name for path in tmp_path.glob("*[dy]")] == ["sorry"]


def test_the_hook_behind_a_failed_run_is_not_asked(place, gate):
    end = place.run(job_of(sh("exit 3"), post_run_hooks=(f"{gate.url}/500",)))
    assert (end.state, end.exit_code, end.broken, gate.asked) == (FAILED, 3, "", [])


def test_the_address_of_a_hook_may_be_secret_and_is_not_reported(place, gate):
    place.open(environ={"PATH": "/usr/bin:/bin", "HOOK": f"{gate.url}/503?token=hush"})
    end = place.run(job_of(sh("true"), pre_run_hooks=(Secret("env", "HOOK"),)))
    assert (end.state, "hush" in end.detail) == (SKIPPED, False)
    assert gate.asked[0][0] == "/503?token=hush"


@pytest.mark.parametrize("when", ["pre_run_hooks", "post_run_hooks"])
@pytest.mark.parametrize("how", [CANCELLED, TIMED_OUT])
def test_a_run_that_waits_for_a_hook_can_be_ended(place, gate, when, how):
    executor = place.open()
    hooks: dict[str, Any] = {when: (f"{gate.url}/wait",)}
    executor.launch(launch(job_of(sh("true"), timeout_us=SECOND if how is TIMED_OUT else None, **hooks)))
    assert gate.has_been_asked.wait(60)
    if how is CANCELLED:
        executor.stop(KEY, 1, "enough")
    assert place.end_of(KEY).state == how
