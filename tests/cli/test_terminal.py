"""What a person sees on a terminal of eighty columns."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from tests.cli.invoke import failed_run
from tests.cli.terminal import on_a_terminal

pytestmark = pytest.mark.slow

COMMANDS = [
    ["list"],
    ["status", "etl"],
    ["history"],
    ["history", "etl"],
    ["why", "etl", "2027-01-15T06:00"],
    ["why", failed_run()],
    ["explain", "etl"],
    ["catchup", "etl", "--dry-run"],
    ["backfill", "etl", "--from", "2027-01-15T05:00", "--to", "2027-01-15T08:00", "--dry-run"],
    ["upcoming"],
    ["plan", "--until", "2199-01-01", "-n", "5"],
    ["verify"],
    ["top", "--once"],
    ["doctor"],
    ["settings", "{folder}"],
]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_nothing_is_wider_than_the_terminal(folder, arguments):
    (folder / ".evertick").chmod(0o700)
    where = [] if arguments[0] == "settings" else ["--folder", str(folder)]
    # The ledger of these tests begins in the middle of a day, and that is found.
    code = 1 if arguments == ["verify"] else 0
    shown = on_a_terminal(*(one.format(folder=folder) for one in arguments), *where, code=code)
    lines = COLOURS.sub("", shown).splitlines()
    tables = [line for line in lines if "─" in line]
    assert all(len(line) <= 80 for line in tables)
    assert "\x1b" not in COLOURS.sub("", shown)
    assert "Traceback" not in shown


def test_a_live_view_takes_the_screen_and_gives_it_back(folder):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "evertick", "top", "--every", "0.2", "--folder", str(folder)]
    env = {**{name: value for name, value in os.environ.items() if name != "CI"}, "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True)
    os.close(theirs)
    written = b""
    try:
        while b"Next" not in written:
            written += os.read(ours, 65_536)
        process.send_signal(signal.SIGINT)
        while chunk := os.read(ours, 65_536):
            written += chunk
    except OSError:  # how a terminal says that its other end is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    assert b"\x1b[?1049h" in written
    assert written.rindex(b"\x1b[?1049l") > written.rindex(b"\x1b[?1049h")
    assert b"\x1b[?25h" in written, "the cursor is given back"
