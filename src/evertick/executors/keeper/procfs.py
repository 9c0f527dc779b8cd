"""Reads the process table: which processes exist, which belong together, and which were restarted."""

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
    """An entry of the process table."""

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
    """A snapshot taken at that monotonic time or later; the last one if it is new enough."""
    global _last
    if _last is None or _last.taken_at < not_before:
        _last = Snapshot()
    return _last


def family_of(leader: int, marks: frozenset[bytes], table: Snapshot) -> list[Stat]:
    """What a process has started: found by group, session, environment and descent."""
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
    """The live processes of an attempt: by journalled pid and start time, and by the marks in their environment.

    The marks find a process that was started just before the keeper could journal its pid.
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
    # The name is in parentheses and may contain anything, parentheses and blanks included.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(
        pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[0].decode(), int(fields[19]) * CLOCK_TICK_US
    )


def marks_of(pid: int) -> frozenset[bytes]:
    """Our marker variables in the environment that the process was started with; none if it is not readable."""
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
    """Whether that pid is still the process started then, and not a later one that reuses it."""
    stat = stat_of(pid)
    return stat is not None and stat.is_alive and abs(stat.started_us - started_us) <= 3 * CLOCK_TICK_US


def boottime_us() -> int:
    """The clock since boot, suspend included; the kernel uses it for the start times of processes."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000


def boot_id() -> str:
    """Changes with every boot."""
    with open(_BOOT_ID) as file:
        return file.read().strip()
