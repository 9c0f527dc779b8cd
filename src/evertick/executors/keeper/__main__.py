"""`python -m evertick.executors.keeper --folder FOLDER --logs FOLDER`: be the keeper of a state folder."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import os
import resource
import secrets
import signal
import sys
import time
from pathlib import Path

from evertick.executors import protocol
from evertick.executors.keeper.attempt_state import book_of
from evertick.executors.keeper.environment import MEMBER_FILE, inherited
from evertick.executors.keeper.journal import Journal, read_lines
from evertick.executors.keeper.lease import Lease, LeaseFile, read_lease
from evertick.executors.keeper.process import Tools
from evertick.executors.keeper.processes import Limits, Reaper
from evertick.executors.keeper.procfs import boot_id
from evertick.executors.keeper.recovery import recover
from evertick.executors.keeper.server import Connection, Server
from evertick.executors.keeper.supervisor import Supervisor
from evertick.executors.keeper.unconfirmed import Outlook, OutlookFile, read_outlook
from evertick.executors.keeper.watchdog import LOCK as WATCHDOG_LOCK
from evertick.executors.keeper.watchdog import is_locked
from evertick.executors.keeper_process import LOCK as KEEPER_LOCK
from evertick.executors.settings import KeeperSettings
from evertick.hardening import hide_process

READY = b"ready\n"
TAKEN = b"taken\n"
"""Another keeper has the folder: whoever wanted one can use that."""
LOOK_SECONDS = 1.0
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38


def main(arguments: list[str]) -> int:
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    if not {"--folder", "--logs"} <= set(options):
        sys.stderr.write("usage: python -m evertick.executors.keeper --folder FOLDER --logs FOLDER [--settings JSON]\n")
        return 2
    settings = KeeperSettings.from_text(options.get("--settings", "{}"))
    folder, logs = Path(options["--folder"]).absolute(), Path(options["--logs"]).absolute()
    hide_process()
    files_soft = _detach(settings)
    lock = _lock(folder)
    if lock is None:
        os.write(1, TAKEN)
        return 0
    asyncio.run(_keep(folder, logs, settings, files_soft))
    os.close(lock)
    return 0


def _detach(settings: KeeperSettings) -> int:
    """Leave behind whatever belongs to whoever started us; answers how many files a job may have open."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.close(int(name))
    # The low numbers are what a process is given: none of ours may be among them.
    while os.open(os.devnull, os.O_RDWR) < 8:
        pass
    os.umask(0o077)
    os.chdir(os.environ.get("HOME", "/") if os.path.isdir(os.environ.get("HOME", "/")) else "/")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    files_soft, files_hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_hard, files_hard))
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _prctl(settings)
    return files_soft


def _prctl(settings: KeeperSettings) -> None:
    """Be the parent of what jobs leave behind, so that it is reaped also where nobody else does."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if settings.no_new_privileges and prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    except (ImportError, AttributeError, OSError) as error:
        if settings.no_new_privileges:
            raise SystemExit(f"'no_new_privileges' cannot be set on this system: {error}") from error


def _lock(folder: Path) -> int | None:
    lock = os.open(folder / KEEPER_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


async def _keep(folder: Path, logs: Path, settings: KeeperSettings, files_soft: int) -> None:
    loop = asyncio.get_running_loop()
    scratch = _empty_scratch(folder)
    book = book_of(read_lines(folder))
    has_rebooted = bool(book.boot_id) and book.boot_id != boot_id()
    book.boot_id = boot_id()
    orphans = list(book.open.values())
    journal = Journal(folder, settings.journal_bytes)
    journal.begin(book.opening(), book.last_serial)
    tools = Tools(
        loop=loop,
        reaper=Reaper(loop),
        env=inherited(os.environ),
        limits=Limits(files_soft, settings.memory_max_bytes, settings.files_max),
        grace_seconds=settings.grace_us / 1_000_000,
        logs=os.open(logs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC),
        scratch=scratch,
        dev_null=os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC),
        identity=_identity(folder),
        home=str(logs.parent),
        member_file=folder / MEMBER_FILE,
        hidden=(str(logs.parent), str(folder), *settings.hidden),
        shown=(str(logs.parent / "bundles"),),
        unshowable=tuple(settings.unshowable),
    )
    server = Server(secrets.token_hex(8))
    server.supervisor = supervisor = Supervisor(book, journal, tools, settings, server.say, server.connected_seconds)
    supervisor.is_forgetful = has_rebooted
    lease, outlook = read_lease(folder), read_outlook(folder)  # before the files are made
    supervisor.restore_lease(lease, outlook.newest, Guard(folder, tools).keep)
    recover(supervisor, orphans, has_rebooted, tools)
    # Runs are not the keeper's to end: it takes no more of them, and goes when those it has are over.
    loop.add_signal_handler(signal.SIGTERM, supervisor.leave)
    listener = await loop.create_unix_server(lambda: Connection(server), sock=protocol.listen(folder))
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    _say_ready()
    while not _may_go(server, supervisor, settings):
        supervisor.tidy()
        supervisor.enforce_lease()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(supervisor.may_leave.wait(), min(LOOK_SECONDS, supervisor.seconds_to_lease_end()))
    listener.close()
    (folder / protocol.SOCKET).unlink(missing_ok=True)
    journal.close()


def _may_go(server: Server, supervisor: Supervisor, settings: KeeperSettings) -> bool:
    """Nothing runs, and nobody is there or it was asked to leave. What was not delivered is in the journal."""
    if not supervisor.is_idle:
        return False
    is_lonely = not server.is_connected and time.monotonic() - server.left_at > settings.idle_us / 1_000_000
    return is_lonely or supervisor.may_leave.is_set()


def _identity(folder: Path) -> str:
    """Made once for a state folder; whole or not there at all, because half of it would be another one."""
    path = folder / "keeper.id"
    if not path.exists():
        fresh = folder / "keeper.id.new"
        fresh.write_text(secrets.token_hex(16))
        fresh.rename(path)
    return path.read_text()


class Guard:
    """Writes a lease down where the watchdog reads it, and sees to it that there is one."""

    def __init__(self, folder: Path, tools: Tools) -> None:
        self._folder = folder
        self._tools = tools
        self._lease_file, self._outlook_file = LeaseFile(folder), OutlookFile(folder)

    def keep(self, lease: Lease, outlook: Outlook) -> None:
        self._outlook_file.write(outlook)
        self._lease_file.write(lease)
        if lease.is_limited:
            try:
                self._watch()
            except OSError as error:
                # The next renewal tries again; what runs is ended by the keeper itself until then.
                sys.stderr.write(f"watchdog.not_started reason={error.strerror}\n")

    def _watch(self) -> None:
        if not is_locked(self._folder / WATCHDOG_LOCK):
            words = (sys.executable, "-P", "-m", "evertick.executors.keeper.watchdog")
            os.posix_spawn(
                sys.executable,
                [*words, str(self._folder), self._tools.identity],
                {**self._tools.env, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
                file_actions=[(os.POSIX_SPAWN_DUP2, self._tools.dev_null, 0)],
                setsid=True,
                setsigmask=(),
            )


def _empty_scratch(folder: Path) -> Path:
    """Scripts of a keeper that was killed; the processes that read them have them open."""
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o700, exist_ok=True)
    for path in scratch.iterdir():
        path.unlink(missing_ok=True)
    return scratch


def _say_ready() -> None:
    with contextlib.suppress(OSError):
        os.write(1, READY)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
