"""What becomes of the attempts of a keeper that was killed: those still alive are watched, the others are lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time

from evertick.executors.keeper.attempt_state import STARTED, Ending, Known, Loss
from evertick.executors.keeper.environment import marks_of_attempt
from evertick.executors.keeper.process import Tools
from evertick.executors.keeper.processes import end_family
from evertick.executors.keeper.procfs import boottime_us, leaders_of, snapshot, stat_of
from evertick.executors.keeper.supervisor import Supervisor
from evertick.executors.logs import OPEN_SUFFIX, SUFFIX
from evertick.executors.paths import open_folder, run_folder
from evertick.model.loss import LossReason

UNKNOWN_EXIT = Loss(LossReason.PROCESS_GONE, "its exit code is unknown because its keeper was killed")
VANISHED = Loss(LossReason.PROCESS_GONE, "it vanished when its keeper was killed")
RESTARTED = Loss(LossReason.MACHINE_RESTARTED, "the machine was restarted while it ran")


def recover(supervisor: Supervisor, orphans: list[Known], has_rebooted: bool, tools: Tools) -> None:
    """Settle what is open in the book; those that live on are settled when they end."""
    if not orphans:
        return
    table = snapshot(time.monotonic())
    for known in orphans:
        # Nobody reads their output any more.
        close_logs(tools.logs, known)
        if has_rebooted:
            supervisor.finish(known, _lost(RESTARTED))
            continue
        marks = marks_of_attempt(known.attempt_id.key.run_id, known.attempt_id.attempt, tools.identity)
        alive = leaders_of(known.processes, marks, table)
        if alive:
            if known.started_at is None:
                supervisor.note(known, STARTED, started_at(alive[0]))
            asyncio.get_running_loop().create_task(_watch(supervisor, known, alive, tools)).add_done_callback(_done)
        else:
            supervisor.finish(known, _lost(VANISHED))


def started_at(pid: int) -> int:
    """The instant at which a process was started, as near as the kernel's clock tick."""
    stat = stat_of(pid)
    now = time.time_ns() // 1_000
    return now if stat is None else now - (boottime_us() - stat.started_us)


def close_logs(root: int, known: Known) -> None:
    """Give the logs that were being written their lasting names, with a line that says why they end."""
    key, attempt = known.attempt_id
    try:
        folder = open_folder(root, (*run_folder(key), str(attempt)))
    except OSError:
        return  # it has not printed anything
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


async def _watch(supervisor: Supervisor, known: Known, pids: list[int], tools: Tools) -> None:
    """They are not our children: their end can be seen, but not how they ended."""
    loop = asyncio.get_running_loop()
    marks = marks_of_attempt(known.attempt_id.key.run_id, known.attempt_id.attempt, tools.identity)
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
    endings: set[asyncio.Task[None]] = set()

    def end() -> None:
        if not endings:
            for pid, event in gone.items():
                endings.add(loop.create_task(end_family(pid, marks, tools.grace_seconds, event.is_set)))

    supervisor.enders[known.number] = end
    for event in gone.values():
        await event.wait()
    if endings:
        await asyncio.wait(endings)
    for fd in descriptors:
        loop.remove_reader(fd)
        os.close(fd)
    del supervisor.enders[known.number]
    supervisor.finish(known, _lost(UNKNOWN_EXIT))


def _lost(loss: Loss) -> Ending:
    return loss.ending(time.time_ns() // 1_000)


def _done(task: asyncio.Task[None]) -> None:
    """A watch that fails is ours to find."""
    if not task.cancelled():
        task.result()
