"""One try of a step: a process or an HTTP call."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

from evertick.executors.keeper.exit_note_file import NO_HEAD, ExitNoteFile, NoteHead
from evertick.executors.keeper.output import Capture, Pump
from evertick.executors.keeper.procfs import boottime_us, stat_of
from evertick.executors.keeper.sandbox import Confinement
from evertick.executors.keeper.spawn import (
    Exit,
    Limits,
    NoCapacity,
    ProcessStart,
    Reaper,
    capacity_text,
    check_descriptors,
    end_family,
    is_capacity_error,
    spawn,
    spawn_as,
)
from evertick.kinds import PAYLOAD_FD, RESULT_FD, SCRIPT_FD, STATUS_FD, ExitNote, Program
from evertick.kinds.command import find_program
from evertick.kinds.http import HttpAnswer, HttpExchange, HttpRequest
from evertick.model.lifecycle import exit_code_text
from evertick.model.work import SandboxKind

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""The exit codes of shells for a program that cannot be started."""
CALLS_MAX = 512
"""HTTP calls at once; each has a thread."""


@dataclass(slots=True)
class Runtime:
    """What all attempts of a keeper share."""

    loop: asyncio.AbstractEventLoop
    reaper: Reaper
    env: Mapping[str, str]
    limits: Limits
    grace_seconds: float
    logs: int
    """A descriptor of the log folder."""
    scratch: Path
    """The folder of scripts that run."""
    notes: Path
    """The folder of the notes in which programs leave how they ended."""
    dev_null: int
    identity: str
    """The id of the state folder, the same for every keeper of it."""
    home: str
    """The state folder."""
    member_file: Path | None = None
    """The name and labels of a fleet member; read for each attempt, because a keeper outlives a rejoin."""
    hidden: tuple[str, ...] = ()
    """Files and folders of the scheduler that no sandbox shows."""
    shown: tuple[str, ...] = ()
    unshowable: tuple[str, ...] = ()
    calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CALLS_MAX))
    numbers: count[int] = field(default_factory=count)


NO_SANDBOX = "the sandbox could not be created; see the log. On most machines it needs unprivileged user namespaces."
STATUS_MAX = 4 * 1024


class TryEnd(NamedTuple):
    is_good: bool
    detail: str = ""
    exit_code: int | None = None
    used: Exit = Exit(0)
    pid: int = 0
    is_lost: bool = False
    """What the process ran elsewhere, such as a pod, was taken away: it did not fail by itself."""


class Cancellable(Protocol):
    """Something that runs and can be cancelled."""

    def cancel(self) -> bool:
        """Whether there was something to cancel."""
        ...


UNCONFINED = Confinement()


def _runs_by_systemd(confinement: Confinement) -> bool:
    """Whether systemd runs the program, and changes the user itself."""
    return confinement.sandbox is not None and confinement.sandbox.kind is SandboxKind.SYSTEMD_RUN


def _has_status(confinement: Confinement) -> bool:
    return confinement.sandbox is not None and confinement.sandbox.kind is SandboxKind.BWRAP


class ProcessTry:
    """A process and its output: `start` starts it, `ended` waits until it and its output have ended."""

    def __init__(
        self,
        runtime: Runtime,
        program: Program,
        env: Mapping[str, str],
        folder: str | None,
        marks: frozenset[bytes],
        write: Callable[[bytes], None],
        output_max: int | None = None,
        confinement: Confinement = UNCONFINED,
        note_head: NoteHead = NO_HEAD,
    ) -> None:
        self._runtime = runtime
        self._confinement = confinement
        self._status = Capture(STATUS_MAX) if _has_status(confinement) else None
        self._program = program
        self._env = env
        self._folder = folder
        self._marks = marks
        self._write = write
        self._capture = Capture(output_max) if output_max is not None else None
        self._note_head = note_head
        self._note: ExitNoteFile | None = None
        self._pumps: list[Pump] = []
        self._script: Path | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self.pid = 0
        self.started_us = 0

    def start(self) -> None:
        """Raises `OSError` if the program cannot be started, `NoCapacity` if the machine has no capacity for it, and
        `StepError` if it cannot be confined as the job asks.
        """
        program, argv = self._program, self._program.argv
        folder = self._folder
        if folder is not None and not os.path.isdir(folder):
            raise NotADirectoryError(
                f"the working folder {folder!r} does not exist. Create it, or change 'workingDir'."
            )
        path = find_program(argv[0], self._env, folder or "")
        theirs: list[int] = []
        try:
            check_descriptors(self._runtime.dev_null, self._runtime.reaper.running)
            if program.script is not None and self._confinement.is_plain:
                argv = (*argv, str(self._write_script(program.script)))
            elif program.script is not None:
                argv = (*argv, f"/proc/self/fd/{SCRIPT_FD}")
            if self._confinement.sandbox is not None:
                folder = None if folder is None else os.path.abspath(folder)
                argv = self._confinement.words(program, path, argv, folder, self._env, self._runtime.limits)
                path = argv[0]
            self._spawn(path, argv, theirs)
        except OSError as error:
            self._remove_files()
            for pump in self._pumps:
                pump.close()
            if is_capacity_error(error):
                raise NoCapacity(capacity_text(error)) from error
            raise
        finally:
            for fd in theirs:
                os.close(fd)

    def _spawn(self, path: str, argv: tuple[str, ...], theirs: list[int]) -> None:
        """`theirs` collects the descriptors that the process inherits and we must close."""
        out = self._pipe(theirs, self._write)
        descriptors = {0: self._runtime.dev_null, 1: out, 2: out}
        if self._capture is not None and self._program.has_result:
            descriptors[RESULT_FD] = self._pipe(theirs, self._capture.write)
        elif self._capture is not None:
            descriptors[1] = self._pipe(theirs, self._capture_and_write)
        if self._program.has_exit_note:
            self._note = ExitNoteFile(self._runtime.notes, self._unique_name(), self._note_head)
            descriptors[RESULT_FD] = self._note.fd
        if self._status is not None:
            descriptors[STATUS_FD] = self._pipe(theirs, self._status.write)
        if self._program.payload is not None:
            descriptors[PAYLOAD_FD] = _in_memory("payload", self._program.payload, theirs)
        if self._program.script is not None and not self._confinement.is_plain:
            script = self._program.script.encode("utf-8", "surrogateescape")
            descriptors[SCRIPT_FD] = _in_memory("script", script, theirs)
        # A sandbox has its own view of folders; its arguments name the working folder.
        folder = self._folder if self._confinement.sandbox is None else "/"
        start = ProcessStart(path, argv, self._env, folder, descriptors, self._runtime.limits)
        account = self._confinement.account if self._confinement.changes_user else None
        if account is not None and not _runs_by_systemd(self._confinement):
            self.pid = spawn_as(account, start)
        else:
            self.pid = spawn(start)
        self.started_us = _start_of(self.pid)
        if self._note is not None:
            self._note.name_after(self.pid, self.started_us)
        self._exited = self._runtime.reaper.watch(self.pid)

    def _pipe(self, theirs: list[int], sink: Callable[[bytes], None]) -> int:
        reader, writer = os.pipe()
        theirs.append(writer)
        self._pumps.append(Pump(self._runtime.loop, reader, sink))
        return writer

    def cancel(self) -> bool:
        if not self.pid or self._exited.done():
            return False
        if self._cancelling is None:
            self._cancelling = self._runtime.loop.create_task(
                end_family(
                    self.pid,
                    self._marks,
                    self._runtime.grace_seconds,
                    self._exited.done,
                    spares_leader=self._confinement.sandbox is not None,
                )
            )
        return True

    async def ended(self) -> TryEnd:
        used = await self._exited
        for pump in self._pumps:
            pump.finish()
        if used.code < 0 and self._cancelling is None and self._confinement.sandbox is not None:
            # The sandbox was killed, not the program in it, which would run on unnoticed.
            await end_family(self.pid, self._marks, 0, self._exited.done)
        if self._cancelling is not None:
            # Its children may have outlived it: the try has ended when they have.
            await self._cancelling
        note = self._note.read() if self._note is not None else ExitNote()
        self._remove_files()
        code = used.code
        if code == 0:
            return TryEnd(True, "", code, used, self.pid)
        if code > 0 and self._status is not None and b'"exit-code"' not in self._status.value():
            return TryEnd(False, NO_SANDBOX, code, used, self.pid)
        return TryEnd(False, note.reason or _describe(code), code, used, self.pid, is_lost=note.is_lost)

    def output(self) -> Capture | None:
        return self._capture

    def _capture_and_write(self, data: bytes) -> None:
        assert self._capture is not None
        self._capture.write(data)
        self._write(data)

    def _write_script(self, text: str) -> Path:
        path = self._runtime.scratch / self._unique_name()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700)
        self._script = path
        with open(fd, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        return path

    def _unique_name(self) -> str:
        return f"{os.getpid()}-{next(self._runtime.numbers)}"

    def _remove_files(self) -> None:
        if self._note is not None:
            self._note.close()
        if self._script is not None:
            self._script.unlink(missing_ok=True)
            self._script = None


class HttpTry:
    """An HTTP call in a thread of its own; in a pool, fast calls would wait for slow ones."""

    def __init__(self, runtime: Runtime, request: HttpRequest) -> None:
        self._runtime = runtime
        self._exchange = HttpExchange(request)
        self._is_cancelled = False
        self._has_answer = False

    def cancel(self) -> bool:
        if self._has_answer:
            return False
        self._is_cancelled = True
        self._exchange.abort()
        return True

    async def ended(self) -> HttpAnswer:
        async with self._runtime.calls:
            if self._is_cancelled:
                return HttpAnswer(False, "the call was cancelled")
            try:
                check_descriptors(self._runtime.dev_null, self._runtime.reaper.running)
            except OSError as error:
                return HttpAnswer(False, capacity_text(error))
            loop, answer = self._runtime.loop, self._runtime.loop.create_future()
            thread = threading.Thread(target=self._run, args=(loop, answer), name="http", daemon=True)
            thread.start()
            result: HttpAnswer = await answer
            self._has_answer = True
            return result

    def _run(self, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[HttpAnswer]) -> None:
        try:
            result = self._exchange.run()
        except Exception as error:
            result = HttpAnswer(False, str(error))
        loop.call_soon_threadsafe(_set_result, answer, result)


def _set_result(future: asyncio.Future[HttpAnswer], answer: HttpAnswer) -> None:
    if not future.done():
        future.set_result(answer)


def _start_of(pid: int) -> int:
    """When the kernel started our child.

    On a busy machine that can be long after we asked for it; by our own clock the next keeper would take the process
    for another one.
    """
    try:
        stat = stat_of(pid)
    except OSError:  # no descriptor is left, and the process has been started all the same
        stat = None
    return boottime_us() if stat is None else stat.started_us


def _in_memory(name: str, data: bytes, theirs: list[int]) -> int:
    """A descriptor from which a process reads that data, without a file on disk."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    theirs.append(fd)
    with open(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _describe(code: int) -> str:
    if code >= 0:
        return exit_code_text(code)
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
