"""Queries about logs: list, read and search what the steps of a run have printed."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from evertick.errors import InvalidArgument, NotFound
from evertick.model.attempts import read_attempts
from evertick.model.instant import Instant, to_datetime
from evertick.model.lifecycle import OPEN
from evertick.model.run import LedgerRow
from evertick.model.steps import read_steps
from evertick.operations.context import Context, bounded
from evertick.operations.ledger_rows import moment
from evertick.operations.log_files import AbsentLog, FoundLogs
from evertick.operations.merged_log import MergedLog, Source
from evertick.operations.protocol import ALL_STEPS, LOG_BYTES_MAX
from evertick.operations.results import runs as results
from evertick.operations.results.runs import LogChunk, LogHit, LogHits, LogText, LogTime

SEARCHED_MAX = 64 << 20
"""Bytes of a log that one query searches, and in which it counts lines."""
LINE_LOOK_BYTES = 64 * 1024
"""How far to look for the end of a line."""
HITS_MAX: Final = 1_000
LINE_MAX: Final = 1 << 20
"""Bytes of a line that are searched: a program may print megabytes without a line end."""

ERROR: Final = re.compile(
    r"\b(?:error|exception|fatal|panic|failed|failure|cannot|denied|refused|not found|no such|timed out)\b"
    r"|(?-i:\w(?:Error|Exception)\b)",
    re.IGNORECASE,
)
"""What a line looks like that names an error."""
_ESCAPE = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Escape sequences of terminals, such as colours."""
_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")


def list_logs(context: Context, run_id: str, *, here_only: bool = False) -> Sequence[results.LogFile]:
    """`here_only` leaves out logs that other nodes keep."""
    return find_logs(context, context.find_run(run_id), here_only=here_only)[0]


def find_logs(
    context: Context, row: LedgerRow, *, here_only: bool = False
) -> tuple[tuple[results.LogFile, ...], tuple[results.AbsentLog, ...]]:
    """The logs of a run that can be read, and those that cannot now."""
    found = FoundLogs()
    if context.logs is not None and row.occurrences == 1:
        found = context.logs.find(row, here_only=here_only)
    files = (results.LogFile(log.attempt, log.step, log.size, log.is_complete) for log in found.files)
    return tuple(files), tuple(map(absent_log, found.absent))


def absent_log(log: AbsentLog) -> results.AbsentLog:
    return results.AbsentLog(
        attempt=log.attempt,
        place=log.place,
        kind=log.kind.value,
        name=log.name,
        cause=log.cause,
        last_seen_at=moment(log.seen_at),
        is_partial=log.is_partial,
        reason=log.reason,
        text=log.sentence,
    )


def read_log(
    context: Context,
    run_id: str,
    attempt: int,
    step: str,
    offset: int = 0,
    limit: int = LOG_BYTES_MAX,
    *,
    lines: bool = False,
    here_only: bool = False,
) -> LogText:
    """`next_offset` counts bytes, and is never inside a character."""
    log = _log_of(context, run_id, attempt, step, here_only=here_only)
    first_line = None
    if lines:
        offset, first_line = log.line_start(offset)
    data, end, is_complete = log.read(offset, limit)
    cut = 0 if is_complete else _unfinished(data)
    return LogText(
        run=log.row.key.run_id,
        attempt=attempt,
        step=step,
        text=data[: len(data) - cut].decode("utf-8", "replace"),
        offset=offset,
        first_line=first_line,
        next_offset=end - cut,
        size=max(log.size(), end),
        is_complete=is_complete,
    )


def log_bytes(
    context: Context,
    run_id: str,
    attempt: int,
    step: str,
    offset: int = 0,
    limit: int = LOG_BYTES_MAX,
    *,
    here_only: bool = False,
) -> LogChunk:
    return _log_of(context, run_id, attempt, step, here_only=here_only).read(offset, limit)


def log_times(
    context: Context, run_id: str, attempt: int, step: str, offset: int = 0, *, here_only: bool = False
) -> Sequence[LogTime]:
    """The start of the step is the time of what was printed at once."""
    row = context.find_run(run_id)
    bounded("offset", offset, 0, 1 << 50)
    times = context.logs.times(row, attempt, step, here_only=here_only) if context.logs is not None else ()
    all_times = [(0, _started_at(row, attempt, step)), *times]
    first = max(bisect_right([start for start, _ in all_times], offset) - 1, 0)
    return [LogTime(start, to_datetime(at)) for start, at in all_times[first:]]


def search_log(
    context: Context,
    run_id: str,
    attempt: int,
    step: str,
    text: str = "",
    *,
    errors: bool = False,
    line: int | None = None,
    here_only: bool = False,
) -> LogHits:
    """Of a very long log, only the first part is searched."""
    if (bool(text), errors, line is not None).count(True) != 1 or "\n" in text:
        hint = "Pass a text on one line, or errors, or the number of a line."
        raise InvalidArgument("search a log for one thing.", hint=hint, field="text")
    log = _log_of(context, run_id, attempt, step, here_only=here_only)
    pieces = log.pieces(SEARCHED_MAX)
    if line is not None:
        found = find_line(pieces, bounded("line", line, 1, 1 << 40))
    else:
        found = search_errors(pieces) if errors else search_lines(pieces, text)
    size = log.size()
    return LogHits(
        run=log.row.key.run_id,
        attempt=attempt,
        step=step,
        items=found.hits,
        total=found.total,
        searched_bytes=min(size, SEARCHED_MAX),
        size=size,
    )


class _Log(NamedTuple):
    """One log of a run. The row is in the ledger and the log is one of its own: no name becomes a path."""

    context: Context
    row: LedgerRow
    attempt: int
    step: str
    here_only: bool

    def read(self, offset: int, limit: int) -> LogChunk:
        bounded("offset", offset, 0, 1 << 50)
        bounded("limit", limit, 1, LOG_BYTES_MAX)
        if self.context.logs is None:
            raise NotFound("this process has no access to logs. Next: ask the scheduler's server with --server.")
        found = self.context.logs.read(self.row, self.attempt, self.step, offset, limit, here_only=self.here_only)
        return LogChunk(*found)

    def size(self) -> int:
        files, _ = find_logs(self.context, self.row, here_only=self.here_only)
        return next((log.size for log in files if (log.attempt, log.step) == (self.attempt, self.step)), 0)

    def pieces(self, end: int) -> Iterator[bytes]:
        """The log from its start up to a byte."""
        offset = 0
        while offset < end:
            data, offset, _ = self.read(offset, min(LOG_BYTES_MAX, end - offset))
            if not data:
                return
            yield data

    def line_start(self, offset: int) -> tuple[int, int | None]:
        """Where the first line begins at or after an offset, and its number."""
        if offset == 0:
            return 0, 1
        # The byte before shows whether a line begins right there. A line without an end nearby is shown from within.
        before, _, _ = self.read(offset - 1, LINE_LOOK_BYTES)
        start = offset + max(before.find(b"\n"), 0)
        if start > SEARCHED_MAX:
            return start, None
        return start, count_line_ends(self.pieces(start)) + 1


class _MergedLog(_Log):
    """All logs of an attempt as one."""

    def read(self, offset: int, limit: int) -> LogChunk:
        bounded("offset", offset, 0, 1 << 50)
        bounded("limit", limit, 1, LOG_BYTES_MAX)
        merged = self._grown()
        with merged.lock:
            data = bytes(merged.data[offset : offset + limit])
            end = offset + len(data)
            return LogChunk(data, end, merged.is_complete and end >= len(merged.data))

    def size(self) -> int:
        merged = self._grown()
        with merged.lock:
            return len(merged.data)

    def _grown(self) -> MergedLog:
        context, row = self.context, self.row
        merged = context.merged_logs.get(row.key.run_id, self.attempt, self.here_only)
        with merged.lock:
            if not merged.is_complete:
                files, _ = find_logs(context, row, here_only=self.here_only)
                sources = [self._source_of(log) for log in files if log.attempt == self.attempt]
                if sources or (row.attempt == self.attempt and row.state in OPEN):
                    merged.grow([*sources, *self._unfinished()], context.now(), context.breathe)
            return merged

    def _unfinished(self) -> list[Source]:
        """While the attempt is in progress, another step may print at any time."""
        if self.row.attempt != self.attempt or self.row.state not in OPEN:
            return []
        return [Source("", 0, 0, False, lambda _offset, _limit: b"", lambda: ())]

    def _source_of(self, log: results.LogFile) -> Source:
        of_step = self._replace(step=log.step)

        def read(offset: int, length: int) -> bytes:
            data = b""
            while len(data) < length:
                piece = _Log(*of_step).read(offset + len(data), min(LOG_BYTES_MAX, length - len(data))).data
                if not piece:
                    break
                data += piece
            return data

        def times() -> Sequence[tuple[int, Instant]]:
            logs = self.context.logs
            return () if logs is None else logs.times(self.row, self.attempt, log.step, here_only=self.here_only)

        started_at = _started_at(self.row, self.attempt, log.step)
        return Source(log.step, started_at, log.size, log.is_complete, read, times)


def _log_of(context: Context, run_id: str, attempt: int, step: str, *, here_only: bool) -> _Log:
    row = context.find_run(run_id)
    log = _Log(context, row, attempt, step, here_only)
    if step != ALL_STEPS:
        return log
    files, _ = find_logs(context, row, here_only=here_only)
    of_attempt = [one.step for one in files if one.attempt == attempt]
    if step in of_attempt or (not of_attempt and row.attempt != attempt):
        return log
    return _MergedLog(*log)


def _started_at(row: LedgerRow, attempt: int, step: str) -> Instant:
    """When a step of an attempt started, as far as the ledger knows."""
    earlier = {one.attempt: one for one in read_attempts(row.earlier)}
    records = [*(record for one in earlier.values() for record in one.steps), *read_steps(row.steps)]
    found = [one.started_at for one in records if (one.attempt, one.name) == (attempt, step)]
    of_attempt = earlier[attempt].started_at if attempt in earlier else row.started_at
    return next((at for at in found if at is not None), None) or of_attempt or row.key.scheduled_for


class Found(NamedTuple):
    hits: tuple[LogHit, ...]
    """The first `HITS_MAX`."""
    total: int
    """Lines that contain the text."""


def count_line_ends(pieces: Iterable[bytes]) -> int:
    return sum(piece.count(b"\n") for piece in pieces)


def search_lines(pieces: Iterable[bytes], text: str) -> Found:
    """The lines that contain a text, ignoring case and colours; `pieces` begin with the start of the log."""
    wanted = text.lower()
    rough = wanted.encode() if wanted.isascii() else None
    return _search(pieces, lambda line: wanted in line.lower(), rough)


def search_errors(pieces: Iterable[bytes]) -> Found:
    """The lines that look like errors."""
    return _search(pieces, lambda line: ERROR.search(line) is not None, None)


def find_line(pieces: Iterable[bytes], number: int) -> Found:
    """Where a line begins, by its number."""
    line, start = 1, 0
    for piece in pieces:
        ends = piece.count(b"\n")
        if line + ends < number:
            line, start = line + ends, start + len(piece)
            continue
        at = 0
        for _ in range(number - line):
            at = piece.index(b"\n", at) + 1
        return Found((LogHit(number, start + at),), 1)
    return Found((), 0)


def _search(pieces: Iterable[bytes], is_hit: Callable[[str], bool], rough: bytes | None) -> Found:
    """`rough`: bytes without which no line can be a hit."""
    hits: list[LogHit] = []
    total, line, start, rest = 0, 1, 0, b""
    for piece in (*pieces, b""):
        data = rest + piece
        cut = data.rfind(b"\n") + 1 if piece else len(data)
        block, rest = data[:cut], data[cut:]
        # Most of a log does not contain the text: its lines are only counted.
        if rough is not None and b"\x1b" not in block and rough not in block.lower():
            line, start = line + block.count(b"\n"), start + len(block)
            continue
        for one in _LINE.findall(block):
            if is_hit(without_escapes(one[:LINE_MAX]).decode("utf-8", "replace")):
                total += 1
                if len(hits) < HITS_MAX:
                    hits.append(LogHit(line, start))
            line, start = line + 1, start + len(one)
    return Found(tuple(hits), total)


def without_escapes(data: bytes) -> bytes:
    """A log without the escape sequences of terminals."""
    return _ESCAPE.sub(b"", data)


def _unfinished(data: bytes) -> int:
    """How many bytes at the end belong to a character that is not complete."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        # Kept when nothing else was read, so that a reader of invalid text makes progress.
        return back if back < length and back < len(data) else 0
    return 0
