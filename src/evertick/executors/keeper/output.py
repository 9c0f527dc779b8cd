"""Reads the output of a step in fair portions, masks it, and writes it to a log of limited size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Sequence

from evertick.executors.keeper.mask import Masker
from evertick.executors.log_times import LogTime, TimeIndex, append_time
from evertick.executors.logs import OPEN_SUFFIX, TAIL_SUFFIX
from evertick.executors.paths import open_folder
from evertick.model.instant import Instant

PORTION = 64 * 1024
"""Bytes read from one process before the others have their turn: the size of a pipe."""
TAIL_MAX = 256 * 1024
"""Bytes kept of the end of a log that is too long; in memory, so that endless output needs no disk."""
TAIL_SECONDS = 1.0
"""How often the end of a log that is too long is written to its `.tail` file."""
LEFTOVER_MAX = 4 * 1024 * 1024
"""Bytes still read after a process has ended; more can only come from processes it left behind."""
ABANDONED_MAX = 256
"""Outputs held open by background processes of ended steps; read, so that writing does not kill those."""


class LogWriter:
    """The log of one step: its first bytes as they come, and its last ones when it is closed.

    The file is created with the first output. A full disk costs the log, never the run.
    """

    def __init__(
        self, root: int | str, folder: Callable[[], Sequence[str]], name: str, max_bytes: int, masker: Masker
    ) -> None:
        self._root = root
        self._folder = folder
        self._name = name
        self._masker = masker
        self._tail_max = min(TAIL_MAX, max_bytes // 2)
        self._head_max = max_bytes - self._tail_max
        self._folder_fd: int | None = None
        self._fd: int | None = None
        self._written = 0
        self._size = 0
        self._passed = 0
        """Bytes beyond the head; the last of them are in the tail."""
        self._tail = bytearray()
        self._times = TimeIndex(_now())
        self._tail_times: deque[LogTime] = deque()
        """When the bytes of the tail came, counted from the end of the head."""
        self._tail_shown_at = 0.0
        self._dropped = 0
        """Bytes that could not be written."""
        self._why_dropped = ""

    @property
    def has_output(self) -> bool:
        return self._fd is not None

    @property
    def has_file(self) -> bool:
        """True after `close` too."""
        return self._size > 0

    def write(self, data: bytes) -> None:
        if self._masker.is_needed:
            data = self._masker.feed(data)
        self._keep(data)

    def note(self, text: str) -> None:
        """Write a line of Evertick's own."""
        self._keep(f"[evertick: {self._masker.text(text)}]\n".encode("utf-8", "surrogateescape"))

    def close(self) -> None:
        """Append the tail, and give the file its final name."""
        self._keep(self._masker.finish())
        if self._passed:
            left_out = self._passed - min(len(self._tail), self._tail_max)
            tail = bytes(self._tail[-self._tail_max :])
            if left_out:
                self._append(f"\n[evertick: {left_out:,} bytes were left out here]\n".encode())
            self._note_tail_times(left_out)
            self._append(tail)
        if self._dropped:
            self._note_dropped()
        if self._fd is not None and self._folder_fd is not None:
            os.close(self._fd)
            try:
                os.rename(self._name + OPEN_SUFFIX, self._name, src_dir_fd=self._folder_fd, dst_dir_fd=self._folder_fd)
                if self._tail_shown_at:
                    os.unlink(self._name + TAIL_SUFFIX, dir_fd=self._folder_fd)
            except OSError:
                pass  # it was removed meanwhile
            self._fd = None
        self.detach()

    def detach(self) -> None:
        """Close the files as they are; the next writer appends to them."""
        for fd in (self._fd, self._folder_fd):
            if fd is not None:
                os.close(fd)
        self._fd = self._folder_fd = None

    def _keep(self, data: bytes) -> None:
        room = self._head_max - self._written
        if data and self._times.is_due(now := _now()):
            self._note_time(now)
        if room > 0 and data:
            self._append(data[:room])
            self._written += min(len(data), room)
            data = data[room:]
        if data:
            self._passed += len(data)
            self._tail += data
            if len(self._tail) > 2 * self._tail_max:
                del self._tail[: -self._tail_max or None]
            self._show_tail()

    def _note_time(self, now: Instant) -> None:
        if self._written >= self._head_max:
            self._tail_times.append(LogTime(self._passed, now))
            # Of what is no longer in the tail, the newest: the tail begins with it.
            while len(self._tail_times) > 1 and self._tail_times[1].offset <= self._passed - self._tail_max:
                self._tail_times.popleft()
            return
        try:
            if self._fd is None:
                self._open()
            assert self._folder_fd is not None
            append_time(self._folder_fd, self._name, LogTime(self._size, now))
        except OSError:
            return  # it costs the time of a line, never the line

    def _note_tail_times(self, left_out: int) -> None:
        if self._folder_fd is None:
            return
        with contextlib.suppress(OSError):
            for offset, at in self._tail_times:
                append_time(self._folder_fd, self._name, LogTime(self._size + max(offset - left_out, 0), at))

    def _append(self, data: bytes) -> None:
        try:
            if self._fd is None:
                self._open()
            assert self._fd is not None
            while data:
                written = os.pwrite(self._fd, data, self._size)
                self._size += written
                data = data[written:]
        except OSError as error:
            self._dropped += len(data)
            self._why_dropped = error.strerror or str(error)

    def _open(self) -> None:
        if self._folder_fd is None:
            self._folder_fd = open_folder(self._root, self._folder(), create=True)
        # A handler may have the name of a step: then its output is appended.
        with contextlib.suppress(FileNotFoundError):
            os.rename(self._name, self._name + OPEN_SUFFIX, src_dir_fd=self._folder_fd, dst_dir_fd=self._folder_fd)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self._name + OPEN_SUFFIX, flags, 0o600, dir_fd=self._folder_fd)
        self._size = os.fstat(self._fd).st_size
        if self._size:
            # It continues a log: nothing says how long ago the last output came.
            append_time(self._folder_fd, self._name, LogTime(self._size, _now()))

    def _note_dropped(self) -> None:
        """It overwrites the last bytes if the disk has no room after them."""
        text = f"\n[evertick: {self._dropped:,} bytes were not written: {self._why_dropped}]\n".encode()
        dropped = self._dropped
        self._append(text)
        if self._dropped != dropped and self._fd is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, text, max(self._size - len(text), 0))

    def _show_tail(self) -> None:
        now = time.monotonic()
        if now - self._tail_shown_at < TAIL_SECONDS or self._folder_fd is None:
            return
        self._tail_shown_at = now
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(self._name + TAIL_SUFFIX, flags, 0o600, dir_fd=self._folder_fd)
        except OSError:
            return
        try:
            os.write(fd, self._tail[-self._tail_max :])
        except OSError:
            pass  # the next write tries again
        finally:
            os.close(fd)


def _now() -> Instant:
    return time.time_ns() // 1_000


class Capture:
    """The output value of a step: kept up to a limit, with its full length."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._data = bytearray()
        self.length = 0

    def write(self, data: bytes) -> None:
        self.length += len(data)
        self._data += data[: self._max + 1 - len(self._data)]

    @property
    def is_too_long(self) -> bool:
        return self.length > self._max

    def value(self) -> bytes:
        return bytes(self._data)


class Pump:
    """Reads one pipe when it is readable, a portion at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, sink: Callable[[bytes], None]) -> None:
        self._loop = loop
        self._fd = fd
        self._sink = sink
        self._is_open = True
        os.set_blocking(fd, False)
        loop.add_reader(fd, self._read)

    def finish(self) -> None:
        """The process has ended: read what is left in the pipe, and discard later output."""
        taken = 0
        while self._is_open and taken < LEFTOVER_MAX:
            size = self._read()
            if size is None:
                break
            taken += size
        if self._is_open:
            # A process it started holds the pipe: keep reading, because a write to a closed pipe would kill it.
            self._sink = _discard
            _abandoned.append(self)
            while len(_abandoned) > ABANDONED_MAX:
                _abandoned.popleft().close()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._fd)
            os.close(self._fd)

    def _read(self) -> int | None:
        try:
            data = os.read(self._fd, PORTION)
        except BlockingIOError:
            return None
        except OSError:
            data = b""  # treat it as the end
        if not data:
            self.close()
            if self._sink is _discard:
                _abandoned.remove(self)
            return None
        self._sink(data)
        return len(data)


_abandoned: deque[Pump] = deque()


def _discard(data: bytes) -> None:
    """Output after the end of its step."""
