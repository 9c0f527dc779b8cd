"""`evertick serve` as a process: how it starts, what it answers, and what happens to runs when it stops."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from evertick.model.plain_json import object_in, whole_in
from evertick.operations.context import scheduler_at
from evertick.settings import Settings
from tests.cli.invoke import completed

pytestmark = pytest.mark.slow

PATIENCE = 180.0
OFTEN = "schedule: {every: 1s, missedExecution: skip}\ncommand: 'true'\n"


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, what
        pause.wait(0.05)


class Serve:
    """A `serve` in the background; what it says is kept."""

    def __init__(self, folder: Path, *options: str, **environ: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EVERTICK")}
        self.folder = folder
        self.env = {**kept, "EVERTICK_TIMEZONE": "UTC", "EVERTICK_WEB": "false", **environ}
        command = [sys.executable, "-m", "evertick", "serve", str(folder), "--node", "a1", *options]
        self.file = folder.parent / f"{folder.name}-said-{time.monotonic_ns()}"
        with self.file.open("wb") as said:
            self.process = subprocess.Popen(command, stderr=said, stdin=subprocess.DEVNULL, env=self.env)
        self.live = scheduler_at(Settings().state_folder(folder))

    @property
    def said(self) -> str:
        return self.file.read_text()

    def __enter__(self) -> Serve:
        wait_for(lambda: "Ctrl-C to stop" in self.said or self.process.poll() is not None, "it did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def run(self, *arguments: str) -> str:
        ended = completed(*arguments, "--folder", str(self.folder), EVERTICK_TIMEZONE="UTC")
        assert ended.returncode == 0, ended.stderr
        return ended.stdout


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "jobs").mkdir()
    return tmp_path / "jobs"


def last_line(serve: Serve) -> str:
    """The one run of `long`, as the ledger has it."""
    return serve.run("history", "long", "-o", "csv").splitlines()[1]


def start_long(serve: Serve) -> None:
    serve.run("trigger", "long")
    wait_for(lambda: object_in(serve.live.status() or {}, "runs").get("running") == 1, "the run did not start")


class TestStopping:
    @pytest.fixture
    def long(self, folder) -> Path:
        (folder / "long.yaml").write_text("command: exec sleep 600\nretryPolicy: {maxRetries: 0}\n")
        return folder

    def test_runs_are_left_and_found_again(self, long):
        with Serve(long, "--patience", "0") as serve:
            start_long(serve)
            serve.process.send_signal(signal.SIGTERM)
            assert serve.end() == 0
        with Serve(long, "--patience", "0", "--stop-runs", "end") as again:
            wait_for(lambda: object_in(again.live.status() or {}, "runs").get("running") == 1, "it was not found again")
            again.process.send_signal(signal.SIGTERM)
            assert again.end() == 0
        assert "cancelled" in last_line(again)

    def test_runs_are_ended_when_patience_is_over(self, long):
        with Serve(long, "--patience", "0.2", "--stop-runs", "end") as serve:
            start_long(serve)
            serve.process.send_signal(signal.SIGINT)
            assert serve.end() == 0
            assert "Ctrl-C again to cancel active runs" in serve.said
        assert "cancelled" in last_line(serve)
        assert "the scheduler stopped" in last_line(serve)

    def test_a_second_signal_does_not_wait(self, long):
        with Serve(long, "--patience", "3600", EVERTICK_STOP_RUNS="end") as serve:
            start_long(serve)
            serve.process.send_signal(signal.SIGINT)
            wait_for(lambda: bool((serve.live.status() or {}).get("is_stopping")), "it does not stop")
            assert serve.process.poll() is None
            serve.process.send_signal(signal.SIGINT)
            assert serve.end() == 0
        assert "cancelled" in last_line(serve)


class TestAnswering:
    def test_serve_tells_its_status_and_its_events_and_again_after_a_kill(self, folder):
        (folder / "often.yaml").write_text(OFTEN)
        with Serve(folder) as serve:
            events = serve.live.events(after=0)
            head = next(events)
            # By run: on a slow machine occurrences before it may be skipped, or run beside it.
            states: dict[str, list[str]] = {}
            while not any("succeeded" in one for one in states.values()):
                told = next(events)
                if told.get("kind") == "run":
                    states.setdefault(told["run"], []).append(told["state"])
            (whole,) = (one for one in states.values() if "succeeded" in one)
            assert (whole[0], whole[-1]) == ("launching", "succeeded")
            status = serve.live.status()
            assert status is not None
            assert (status["node"], object_in(status, "jobs")["owned"]) == ("a1", 1)
            assert (whole_in(object_in(status, "lateness_seconds"), "count") or 0) >= 1
            serve.process.kill()
            serve.end()
            assert not [told for told in events if told.get("kind") == "dropped"]
        assert (folder / ".evertick" / "control.sock").exists()
        assert serve.live.status() is None
        with Serve(folder) as again:
            assert next(again.live.events(after=3, feed=head["feed"]))["is_continued"] is False

    def test_a_loop_that_is_stopped_by_force_is_seen_to_hang_and_the_socket_is_not(self, folder):
        # A process that is stopped as a whole answers nothing; that is what the client's limit is for.
        (folder / "often.yaml").write_text(OFTEN)
        with Serve(folder) as serve:
            wait_for(lambda: serve.live.status() is not None, "it does not answer")
            serve.process.send_signal(signal.SIGSTOP)
            wait_for(lambda: _is_stopped(serve.process.pid), "it was not stopped")
            serve.live._timeout = 0.2
            assert serve.live.status() is None
            serve.process.send_signal(signal.SIGCONT)
            serve.live._timeout = PATIENCE
            assert serve.live.status() is not None

    def test_a_service_manager_is_notified_of_readiness_and_that_the_loop_turns(self, folder, tmp_path):
        (folder / "often.yaml").write_text(OFTEN)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(tmp_path / "notify"))
            manager.settimeout(PATIENCE)
            environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000"}
            with Serve(folder, "--patience", "0", **environ) as serve:
                assert manager.recv(4096).decode().split("\n")[0] == "READY=1"
                assert scheduler_at(Settings().state_folder(folder)).status() is not None
                assert [manager.recv(4096) for _ in range(2)] == [b"WATCHDOG=1", b"WATCHDOG=1"]
                serve.process.send_signal(signal.SIGTERM)
                while manager.recv(4096) != b"STOPPING=1":
                    pass
                assert serve.end() == 0


def test_the_state_may_be_elsewhere_and_the_folder_points_to_it(folder, tmp_path):
    (folder / "often.yaml").write_text(OFTEN)
    (folder / "evertick.toml").write_text('state = "../state"\n')
    with Serve(folder, "--patience", "0") as serve:
        wait_for(lambda: "succeeded" in serve.said, "nothing ran")
        assert scheduler_at(Settings.load(folder, {}).state_folder(folder)).status() is not None
        assert "succeeded" in serve.run("history", "often", "-o", "csv")
        serve.process.send_signal(signal.SIGTERM)
        assert serve.end() == 0
    assert sorted(path.name for path in folder.iterdir()) == [".evertick-state.json", "evertick.toml", "often.yaml"]
    assert (tmp_path / "state" / "ledger.db").exists()


class TestAnEmptyFolder:
    def test_serve_of_an_empty_folder_says_what_to_do_and_takes_the_first_job(self, folder):
        with Serve(folder) as serve:
            assert f"Next: evertick init {folder}" in serve.said
            (folder / "often.yaml").write_text(OFTEN)
            wait_for(lambda: "succeeded" in serve.said, "the job was not taken")

    @pytest.mark.parametrize(("answer", "is_written"), [("y", True), ("n", False)])
    def test_at_a_terminal_it_asks(self, folder, answer, is_written):
        ours, theirs = pty.openpty()
        env = {**os.environ, "EVERTICK_WEB": "false", "EVERTICK_TIMEZONE": "UTC"}
        command = [sys.executable, "-m", "evertick", "serve", str(folder), "--patience", "0"]
        process = subprocess.Popen(command, stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL, env=env)
        os.close(theirs)
        said = b""
        try:
            while b"Create a first one" not in said:
                said += os.read(ours, 4096)
            os.write(ours, f"{answer}\n".encode())
            while b"Ctrl-C to stop" not in said:
                said += os.read(ours, 4096)
            assert (b"1 job from" in said) is is_written
            assert (folder / "hello.yaml").exists() is is_written
        finally:
            process.send_signal(signal.SIGTERM)
            drain = threading.Thread(target=_drain, args=(ours,), daemon=True)
            drain.start()
            assert process.wait(PATIENCE) == 0
            os.close(ours)

    def test_a_folder_that_is_not_there_is_reported_with_how_to_make_it(self, tmp_path):
        command = [sys.executable, "-m", "evertick", "serve", str(tmp_path / "nowhere")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 3
        assert f"evertick init {tmp_path}/nowhere" in ended.stderr


@pytest.mark.slow
def test_a_stop_takes_effect_although_the_output_cannot_be_written(folder):
    (folder / "often.yaml").write_text(OFTEN)
    env = {**os.environ, "EVERTICK_WEB": "false"}
    command = [sys.executable, "-m", "evertick", "serve", str(folder), "--patience", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env) as process:
        assert process.stderr is not None
        assert any(b"Ctrl-C to stop" in line for line in process.stderr)
        process.stderr.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:
        pass


@pytest.mark.parametrize(
    "store",
    [
        pytest.param("", id="a process beside it"),
        pytest.param("memory:", id="a thread of it, for a ledger in memory"),
        pytest.param("files:", id="a thread of it, for a ledger in plain files"),
    ],
)
def test_the_pages_and_the_api_come_up_with_it_and_go_with_it(folder, tmp_path, store):
    (folder / "often.yaml").write_text(OFTEN)
    ledger = f"files:{tmp_path}/ledger" if store == "files:" else store
    (tmp_path / "ledger").mkdir()
    with Serve(folder, "--port", "0", "--patience", "0", EVERTICK_WEB="true", EVERTICK_STORE=ledger) as serve:
        place = folder / ".evertick" / "server.json"
        wait_for(lambda: place.exists() and bool(place.read_text()), "no server came up")
        url = json.loads(place.read_text())["url"]
        wait_for(lambda: _is_well(url), "it does not answer")
        assert _origins(folder, url)["port"] == "option --port"
        assert _origins(folder, url)["web"] == "EVERTICK_WEB"
        serve.process.send_signal(signal.SIGTERM)
        assert serve.end() == 0
        assert "Traceback" not in serve.said
    assert not _is_well(url)


def _origins(folder: Path, url: str) -> dict[str, str]:
    token = (folder / ".evertick" / "token").read_text().strip()
    request = urllib.request.Request(f"{url}/api/v1/settings", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return {one["name"]: one["origin"] for one in json.load(answer)["items"]}


def _is_well(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _is_stopped(pid: int) -> bool:
    """Whether every thread is: a signal reaches them when each is scheduled next."""
    stats = [file.read_text().rpartition(") ")[2] for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.startswith("T") for stat in stats)
