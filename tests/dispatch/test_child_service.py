"""A process beside the scheduler: kept alive, never waited for, and never left behind."""

from __future__ import annotations

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

from evertick.dispatch.child_service import ChildService, RestartTimes, module_command

pytestmark = pytest.mark.slow

SOON = RestartTimes(first_seconds=0.01, longest_seconds=0.05, stop_seconds=60)
LIMIT = 180.0


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline, pause = time.monotonic() + LIMIT, threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, what
        pause.wait(0.02)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@contextmanager
def beside(
    command: list[str], patience: RestartTimes = SOON, *, shows_life: bool = False, **environ: str
) -> Iterator[ChildService]:
    child_service = ChildService("web", command, {**os.environ, **environ}, patience, shows_life=shows_life)
    child_service.start()
    try:
        yield child_service
    finally:
        child_service.stop()


def test_a_child_that_dies_is_started_again(caplog):
    with beside(["sleep", "600"]) as child_service:
        wait_for(lambda: child_service.state["pid"] is not None, "it was not started")
        first = child_service.state["pid"]
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: child_service.state["pid"] not in (None, first), "it was not started again")
        assert child_service.state["starts"] == 2
    assert child_service.state["pid"] is None
    assert "child.ended name=web how=signal 9" in caplog.text


def test_a_child_that_always_dies_is_tried_ever_more_seldom(caplog):
    patience = RestartTimes(first_seconds=0.01, longest_seconds=0.04, stop_seconds=60)
    with beside(["false"], patience):
        wait_for(lambda: caplog.text.count("again_in=0.04s") >= 2, "it was not tried often enough")
    waits = [record.args[2] for record in caplog.records if "again_in" in record.msg]
    assert waits[:4] == [0.01, 0.02, 0.04, 0.04]


def test_a_missing_program_is_reported(caplog):
    with beside(["/nowhere/at/all"]):
        wait_for(lambda: "not started: No such file or directory" in caplog.text, "it was not told")


def test_a_child_that_ignores_sigterm_is_killed(tmp_path, caplog):
    ready = tmp_path / "ready"
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    code = f"{deaf}; open({str(ready)!r}, 'w'); time.sleep(600)"
    with beside(python(code), RestartTimes(stop_seconds=0.2)) as child_service:
        wait_for(ready.exists, "it was not started")
        pid = child_service.state["pid"]
    assert "child.killed" in caplog.text
    assert not is_alive(pid)


def test_a_stop_does_not_wait_for_the_next_try():
    with beside(["false"], RestartTimes(first_seconds=600)) as child_service:
        wait_for(lambda: child_service.starts == 1, "it was not started")
    assert child_service.starts == 1


def test_a_child_does_not_inherit_the_socket_of_the_service_manager(tmp_path):
    told = tmp_path / "told"
    code = f"import os, time; open({str(told)!r}, 'w').write(str('NOTIFY_SOCKET' in os.environ)); time.sleep(600)"
    with beside(python(code), NOTIFY_SOCKET="/run/x"):
        wait_for(lambda: told.exists() and bool(told.read_text()), "it was not started")
    assert told.read_text() == "False"


SIGNS = "import time\nwhile True: print('.', flush=True); time.sleep(0.05)"


def test_a_child_that_shows_life_is_left_alone():
    patience = RestartTimes(first_seconds=0.01, stop_seconds=60, start_seconds=60, silence_seconds=5)
    with beside(python(SIGNS), patience, shows_life=True) as child_service:
        wait_for(lambda: child_service.state["pid"] is not None, "it was not started")
        first = child_service.state["pid"]
        os.kill(first, signal.SIGSTOP)
        os.kill(first, signal.SIGCONT)
        assert child_service.state == {"pid": first, "starts": 1}


@pytest.mark.parametrize("hangs", ["at its start", "later"])
def test_a_child_that_hangs_is_killed_and_started_again(tmp_path, caplog, hangs):
    """Stopped by a signal it hangs as one in an endless computation does: it cannot be asked to end."""
    patience = RestartTimes(
        first_seconds=0.01, stop_seconds=60, start_seconds=0.3 if hangs == "at its start" else 60, silence_seconds=0.3
    )
    ready = tmp_path / "ready"
    life = f"print('.', flush=True); open({str(ready)!r}, 'w')\n{SIGNS}"
    code = "import time; time.sleep(600)" if hangs == "at its start" else life
    with beside(python(code), patience, shows_life=True) as child_service:
        wait_for(lambda: child_service.state["pid"] is not None, "it was not started")
        if hangs == "later":
            wait_for(ready.exists, "it showed no life")
            os.kill(child_service.state["pid"], signal.SIGSTOP)
        wait_for(lambda: child_service.starts >= 2, "it was not started again")
    assert "sent no heartbeat" in caplog.text


def test_a_child_that_starts_slowly_gets_more_time_for_each_start(tmp_path, caplog):
    """Each start takes longer than the first may: the machine is busy with something else."""
    patience = RestartTimes(first_seconds=0.01, stop_seconds=60, start_seconds=0.05, silence_seconds=60)
    ready = tmp_path / "ready"
    slow = f"import time; time.sleep(0.5); open({str(ready)!r}, 'w')\n{SIGNS}"
    with beside(python(slow), patience, shows_life=True) as child_service:
        wait_for(ready.exists, "it never came up")
        starts = child_service.starts
    assert starts > 1
    assert caplog.text.count("sent no heartbeat") == starts - 1


class TestParentWatchdog:
    BEGIN = "import os, re, sys, time\nopen(sys.argv[1], 'w').write(str(os.getpid()))\n"

    @pytest.mark.parametrize("doing", ["time.sleep(600)", "re.match('(a+)+$', 'a' * 60 + '!')"], ids=["well", "hung"])
    def test_a_child_ends_with_a_parent_that_is_killed(self, tmp_path, doing):
        (tmp_path / "dummy_child.py").write_text(f"{self.BEGIN}{doing}\n")
        file = tmp_path / "pid"
        code = (
            "import os, sys, time\n"
            "from evertick.dispatch.child_service import ChildService, module_command\n"
            f"ChildService('web', module_command('dummy_child', {str(file)!r})).start()\n"
            "time.sleep(600)\n"
        )
        parent = subprocess.Popen(python(code), env={**os.environ, "PYTHONPATH": str(tmp_path)})
        try:
            wait_for(lambda: file.exists() and bool(file.read_text()), "the child was not started")
            child = int(file.read_text())
            assert is_alive(child)
        finally:
            parent.kill()
            parent.wait()
        wait_for(lambda: not is_alive(child), "the child outlived its parent")

    def test_the_module_finds_its_arguments_and_gives_its_exit_code(self, tmp_path):
        (tmp_path / "dummy_child.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(7)\n")
        child = subprocess.Popen(
            module_command("dummy_child", "a", "b"),
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            # Its input stays open until it has ended by itself: the end of it would end the child.
            assert child.wait(LIMIT) == 7
            assert child.stdout is not None
            assert child.stdout.read() == "['a', 'b']\n"
