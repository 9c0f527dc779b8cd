"""Starts processes, reaps them, and ends one with everything it has started."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from evertick.executors.keeper.account import Account
from evertick.executors.keeper.procfs import family_of, is_alive, snapshot

POLL_SECONDS = 0.02
"""How often a process group that is stopping is checked."""
KILL_TRIES = 100
SNAPSHOT_SECONDS = 0.05
"""How old a snapshot of the process table may be where a new process is found later anyway."""

# Python ignores these signals, and a child process inherits that.
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
_CAPACITY_ERRORS = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT}


RESERVE = 32
"""Descriptors that no attempt may use: ending processes, renewing a lease and a connection need some."""
LOG_DESCRIPTORS = 2
"""A log and its folder, opened with the first output."""


class NoCapacity(Exception):
    """The machine cannot start another process now; it may be able to later."""


def is_capacity_error(error: OSError) -> bool:
    return error.errno in _CAPACITY_ERRORS


def check_descriptors(any_fd: int, running: int) -> None:
    """`OSError` when only the reserve is free, also counting the logs that running steps have yet to open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(any_fd)
    os.close(lowest_free)
    if lowest_free + running * LOG_DESCRIPTORS >= limit - min(RESERVE, limit // 4):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def capacity_text(error: OSError) -> str:
    """Why nothing can be started, and which limit to raise."""
    text = f"this machine cannot start another process now: {error.strerror}"
    if error.errno != errno.EMFILE:
        return text
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"{text}. The keeper may open {limit:,} files: raise LimitNOFILE= of the unit, or 'ulimit -Hn'"


class Exit(NamedTuple):
    """How a process ended: its exit code, or minus the signal; and the resources it used."""

    code: int
    user_us: int = 0
    system_us: int = 0
    max_rss_bytes: int = 0


class Limits(NamedTuple):
    """Resource limits of a process; None: unchanged."""

    files_soft: int
    memory_bytes: int | None = None
    files: int | None = None


class Reaper:
    """Reaps every child. One SIGCHLD may represent many exits, so all are collected each time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waiting: dict[int, asyncio.Future[Exit]] = {}
        self._loop = loop
        loop.add_signal_handler(signal.SIGCHLD, self.reap)

    @property
    def running(self) -> int:
        return len(self._waiting)

    def watch(self, pid: int) -> asyncio.Future[Exit]:
        """Call it before control returns to the event loop, so that no exit is missed."""
        future: asyncio.Future[Exit] = self._loop.create_future()
        self._waiting[pid] = future
        return future

    def reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            # Others are orphans of our processes, inherited when their parents ended.
            future = self._waiting.pop(pid, None)
            if future is not None and not future.done():
                user_us, system_us = round(used.ru_utime * 1e6), round(used.ru_stime * 1e6)
                future.set_result(Exit(os.waitstatus_to_exitcode(status), user_us, system_us, used.ru_maxrss * 1024))


class ProcessStart(NamedTuple):
    """What a process is started with."""

    path: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    folder: str | None
    descriptors: Mapping[int, int]
    """Its descriptors 0, 1, 2 ... and ours."""
    limits: Limits


def spawn(start: ProcessStart) -> int:
    """Start a process in a session of its own.

    Nothing else may change the working folder or the limits meanwhile: only the keeper's main thread calls this.
    """
    actions = [(os.POSIX_SPAWN_DUP2, ours, its) for its, ours in sorted(start.descriptors.items())]
    home = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if start.folder is not None else None
    try:
        if start.folder is not None:
            os.chdir(start.folder)
        with _files_limit(start.limits):
            pid = os.posix_spawn(
                start.path,
                start.argv,
                start.env,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULT_SIGNALS,
            )
    finally:
        if home is not None:
            os.fchdir(home)
            os.close(home)
    _limit(pid, start.limits)
    return pid


def spawn_as(account: Account, start: ProcessStart) -> int:
    """Start a process as another user: with its groups, and without our groups and capabilities.

    `posix_spawn` cannot do that, and a helper such as setpriv would keep our capabilities until it starts the program.
    """
    descriptors = start.descriptors
    numbers = sorted(its for its in descriptors if its > 2)
    # A keeper reserves the low numbers for this, so that none of its own files has one.
    held = {its: os.dup(its) for its in numbers}
    try:
        for its in numbers:
            os.dup2(descriptors[its], its, inheritable=False)
        with _files_limit(start.limits):
            process = subprocess.Popen(
                start.argv,
                executable=start.path,
                env=start.env,
                cwd=start.folder,
                stdin=descriptors[0],
                stdout=descriptors[1],
                stderr=descriptors[2],
                pass_fds=numbers,
                start_new_session=True,
                user=account.uid,
                group=account.gid,
                extra_groups=account.groups,
            )
    finally:
        for its, fd in held.items():
            os.dup2(fd, its, inheritable=False)
            os.close(fd)
    process.returncode = 0  # the reaper waits for it, not this object
    _limit(process.pid, start.limits)
    return process.pid


@contextlib.contextmanager
def _files_limit(limits: Limits) -> Iterator[None]:
    """Our own limit is raised, and a program that uses select() must not inherit that."""
    _, hard = own = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits.files_soft, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, own)


def _limit(pid: int, limits: Limits) -> None:
    if limits.memory_bytes is None and limits.files is None:
        return
    try:
        if limits.memory_bytes is not None:
            resource.prlimit(pid, resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
        if limits.files is not None:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (limits.files, limits.files))
    except (ProcessLookupError, ValueError, PermissionError):
        pass  # it has ended, or has a lower limit


async def end_family(
    leader: int,
    marks: frozenset[bytes],
    grace_seconds: float,
    has_ended: Callable[[], bool],
    *,
    spares_leader: bool = False,
) -> None:
    """Send SIGTERM to the process group, and after the grace SIGKILL to everything that the leader has started.

    A leader that only waits for its program, such as a sandbox, is spared at first: it reports how the program ended.
    """
    relatives = family_of(leader, marks, snapshot(time.monotonic() - SNAPSHOT_SECONDS))
    deadline = time.monotonic() + grace_seconds
    asked: set[int] = set()
    if not spares_leader:
        _signal_group(leader, signal.SIGTERM)
        _signal_each([stat.pid for stat in relatives if stat.group != leader], signal.SIGTERM)
    empty_since = None
    while time.monotonic() < deadline:
        if spares_leader:
            # In each round: the program may not have been started yet.
            below = family_of(leader, marks, snapshot(time.monotonic() - SNAPSHOT_SECONDS))
            newcomers = [stat.pid for stat in below if stat.pid != leader and stat.pid not in asked]
            _signal_each(newcomers, signal.SIGTERM)
            asked.update(newcomers)
        if not has_ended() or any(is_alive(stat.pid) for stat in relatives):
            empty_since = None
        elif empty_since is None:
            empty_since = time.monotonic()
        else:
            # One snapshot serves all groups that are being ended, if it is newer than their exits.
            relatives = family_of(leader, marks, snapshot(empty_since))
            if not relatives:
                return
        await asyncio.sleep(POLL_SECONDS)
    for _ in range(KILL_TRIES):
        # In each round: a process that is being killed may have started another.
        _signal_group(leader, signal.SIGKILL)
        relatives = family_of(leader, marks, snapshot(time.monotonic()))
        if has_ended() and not relatives:
            return
        _signal_each([stat.pid for stat in relatives], signal.SIGKILL)
        await asyncio.sleep(POLL_SECONDS)


def _signal_group(leader: int, number: signal.Signals) -> None:
    # It is gone, or has changed its user and cannot be signalled.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _signal_each(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
