"""Is a program's scheduler like any other for the command line, the socket and notifications?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from evertick import Scheduler, Settings
from evertick.dispatch.control_client import ControlClient
from tests.library.programs import LIMIT_SECONDS, eventually, run
from tests.present import present

pytestmark = pytest.mark.slow


def evertick(*words: str, code: int = 0) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "evertick", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        env={**os.environ, "NO_COLOR": "1"},
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    return ended.stdout


def test_the_command_line_asks_a_program_as_it_asks_a_server(tmp_path):
    scheduler = Scheduler(tmp_path)

    @scheduler.job(timezone="UTC")
    def add(one: int = 1, other: int = 2) -> int:
        return one + other

    with scheduler:
        folder = ("--folder", str(tmp_path))
        evertick("trigger", "add", "-p", "one=40", "--wait", *folder)
        (line,) = json.loads(evertick("history", "add", "-o", "json", *folder))["items"]
        assert (line["state"], line["detail"]) == ("succeeded", "42")
        evertick("pause", "add", *folder)
        assert "paused" in evertick("list", *folder)
        assert "succeeded" in evertick("why", "add", *folder)
        status = ControlClient(tmp_path / ".evertick").status()
        assert status is not None
    evertick("verify", *folder)


def test_the_receivers_in_the_settings_are_notified_of_a_failing_function(tmp_path):
    told, has_come = [], threading.Event()

    class Office(BaseHTTPRequestHandler):
        def do_POST(self):
            told.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()
            has_come.set()

        def log_message(self, *_words):
            pass

    office = HTTPServer(("127.0.0.1", 0), Office)
    serving = threading.Thread(target=office.serve_forever)
    serving.start()
    (tmp_path / "evertick.toml").write_text(
        f"""
[notifications]
on_failure = ["ops"]
allowed = ["127.0.0.1"]
[notifications.channels.ops]
webhook = "http://127.0.0.1:{office.server_port}/"
"""
    )
    scheduler = Scheduler(store=f"sqlite:///{tmp_path}/ledger.db", settings=Settings.load(tmp_path))

    @scheduler.job()
    def fail() -> None:
        raise ValueError("no price")

    async def main():
        async with scheduler:
            await scheduler.trigger_now("fail")
            await eventually(has_come.is_set, "the message")

    try:
        run(main)
    finally:
        office.shutdown()
        serving.join()
        office.server_close()
    assert "no price" in json.dumps(told[0])


def test_steps_of_a_file_may_be_runs_of_a_function(tmp_path):
    (tmp_path / "nightly.yaml").write_text("steps:\n  - {name: count, job: count}\n")
    scheduler = Scheduler(tmp_path)
    counted = []

    @scheduler.job()
    def count() -> None:
        counted.append(1)

    async def main():
        async with scheduler:
            ended = await scheduler.trigger_now("nightly", timeout=LIMIT_SECONDS)
            assert ended.state == "succeeded", ended

    run(main)
    assert counted == [1]


def test_two_programs_on_one_folder_and_one_database_have_a_seat_each(tmp_path, fresh_postgres):
    for number in range(8):
        (tmp_path / f"job-{number}.yaml").write_text("schedule: [{every: 1s}]\ncommand: 'true'\n")
    url = fresh_postgres()
    first, second = Scheduler(tmp_path, store=url), Scheduler(tmp_path, store=url)

    async def main():
        async with first:
            async with second:
                assert len({present(first._node).node, present(second._node).node}) == 2
                await eventually(lambda: nodes(), "both to have run something")
            async with second:  # the same slot again
                await eventually(lambda: nodes(), "both to have run something")
        assert (await first.verify()).is_sound
        for one in (first, second):
            await one.stop()

    async def nodes():
        history = await first.get_history(states=["succeeded"], limit=200)
        return len({one.executor for one in history}) == 2

    run(main)
    seats = sorted(path.name for path in (tmp_path / ".evertick" / "seats").iterdir())
    assert [name.rpartition("-")[2] for name in seats] == ["1", "2"]
