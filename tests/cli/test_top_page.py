"""`evertick top` on a real terminal, with a real scheduler."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.invoke import code_of, run
from tests.cli.serving import Scheduler
from tests.cli.terminal import Page

pytestmark = pytest.mark.slow

FILES = {
    "bad.yaml": "command: echo the disk is full; exit 3\n",
    "steps.yaml": (
        "steps:\n  - {name: fetch, command: echo fetched}\n"
        "  - {name: load, command: 'echo loading; exec sleep 600', depends: [fetch]}\n"
    ),
    "well.yaml": "schedule: '0 3 * * *'\ncommand: 'true'\n",
}


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    scheduler = Scheduler(tmp_path, has_server=True)
    try:
        scheduler.wait_until_said("jobs from")
        assert scheduler.server_url
        yield scheduler
    finally:
        run("cancel", "steps", "--folder", tmp_path)
        scheduler.stop()


def choose(page: Page, job: str) -> None:
    page.wait_for("3 jobs")
    page.press(f"/{job}\r")
    page.wait_for(f"JOB (worst, /{job})")
    page.wait_until(lambda: next((line for line in page.lines if line.startswith("▌") and job in line), ""), job)


def test_a_job_is_run_read_and_cancelled_by_keys_and_the_page_survives_its_scheduler(scheduler):
    with Page("top", "--folder", str(scheduler.folder), "--every", "0.2", columns=100) as page:
        page.wait_for("3 jobs")
        assert not page.modes & termios.ICANON
        choose(page, "bad")
        page.press("r")
        page.wait_for("Run bad now?")
        page.press("y")
        page.wait_for("Requested bad@")
        page.wait_for("failing")
        page.wait_for("the disk is full")
        choose(page, "steps")
        page.press("ry")
        page.wait_for("1/2 load")
        page.press("\r")
        page.wait_for("loading")
        page.press("q")
        page.resize(160, 50)
        page.wait_for("WHY, OR LAST RUN")
        page.press("cy")
        page.wait_for("Cancelled steps@")
        scheduler.stop()
        page.wait_for("no scheduler is running")
        again = Scheduler(scheduler.folder, has_server=True)
        try:
            page.wait_for(" node a1")
            page.wait_until(lambda: "" if any("no scheduler is" in one for one in page.lines) else "so", "recovered")
        finally:
            page.press("q")
            assert page.end() == 0
            again.stop()
        assert page.modes & termios.ICANON
        assert page.modes & termios.ECHO


def test_a_reader_sees_why_an_action_is_refused_and_a_silent_server_makes_the_page_stale(scheduler):
    token = run("token", "create", "wall", "--role", "viewer", "--folder", scheduler.folder).stdout.strip()
    server = scheduler.server_url
    with Page("top", "--server", server, "--every", "0.2", EVERTICK_TOKEN=token, NO_COLOR="1") as page:
        choose(page, "well")
        page.press("py")
        page.wait_for("the role viewer does not permit this")
        page.press("w")
        page.wait_for("↑↓ scroll  q back")
        page.press("q")
        scheduler.stop()
        page.wait_for("Stale since")
        page.process.send_signal(signal.SIGTERM)
        assert page.end() == 143
        assert page.modes & termios.ICANON
        assert page.written.rindex("\x1b[?1049l") > page.written.rindex("\x1b[?1049h")
        assert "\x1b[?25h" in page.written, "the cursor is given back"
        assert "\x1b[31m" not in page.written


def test_a_page_that_crashes_gives_the_terminal_back(folder):
    """A class of the page is spoiled before it starts."""
    spoiled = folder / "sitecustomize.py"
    spoiled.write_text("import evertick.cli.top.page as page\npage.Page.press = None\n", encoding="utf-8")
    with Page("top", "--folder", str(folder), PYTHONPATH=_path(folder)) as page:
        page.wait_for("jobs")
        page.press("x")
        assert page.end() == 1
        assert page.modes & termios.ICANON
        assert "TypeError" in page.written[page.written.rindex("\x1b[?1049l") :]


def test_ctrl_c_leaves_the_page(folder):
    with Page("top", "--folder", str(folder)) as page:
        page.wait_for("jobs")
        page.process.send_signal(signal.SIGINT)
        assert page.end() == 0
        assert page.modes & termios.ECHO


def test_without_a_terminal_the_page_is_refused(folder):
    result = run("top", "--folder", folder)
    assert code_of(result) == 2
    assert "--once" in result.stderr
    assert "needs a terminal" in result.stderr


def _path(folder: Path) -> str:
    return os.pathsep.join([str(folder), *sys.path])
