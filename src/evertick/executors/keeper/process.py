"""One try of a step: a process, or an HTTP call, from its start to its end."""

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

from evertick.executors.keeper.output import Capture, Pump
from evertick.executors.keeper.processes import (
    Exit,
    Limits,
    NoRoom,
    Reaper,
    check_descriptors,
    end_family,
    is_for_want_of_room,
    no_room_text,
    spawn,
    spawn_as,
)
from evertick.executors.keeper.procfs import boottime_us
from evertick.executors.keeper.sandbox import Confinement
from evertick.kinds import PAYLOAD_FD, RESULT_FD, SCRIPT_FD, STATUS_FD, WORD_MAX, Program, Word
from evertick.kinds.command import find_program
from evertick.kinds.http import HttpAnswer, HttpExchange, HttpRequest
from evertick.model.work import SandboxKind

NOT_FOUND, NOT_USABLE = 127, 126
"""The exit codes by which shells say that a program could not be started."""
CALLS_MAX = 512
"""HTTP calls at once; each has a thread."""


@dataclass(slots=True)
class Tools:
    """What a keeper has once, and every attempt needs."""

    loop: asyncio.AbstractEventLoop
    reaper: Reaper
    env: Mapping[str, str]
    limits: Limits
    grace_seconds: float
    logs: int
    """The folder of all logs, open."""
    scratch: Path
    """Where scripts lie while they run."""
    dev_null: int
    identity: str
    """Of the state folder; the same for every keeper that it will ever have."""
    home: str
    """The state folder itself."""
    member_file: Path | None = None
    """In which a member of a fleet says who it is; read for each attempt, because a keeper outlives a rejoin."""
    hidden: tuple[str, ...] = ()
    """What no sandbox shows: the state folder, and files of the scheduler elsewhere."""
    shown: tuple[str, ...] = ()
    unshowable: tuple[str, ...] = ()
    calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CALLS_MAX))
    numbers: count[int] = field(default_factory=count)


NO_SANDBOX = "the sandbox could not be made. The log says why; on most machines it needs unprivileged user namespaces."
STATUS_MAX = 4 * 1024


class TryEnd(NamedTuple):
    is_good: bool
    detail: str = ""
    exit_code: int | None = None
    used: Exit = Exit(0)
    pid: int = 0
    output: bytes | None = None
    """What is handed on to later steps."""
    is_lost: bool = False
    """What the process attended to elsewhere was taken away: it did not fail by itself."""


class Living(Protocol):
    """Something that goes on, and can be made to end."""

    def end(self) -> bool:
        """Whether there was something to end."""
        ...


UNCONFINED = Confinement()


def _has_root_client(confinement: Confinement) -> bool:
    """Whether what is started here asks systemd to run the program, which also changes the user."""
    return confinement.sandbox is not None and confinement.sandbox.kind is SandboxKind.SYSTEMD_RUN


def _tells_status(confinement: Confinement) -> bool:
    return confinement.sandbox is not None and confinement.sandbox.kind is SandboxKind.BWRAP


class ProcessTry:
    """A process and its output. `start` has returned when it runs; `ended` waits until it and its output are over."""

    def __init__(
        self,
        tools: Tools,
        program: Program,
        env: Mapping[str, str],
        folder: str | None,
        marks: frozenset[bytes],
        write: Callable[[bytes], None],
        output_max: int | None = None,
        confinement: Confinement = UNCONFINED,
    ) -> None:
        self._tools = tools
        self._confinement = confinement
        self._status = Capture(STATUS_MAX) if _tells_status(confinement) else None
        self._program = program
        self._env = env
        self._folder = folder
        self._marks = marks
        self._write = write
        self._capture = Capture(output_max) if output_max is not None else None
        self._word = Capture(WORD_MAX) if program.leaves_word else None
        self._pumps: list[Pump] = []
        self._script: Path | None = None
        self._ending: asyncio.Task[None] | None = None
        self.pid = 0
        self.started_us = 0

    def start(self) -> None:
        """`FileNotFoundError` or another `OSError` when there is no such program, `NoRoom` when there is no room.

        `Unready` when it cannot be confined as it asks for.
        """
        program, argv = self._program, self._program.argv
        folder = self._folder
        if folder is not None and not os.path.isdir(folder):
            raise NotADirectoryError(f"there is no folder {folder!r} to work in. Make it, or change 'workingDir'.")
        path = find_program(argv[0], self._env, folder or "")
        ours: list[int] = []
        try:
            check_descriptors(self._tools.dev_null, self._tools.reaper.running)
            if program.script is not None and self._confinement.is_plain:
                argv = (*argv, str(self._write_script(program.script)))
            elif program.script is not None:
                argv = (*argv, f"/proc/self/fd/{SCRIPT_FD}")
            if self._confinement.sandbox is not None:
                folder = None if folder is None else os.path.abspath(folder)
                argv = self._confinement.words(program, path, argv, folder, self._env, self._tools.limits)
                path = argv[0]
            self._spawn(path, argv, ours)
        except OSError as error:
            self._remove_script()
            for pump in self._pumps:
                pump.close()
            if is_for_want_of_room(error):
                raise NoRoom(no_room_text(error)) from error
            raise
        finally:
            for fd in ours:
                os.close(fd)

    def _spawn(self, path: str, argv: tuple[str, ...], ours: list[int]) -> None:
        """`ours` gathers the ends that the process has and we must close."""
        out = self._pipe(ours, self._write)
        descriptors = {0: self._tools.dev_null, 1: out, 2: out}
        if self._capture is not None and self._program.has_result:
            descriptors[RESULT_FD] = self._pipe(ours, self._capture.write)
        elif self._capture is not None:
            descriptors[1] = self._pipe(ours, self._keep_and_write)
        if self._word is not None:
            descriptors[RESULT_FD] = self._pipe(ours, self._word.write)
        if self._status is not None:
            descriptors[STATUS_FD] = self._pipe(ours, self._status.write)
        if self._program.payload is not None:
            descriptors[PAYLOAD_FD] = _in_memory("payload", self._program.payload, ours)
        if self._program.script is not None and not self._confinement.is_plain:
            script = self._program.script.encode("utf-8", "surrogateescape")
            descriptors[SCRIPT_FD] = _in_memory("script", script, ours)
        # A sandbox has its own view of folders, and is told which to work in.
        folder = self._folder if self._confinement.sandbox is None else "/"
        self.started_us = boottime_us()
        limits = self._tools.limits
        account = self._confinement.account if self._confinement.changes_user else None
        if account is not None and not _has_root_client(self._confinement):
            self.pid = spawn_as(account, path, argv, self._env, folder, descriptors, limits)
        else:
            self.pid = spawn(path, argv, self._env, folder, descriptors, limits)
        self._exited = self._tools.reaper.watch(self.pid)

    def _pipe(self, ours: list[int], sink: Callable[[bytes], None]) -> int:
        ending, beginning = os.pipe()
        ours.append(beginning)
        self._pumps.append(Pump(self._tools.loop, ending, sink))
        return beginning

    def end(self) -> bool:
        if not self.pid or self._exited.done():
            return False
        if self._ending is None:
            self._ending = self._tools.loop.create_task(
                end_family(
                    self.pid,
                    self._marks,
                    self._tools.grace_seconds,
                    self._exited.done,
                    spares_leader=self._confinement.sandbox is not None,
                )
            )
        return True

    async def ended(self) -> TryEnd:
        used = await self._exited
        for pump in self._pumps:
            pump.finish()
        if used.code < 0 and self._ending is None and self._confinement.sandbox is not None:
            # What stood around the program was killed, not the program: nothing would know of it any more.
            await end_family(self.pid, self._marks, 0, self._exited.done)
        if self._ending is not None:
            # Its children may have outlived it: the try is over when they are gone too.
            await self._ending
        self._remove_script()
        code = used.code
        is_good = code == 0
        if is_good:
            return TryEnd(True, "", code, used, self.pid)
        if code > 0 and self._status is not None and b'"exit-code"' not in self._status.value():
            return TryEnd(False, NO_SANDBOX, code, used, self.pid)
        word = Word.decode(self._word.value()) if self._word is not None else Word()
        return TryEnd(False, word.why or _in_words(code), code, used, self.pid, is_lost=word.is_lost)

    def output(self) -> Capture | None:
        return self._capture

    def _keep_and_write(self, data: bytes) -> None:
        assert self._capture is not None
        self._capture.write(data)
        self._write(data)

    def _write_script(self, text: str) -> Path:
        path = self._tools.scratch / f"{os.getpid()}-{next(self._tools.numbers)}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700)
        self._script = path
        with open(fd, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        return path

    def _remove_script(self) -> None:
        if self._script is not None:
            self._script.unlink(missing_ok=True)
            self._script = None


class HttpTry:
    """A call in a thread of its own; a pool would make fast calls wait behind slow ones."""

    def __init__(self, tools: Tools, request: HttpRequest) -> None:
        self._tools = tools
        self._exchange = HttpExchange(request)
        self._is_ended = False
        self._has_answer = False

    def end(self) -> bool:
        if self._has_answer:
            return False
        self._is_ended = True
        self._exchange.abort()
        return True

    async def ended(self) -> HttpAnswer:
        async with self._tools.calls:
            if self._is_ended:
                return HttpAnswer(False, "the call was ended")
            try:
                check_descriptors(self._tools.dev_null, self._tools.reaper.running)
            except OSError as error:
                return HttpAnswer(False, no_room_text(error))
            loop, answer = self._tools.loop, self._tools.loop.create_future()
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
        loop.call_soon_threadsafe(_settle, answer, result)


def _settle(future: asyncio.Future[HttpAnswer], answer: HttpAnswer) -> None:
    if not future.done():
        future.set_result(answer)


def _in_memory(name: str, data: bytes, ours: list[int]) -> int:
    """A descriptor from which a process reads that data; no file, and no user, is in between."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    ours.append(fd)
    with open(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _in_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"
