"""A scheduler runs out of memory: does it continue, or end and leave everything to the next start?"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.processes.machine import EVERY_SECOND, Machine, wait_for
from tests.share import share, turn

ROUNDS = int(os.environ.get("EVERTICK_MEMORY_LIMITS", "0")) or share(2, 10)
"""`make faults` says how many, with each kind of limit."""
MIB = 1 << 20
ROOMS = (0, MIB // 4, MIB, 3 * MIB, 9 * MIB)
"""Beyond what the scheduler has: the stack of a thread is 8 MiB, a part of Python's heap is one."""
JOBS_ADDED = 60
TEXT = "schedule: {every: 1h}\ndescription: " + "x" * 40_000
CGROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))
"""Where a group is made, and the file of its limit: version 1, version 2."""

Limit = Callable[[int, int], None]
"""Leaves a process this number of bytes beyond those that it has."""


@contextmanager
def address_space(_folder: Path) -> Iterator[Limit]:
    def limit(pid: int, room: int) -> None:
        used = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))

    yield limit


@contextmanager
def cgroup(folder: Path) -> Iterator[Limit]:
    """The kernel kills what goes beyond it, as in a container or in a service with `MemoryMax`."""
    groups, (parent, file) = list[Path](), next(one for one in CGROUPS if can_limit(*one))

    def limit(pid: int, room: int) -> None:
        group = Path(parent) / f"evertick-{folder.name}-{len(groups)}"
        group.mkdir()
        groups.append(group)
        # Only what a process gets from now on counts; below a few pages it could not even move.
        (group / file).write_text(str(room + MIB // 2))
        (group / "cgroup.procs").write_text(str(pid))

    yield limit
    for group in groups:
        wait_for(partial(_removed, group), f"{group} to be empty")


def can_limit(parent: str, file: str) -> bool:
    group = Path(parent) / f"evertick-{os.getpid()}"
    with suppress(OSError):
        group.mkdir()
        try:
            return os.access(group / file, os.W_OK)
        finally:
            group.rmdir()
    return False


def _removed(group: Path) -> bool | None:
    with suppress(OSError):
        group.rmdir()
    return not group.exists() or None


LIMITS = [pytest.param(address_space, id="of the address space")]
if any(can_limit(*one) for one in CGROUPS):
    # It takes root, or a part of the tree of groups that is the user's own.
    LIMITS.append(pytest.param(cgroup, id="of a cgroup"))


@pytest.mark.slow
@pytest.mark.parametrize("limits", LIMITS)
def test_a_scheduler_without_memory_loses_nothing(tmp_path, record_property, limits):
    record_property("faults", ROUNDS)
    random, ends = Random(turn()), list[int | None]()
    with ExitStack() as stack:
        limit = stack.enter_context(limits(tmp_path))
        machine = Machine(tmp_path, {f"job-{number}": EVERY_SECOND for number in range(4)})
        stack.callback(machine.close)
        for number in range(ROUNDS):
            machine.start()
            machine.wait_for_ends(4)
            limit(machine.pid, random.choice(ROOMS) if number else 0)
            for more in range(JOBS_ADDED):
                machine.define(f"more-{number}-{more}", f"{TEXT}{number}\n")
            ends.append(_end_of(machine))
        machine.start()
        machine.wait_until_serving()
        machine.wait_until_caught_up()
        machine.stop()
        machine.check()
    # An interpreter or a library that gets no memory where it cannot go on aborts.
    assert set(ends) <= {None, 1, -signal.SIGKILL, -signal.SIGABRT}, ends


def _end_of(machine: Machine) -> int | None:
    """How the scheduler has ended; None: it continued for seconds, and was killed then."""
    goal = len(machine.lines("ended")) + 20
    is_over = lambda: machine.process.poll() is not None or len(machine.lines("ended")) >= goal or None  # noqa: E731
    wait_for(is_over, "the scheduler to continue or to end", machine.describe)
    code = machine.process.poll()
    if code is None:
        machine.kill()
    elif code > 0:
        assert "process.failed" in machine.said, machine.said[-3_000:]
    return code
