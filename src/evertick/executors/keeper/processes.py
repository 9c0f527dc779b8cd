"""How a process is started, waited for, and ended with everything it has started itself."""

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

LOOK_SECONDS = 0.02
"""How often an ended group is looked at until it is empty."""
KILL_TRIES = 100
SNAPSHOT_SECONDS = 0.05
"""How old a look at the process table may be where a newcomer is found later anyway."""

# Python ignores these for itself, and a process inherits what is ignored.
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
_NO_ROOM = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT}


RESERVE = 32
"""Descriptors that no run is given: ending processes, renewing a lease and hearing a scheduler need some."""
LOG_DESCRIPTORS = 2
"""A log and its folder; opened when something is printed."""


class NoRoom(Exception):
    """The machine cannot start a process now; it may be able to later."""


def is_for_want_of_room(error: OSError) -> bool:
    return error.errno in _NO_ROOM


def check_descriptors(any_fd: int, running: int) -> None:
    """`OSError` when all but the reserve are in use, or will be when each that runs has opened its log."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(any_fd)
    os.close(lowest_free)
    if lowest_free + running * LOG_DESCRIPTORS >= limit - min(RESERVE, limit // 4):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def no_room_text(error: OSError) -> str:
    """Why nothing can be started, and which limit it is where it is ours."""
    text = f"this machine cannot start another process now: {error.strerror}"
    if error.errno != errno.EMFILE:
        return text
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"{text}. The keeper may have {limit:,} files open: raise LimitNOFILE= of the unit, or 'ulimit -Hn'"


class Exit(NamedTuple):
    """How a process ended: its exit code, or minus the signal; and what it used."""

    code: int
    user_us: int = 0
    system_us: int = 0
    max_rss_bytes: int = 0


class Limits(NamedTuple):
    """What a process is held to; None leaves a limit as it is."""

    files_soft: int
    memory_bytes: int | None = None
    files: int | None = None


class Reaper:
    """Learns of the end of every child. One signal may stand for many ends, so each time all are asked for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waiting: dict[int, asyncio.Future[Exit]] = {}
        self._loop = loop
        loop.add_signal_handler(signal.SIGCHLD, self.reap)

    @property
    def running(self) -> int:
        return len(self._waiting)

    def watch(self, pid: int) -> asyncio.Future[Exit]:
        """To be called before the loop has its turn, so that no end is missed."""
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
            # Others are what our processes left behind: they come to us when their parents end.
            future = self._waiting.pop(pid, None)
            if future is not None and not future.done():
                user_us, system_us = round(used.ru_utime * 1e6), round(used.ru_stime * 1e6)
                future.set_result(Exit(os.waitstatus_to_exitcode(status), user_us, system_us, used.ru_maxrss * 1024))


def spawn(
    path: str,
    argv: tuple[str, ...],
    env: Mapping[str, str],
    folder: str | None,
    descriptors: Mapping[int, int],
    limits: Limits,
) -> int:
    """Start a process in a session of its own; `descriptors` says which of ours become its 0, 1, 2 ...

    Nothing else may change the working folder or the limits meanwhile: the keeper has one thread for this.
    """
    actions = [(os.POSIX_SPAWN_DUP2, ours, its) for its, ours in sorted(descriptors.items())]
    home = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if folder is not None else None
    try:
        if folder is not None:
            os.chdir(folder)
        with _files_limit(limits):
            pid = os.posix_spawn(
                path, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_DEFAULT_SIGNALS
            )
    finally:
        if home is not None:
            os.fchdir(home)
            os.close(home)
    _limit(pid, limits)
    return pid


def spawn_as(
    account: Account,
    path: str,
    argv: tuple[str, ...],
    env: Mapping[str, str],
    folder: str | None,
    descriptors: Mapping[int, int],
    limits: Limits,
) -> int:
    """The same as another user: with its groups and none of ours, and without our capabilities before it begins.

    `posix_spawn` cannot do that, and a program in between (setpriv) keeps them until it starts the other.
    """
    numbers = sorted(its for its in descriptors if its > 2)
    # A keeper holds the low numbers for this, so that none of its own files is among them.
    held = {its: os.dup(its) for its in numbers}
    try:
        for its in numbers:
            os.dup2(descriptors[its], its, inheritable=False)
        with _files_limit(limits):
            process = subprocess.Popen(
                argv,
                executable=path,
                env=env,
                cwd=folder,
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
    process.returncode = 0  # the reaper waits for it; this object must not
    _limit(process.pid, limits)
    return process.pid


@contextlib.contextmanager
def _files_limit(limits: Limits) -> Iterator[None]:
    """We have raised our own limit, and a program that uses select() must not inherit that."""
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
        pass  # it has ended already, or is held to less


async def end_family(
    leader: int,
    marks: frozenset[bytes],
    grace_seconds: float,
    has_ended: Callable[[], bool],
    *,
    spares_leader: bool = False,
) -> None:
    """Ask the group to end, and after the grace make everything end that the leader has started.

    A leader that only waits for its program, as that of a sandbox does, is spared at first: it says how the program
    ended, and the output of the program ends with it.
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
            # Again and again: the program may have been about to be started.
            below = family_of(leader, marks, snapshot(time.monotonic() - SNAPSHOT_SECONDS))
            newcomers = [stat.pid for stat in below if stat.pid != leader and stat.pid not in asked]
            _signal_each(newcomers, signal.SIGTERM)
            asked.update(newcomers)
        if not has_ended() or any(is_alive(stat.pid) for stat in relatives):
            empty_since = None
        elif empty_since is None:
            empty_since = time.monotonic()
        else:
            # One look at the process table serves all that are being ended, because it is younger than their ends.
            relatives = family_of(leader, marks, snapshot(empty_since))
            if not relatives:
                return
        await asyncio.sleep(LOOK_SECONDS)
    for _ in range(KILL_TRIES):
        # Again and again: what is being killed may just have started something.
        _signal_group(leader, signal.SIGKILL)
        relatives = family_of(leader, marks, snapshot(time.monotonic()))
        if has_ended() and not relatives:
            return
        _signal_each([stat.pid for stat in relatives], signal.SIGKILL)
        await asyncio.sleep(LOOK_SECONDS)


def _signal_group(leader: int, number: signal.Signals) -> None:
    # Gone, or it has changed its user and is not ours to signal.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _signal_each(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
