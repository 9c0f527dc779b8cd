"""Copies of logs in a folder that nodes share, or in an object store: whatever fsspec has an address for."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import unquote

from evertick.errors import SettingsError
from evertick.executors.log_paths import file_name, run_folder
from evertick.executors.logs import LIMIT_MAX, SUFFIX, LogChunk, LogFile
from evertick.model.run import RunKey

_LOCAL: Final = ("file", "local")
READ_SECONDS: Final = 10.0
"""Whoever looks at a log waits this long for the store: clients of object stores try again for minutes."""

T = TypeVar("T")


class LogStore:
    """The same tree as a state folder has. What is in it is whole: nothing is added to it later."""

    def __init__(self, url: str, read_seconds: float = READ_SECONDS) -> None:
        self._url = url
        self._read_seconds = read_seconds
        self._hanging: threading.Thread | None = None
        """A question that the store did not answer in time, and may answer yet."""

    def check(self) -> LogStore:
        """Raise `SettingsError` now, and not when the first log is copied."""
        _ = self._place
        return self

    @cached_property
    def _place(self) -> tuple[Any, str]:
        """fsspec is loaded when there is something to read or to write: most who could read logs never do."""
        if find_spec("fsspec") is None:
            raise SettingsError("'logs.store' needs fsspec, which is not installed. Run: pip install 'evertick[logs]'")
        import fsspec  # type: ignore[import-untyped]

        try:
            # Listings are not kept: another node may have written since.
            fs, root = fsspec.core.url_to_fs(self._url, use_listings_cache=False)
        except (ValueError, ImportError) as error:
            raise SettingsError(f"'logs.store' cannot be '{self._url}': {error}.") from error
        return fs, str(root).rstrip("/")

    @property
    def _fs(self) -> Any:
        return self._place[0]

    @property
    def _is_local(self) -> bool:
        protocols = self._fs.protocol
        return not {*_LOCAL}.isdisjoint([protocols] if isinstance(protocols, str) else protocols)

    def list_logs(self, key: RunKey) -> Sequence[LogFile]:
        """Every log of a run that was copied, by attempt; raises what the store does when it cannot be reached."""
        return self._in_time(lambda: self._list_logs(key))

    def read_log(self, key: RunKey, attempt: int, step: str, offset: int = 0, limit: int = LIMIT_MAX) -> LogChunk:
        return self._in_time(lambda: self._read_log(key, attempt, step, offset, limit))

    def _in_time(self, ask: Callable[[], T]) -> T:
        """What the store answers, or `TimeoutError`; while a question hangs no other is asked."""
        if self._is_local:
            return ask()
        if self._hanging is not None and self._hanging.is_alive():
            raise TimeoutError(f"the store has not answered for {self._read_seconds:g} s")
        answers: list[Callable[[], T]] = []

        def work() -> None:
            try:
                found = ask()
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

    def put(self, parts: Sequence[str], file: Path) -> None:
        """Copy a file to its place; whoever reads there meanwhile finds all of it, or nothing."""
        folder, path = self._path(*parts[:-1]), self._path(*parts)
        self._fs.makedirs(folder, exist_ok=True)
        if not self._is_local:
            self._fs.put_file(str(file), path)  # an object appears when it is whole
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
        return "/".join((self._place[1], *parts))


def _raise(error: Exception) -> NoReturn:
    raise error
