"""Whether a long-lived process keeps its environment from other processes of the same user."""

from __future__ import annotations

import os
import runpy
import sys

import pytest
from click.testing import CliRunner

from evertick import long_lived
from evertick.cli.app import evertick
from evertick.long_lived import hide_process

NOBODY = 65_534


def in_a_child(work) -> int:
    """What a function answers in a process of an ordinary user, which root may read and others may not."""
    pid = os.fork()
    if not pid:
        code = 99
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def reads_parent() -> int:
    """Whether a child of this process, of the same user, may read its environment."""

    def read() -> int:
        try:
            with open(f"/proc/{os.getppid()}/environ", "rb") as file:
                return 1 if file.read(1) else 2
        except PermissionError:
            return 0

    pid = os.fork()
    if not pid:
        # Whoever forks stays hidden; a job is another program, and is open again.
        os._exit(read())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# A worker of the suite has threads; the children only read a file and end.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(("is_hidden", "readable"), [(False, 1), (True, 0)])
def test_a_hidden_process_shows_its_environment_to_no_other_of_its_user(is_hidden, readable):
    def work() -> int:
        if is_hidden:
            hide_process()
        else:
            import ctypes

            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # changing the user has hidden it
        return reads_parent()

    assert in_a_child(work) == readable


class Hidden(Exception):
    """Raised in the place of hiding: whoever comes here would have hidden itself."""


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("evertick.api", ["folder"]),
        ("evertick.executors.keeper", ["--folder", "x", "--logs", "y"]),
        ("evertick.executors.fleet", ["member", "{}"]),
    ],
)
def test_our_processes_hide_themselves_before_anything_else(monkeypatch, module, arguments):
    def hide() -> None:
        raise Hidden

    monkeypatch.setattr(long_lived, "hide_process", hide)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    monkeypatch.delitem(sys.modules, f"{module}.__main__", raising=False)
    with pytest.raises(Hidden):
        runpy.run_module(module, run_name="__main__")


def test_the_scheduler_hides_itself(monkeypatch, tmp_path):
    def hide() -> None:
        raise Hidden

    monkeypatch.setattr(long_lived, "hide_process", hide)
    assert isinstance(CliRunner().invoke(evertick, ["serve", str(tmp_path)]).exception, Hidden)
