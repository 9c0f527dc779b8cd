"""`python -m evertick.kinds.docker FILE`: runs one container to its end and removes it; exits as it did.

A stop ends the container first. If this process is killed, its guard removes the container; if that is killed too, the
next container step of the same state folder does.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

from evertick.kinds import ExitNote, write_exit_note, write_output
from evertick.kinds.docker.engine import Engine, EngineError, EngineUnavailable
from evertick.kinds.docker.program import INSTANCE, STEP_KEY, WATCHER
from evertick.kinds.docker.registry import LoginFileError, read_login_file
from evertick.model.lifecycle import beyond_exit_code, exit_code_text
from evertick.model.plain_json import Document
from evertick.model.work import Pull

NOT_RUN: Final = 125
"""The container did not run, or its end is unknown."""
ENDED: Final = 143
KILLED: Final = 137
"""The exit code after SIGKILL."""
AWAY_SECONDS: Final = 60.0
"""An engine that does not answer for this long has lost the container, as far as this step can know."""
PAUSE_SECONDS: Final = 0.5
LOG_SECONDS: Final = 10.0
NAME_SECONDS: Final = 30.0
"""How long a container of the same name may take to vanish."""
GUARD: Final = str(Path(__file__).with_name("guard.py"))
STOP: Final = "stop"


class End(NamedTuple):
    """The exit code of this process, and its exit note."""

    code: int
    reason: str = ""
    is_lost: bool = False


class ContainerStep:
    """Runs one container. A thread reads its output and then how it ended."""

    def __init__(self, request: Document) -> None:
        self._engine = Engine(request["socket"])
        self._socket: str = request["socket"]
        self._name: str = request["name"]
        self._image: str = request["image"]
        self._pull = Pull(request["pull"])
        # A keeper that was started before an upgrade does not send these.
        self._auth: str = request.get("auth", "")
        self._auth_file: str = request.get("auth_file", "")
        self._spec: Document = request["spec"]
        self._grace: int = request["grace"]
        self._messages: queue.SimpleQueue[str | End] = queue.SimpleQueue()
        self._is_stopped = False
        self.has_started = False

    def stop(self, *_: object) -> None:
        """A signal handler: it only leaves a message."""
        self._is_stopped = True
        self._messages.put(STOP)

    def run(self) -> End:
        self._engine.ping()
        self._remove_leftovers()
        self._fetch_image()
        if self._is_stopped:
            return End(ENDED)
        guard = _Guard(self._socket, self._name)
        try:
            return self._run_container(guard)
        finally:
            self._remove()
            guard.close()

    def _remove_leftovers(self) -> None:
        """Containers of an earlier try of this step, and those whose watching process was killed."""
        labels = self._spec["Labels"]
        for found in self._engine.list_labelled(INSTANCE, labels[INSTANCE]):
            own = found.get("Labels") or {}
            if own.get(STEP_KEY) == labels[STEP_KEY] or not _is_watched(own.get(WATCHER, "")):
                self._engine.remove(found["Id"])

    def _fetch_image(self) -> None:
        if self._pull is not Pull.ALWAYS and (self._pull is Pull.NEVER or self._engine.has_image(self._image)):
            return
        _note(f"fetching the image {self._image}")
        for _ in self._engine.pull(self._image, self._auth or self._machine_auth()):
            if self._is_stopped:
                return

    def _machine_auth(self) -> str:
        login = read_login_file(self._auth_file, self._image) if self._auth_file else None
        return login.header(self._image) if login is not None else ""

    def _run_container(self, guard: _Guard) -> End:
        guard.watch(self._create())
        try:
            self._engine.start(self._name)
        except EngineError as error:
            return End(NOT_RUN, f"the container did not start: {error}")
        self.has_started = True
        reader = threading.Thread(target=self._follow, daemon=True)
        reader.start()
        message = self._messages.get()
        if message is not STOP:
            assert isinstance(message, End)
            return message
        self._engine.stop(self._name, self._grace)
        reader.join(LOG_SECONDS)
        return End(ENDED)

    def _create(self) -> str:
        spec = {**self._spec, "Labels": {**self._spec["Labels"], WATCHER: _own_identity()}}
        until = time.monotonic() + NAME_SECONDS
        while True:
            try:
                return self._engine.create(self._name, spec)
            except EngineError:
                # Docker answers with 409, Podman with 500: the name decides. A removal may still be under way.
                if self._engine.inspect(self._name) is None or time.monotonic() > until:
                    raise
                self._engine.remove(self._name)
                time.sleep(PAUSE_SECONDS)

    def _follow(self) -> None:
        """Print the output until the container has ended; after a broken connection, go on where it was."""
        printed, away_since = 0, None
        while True:
            try:
                skip = printed
                for is_error, data in self._engine.logs(self._name):
                    fresh, skip = data[skip:], max(0, skip - len(data))
                    printed += len(fresh)
                    write_output(sys.stderr.buffer if is_error else sys.stdout.buffer, fresh)
                    away_since = None
                end = self._look()
                if end is not None:
                    self._messages.put(end)
                    return
            except (EngineUnavailable, EngineError) as error:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > AWAY_SECONDS:
                    self._messages.put(End(NOT_RUN, f"the engine does not answer: {error}", is_lost=True))
                    return
            time.sleep(PAUSE_SECONDS)

    def _look(self) -> End | None:
        """How it ended; None: it still runs."""
        found = self._engine.inspect(self._name)
        if found is None:
            return End(NOT_RUN, "another program removed the container", is_lost=True)
        return end_of(found["State"], self._spec["HostConfig"].get("Memory"))

    def _remove(self) -> None:
        try:
            self._engine.remove(self._name)
        except (EngineUnavailable, EngineError) as error:
            _note(f"the container {self._name} could not be removed: {error}")


def end_of(state: Document, memory_limit: int | None) -> End | None:
    """How a container in that state ended; None: it has not."""
    if state.get("Running") or state.get("Status") not in ("exited", "stopped", "dead"):
        return None
    code = int(state.get("ExitCode", NOT_RUN))
    limit = f"{memory_limit:,} bytes" if memory_limit else "the machine's"
    if code and state.get("OOMKilled"):
        return End(code, f"it ran out of memory; its limit is {limit}")
    if code == KILLED and memory_limit:
        # Not every engine notices which process the kernel killed, and why.
        return End(code, f"it was killed (exit code {code}), probably because of its memory limit of {limit}")
    return End(code, exit_code_text(code) if code else "")


class _Guard:
    """The process that removes the container if this one is killed."""

    def __init__(self, path: str, name: str) -> None:
        # An empty environment: a keeper finds and kills the processes of an attempt by their variables.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", GUARD, path, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,
            cwd="/",
        )

        assert self._process.stdin is not None
        self._pipe = self._process.stdin
        self._process.wait()  # it has forked by then

    def watch(self, container_id: str) -> None:
        """From now on it removes this container only: the next try of the step has one of the same name."""
        with contextlib.suppress(OSError):
            os.write(self._pipe.fileno(), container_id.encode())

    def close(self) -> None:
        self._pipe.close()


def _own_identity() -> str:
    return f"{_boot_id()} {os.getpid()} {_started(os.getpid())}"


def _is_watched(identity: str) -> bool:
    """Whether the process that watches a container still runs."""
    boot, _, process = identity.partition(" ")
    pid, _, started = process.partition(" ")
    return boot == _boot_id() and pid.isdigit() and started != "" and _started(int(pid)) == started


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _started(pid: int) -> str:
    """When the kernel started a process, in ticks; empty: it does not run."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    return text[text.rindex(b")") + 2 :].split()[19].decode()


def main(path: str) -> int:
    with open(path, "rb") as file:
        request = json.load(file)
    step = ContainerStep(request)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, step.stop)
    try:
        end = step.run()
    except EngineUnavailable as error:
        end = End(NOT_RUN, f"the container engine does not answer: {error}", step.has_started)
    except EngineError as error:
        end = End(NOT_RUN, f"the container engine refused: {error}")
    except LoginFileError as error:
        end = End(NOT_RUN, str(error))
    if beyond_exit_code(end.reason, end.code):
        _note(end.reason)
    write_exit_note(ExitNote(end.reason, end.is_lost, end.code))
    return end.code


def _note(text: str) -> None:
    write_output(sys.stderr.buffer, f"[evertick: {text}]\n".encode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
