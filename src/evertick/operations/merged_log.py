"""One log of all steps of an attempt: their lines by time, each with its time and its step before it.

The merged log only grows, so that a reader can continue at a byte, search it and link to a line as in any other log.
A line is merged two seconds after it was written: by then every other step has its lines of that time in its log.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from evertick.model.instant import SECOND, Instant, to_datetime

MERGED_MAX: Final = 16 << 20
"""Bytes of all steps together that are merged: the steps have the rest."""
SETTLED_US: Final = 2 * SECOND
KEPT_MAX: Final = 4
_CUT: Final = b"[evertick: the rest is in the logs of the steps]\n"
_NEVER: Final = 1 << 62


class Source(NamedTuple):
    """The log of one step."""

    step: str
    started_at: Instant
    """When what precedes the first of `times` was written."""
    size: int
    is_complete: bool
    read: Callable[[int, int], bytes]
    """Bytes from an offset on, at most this number; fewer only at the end."""
    times: Callable[[], Sequence[tuple[int, Instant]]]


class _Line(NamedTuple):
    at: Instant
    started_at: Instant
    step: str
    number: int
    """Within the log of its step."""
    end: int
    text: bytes


class MergedLog:
    """The merged log of one attempt, as far as it was made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.data = bytearray()
        self.is_complete = False
        self._offsets: dict[str, int] = {}
        self._numbers: dict[str, int] = {}

    def grow(self, sources: Sequence[Source], now: Instant, breathe: Callable[[], None] = lambda: None) -> None:
        """Add the lines that are settled by now."""
        if self.is_complete:
            return
        is_growing = not all(source.is_complete for source in sources)
        settled = now - SETTLED_US if is_growing else _NEVER
        budget = max(MERGED_MAX - len(self.data), 0)
        found: list[_Line] = []
        is_cut = False
        for source in sources:
            if source.size <= self._offsets.get(source.step, 0):
                continue
            lines = list(self._lines(source, budget))
            breathe()
            found += lines
            if source.size - self._offsets.get(source.step, 0) > budget:
                is_cut, settled = True, min(settled, lines[-1].at if lines else 0)
        for line in sorted(found):
            if line.at > settled:
                break
            self._offsets[line.step], self._numbers[line.step] = line.end, line.number + 1
            self.data += f"{_time_text(line.at)}\t{line.step}\t".encode() + line.text
        if is_cut or len(self.data) > MERGED_MAX:
            self.data += _CUT
        self.is_complete = not is_growing or is_cut or len(self.data) > MERGED_MAX

    def _lines(self, source: Source, budget: int) -> Iterator[_Line]:
        start = self._offsets.get(source.step, 0)
        data = source.read(start, min(source.size - start, budget))
        if not (source.is_complete and start + len(data) >= source.size):
            data = data[: data.rfind(b"\n") + 1]  # the rest of its last line may follow
        times = source.times()
        offsets = [offset for offset, _ in times]
        # A clock that was set back must not put a line before the one that precedes it.
        instants = list(accumulate((at for _, at in times), max, initial=source.started_at))
        first = self._numbers.get(source.step, 0)
        for number, text in enumerate(_split(data), first):
            start += len(text)
            # The time of its end: until then it is not merged, so the order never depends on when it was read.
            at = instants[bisect_right(offsets, start - 1)]
            whole = text if text.endswith(b"\n") else text + b"\n"
            yield _Line(at, source.started_at, source.step, number, start, whole)


def _split(data: bytes) -> list[bytes]:
    """Only a line feed ends a line: a progress bar returns to the start of its own."""
    parts = data.split(b"\n")
    return [*(part + b"\n" for part in parts[:-1]), *([parts[-1]] if parts[-1] else [])]


def _time_text(at: Instant) -> str:
    """RFC 3339 with milliseconds, of one width."""
    return to_datetime(at).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


class MergedLogCache:
    """The merged logs that were read last. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int, bool], MergedLog] = OrderedDict()

    def get(self, run_id: str, attempt: int, here_only: bool) -> MergedLog:
        key = (run_id, attempt, here_only)
        with self._lock:
            found = self._kept.setdefault(key, MergedLog())
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
            return found
