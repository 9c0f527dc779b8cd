"""Copies of finished logs in a shared folder or an object store, at any URL that fsspec knows."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import unquote

from evertick.errors import SettingsError
from evertick.executors.log_times import TIMES_BYTES_MAX, TIMES_SUFFIX, LogTime, read_times
from evertick.executors.logs import FOLDER, LIMIT_MAX, OPEN_SUFFIX, SUFFIX, LogChunk, LogFile
from evertick.executors.paths import file_name, run_folder
from evertick.model.run import RunKey

_LOCAL: Final = ("file", "local")
READ_SECONDS: Final = 10.0
"""How long a reader waits for the store; clients of object stores retry for minutes."""
COPIED: Final = ".copied"
"""In the folder of an attempt: the names of its logs that are in the store. A member that was away sends more later."""
LOOK_BACK_SECONDS: Final = 2 * 86_400.0
"""How far back a start looks for logs that were not copied."""

T = TypeVar("T")


class LogStore:
    """The same tree as in a state folder, of complete logs only."""

    def __init__(self, url: str, read_seconds: float = READ_SECONDS) -> None:
        self._url = url
        self._read_seconds = read_seconds
        self._hanging: threading.Thread | None = None
        """A read that timed out and has not returned yet."""

    def check(self) -> LogStore:
        """Raise `SettingsError` now rather than when the first log is copied."""
        _ = self._filesystem
        return self

    @cached_property
    def _filesystem(self) -> tuple[object, str]:
        """The fsspec file system and the root path. Loaded on first use: most processes never need it."""
        if find_spec("fsspec") is None:
            raise SettingsError("'logs.store' needs fsspec, which is not installed. Run: pip install 'evertick[logs]'")
        import fsspec

        try:
            # No listing cache: another node may have written since.
            fs, root = fsspec.core.url_to_fs(self._url, use_listings_cache=False)
        except (ValueError, ImportError) as error:
            raise SettingsError(f"'logs.store' cannot be '{self._url}': {error}.") from error
        return fs, str(root).rstrip("/")

    @property
    def _fs(self) -> Any:
        return self._filesystem[0]

    @property
    def _is_local(self) -> bool:
        protocols = self._fs.protocol
        return not {*_LOCAL}.isdisjoint([protocols] if isinstance(protocols, str) else protocols)

    def list_logs(self, key: RunKey) -> Sequence[LogFile]:
        """Every copied log of a run, by attempt; raises the store's own error when it cannot be reached."""
        return self._in_time(lambda: self._list_logs(key))

    def read_log(self, key: RunKey, attempt: int, step: str, offset: int = 0, limit: int = LIMIT_MAX) -> LogChunk:
        return self._in_time(lambda: self._read_log(key, attempt, step, offset, limit))

    def read_times(self, key: RunKey, attempt: int, step: str) -> tuple[LogTime, ...]:
        return self._in_time(lambda: self._read_times(key, attempt, step))

    def _in_time(self, read: Callable[[], T]) -> T:
        """The store's answer, or `TimeoutError`; while one read hangs no other is started."""
        if self._is_local:
            return read()
        if self._hanging is not None and self._hanging.is_alive():
            raise TimeoutError(f"the store has not answered for {self._read_seconds:g} s")
        answers: list[Callable[[], T]] = []

        def work() -> None:
            try:
                found = read()
                answers.append(lambda: found)
            except Exception as error:
                failure = error
                answers.append(lambda: _raise(failure))

        thread = threading.Thread(target=work, name="evertick-log-store", daemon=True)
        thread.start()
        thread.join(self._read_seconds)
        if not answers:
            self._hanging = thread
            raise TimeoutError(f"the store does not answer within {self._read_seconds:g} s")
        return answers[0]()

    def _list_logs(self, key: RunKey) -> Sequence[LogFile]:
        found = []
        for attempt in self._names(*run_folder(key)):
            if not attempt.isdigit():
                continue
            for name, size in self._entries(*run_folder(key), attempt):
                if name.endswith(SUFFIX):
                    found.append(LogFile(int(attempt), unquote(name.removesuffix(SUFFIX)), size, True))
        return sorted(found)

    def _read_log(self, key: RunKey, attempt: int, step: str, offset: int, limit: int) -> LogChunk:
        path = self._path(*run_folder(key), str(attempt), file_name(step) + SUFFIX)
        size = int(self._fs.size(path))
        end = min(offset + min(limit, LIMIT_MAX), size)
        data = bytes(self._fs.cat_file(path, start=offset, end=end)) if offset < end else b""
        return LogChunk(data, offset + len(data), offset + len(data) >= size)

    def _read_times(self, key: RunKey, attempt: int, step: str) -> tuple[LogTime, ...]:
        path = self._path(*run_folder(key), str(attempt), file_name(step) + SUFFIX + TIMES_SUFFIX)
        try:
            return read_times(bytes(self._fs.cat_file(path, start=0, end=TIMES_BYTES_MAX)))
        except FileNotFoundError:
            return ()  # it printed in its first moments only

    def put(self, parts: Sequence[str], file: Path) -> None:
        """Copy a file into the store; a reader sees all of it or nothing."""
        folder, path = self._path(*parts[:-1]), self._path(*parts)
        self._fs.makedirs(folder, exist_ok=True)
        if not self._is_local:
            self._fs.put_file(str(file), path)  # an object store shows only complete objects
            return
        scratch = self._path(*parts[:-1], f".{secrets.token_hex(8)}")
        self._fs.put_file(str(file), scratch)
        self._fs.mv(scratch, path)

    def _names(self, *parts: str) -> list[str]:
        return [name for name, _ in self._entries(*parts)]

    def _entries(self, *parts: str) -> list[tuple[str, int]]:
        try:
            listed: list[dict[str, Any]] = self._fs.ls(self._path(*parts), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        named = ((str(one["name"]).rstrip("/").rpartition("/")[2], int(one.get("size") or 0)) for one in listed)
        return sorted((name, size) for name, size in named if name)

    def _path(self, *parts: str) -> str:
        return "/".join((self._filesystem[1], *parts))


class LogUploads:
    """Copies the logs of this node's finished attempts into a store, each once."""

    def __init__(self, state_folder: Path, store: LogStore) -> None:
        self._root = state_folder / FOLDER
        self._store = store

    def copy(self, key: RunKey) -> bool:
        return self._copy(run_folder(key))

    def uncopied(self) -> Sequence[Callable[[], bool]]:
        since = time.time() - LOOK_BACK_SECONDS
        return [
            partial(self._copy, run.relative_to(self._root).parts)
            for run in sorted(self._root.glob("*/*/*"))
            if run.is_dir() and not run.is_symlink() and run.stat().st_mtime >= since
        ]

    def _copy(self, run: Sequence[str]) -> bool:
        """Copy every finished attempt of the run; False if one is still being written."""
        is_done = True
        folder = self._root.joinpath(*run)
        for attempt in sorted(folder.iterdir()) if folder.is_dir() else ():
            copied = None if attempt.is_symlink() or not attempt.name.isdigit() else _copied(attempt)
            if copied is None:
                continue
            files = [file for file in attempt.iterdir() if not file.is_symlink()]
            if any(file.name.endswith(OPEN_SUFFIX) for file in files):
                is_done = False
                continue
            new = [
                file
                for file in files
                if file.name.endswith((SUFFIX, SUFFIX + TIMES_SUFFIX)) and file.name not in copied
            ]
            for file in new:
                self._store.put((*run, attempt.name, file.name), file)
            if new:
                (attempt / COPIED).write_text("\n".join(sorted(copied.union(file.name for file in new))))
        return is_done


def _copied(attempt: Path) -> frozenset[str] | None:
    """The logs of an attempt that are in the store; None: all of them, as earlier versions marked it."""
    try:
        return frozenset((attempt / COPIED).read_text().splitlines()) or None
    except FileNotFoundError:
        return frozenset()


def _raise(error: Exception) -> NoReturn:
    raise error
