"""Does `evertick serve` start the API, in a process or a thread, and does it recover when processes are killed?"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from evertick.api.__main__ import NICENESS
from tests.cli.invoke import completed

pytestmark = pytest.mark.slow

JOB = 'schedule: {every: 1s}\nsteps:\n- {name: say, command: "echo hello"}\n'
LIMIT_SECONDS = 180


class Serving:
    """A scheduler with its API, as somebody would start it."""

    def __init__(self, folder, *options, files=None):
        """`files` is how many of them each of its processes may have open."""
        self.folder = folder
        self.log = folder / "serve.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "evertick", "serve", str(folder), "--port", "0", *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=files and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))),
            )

    def link(self):
        """What the first start shows, once."""
        found = until(lambda: re.search(r"(http://127\.0\.0\.1:\d+)/#token=(\S+)", self.log.read_text()))
        return found[1], found[2]

    def ask(self, path, method="GET", token=None, body=None, **headers):
        place = json.loads((self.folder / ".evertick" / "server.json").read_text())["url"]
        token = token or (self.folder / ".evertick" / "token").read_text().strip()
        connection = http.client.HTTPConnection(place.removeprefix("http://"), timeout=LIMIT_SECONDS)
        with contextlib.closing(connection):
            sent = {"authorization": f"Bearer {token}", "content-type": "application/json", **headers}
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else text

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def until(look):
    """The first answer that is true; a failure when there is none for long."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, KeyError):
            if found := look():
                return found
        time.sleep(0.05)
    raise AssertionError("it did not come about")


@pytest.fixture
def serve(tmp_path):
    started = []

    def serve(*options, **known):
        (tmp_path / "hello.yaml").write_text(JOB)
        started.append(Serving(tmp_path, *options, **known))
        return started[-1]

    yield serve
    for one in started:
        one.stop()


@pytest.mark.parametrize("kind", ["sqlite", "files", "memory"])
def test_serve_brings_the_api_along(serve, tmp_path, kind):
    stores = {"sqlite": (), "files": ("--store", f"files://{tmp_path}/ledger"), "memory": ("--store", "memory:")}
    serving = serve(*stores[kind], "--patience", "1")
    _, token = serving.link()
    assert serving.ask("/api/v1/session", token=token)[1]["role"] == "admin"
    assert until(lambda: serving.ask("/readyz")[0] == 200)
    until(lambda: serving.ask("/api/v1/runs?state=succeeded")[1]["items"])
    status, asked = serving.ask("/api/v1/jobs/hello/trigger?wait=30", "POST", body={})
    assert (status, asked["is_answered"]) == (200, True)
    run = until(lambda: (found := serving.ask(f"/api/v1/runs/{quote(asked['run'])}")[1])["can_retry"] and found)
    assert run["trigger"] == "api"
    assert serving.ask(f"/api/v1/runs/{quote(asked['run'])}/logs/1/say")[1]["text"] == "hello\n"
    status, paused = serving.ask("/api/v1/jobs/hello/pause?wait=30", "POST", body={"note": "enough"})
    assert (status, paused["is_answered"]) == (200, True)
    assert until(lambda: serving.ask("/api/v1/jobs/hello")[1]["pause_note"] == "enough")
    serving.stop()
    assert serving.process.returncode == 0
    assert not (tmp_path / ".evertick" / "server.json").exists()


def test_a_hanging_keeper_is_reported_and_replaced_and_its_jobs_continue(serve, tmp_path):
    (tmp_path / "evertick.toml").write_text('[local]\nkeeper_timeout = "12s"\n')
    serving = serve("--patience", "1")
    until(lambda: serving.ask("/api/v1/runs?state=succeeded")[1]["items"])
    lock = tmp_path / ".evertick" / "keeper-0" / "keeper.lock"
    keeper = lock.read_text()
    os.kill(int(keeper), signal.SIGSTOP)
    _, told = until(lambda: (found := serving.ask("/readyz"))[0] == 503 and found)
    assert "keepers that do not respond" in told["reasons"][0]
    until(lambda: lock.read_text() != keeper and serving.ask("/readyz")[0] == 200)
    before = len(serving.ask("/api/v1/runs?state=succeeded&limit=500")[1]["items"])
    until(lambda: len(serving.ask("/api/v1/runs?state=succeeded&limit=500")[1]["items"]) > before + 2)
    assert b"evertick_keepers_replaced_total 1.0" in serving.ask("/metrics")[1]
    assert f"keeper.not_answering folder={lock.parent} pid={keeper}" in serving.log.read_text()
    serving.stop()
    verified = completed("verify", "--folder", str(tmp_path))
    assert verified.returncode == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_scheduler_and_a_keeper_without_descriptors_continue_when_there_are_some_again(
    serve, tmp_path, kind, request
):
    url = request.getfixturevalue("fresh_postgres")() if kind == "postgres" else ""
    serving = serve("--patience", "1", *(("--store", url) if url else ()))
    until(lambda: serving.ask("/api/v1/runs?state=succeeded")[1]["items"])
    keeper = int((tmp_path / ".evertick" / "keeper-0" / "keeper.lock").read_text())
    before = {pid: resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in (serving.process.pid, keeper)}
    for pid, (_, hard) in before.items():
        used = max(int(name) for name in os.listdir(f"/proc/{pid}/fd")) + 1
        # What the scheduler has stays open; with a server none of its connections can be replaced.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3 if url and pid != keeper else used, hard))
    if url:
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        until(lambda: "store.away" in serving.log.read_text())
    until(lambda: "Too many open files" in serving.log.read_text())
    for pid, limits in before.items():
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    known = until(lambda: len(serving.ask("/api/v1/runs?state=succeeded&limit=500")[1]["items"]))
    until(lambda: len(serving.ask("/api/v1/runs?state=succeeded&limit=500")[1]["items"]) > known + 2)
    assert serving.ask("/api/v1/runs?state=lost&limit=500")[1]["items"] == []
    assert serving.process.poll() is None
    assert int((tmp_path / ".evertick" / "keeper-0" / "keeper.lock").read_text()) == keeper
    serving.stop()
    store = ("--store", url) if url else ()
    verified = completed("verify", "--folder", str(tmp_path), *store)
    assert verified.returncode == 0


EVENTS = "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n"


@pytest.mark.parametrize("sends", [pytest.param("", id="idle ones"), pytest.param(EVENTS, id="answers without an end")])
def test_connections_leave_descriptors_to_a_scheduler_of_the_same_process(serve, tmp_path, sends):
    serving = serve("--store", "memory:", "--patience", "1", files=160)
    url, token = serving.link()
    until(lambda: serving.ask("/api/v1/runs?state=succeeded")[1]["items"])
    host, port = url.removeprefix("http://").split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            one = stack.enter_context(socket.create_connection((host, int(port)), timeout=LIMIT_SECONDS))
            with contextlib.suppress(OSError):
                one.sendall(sends.format(token).encode())

        def is_answered() -> bool:
            try:
                return serving.ask("/healthz")[0] == 200
            except ConnectionError:
                return False

        # While a slow machine still takes in the last of them, there may be no room for a probe.
        until(is_answered)
        assert [serving.ask("/healthz")[0] for _ in range(5)] == [200] * 5
        (tmp_path / "later.yaml").write_text(JOB.replace("echo hello", f"touch {tmp_path}/began"))
        until((tmp_path / "began").exists)
    until(lambda: serving.ask("/api/v1/jobs/later")[0] == 200)
    assert "Too many open files" not in serving.log.read_text()


def test_events_are_reported_as_they_happen(serve):
    serving = serve()
    serving.link()
    until(lambda: serving.ask("/readyz")[0] == 200)
    place = json.loads((serving.folder / ".evertick" / "server.json").read_text())["url"]
    token = (serving.folder / ".evertick" / "token").read_text().strip()
    connection = http.client.HTTPConnection(place.removeprefix("http://"), timeout=LIMIT_SECONDS)
    connection.request("GET", "/api/v1/events", headers={"authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    told: list[Any] = []
    while len({one.get("state") for one in told} & {"running", "succeeded"}) < 2:
        line = answer.readline()
        if line.startswith(b"data: "):
            told.append(json.loads(line[6:]))
    connection.close()
    assert {one["job"] for one in told if "job" in one} == {"hello"}


def test_a_killed_api_affects_no_job_and_is_restarted(serve):
    serving = serve()
    serving.link()
    before = until(lambda: serving.ask("/api/v1/status")[1]["status"]["web"]["pid"])
    os.kill(before, signal.SIGKILL)
    after = until(
        lambda: (pid := serving.ask("/api/v1/status")[1]["status"]["web"]["pid"]) not in (None, before) and pid
    )
    assert after != before
    own = os.getpriority(os.PRIO_PROCESS, 0)  # of the tests, which may have been started with nice
    assert os.getpriority(os.PRIO_PROCESS, after) == min(own + NICENESS, 19), "it serves behind the scheduler"
    # The token is the same, and every second of the outage has its run.
    status, found = serving.ask("/api/v1/ledger/verify")
    assert (status, found["is_sound"]) == (200, True)
    assert "#token" not in serving.log.read_text().partition("#token")[2]


def test_when_the_scheduler_is_killed_the_api_goes_too(serve):
    serving = serve()
    serving.link()
    pid = until(lambda: serving.ask("/api/v1/status")[1]["status"]["web"]["pid"])
    os.kill(serving.process.pid, signal.SIGKILL)

    def is_gone():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    assert until(is_gone)


def test_a_port_that_is_taken_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "evertick.api", str(tmp_path), "--port", port],
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    assert (done.returncode, "choose another --port" in done.stderr) == (1, True)


def test_a_server_alone_uses_the_ledger_of_the_settings(tmp_path):
    """As it does beside a scheduler, which names the place."""
    import socket

    jobs, state = tmp_path / "jobs", tmp_path / "elsewhere"
    jobs.mkdir()
    state.mkdir(mode=0o700)
    (jobs / "evertick.toml").write_text(f'state = "{state}"\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that it ends by itself
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "evertick.api", str(jobs), "--port", port]
        subprocess.run(command, capture_output=True, timeout=LIMIT_SECONDS, check=False)
    assert (state / "ledger.db").exists()
    assert not (jobs / ".evertick").exists()


def test_nothing_listens_elsewhere_in_the_clear(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "evertick.api", str(tmp_path), "--host", "0.0.0.0"],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert "tls_cert" in done.stderr
