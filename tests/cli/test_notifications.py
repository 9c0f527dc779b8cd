"""Whether notifications arrive: a real `serve`, a real receiver and a real mail server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.dispatch.notify.mail_server import MailServer
from tests.dispatch.notify.notices import Receiver, receiver

PATIENCE = 180.0
OFTEN = "schedule: {every: 1s, missedExecution: skip, retryPolicy: {maxRetries: 0}}\n"


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    pause = threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, what
        pause.wait(0.05)


@contextmanager
def serving(folder: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVERTICK")}
    command = [sys.executable, "-m", "evertick", "serve", str(folder), "--node", "a1", "--patience", "5"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**kept, **environ})
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
        assert "Traceback" not in said, said


def events(hook: Receiver) -> list[str]:
    return [json.loads(body)["event"] for method, _, _, body in hook.told if method == "POST"]


def settings(hook: Receiver, office: MailServer) -> str:
    return f"""
        [notifications]
        on_failure = ["hook", "mail"]
        on_recovered = ["hook"]
        allowed = ["127.0.0.0/8"]
        signing_key = "env:KEY"
        [notifications.channels]
        hook = "env:HOOK"
        mail = "ops@example.org"
        [notifications.smtp]
        host = "127.0.0.1"
        port = {office.port}
        tls = "none"
        [notifications.heartbeat]
        url = "{hook.url}"
        every = "1s"
    """


@pytest.mark.slow
def test_a_failure_is_reported_by_hook_and_mail_and_the_recovery_after_a_restart(tmp_path):
    folder, good = tmp_path / "jobs", tmp_path / "good"
    folder.mkdir()
    (folder / "check.yaml").write_text(OFTEN + f"command: test -e {good}\n")
    with receiver() as hook, MailServer() as office:
        (folder / "evertick.toml").write_text(settings(hook, office))
        with serving(folder, HOOK=hook.url, KEY="a key"):
            wait_for(lambda: bool(office.mails), "no mail came")
            wait_for(lambda: "on_failure" in events(hook), "no failure was told")
            wait_for(lambda: any(method == "GET" for method, *_ in hook.told), "no heartbeat came")
        assert "check" in office.mails[0]
        assert any("X-Evertick-Signature" in headers for _, _, headers, _ in hook.told)
        good.touch()
        with serving(folder, HOOK=hook.url, KEY="a key"):
            wait_for(lambda: "on_recovered" in events(hook), "no recovery was told")
        assert events(hook).count("on_recovered") == 1


@pytest.mark.slow
def test_a_scheduler_whose_receiver_hangs_continues_to_schedule(tmp_path):
    with receiver() as hook:
        hook.may_answer.clear()
        (tmp_path / "check.yaml").write_text(
            f"{OFTEN}command: date >> {tmp_path}/ran; false\nnotify: {{on_failure: '{hook.url}'}}\n"
        )
        with serving(tmp_path, EVERTICK_NOTIFICATIONS_ALLOWED="127.0.0.1"):
            wait_for(hook.is_called.is_set, "the receiver was never called")
            ran = tmp_path / "ran"
            before = len(ran.read_text().splitlines())
            wait_for(lambda: len(ran.read_text().splitlines()) >= before + 3, "nothing ran any more")
            hook.may_answer.set()


class TestTrial:
    def run(self, folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "evertick", "notify", "test", *arguments, "--folder", str(folder)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EVERTICK")}
        return subprocess.run(command, capture_output=True, text=True, env={**kept, **environ}, check=False)

    @pytest.mark.slow
    def test_a_channel_of_the_settings_is_tried_once(self, tmp_path):
        with receiver(200, 500) as hook:
            (tmp_path / "evertick.toml").write_text(
                f"[notifications]\nallowed = ['127.0.0.1']\n[notifications.channels]\nops = '{hook.url}'\n"
            )
            taken = self.run(tmp_path, "ops", "-o", "json")
            refused = self.run(tmp_path, "ops")
            unknown = self.run(tmp_path, "op")
        assert (taken.returncode, json.loads(taken.stdout)["is_delivered"]) == (0, True)
        assert (refused.returncode, "answered 500" in refused.stdout) == (1, True)
        assert (unknown.returncode, "Did you mean 'ops'?" in unknown.stderr) == (3, True)
        assert "secret-token" not in taken.stdout + refused.stdout
