"""Reports changes of a directory through Linux's inotify, without a thread that polls.

The usual packages were measured and rejected: `watchfiles` 1.3 polls its queue (with one step a second an edit is
noticed after 1.4 to 2 s), and does not report that the kernel's queue overflowed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self

_IN_ATTRIB: Final = 0x4
_IN_CLOSE_WRITE: Final = 0x8
_IN_MOVED_FROM: Final = 0x40
_IN_MOVED_TO: Final = 0x80
_IN_CREATE: Final = 0x100
_IN_DELETE: Final = 0x200
_IN_DELETE_SELF: Final = 0x400
_IN_MOVE_SELF: Final = 0x800
_IN_Q_OVERFLOW: Final = 0x4000
_IN_IGNORED: Final = 0x8000
_IN_ONLYDIR: Final = 0x0100_0000
_IN_ISDIR: Final = 0x4000_0000

_ITSELF: Final = _IN_DELETE_SELF | _IN_MOVE_SELF
# Not every write: a job that logs into the folder would wake the thread with each line. A file counts when its
# writer closes it.
_CONTENT: Final = _IN_ATTRIB | _IN_CLOSE_WRITE | _IN_MOVED_FROM | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE
_APPEARED: Final = _IN_MOVED_TO | _IN_CREATE

_HEADER: Final = struct.Struct("iIII")
_READ_BYTES: Final = 64 * 1024
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class DirectoryEvent(NamedTuple):
    directory: str
    name: str
    """The entry that changed; empty if the directory itself was moved, deleted or unmounted."""
    is_directory: bool = False
    is_new: bool = False


class DirectoryEvents:
    """Waits for changes in a set of directories. `wait` and `watch` belong to one thread, `wake` to any."""

    def __init__(self) -> None:
        self.failure: str | None = None
        """Why changes may go unreported; None while the kernel reports them all."""
        self.has_overflowed = False
        self._watched: dict[int, str] = {}
        self._wakeup, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for fd in (self._fd, self._wakeup, self._waker):
            if fd >= 0:
                os.close(fd)
        self._fd = self._wakeup = self._waker = -1

    def watch(self, directories: Mapping[str, Iterable[str]]) -> bool:
        """Watch exactly these directories; one without names only for its own move or deletion.

        Paths are resolved again each time, because they may lead to another directory than before. Returns True if one
        is newly watched, or is gone: something may have changed before it was watched.
        """
        self.failure = None
        if self._fd < 0 and not self._open():
            return False
        found: dict[int, str] = {}
        is_gone = False
        for directory, names in directories.items():
            mask = (_CONTENT if names else 0) | _ITSELF | _IN_ONLYDIR
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(directory), mask)
            if number >= 0:
                found[number] = directory
            elif names and ctypes.get_errno() in _GONE:
                is_gone = True
            elif names:
                self.failure = _reason(directory, ctypes.get_errno())
        for number in self._watched.keys() - found.keys():
            self._libc.inotify_rm_watch(self._fd, number)
        has_new = bool(found.keys() - self._watched.keys())
        self._watched = found
        return has_new or is_gone

    def wait(self, seconds: float) -> list[DirectoryEvent]:
        """What changed, as soon as something does; empty on timeout or `wake`."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        if self._fd >= 0:
            poll.register(self._fd, select.POLLIN)
        ready = {fd for fd, _event in poll.poll(seconds * 1000)}
        return self._read() if self._fd in ready else []

    def pause(self, seconds: float) -> None:
        """Let events queue up; `wake` ends it."""
        select.select([self._wakeup], [], [], seconds)

    def wake(self) -> None:
        """End every `wait` and `pause`, now and later."""
        with contextlib.suppress(OSError):
            os.write(self._waker, b"x")

    def _open(self) -> bool:
        create = getattr(self._libc, "inotify_init1", None)
        if create is None:
            self.failure = "this system has no inotify"
            return False
        self._fd = create(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            self.failure = _reason("the folder", ctypes.get_errno())
        return self._fd >= 0

    def _read(self) -> list[DirectoryEvent]:
        found: list[DirectoryEvent] = []
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return found
        position = 0
        while position < len(data):
            number, mask, _cookie, size = _HEADER.unpack_from(data, position)
            name = data[position + _HEADER.size : position + _HEADER.size + size].rstrip(b"\0")
            position += _HEADER.size + size
            if mask & _IN_Q_OVERFLOW:
                self.has_overflowed = True
                found.append(DirectoryEvent("", ""))
            elif (directory := self._watched.get(number)) is not None:
                if mask & _IN_IGNORED:
                    del self._watched[number]
                is_new = bool(mask & _APPEARED)
                found.append(DirectoryEvent(directory, os.fsdecode(name), bool(mask & _IN_ISDIR), is_new))
        return found


def _reason(what: str, number: int) -> str:
    match number:
        case errno.ENOSPC:
            limit = "this user's limit of watched directories is reached (sysctl fs.inotify.max_user_watches)"
        case errno.EMFILE:
            limit = "this user's limit of inotify instances is reached (sysctl fs.inotify.max_user_instances)"
        case _:
            limit = os.strerror(number)
    return f"{what} cannot be watched: {limit}"
