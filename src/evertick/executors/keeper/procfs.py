"""Which processes there are, which of them belong together, and whether one is still the one it was."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from evertick.model.run_variables import as_written_now

CLOCK_TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MARK = b"EVERTICK_"


class Stat(NamedTuple):
    """A line of the process table."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    started_us: int
    """Since boot, rounded down to a clock tick."""

    @property
    def is_alive(self) -> bool:
        return self.state not in "ZX"


class Snapshot:
    """The process table as it was at one moment."""

    def __init__(self) -> None:
        self.taken_at = time.monotonic()
        self.alive = [stat for stat in processes() if stat.is_alive and stat.pid != os.getpid()]
        self._marks: dict[int, frozenset[bytes]] = {}

    def marks_of(self, pid: int) -> frozenset[bytes]:
        if pid not in self._marks:
            self._marks[pid] = marks_of(pid)
        return self._marks[pid]


_last: Snapshot | None = None


def snapshot(not_before: float) -> Snapshot:
    """A table that was taken at that monotonic time or later: the one before, if it will do."""
    global _last
    if _last is None or _last.taken_at < not_before:
        _last = Snapshot()
    return _last


def family_of(leader: int, marks: frozenset[bytes], table: Snapshot) -> list[Stat]:
    """What a process has started, as far as it can be found: by group, session, environment, and descent."""
    found = {
        stat.pid: stat
        for stat in table.alive
        if leader in (stat.pid, stat.group, stat.session) or (marks and marks <= table.marks_of(stat.pid))
    }
    grew = True
    while grew:
        below = {stat.pid: stat for stat in table.alive if stat.parent in found and stat.pid not in found}
        found |= below
        grew = bool(below)
    return list(found.values())


def leaders_of(noted: Mapping[int, int], marks: frozenset[bytes], table: Snapshot) -> list[int]:
    """The processes of an attempt that are there: by pid and start as noted, and by the marks in their environment.

    The marks find a process that was started in the moment before the keeper could note its pid.
    """
    found = [pid for pid, started_us in noted.items() if is_same_process(pid, started_us)]
    marked = [stat.pid for stat in table.alive if stat.session == stat.pid and marks <= table.marks_of(stat.pid)]
    return sorted({*found, *marked})


def processes() -> Iterator[Stat]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = stat_of(int(name))
            if stat is not None:
                yield stat


def stat_of(pid: int) -> Stat | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in brackets and may hold anything, brackets and blanks included.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(
        pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[0].decode(), int(fields[19]) * CLOCK_TICK_US
    )


def marks_of(pid: int) -> frozenset[bytes]:
    """The variables by which we know our own, as the process was started with them; none where we may not look."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            text = file.read()
    except OSError:
        return frozenset()
    return frozenset(as_written_now(variable) for variable in text.split(b"\0") if variable.startswith(_MARK))


def is_alive(pid: int) -> bool:
    stat = stat_of(pid)
    return stat is not None and stat.is_alive


def is_same_process(pid: int, started_us: int) -> bool:
    """Whether that pid is still the process that was started then, and not a later one with its number."""
    stat = stat_of(pid)
    return stat is not None and stat.is_alive and abs(stat.started_us - started_us) <= 3 * CLOCK_TICK_US


def boottime_us() -> int:
    """The clock that the kernel stamps the start of processes with."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000


def boot_id() -> str:
    """Another one after every start of the machine."""
    with open(_BOOT_ID) as file:
        return file.read().strip()
