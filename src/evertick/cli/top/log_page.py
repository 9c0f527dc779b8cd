"""The output of a run on the whole screen: it follows, scrolls and searches."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from evertick.cli.output import counted
from evertick.cli.tables import STATE_STYLES, width_of
from evertick.cli.top.page import moved
from evertick.cli.top.styled import Line, Span, cell, cut, fitted, keys_in
from evertick.model.duration import duration_text
from evertick.model.instant import SECOND, Instant, from_datetime
from evertick.model.lifecycle import TERMINAL
from evertick.operations.protocol import ALL_STEPS
from evertick.operations.results.runs import LogFile

if TYPE_CHECKING:
    from evertick.operations.protocol import Operations
    from evertick.operations.results.runs import RunDetail

TAIL_BYTES = 512 * 1024
"""A long log is read from here before its end on."""
LINES_MAX = 20_000
JOB_MIN = 8
"""Columns that the name of a job has at least."""
_KEYS = ("↑↓ scroll", "f follow", "tab next step", "/ search", "n next", "←→ sideways")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_BAD = ("failed", "timed_out", "lost")


class LogPart(NamedTuple):
    """What was read of a run's log."""

    detail: RunDetail
    log: LogFile | None
    """None: the run has printed nothing."""
    start: int
    data: bytes
    next_offset: int


def read_part(operations: Operations, target: str, chosen: tuple[int, str] | None, offset: int | None) -> LogPart:
    """The run, and its log from an offset on; without one the end of the most relevant log."""
    detail = operations.run(target)
    last = max((log.attempt for log in detail.logs), default=0)
    logs = [log for log in detail.logs if log.attempt == last] if chosen is None else list(detail.logs)
    log = (
        next((one for one in logs if (one.attempt, one.step) == chosen), None) if chosen else _log_to_show(detail, logs)
    )
    if chosen is not None and chosen[1] == ALL_STEPS and log is None:
        size = operations.read_log(detail.run, chosen[0], ALL_STEPS, 0, 1).size
        log = LogFile(chosen[0], ALL_STEPS, size, is_complete=False)
    if log is None:
        return LogPart(detail, None, 0, b"", 0)
    start = max(log.size - TAIL_BYTES, 0) if offset is None else offset
    chunk = operations.log_bytes(detail.run, log.attempt, log.step, start)
    return LogPart(detail, log, start, chunk.data, chunk.next_offset)


def _log_to_show(detail: RunDetail, logs: list[LogFile]) -> LogFile | None:
    """The log of the step that failed, else of one that runs, else the last."""
    states = {step.name: step.state for step in detail.steps}
    for wanted in (_BAD, ("running",)):
        found = [log for log in logs if states.get(log.step) in wanted]
        if found:
            return found[-1]
    return logs[-1] if logs else None


@dataclass(slots=True)
class LogPage:
    target: str
    chosen: tuple[int, str] | None = None
    """Attempt and step."""
    part: LogPart | None = None
    lines: list[str] = field(default_factory=list)
    rest: str = ""
    """The beginning of a line whose end has not been printed."""
    offset: int | None = None
    first: int = 0
    left: int = 0
    follows: bool = True
    search: str = ""
    written: str | None = None
    """The text to search for while it is written."""
    message: str = ""
    _reader: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        part = self.part
        return part is not None and part.detail.state in TERMINAL and not part.data

    def take(self, part: LogPart) -> None:
        """Add what was read."""
        if self.part is None:
            self.target = part.detail.run
        self.part = part
        if part.log is None:
            return
        place = (part.log.attempt, part.log.step)
        if self.chosen is None:
            self.chosen = place
        if place != self.chosen or (self.offset is not None and part.start != self.offset):
            return  # the user has chosen another log meanwhile
        if self.offset is None:
            self._reader = codecs.getincrementaldecoder("utf-8")("replace")
        self.offset = part.next_offset
        *lines, self.rest = (self.rest + self._reader.decode(part.data)).split("\n")
        self.lines += map(_merged if self.chosen[1] == ALL_STEPS else _shown, lines)
        del self.lines[:-LINES_MAX]

    def press(self, key: str, rows: int) -> bool:
        """Change the page by a key; false: it is closed."""
        if self.written is not None:
            self._press_in_search(key, rows)
            return True
        self.message = ""
        match key:
            case "q" | "escape":
                return False
            case "f":
                self.follows = not self.follows
            case "tab" | "backtab":
                self._next_log(-1 if key == "backtab" else 1)
            case "left" | "right":
                self.left = max(self.left + (16 if key == "right" else -16), 0)
            case "/":
                self.written = ""
            case "n" | "N":
                self._find(rows, forward=key == "n")
            case _:
                last = max(len(self._all()) - rows, 0)
                start = last if self.follows else self.first
                self.first = moved(key, start, rows, last)
                self.follows = key in ("end", "G") or (self.follows and self.first == start)
        return True

    def draw(self, width: int, height: int, now: Instant) -> list[Line]:
        rows, lines = height - 2, self._all()
        if self.follows:
            self.first = max(len(lines) - rows, 0)
        self.first = min(self.first, max(len(lines) - 1, 0))
        body: list[Line] = [self._marked(line[self.left :], width) for line in lines[self.first : self.first + rows]]
        if not lines and self.part is not None:
            absent = [one.text for one in self.part.detail.absent_logs]
            body = [[Span(cut(text, width), "yellow")] for text in absent] or [
                [Span("The run has printed nothing.", "dim")]
            ]
        body += [[]] * (rows - len(body))
        return [self._head(width, now), *body, self._foot(width, len(lines), rows)]

    def _all(self) -> list[str]:
        return [*self.lines, _shown(self.rest)] if self.rest else self.lines

    def _next_log(self, step: int) -> None:
        logs = [(log.attempt, log.step) for log in self.part.detail.logs] if self.part is not None else []
        if len(logs) < 2:
            self.message = "The run has no other log."
            return
        logs.append((logs[-1][0], ALL_STEPS))
        place = logs.index(self.chosen) if self.chosen in logs else 0
        self.chosen = logs[(place + step) % len(logs)]
        self.lines, self.rest, self.offset, self.follows, self.left = [], "", None, True, 0

    def _press_in_search(self, key: str, rows: int) -> None:
        assert self.written is not None
        if key == "enter":
            self.search, self.written = self.written, None
            self._find(rows, forward=True)
        elif key == "escape":
            self.search, self.written = "", None
        elif key == "backspace":
            self.written = self.written[:-1]
        elif len(key) == 1:
            self.written += key

    def _find(self, rows: int, *, forward: bool) -> None:
        """Go to the next line that has the text; case is ignored."""
        wanted, lines = self.search.casefold(), self._all()
        if not wanted:
            self.message = "Write / and a text to search for."
            return
        places = [place for place, line in enumerate(lines) if wanted in line.casefold()]
        if not places:
            self.message = f"'{self.search}' was not found in {counted(len(lines), 'line')}."
            return
        if forward:
            place = next((one for one in places if one > self.first), places[0])
        else:
            place = next((one for one in reversed(places) if one < self.first), places[-1])
        self.follows, self.first = False, min(place, max(len(lines) - rows, 0)) if place < len(lines) - rows else place
        self.message = f"line {places.index(place) + 1} of {len(places):,} with '{self.search}'"

    def _marked(self, line: str, width: int) -> Line:
        wanted = self.search.casefold()
        place = line.casefold().find(wanted) if wanted else -1
        if place < 0:
            return [Span(cut(line, width))]
        spans = [
            Span(line[:place]),
            Span(line[place : place + len(wanted)], "reverse"),
            Span(line[place + len(wanted) :]),
        ]
        return fitted(spans, width)

    def _head(self, width: int, now: Instant) -> Line:
        if self.part is None:
            return [Span(cell(f" Reading the log of {self.target} ...", width), "reverse")]
        detail = self.part.detail
        since, until = detail.started_at, detail.finished_at
        took = ""
        if since is not None:
            took = duration_text(
                ((from_datetime(until) if until is not None else now) - from_datetime(since)) // SECOND * SECOND
            )
        attempt, step = self.chosen or (detail.attempt, "")
        which = "all steps" if step == ALL_STEPS else step
        which = f"{which}{f' (attempt {attempt})' if attempt > 1 else ''}"
        state = f" {detail.state} {took} "
        room = max(width - len(state), 0)
        name = cell(f" {_run_in(detail, room - width_of(which) - 3)}  {which}", room)
        return [Span(name, "reverse"), Span(cut(state, width), f"reverse {STATE_STYLES.get(detail.state, '')}")]

    def _foot(self, width: int, lines: int, rows: int) -> Line:
        if self.written is not None:
            return [Span(cut(f"Search: {self.written}▏", width), "bold")]
        place = (
            f"{min(self.first + rows, lines):,}/{lines:,}{' following' if self.follows and not self.is_over else ''}"
        )
        room = max(width - len(place) - 1, 0)
        return [
            Span(cell(self.message or keys_in(_KEYS, ("q back",), room), room), "" if self.message else "dim"),
            Span(f" {place}", "dim"),
        ]


def _run_in(detail: RunDetail, width: int) -> str:
    """The id of a run; where it is too long, its job is cut, and not its time."""
    tail = detail.run.removeprefix(detail.job)
    room = width - width_of(tail)
    is_cut = width_of(detail.run) > width and room >= JOB_MIN
    return f"{cut(detail.job, room)}{tail}" if is_cut else cut(detail.run, max(width, JOB_MIN))


def _merged(line: str) -> str:
    """A line of the log of all steps: its time of day (UTC), its step, and what it printed."""
    at, tab, rest = line.partition("\t")
    step, _, text = rest.partition("\t")
    return f"{at[11:23]} {step} │ {_shown(text)}" if tab else line


def _shown(line: str) -> str:
    """A line as the page shows it: without colours, and of a redrawn progress bar the last state."""
    last = line.removesuffix("\r").rpartition("\r")[2]
    return _COLOURS.sub("", last).expandtabs(4)
