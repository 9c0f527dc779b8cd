"""Copies a pod's log into the log folder, where the logs of all runs are."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from evertick.executor import AttemptId
from evertick.executors.keeper.mask import Masker
from evertick.executors.keeper.output import LogWriter
from evertick.executors.logs import OPEN_SUFFIX, SUFFIX
from evertick.executors.paths import file_name, open_folder, run_folder
from evertick.kinds.kubernetes.cluster import Cluster
from evertick.kinds.kubernetes.log_follower import LogFollower

# A pod gets no secret of ours, so its output has none.
_NOTHING_TO_MASK = Masker(())


class LogCopy:
    """The log of one attempt. It resumes what an earlier process copied."""

    def __init__(
        self, cluster: Cluster, root: Path, attempt_id: AttemptId, step: str, max_bytes: int, namespace: str, pod: str
    ) -> None:
        self._root = root
        self._attempt_id = attempt_id
        self._name = file_name(step) + SUFFIX
        self._max_bytes = max_bytes
        self._known = b""
        self._writer: LogWriter | None = None
        self._follower = LogFollower(cluster, namespace, pod, self._write)
        self._done = threading.Event()
        self._is_over = False

    def run(self) -> None:
        """Until `finish` was called and the log is complete, or `end`."""
        try:
            self._copy()
        finally:
            self._done.set()

    def finish(self, timeout: float) -> None:
        """The container has ended: wait until its log is complete."""
        self._is_over = True
        self._done.wait(timeout)

    def end(self) -> None:
        self._follower.end()

    def _copy(self) -> None:
        folder = (*run_folder(self._attempt_id.key), str(self._attempt_id.attempt))
        is_complete, self._known = self._found(folder)
        if is_complete:
            return
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._writer = LogWriter(root, lambda: folder, self._name, self._max_bytes, _NOTHING_TO_MASK)
            problem = self._follower.run(self._has_ended)
            if problem:
                self._writer.note(f"the log may be incomplete: {problem}")
            if self._is_over and self._writer.has_output:
                self._writer.close()
            elif self._is_over:
                self._rename(folder)
        finally:
            if self._writer is not None:
                self._writer.detach()
            os.close(root)

    def _has_ended(self) -> bool:
        return self._is_over

    def _write(self, data: bytes) -> None:
        """Skip what was copied before; if the cluster has dropped the beginning, append."""
        assert self._writer is not None
        if self._known:
            common = min(len(data), len(self._known))
            if data[:common] == self._known[:common]:
                self._known, data = self._known[common:], data[common:]
            else:
                self._known = b""
                self._writer.note("the cluster dropped the rest of this log")
        if data:
            self._writer.write(data)

    def _rename(self, parts: tuple[str, ...]) -> None:
        """The earlier process copied everything: give the file its final name."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            folder = open_folder(str(self._root), parts)
            try:
                os.rename(self._name + OPEN_SUFFIX, self._name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                os.close(folder)

    def _found(self, parts: tuple[str, ...]) -> tuple[bool, bytes]:
        """Whether the log is complete, and the copied part if it is not."""
        try:
            folder = open_folder(str(self._root), parts)
        except (FileNotFoundError, NotADirectoryError):
            return False, b""
        try:
            if _read(self._name, folder) is not None:
                return True, b""
            return False, _read(self._name + OPEN_SUFFIX, folder) or b""
        finally:
            os.close(folder)


def _read(name: str, folder: int) -> bytes | None:
    try:
        with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


class LogCopies:
    """The copies in progress, at most `limit` at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._running: dict[AttemptId, LogCopy] = {}
        self._threads: dict[AttemptId, threading.Thread] = {}
        self._is_closed = False

    def start(self, attempt_id: AttemptId, create: Callable[[], LogCopy]) -> None:
        """In a thread of its own; if there are too many, the log is copied when its container has ended."""
        with self._lock:
            if self._is_closed or attempt_id in self._running or len(self._running) >= self._limit:
                return
            copy = self._running[attempt_id] = create()
            thread = threading.Thread(target=copy.run, name="evertick-pod-log", daemon=True)
            self._threads[attempt_id] = thread
            thread.start()

    def finish(self, attempt_id: AttemptId, create: Callable[[], LogCopy], timeout: float) -> None:
        """The container has ended: complete its log, at most until the timeout."""
        with self._lock:
            copy = self._running.get(attempt_id)
        if copy is None:
            copy = create()
            copy.finish(0)
            copy.run()
            return
        copy.finish(timeout)
        copy.end()
        with self._lock:
            self._running.pop(attempt_id, None)
            thread = self._threads.pop(attempt_id, None)
        if thread is not None:
            thread.join(1.0)

    def close(self, timeout: float) -> None:
        """Stop; the next process resumes the copies."""
        with self._lock:
            self._is_closed = True
            copies, threads = list(self._running.values()), list(self._threads.values())
        for copy in copies:
            copy.end()
        for thread in threads:
            thread.join(timeout)
