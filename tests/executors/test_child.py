"""Whether a function in a process of its own always ends with a report to its scheduler."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from evertick.executors.child import ChildProcess
from evertick.executors.context import RunContext
from evertick.executors.function import describe
from evertick.executors.function_run import FunctionLog, FunctionLogs
from evertick.executors.inprocess import InProcessExecutor
from evertick.model.lifecycle import FAILED
from evertick.planning.run_dates import RunDates
from tests.executors.contract import KEY, Reports, launch_of
from tests.executors.local_runs import until

pytestmark = pytest.mark.slow

LIMIT_SECONDS = 180


def closes_its_output(folder: str) -> str:
    os.close(1)
    os.close(2)
    Path(folder, "closed").touch()
    until(Path(folder, "go").exists, "leave to go on")
    return "went on"


def waits_for_leave(folder: str) -> str:
    Path(folder, "closed").touch()
    until(Path(folder, "go").exists, "leave to go on")
    return "went on"


def prints() -> None:
    os.write(1, b"a line\n")
    time.sleep(600)


def started(call, folder, output=None):
    context = RunContext.of(KEY, 1, "manual", {"folder": str(folder)}, RunDates("report", "UTC", KEY.scheduled_for), 0)
    child = ChildProcess(call, context, 1, output)
    until((folder / "closed").exists, "the function to begin")
    return child


def test_output_that_ends_before_the_function_does_not_end_it(tmp_path):
    child = started(closes_its_output, tmp_path, lambda _chunk: None)
    # The first look finds that the output has ended, the second one finds it closed.
    assert [child.wait(0), child.wait(0)] == [None, None]
    (tmp_path / "go").touch()
    assert child.wait(LIMIT_SECONDS) == (True, "went on", 0)


def test_a_process_whose_exit_code_another_part_of_the_program_has_taken(tmp_path):
    child = started(waits_for_leave, tmp_path)
    (tmp_path / "go").touch()
    os.waitpid(child.pid, 0)
    assert child.wait(LIMIT_SECONDS) == (True, "went on", None)


def test_a_program_with_more_than_1024_open_files_receives_results_of_its_functions(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, hard), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        child = started(waits_for_leave, tmp_path, lambda _chunk: None)
        (tmp_path / "go").touch()
        assert child.wait(LIMIT_SECONDS) == (True, "went on", 0)
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class BrokenLog(FunctionLog):
    def write(self, _data: bytes) -> None:
        raise RuntimeError("a log that breaks")


class BrokenLogs(FunctionLogs):
    def begin(self, attempt_id, step, max_bytes):
        return BrokenLog("unused", attempt_id, step, max_bytes)


def test_an_error_while_listening_ends_the_run_and_its_process(tmp_path):
    reports = Reports()
    executor = InProcessExecutor(lambda _job_id: describe(prints, "process"), grace_seconds=1, logs=BrokenLogs())
    executor.open(reports)
    try:
        executor.launch(launch_of())
        end = reports.end_of(KEY)
        assert end.state is FAILED
        assert "a log that breaks" in end.detail
        assert executor.members()[0].running == 0
    finally:
        executor.close()
