"""What survives stops, kills, forks and a second process, on real programs."""

from __future__ import annotations

import os
import sqlite3
import threading

import pytest

from evertick import RunContext, Scheduler
from tests.library.programs import LIMIT_SECONDS, Program, eventually, run, until

pytestmark = pytest.mark.slow

KILLED = """
import os, pathlib, sys, time
from evertick import Scheduler

scheduler = Scheduler(store=f"sqlite:///{os.getcwd()}/ledger.db")
here = pathlib.Path("begun")

@scheduler.job(every="1s", on_executor_lost=sys.argv[1], isolation=sys.argv[2])
def work() -> None:
    with here.open("a") as file:
        file.write("x")
    if len(here.read_text()) == 1:
        time.sleep(600)

if __name__ == "__main__":
    scheduler.run_forever()
"""


def begun(folder) -> int:
    path = folder / "begun"
    return len(path.read_text()) if path.exists() else 0


@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize(
    ("on_lost", "becomes"),
    [
        pytest.param("retry", ("succeeded", 2, None), id="at least once: it is tried again"),
        pytest.param("fail", ("lost", 1, "process-gone"), id="at most once: it is lost"),
    ],
)
def test_a_run_that_was_killed_with_its_process(tmp_path, on_lost, becomes, isolation):
    first = Program(KILLED, tmp_path, on_lost, isolation)
    try:
        until(lambda: begun(tmp_path), "the first run to begin")
    finally:
        first.kill()
    second = Program(KILLED, tmp_path, on_lost, isolation)
    try:
        until(lambda: begun(tmp_path) >= 3, f"the runs behind it: {second.output}")
    finally:
        code = second.end()
    assert code == 0, second.output
    scheduler = Scheduler(store=f"sqlite:///{tmp_path}/ledger.db")

    async def look():
        history = await scheduler.get_history("work", 1_000)
        assert (await scheduler.verify()).is_sound
        await scheduler.stop()
        return [(one.state, one.attempt, one.loss) for one in reversed(history) if one.attempt]

    assert run(look)[0] == becomes


def test_a_function_that_outlasts_the_stop_is_retried_at_the_next_start(tmp_path):
    begun_twice = threading.Event()
    attempts = []
    scheduler = Scheduler(store=f"sqlite:///{tmp_path}/ledger.db")

    @scheduler.job()
    def long(context: RunContext) -> None:
        attempts.append(context.attempt)
        if context.attempt == 1:
            context.wait(LIMIT_SECONDS)
            context.checkpoint()
        begun_twice.set()

    async def main():
        await scheduler.start()
        asked = await scheduler.trigger_now("long", wait=False)
        await eventually(lambda: attempts, "the run to begin")
        await scheduler.stop(timeout=0.1)
        async with scheduler:
            await eventually(begun_twice.is_set, "the second try")
            await eventually(lambda: succeeded(asked.run), "its end")

    async def succeeded(run_id):
        return (await scheduler.get_run(run_id)).is_success

    run(main)
    assert attempts == [1, 2]


def test_a_signal_stops_a_program_that_never_ends(tmp_path):
    text = """
import os, sys
from evertick import Scheduler
scheduler = Scheduler(store=f"sqlite:///{os.getcwd()}/ledger.db")
scheduler.on("scheduler:status", lambda event: print(event.status, flush=True))
scheduler.run_forever()
"""
    running = Program(text, tmp_path)
    running.until_said("running")
    assert running.end() == 0
    assert running.output.split() == ["starting", "running", "stopping", "stopped"]


def test_a_child_process_that_would_start_a_scheduler_fails_with_the_next_step(tmp_path):
    text = """
import os
from evertick import Scheduler
scheduler = Scheduler(store=f"sqlite:///{os.getcwd()}/ledger.db")

@scheduler.job(every="500ms", isolation="process")
def work() -> None: ...

scheduler.on("execution:error", lambda event: print("SAID", event.detail, flush=True))
scheduler.run_forever()
"""
    running = Program(text, tmp_path)
    try:
        said = running.until_said("SAID Conflict")
    finally:
        running.end()
    assert "if __name__ == '__main__'" in said


def test_a_process_that_was_forked_has_no_part_in_its_parents_scheduler(tmp_path):
    text = """
import os
from evertick import Scheduler, SchedulerLockError
scheduler = Scheduler(store=f"sqlite:///{os.getcwd()}/ledger.db")
scheduler.job(every="1h", name="work")(lambda: None)
scheduler.start_in_background()
child = os.fork()
if child == 0:
    print("child", scheduler.is_running, scheduler.status, flush=True)
    try:
        scheduler.start_in_background()
    except SchedulerLockError:
        print("locked", flush=True)
    scheduler.stop_in_background()
    os._exit(0)
os.waitpid(child, 0)
print("parent", scheduler.is_running, os.path.exists("ledger.db.lock"), flush=True)
scheduler.stop_in_background()
"""
    forking = Program(text, tmp_path)
    forking.process.wait(LIMIT_SECONDS)
    assert forking.output.splitlines()[-3:] == ["child False stopped", "locked", "parent True True"]


def test_the_processes_of_functions_end_with_a_scheduler_that_is_killed(tmp_path):
    text = """
import os, pathlib, time
from evertick import Scheduler
scheduler = Scheduler(store=f"sqlite:///{os.getcwd()}/ledger.db")

@scheduler.job(every="500ms", isolation="process")
def work() -> None:
    pathlib.Path("pid.new").write_text(str(os.getpid()))
    os.replace("pid.new", "pid")
    time.sleep(600)

if __name__ == "__main__":
    scheduler.run_forever()
"""
    running = Program(text, tmp_path)
    try:
        until((tmp_path / "pid").exists, "the function to begin")
    finally:
        running.kill()
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the function's process to end")


def test_a_ledger_that_is_locked_for_a_while_loses_nothing(tmp_path):
    scheduler = Scheduler(store=f"sqlite:///{tmp_path}/ledger.db")
    ran = []
    scheduler.job(every="200ms", name="work")(lambda: ran.append(1))

    async def main():
        async with scheduler:
            await eventually(lambda: len(ran) > 2, "some runs")
            other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            before = len(ran)
            await eventually(lambda: len(ran) > before + 5, "what was entered ahead to run")
            other.execute("ROLLBACK")
            other.close()
        report = await scheduler.verify()
        assert report.is_sound

    run(main)
