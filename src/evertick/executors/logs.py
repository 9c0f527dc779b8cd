"""What the steps of a run have printed: read by ranges, listed, and removed when it is old."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from evertick.executors.log_times import TIMES_BYTES_MAX, TIMES_SUFFIX, LogTime, read_times
from evertick.executors.paths import file_name, open_folder, run_folder
from evertick.model.instant import SECOND, Instant, to_text
from evertick.model.run import RunKey

FOLDER: Final = "logs"
SUFFIX: Final = ".log"
OPEN_SUFFIX: Final = ".part"
"""Suffix of a log that is still written."""
TAIL_SUFFIX: Final = ".tail"
"""Suffix of the last bytes of a log that is too long and still written."""
LIMIT_MAX: Final = 1024 * 1024
PRUNED_AT_ONCE: Final = 200


class LogChunk(NamedTuple):
    data: bytes
    next_offset: int
    """Where to continue reading."""
    is_complete: bool
    """Nothing follows, now or later."""


class LogFile(NamedTuple):
    attempt: int
    step: str
    size: int
    is_complete: bool


class Logs:
    """The logs under a state folder. Offsets are bytes of the file, so a reader can resume at any time."""

    def __init__(self, state_folder: Path | str) -> None:
        self._root = Path(state_folder) / FOLDER

    def read_log(self, key: RunKey, attempt: int, step: str, offset: int = 0, limit: int = LIMIT_MAX) -> LogChunk:
        """At most `limit` bytes from `offset`. A log that does not exist is empty and incomplete."""
        if offset < 0 or limit < 0:
            raise ValueError(f"a log cannot be read from {offset} for {limit} bytes. Give numbers from 0 on.")
        with self._folder(key, str(attempt)) as folder:
            if folder is None:
                return LogChunk(b"", offset, False)
            name = file_name(step) + SUFFIX
            # The open file first: it may get its final name between the two tries, never the other way round.
            for candidate, is_closed in ((name + OPEN_SUFFIX, False), (name, True)):
                fd = _open(candidate, folder)
                if fd is not None:
                    with open(fd, "rb", buffering=0) as file:
                        data = os.pread(file.fileno(), min(limit, LIMIT_MAX), offset)
                        size = os.fstat(file.fileno()).st_size
                    end = offset + len(data)
                    return LogChunk(data, end, is_closed and end >= size)
        return LogChunk(b"", offset, False)

    def read_tail(self, key: RunKey, attempt: int, step: str) -> bytes:
        """The last bytes of a log over its limit, while its step still runs; empty otherwise."""
        with self._folder(key, str(attempt)) as folder:
            fd = None if folder is None else _open(file_name(step) + SUFFIX + TAIL_SUFFIX, folder)
            if fd is None:
                return b""
            with open(fd, "rb") as file:
                return file.read(LIMIT_MAX)

    def read_times(self, key: RunKey, attempt: int, step: str) -> tuple[LogTime, ...]:
        """When the bytes of a log were written; empty: when its step started."""
        with self._folder(key, str(attempt)) as folder:
            fd = None if folder is None else _open(file_name(step) + SUFFIX + TIMES_SUFFIX, folder)
            if fd is None:
                return ()
            with open(fd, "rb") as file:
                return read_times(file.read(TIMES_BYTES_MAX))

    def list_logs(self, key: RunKey) -> Sequence[LogFile]:
        """Every log of a run, by attempt, then by the time of the last write."""
        found: list[LogFile] = []
        with self._folder(key) as folder:
            attempts = [] if folder is None else [name for name in os.listdir(folder) if name.isdigit()]
        for attempt in sorted(map(int, attempts)):
            with self._folder(key, str(attempt)) as folder:
                if folder is None:
                    continue
                of_attempt = []
                for name in sorted(os.listdir(folder)):
                    is_open = name.endswith(SUFFIX + OPEN_SUFFIX)
                    stem = name.removesuffix(OPEN_SUFFIX)
                    if stem.endswith(SUFFIX):
                        try:
                            stat = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                        file = LogFile(attempt, unquote(stem.removesuffix(SUFFIX)), stat.st_size, not is_open)
                        of_attempt.append((stat.st_mtime_ns, file))
                found += [file for _, file in sorted(of_attempt, key=itemgetter(0))]
        return found

    def prune_logs(
        self, before: Instant, limit: int = PRUNED_AT_ONCE, job_id: str | None = None, *, but: Collection[str] = ()
    ) -> int:
        """Remove the logs of runs that were due, and last written to, before an instant; at most `limit` runs at once.

        Of one job, or of all `but` some. Returns how many were removed; if that is the limit, there may be more.
        """
        removed = 0
        day = to_text(before)[:10]
        for date in self._dates(job_id, but):
            if date.name > day:
                continue
            for run in _folders(date):
                if removed >= limit:
                    return removed
                newest = max((path.stat().st_mtime for path in (run, *_folders(run))), default=0.0)
                if newest < before / SECOND and not _is_growing(run):
                    shutil.rmtree(run, ignore_errors=True)
                    removed += 1
            _remove_if_empty(date)
            _remove_if_empty(date.parent)
        return removed

    def _dates(self, job_id: str | None, but: Collection[str]) -> Iterator[Path]:
        left_out = {file_name(one) for one in but}
        for job in _folders(self._root):
            if job.name not in left_out and (job_id is None or job.name == file_name(job_id)):
                yield from _folders(job)

    @contextmanager
    def _folder(self, key: RunKey, *below: str) -> Iterator[int | None]:
        try:
            folder = open_folder(str(self._root), (*run_folder(key), *below))
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        try:
            yield folder
        finally:
            os.close(folder)


def _open(name: str, folder: int) -> int | None:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None


def _folders(path: Path) -> list[Path]:
    """Sorted by name, without symbolic links."""
    try:
        return sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.is_symlink())
    except FileNotFoundError:
        return []


def _is_growing(run: Path) -> bool:
    """Whether a step is still running: a run may be older than the retention."""
    return any(name.endswith(OPEN_SUFFIX) for attempt in _folders(run) for name in os.listdir(attempt))


def _remove_if_empty(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:
        return
