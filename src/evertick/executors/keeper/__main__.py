"""`python -m evertick.executors.keeper --folder FOLDER --logs FOLDER`: be the keeper of a state folder."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import secrets
import signal
import sys
import time
from pathlib import Path

from evertick.executors import protocol
from evertick.executors.keeper.attempt_state import read_states
from evertick.executors.keeper.environment import MEMBER_FILE, inherited
from evertick.executors.keeper.journal import Journal, read_lines
from evertick.executors.keeper.lease import Lease, LeaseFile, read_lease
from evertick.executors.keeper.process import Runtime
from evertick.executors.keeper.procfs import boot_id
from evertick.executors.keeper.recorder import Recorder
from evertick.executors.keeper.recovery import recover
from evertick.executors.keeper.server import Connection, Server
from evertick.executors.keeper.spawn import Limits, Reaper
from evertick.executors.keeper.supervisor import Supervisor
from evertick.executors.keeper.unconfirmed import DeadlineFile, DeadlineSummary, read_deadlines
from evertick.executors.keeper.watchdog import LOCK as WATCHDOG_LOCK
from evertick.executors.keeper_process import LOCK as KEEPER_LOCK
from evertick.executors.keeper_process import is_locked, try_lock
from evertick.long_lived import hide_process
from evertick.settings.parts import KeeperSettings

READY = b"ready\n"
TAKEN = b"taken\n"
"""Another keeper has the folder."""
POLL_SECONDS = 1.0
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
    asyncio.run(_serve(folder, logs, settings, files_soft))
    os.close(lock)
    return 0


def _detach(settings: KeeperSettings) -> int:
    """Detach from the process that started us; returns how many files a job may open."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.close(int(name))
    # A child process is given the low descriptors: none of ours may be among them.
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
    """Become the parent of orphans of jobs, so that they are reaped even without an init process."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if settings.no_new_privileges and prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    except (ImportError, AttributeError, OSError) as error:
        if settings.no_new_privileges:
            raise SystemExit(f"'no_new_privileges' is not supported on this system: {error}") from error


def _lock(folder: Path) -> int | None:
    lock = try_lock(folder / KEEPER_LOCK)
    if lock is not None:
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


async def _serve(folder: Path, logs: Path, settings: KeeperSettings, files_soft: int) -> None:
    loop = asyncio.get_running_loop()
    scratch, notes = _empty_scratch(folder), folder / "notes"
    notes.mkdir(mode=0o700, exist_ok=True)
    states = read_states(read_lines(folder))
    has_rebooted = bool(states.boot_id) and states.boot_id != boot_id()
    states.boot_id = boot_id()
    orphans = list(states.open.values())
    journal = Journal(folder, settings.journal_bytes)
    journal.begin(states.opening(), states.last_serial)
    runtime = Runtime(
        loop=loop,
        reaper=Reaper(loop),
        env=inherited(os.environ),
        limits=Limits(files_soft, settings.memory_bytes, settings.files),
        grace_seconds=settings.kill_after_us / 1_000_000,
        logs=os.open(logs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC),
        scratch=scratch,
        notes=notes,
        dev_null=os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC),
        identity=_identity(folder),
        home=str(logs.parent),
        member_file=folder / MEMBER_FILE,
        hidden=(str(logs.parent), str(folder), *settings.hidden),
        shown=(str(logs.parent / "bundles"),),
        unshowable=tuple(settings.unshowable),
    )
    server = Server(secrets.token_hex(8))
    recorder = Recorder(states, journal, settings, loop, server.send, server.connected_seconds)
    server.handler = supervisor = Supervisor(recorder, runtime, settings.kill_after_us)
    supervisor.may_lack_records = has_rebooted
    lease, deadlines = read_lease(folder), read_deadlines(folder)  # before the files are created
    supervisor.restore_lease(lease, deadlines.newest, LeaseKeeper(folder, runtime).save)
    recover(supervisor, recorder, orphans, has_rebooted, runtime)
    # SIGTERM ends no attempt: the keeper accepts no more of them, and exits when those it has have ended.
    loop.add_signal_handler(signal.SIGTERM, supervisor.leave)
    listener = await loop.create_unix_server(lambda: Connection(server), sock=protocol.listen(folder))
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    _report_ready()
    while not _may_exit(server, supervisor, settings):
        recorder.prune()
        supervisor.enforce_lease()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(supervisor.may_leave.wait(), min(POLL_SECONDS, supervisor.seconds_to_lease_end()))
    listener.close()
    (folder / protocol.SOCKET).unlink(missing_ok=True)
    journal.close()


def _may_exit(server: Server, supervisor: Supervisor, settings: KeeperSettings) -> bool:
    """Nothing runs, and it is unused or was asked to leave. Undelivered results are in the journal."""
    if not supervisor.is_idle:
        return False
    is_unused = not server.is_connected and time.monotonic() - server.disconnected_at > settings.idle_us / 1_000_000
    return is_unused or supervisor.may_leave.is_set()


def _identity(folder: Path) -> str:
    """The id of this state folder, created once; renamed into place, because half an id would be another one."""
    path = folder / "keeper.id"
    if not path.exists():
        new = folder / "keeper.id.new"
        new.write_text(secrets.token_hex(16))
        new.rename(path)
    return path.read_text()


class LeaseKeeper:
    """Saves the lease where the watchdog reads it, and starts a watchdog if none runs."""

    def __init__(self, folder: Path, runtime: Runtime) -> None:
        self._folder = folder
        self._runtime = runtime
        self._lease_file, self._deadline_file = LeaseFile(folder), DeadlineFile(folder)

    def save(self, lease: Lease, deadlines: DeadlineSummary) -> None:
        self._deadline_file.write(deadlines)
        self._lease_file.write(lease)
        if lease.is_limited:
            try:
                self._start_watchdog()
            except OSError as error:
                # The next renewal tries again; until then the keeper itself enforces the lease.
                sys.stderr.write(f"watchdog.not_started reason={error.strerror}\n")

    def _start_watchdog(self) -> None:
        if not is_locked(self._folder / WATCHDOG_LOCK):
            words = (sys.executable, "-P", "-m", "evertick.executors.keeper.watchdog")
            os.posix_spawn(
                sys.executable,
                [*words, str(self._folder), self._runtime.identity],
                {**self._runtime.env, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
                file_actions=[(os.POSIX_SPAWN_DUP2, self._runtime.dev_null, 0)],
                setsid=True,
                setsigmask=(),
            )


def _empty_scratch(folder: Path) -> Path:
    """Remove the scripts of a killed keeper; the processes that run them have them open."""
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o700, exist_ok=True)
    for path in scratch.iterdir():
        path.unlink(missing_ok=True)
    return scratch


def _report_ready() -> None:
    with contextlib.suppress(OSError):
        os.write(1, READY)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
