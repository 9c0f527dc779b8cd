"""What a function says of its run: kept as the output of any step is, where `evertick logs` finds it."""

from __future__ import annotations

import threading
from pathlib import Path

from evertick.executors.keeper.mask import Masker
from evertick.executors.keeper.output import LogWriter
from evertick.executors.local import private_folder
from evertick.executors.log_paths import file_name, run_folder
from evertick.executors.logs import FOLDER, SUFFIX
from evertick.model.run import RunKey


class FunctionLog:
    """Of one attempt. Any thread may write; what comes after its end, from a thread left behind, is lost."""

    def __init__(self, root: str, key: RunKey, attempt: int, step: str, max_bytes: int) -> None:
        def folder() -> tuple[str, ...]:
            return (*run_folder(key), str(attempt))

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
    """The logs of functions under a state folder; without one, nothing is kept."""

    def __init__(self, state_folder: Path | None = None) -> None:
        self._root = None if state_folder is None else state_folder / FOLDER

    def begin(self, key: RunKey, attempt: int, step: str, max_bytes: int) -> FunctionLog | None:
        if self._root is None:
            return None
        try:
            root = str(private_folder(self._root))
        except OSError:
            return None  # a disk that is full costs the log, never the run
        return FunctionLog(root, key, attempt, step, max_bytes)
