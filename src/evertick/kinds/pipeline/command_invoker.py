"""An invoker that runs a program: prompt on standard input, answer on standard output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Final

from evertick.kinds.pipeline.invoker import Answer, Call
from evertick.model.run_variables import MODEL

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
TAIL_BYTES: Final = 500
"""Characters of a failed program's last output."""
LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class CommandInvoker:
    words: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    def __call__(self, call: Call) -> Answer:
        # Files instead of pipes: a full pipe blocks, and a grandchild that keeps one open would delay the end.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors:
            given.write(call.question.prompt.encode("utf-8", "replace"))
            given.seek(0)
            env = dict(self.environ)
            if call.question.model:
                env[MODEL] = call.question.model
            try:
                process = subprocess.Popen(
                    self.words,
                    stdin=given,
                    stdout=said,
                    stderr=errors,
                    env=env,
                    cwd=call.question.directory,
                    process_group=0,
                )
            except (OSError, ValueError) as error:
                return Answer(False, error=f"{self.words[0]!r} could not be started: {error}")
            is_too_long = _wait(process, call, said)
            if call.aborted.is_set():
                return Answer(False, error="the call was cancelled")
            if is_too_long:
                return Answer(False, error=f"{self.words[0]!r} answered with more than {ANSWER_BYTES_MAX:,} bytes")
            if process.returncode != 0:
                said_last = _tail(errors)
                reason = f"{self.words[0]!r} exited with {process.returncode}"
                return Answer(False, error=f"{reason}: {said_last}" if said_last else reason)
            said.seek(0)
            return Answer(True, said.read(ANSWER_BYTES_MAX).decode("utf-8", "replace").strip())


def _wait(process: subprocess.Popen[bytes], call: Call, said: IO[bytes]) -> bool:
    """Wait until it has ended, was aborted or printed too much (True); then kill its process group."""
    is_too_long = False
    # Not reaped before its group is killed, so its pid cannot have been reused.
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        is_too_long = os.fstat(said.fileno()).st_size > ANSWER_BYTES_MAX
        if is_too_long or call.aborted.wait(LOOK_SECONDS):
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)  # whatever was being born in that moment
    process.wait()
    return is_too_long or os.fstat(said.fileno()).st_size > ANSWER_BYTES_MAX


def _tail(errors: IO[bytes]) -> str:
    size = os.fstat(errors.fileno()).st_size
    errors.seek(max(0, size - TAIL_BYTES))
    return errors.read(TAIL_BYTES).decode("utf-8", "replace").strip()
