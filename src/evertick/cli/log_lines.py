"""Logs line by line: with the time before each line, or of all steps in the order of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from evertick.cli.run_follower import Log, RecordedRun
from evertick.operations.protocol import ALL_STEPS

if TYPE_CHECKING:
    from evertick.operations.protocol import Operations
    from evertick.operations.results.runs import LogTime


class StampedRun(RecordedRun):
    """A run whose logs have the time before each line."""

    def __init__(self, operations: Operations, run_id: str) -> None:
        super().__init__(operations, run_id)
        self._is_inside_line: dict[Log, bool] = {}

    def read(self, log: Log, offset: int) -> tuple[bytes, int]:
        data, end = super().read(log, offset)
        if not data:
            return data, end
        times = self._operations.log_times(self._run_id, log.attempt, log.step, offset)
        stamped = stamp(data, offset, times, is_inside_line=self._is_inside_line.get(log, False))
        self._is_inside_line[log] = not data.endswith(b"\n")
        return stamped, end


class MergedRun(RecordedRun):
    """A run with one log for all steps of an attempt."""

    def __init__(self, operations: Operations, run_id: str, *, has_times: bool) -> None:
        super().__init__(operations, run_id)
        self._has_times = has_times

    def logs(self) -> list[Log]:
        return list(dict.fromkeys(Log(log.attempt, ALL_STEPS) for log in super().logs()))

    def read(self, log: Log, offset: int) -> tuple[bytes, int]:
        lines, end = read_merged(self._operations, self._run_id, log.attempt, offset)
        width = max((len(line.step) for line in lines), default=0)
        shown = (f"{f'{one.at} ' if self._has_times else ''}{one.step:<{width}} │ {one.text}\n" for one in lines)
        return "".join(shown).encode("utf-8", "surrogateescape"), end


class MergedLine(NamedTuple):
    at: str
    step: str
    text: str


def read_merged(operations: Operations, run_id: str, attempt: int, offset: int) -> tuple[list[MergedLine], int]:
    """Whole lines of the merged log from an offset on, and the next offset."""
    data = operations.log_bytes(run_id, attempt, ALL_STEPS, offset).data
    whole = data[: data.rfind(b"\n") + 1] or data
    lines = (line.split("\t", 2) for line in whole.decode("utf-8", "surrogateescape").split("\n")[:-1])
    # The only line without time and step says that the rest was left out.
    found = [MergedLine(*(parts if len(parts) == 3 else ("", "", "\t".join(parts)))) for parts in lines]
    return found, offset + len(whole)


def all_merged(operations: Operations, run_id: str, attempt: int) -> Iterator[MergedLine]:
    offset = 0
    while True:
        lines, end = read_merged(operations, run_id, attempt, offset)
        if end == offset:
            return
        yield from lines
        offset = end


def stamp(data: bytes, offset: int, times: Sequence[LogTime], *, is_inside_line: bool) -> bytes:
    """The data with the time before each line that begins in it; `times` begin at or before its offset."""
    offsets, written = [one.offset for one in times], bytearray()
    for number, line in enumerate(_lines(data)):
        if number or not is_inside_line:
            written += f"{time_text(times[max(bisect_right(offsets, offset) - 1, 0)])} ".encode()
        written += line
        offset += len(line)
    return bytes(written)


def _lines(data: bytes) -> list[bytes]:
    """With their ends; only a line feed is one."""
    *whole, rest = data.split(b"\n")
    return [*(line + b"\n" for line in whole), *([rest] if rest else [])]


def time_text(time: LogTime) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return time.at.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
