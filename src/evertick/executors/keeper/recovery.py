"""Recovers the attempts of a keeper that was killed: watches those still alive, reports the others lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path

from evertick.executors.keeper.attempt_state import STARTED, STEP, AttemptEnd, AttemptState, Loss, StepEnd
from evertick.executors.keeper.environment import marks_of_attempt
from evertick.executors.keeper.exit_note_file import remove_other_notes, take_left_note
from evertick.executors.keeper.process import Runtime
from evertick.executors.keeper.procfs import boottime_us, leaders_of, snapshot, stat_of
from evertick.executors.keeper.recorder import Recorder
from evertick.executors.keeper.spawn import end_family
from evertick.executors.keeper.supervisor import Supervisor
from evertick.executors.logs import OPEN_SUFFIX, SUFFIX
from evertick.executors.paths import open_folder, run_folder
from evertick.model.lifecycle import FAILED, SUCCEEDED, exit_code_text
from evertick.model.loss import LossReason
from evertick.planning.workflow import StepOutcome

UNKNOWN_EXIT = Loss(LossReason.PROCESS_GONE, "its exit code is unknown because its keeper was killed")
VANISHED = Loss(LossReason.PROCESS_GONE, "it was gone when its killed keeper was replaced")
RESTARTED = Loss(LossReason.MACHINE_RESTARTED, "the machine was restarted while it ran")


def recover(
    supervisor: Supervisor, recorder: Recorder, orphans: list[AttemptState], has_rebooted: bool, runtime: Runtime
) -> None:
    """Finish the open attempts of the journal; those still alive, when they end."""
    remove_other_notes(runtime.notes, [process for state in orphans for process in state.processes.items()])
    if not orphans:
        return
    table = snapshot(time.monotonic())
    for state in orphans:
        # Nothing reads their output any more.
        close_logs(runtime.logs, state)
        if has_rebooted:
            supervisor.finish(state, _lost(RESTARTED))
            continue
        marks = marks_of_attempt(state.attempt_id.key.run_id, state.attempt_id.attempt, runtime.identity)
        alive = leaders_of(state.processes, marks, table)
        if alive:
            if state.started_at is None:
                recorder.record(state, STARTED, started_at(alive[0]))
            watch = _watch(supervisor, recorder, state, alive, runtime)
            asyncio.get_running_loop().create_task(watch).add_done_callback(_done)
        else:
            supervisor.finish(state, _left_end(recorder, state, runtime.notes) or _lost(VANISHED))


def started_at(pid: int) -> int:
    """When a process was started, to the precision of the kernel's clock tick."""
    stat = stat_of(pid)
    now = time.time_ns() // 1_000
    return now if stat is None else now - (boottime_us() - stat.started_us)


def close_logs(root: int, state: AttemptState) -> None:
    """Close the logs that were being written, with a line that says why they end."""
    key, attempt = state.attempt_id
    try:
        folder = open_folder(root, (*run_folder(key), str(attempt)))
    except OSError:
        return  # it has no output
    try:
        for name in os.listdir(folder):
            if not name.endswith(SUFFIX + OPEN_SUFFIX):
                continue
            with contextlib.suppress(OSError):
                fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                with open(fd, "wb") as file:
                    file.write(b"\n[evertick: the keeper was killed; what was printed after this is not known]\n")
            with contextlib.suppress(OSError):
                os.rename(name, name.removesuffix(OPEN_SUFFIX), src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


async def _watch(
    supervisor: Supervisor, recorder: Recorder, state: AttemptState, pids: list[int], runtime: Runtime
) -> None:
    """They are not our children: their exit can be seen, but not their exit code, unless they leave it in a note."""
    loop = asyncio.get_running_loop()
    marks = marks_of_attempt(state.attempt_id.key.run_id, state.attempt_id.attempt, runtime.identity)
    gone = {pid: asyncio.Event() for pid in pids}
    descriptors = []
    for pid, event in gone.items():
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            event.set()
            continue
        descriptors.append(fd)
        loop.add_reader(fd, event.set)
    tasks: set[asyncio.Task[None]] = set()

    def cancel() -> None:
        if not tasks:
            for pid, event in gone.items():
                tasks.add(loop.create_task(end_family(pid, marks, runtime.grace_seconds, event.is_set)))

    supervisor.cancellers[state.number] = cancel
    for event in gone.values():
        await event.wait()
    if tasks:
        await asyncio.wait(tasks)
    for fd in descriptors:
        loop.remove_reader(fd)
        os.close(fd)
    del supervisor.cancellers[state.number]
    # One that was ended says with which code it ended, and not how it would have.
    left = _left_end(recorder, state, runtime.notes) if not tasks else None
    supervisor.finish(state, left or _lost(UNKNOWN_EXIT))


def _left_end(recorder: Recorder, state: AttemptState, notes: Path) -> AttemptEnd | None:
    """The end of an attempt that is decided by the end of its only process; None: it is not known."""
    left = [(pid, take_left_note(notes, pid, started_us)) for pid, started_us in state.processes.items()]
    if len(left) != 1 or left[0][1] is None:
        return None
    pid, (head, note, at) = left[0][0], left[0][1]
    is_good = note.exit_code == 0
    if note.is_lost or not (head.decides_success if is_good else head.decides_failure):
        return None
    if state.started_at is None:
        recorder.record(state, STARTED, head.started_at)
    # Not the reason in its note: the secrets that it may hold were known to the killed keeper only.
    detail = "" if is_good else exit_code_text(note.exit_code)
    outcome = StepOutcome.SUCCEEDED if is_good else StepOutcome.FAILED
    step = StepEnd(head.step, outcome, head.started_at, at, note.exit_code, head.tries, detail=detail)
    recorder.record(state, STEP, pid, step._replace(digest=head.digest, has_log=True), is_reported=False)
    return AttemptEnd(str(SUCCEEDED if is_good else FAILED), at, note.exit_code, detail)


def _lost(loss: Loss) -> AttemptEnd:
    return loss.to_end(time.time_ns() // 1_000)


def _done(task: asyncio.Task[None]) -> None:
    """Raise the error of a failed watch."""
    if not task.cancelled():
        task.result()
