"""One attempt to call a function of the program: its state, how it is asked to stop, and its log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from evertick.executor import AttemptId
from evertick.executors.context import RunContext
from evertick.executors.function import Function
from evertick.executors.keeper.mask import Masker
from evertick.executors.keeper.output import LogWriter
from evertick.executors.logs import FOLDER, SUFFIX
from evertick.executors.paths import file_name, private_folder, run_folder
from evertick.model.instant import Instant
from evertick.model.lifecycle import RunState


class Outcome(NamedTuple):
    at: Instant
    state: RunState
    detail: str = ""
    exit_code: int | None = None


class FunctionLog:
    """The log of one attempt. Any thread may write; output after `close`, from a thread left behind, is dropped."""

    def __init__(self, root: str, attempt_id: AttemptId, step: str, max_bytes: int) -> None:
        def folder() -> tuple[str, ...]:
            return (*run_folder(attempt_id.key), str(attempt_id.attempt))

        self._writer: LogWriter | None = LogWriter(root, folder, file_name(step) + SUFFIX, max_bytes, Masker(()))
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        with self._lock:
            if self._writer is not None:
                self._writer.write(data)

    def write_text(self, text: str) -> None:
        self.write(text.encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None


class FunctionLogs:
    """The logs of functions, in the same layout as those of other steps; without a state folder none are kept."""

    def __init__(self, state_folder: Path | None = None) -> None:
        self._root = None if state_folder is None else state_folder / FOLDER

    def begin(self, attempt_id: AttemptId, step: str, max_bytes: int) -> FunctionLog | None:
        if self._root is None:
            return None
        try:
            root = str(private_folder(self._root))
        except OSError:
            return None  # a full disk costs the log, never the run
        return FunctionLog(root, attempt_id, step, max_bytes)


class FunctionRun:
    """An attempt that has not ended."""

    def __init__(
        self,
        attempt_id: AttemptId,
        function: Function,
        context: RunContext,
        timeout: float | None,
        log: FunctionLog | None,
    ) -> None:
        self.attempt_id, self.function, self.context, self.timeout = attempt_id, function, context, timeout
        self.log = log
        self.started_at: Instant | None = None
        self.stop_state: RunState | None = None
        """As what it ends after a request to stop: cancelled or timed out; None: no request."""
        self.detail = ""
        self.is_abandoned = False
        """The scheduler has stopped; the attempt counts as lost unless it succeeds."""
        self.cancel: Callable[[], None] | None = None
        """Ends what runs; None: the function can only be asked, through its context."""

    def request_stop(self, state: RunState, detail: str) -> None:
        if self.stop_state is None:
            self.stop_state, self.detail = state, detail
        self.context._stop.set()
        if self.cancel is not None:
            self.cancel()
