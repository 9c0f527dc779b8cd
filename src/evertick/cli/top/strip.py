"""A job's last and next hours as a strip of characters."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from evertick.cli.top.styled import Span
from evertick.model.instant import DAY, HOUR, MINUTE, Instant, from_datetime, to_datetime
from evertick.model.lifecycle import ACTIVE, RunState
from evertick.operations.figures import BADNESS

if TYPE_CHECKING:
    from evertick.operations.results.schedule import Lane, Timeline

PAST_HOURS = (1, 3, 6, 12, 24, 72, 168)
"""What a user can choose between."""
_PAST_SHARE = 0.72
_LABEL_CELLS = 9
"""Columns from one label of the scale to the next, at least."""
_ROUND_US = (
    *(number * MINUTE for number in (1, 2, 5, 10, 15, 20, 30)),
    *(number * HOUR for number in (1, 2, 3, 6, 12)),
    *(number * DAY for number in (1, 2, 7, 14, 28)),
)

_BARS = "▂▄▆█"
_GLYPHS = {
    RunState.FAILED: Span("✗", "alarm"),
    RunState.TIMED_OUT: Span("✗", "alarm"),
    RunState.LOST: Span("✗", "alarm"),
    RunState.RETRYING: Span("↻", "bold yellow"),
    RunState.RUNNING: Span("▶", "bold cyan"),
    RunState.LAUNCHING: Span("▷", "cyan"),
    RunState.WAITING: Span("◌", "yellow"),
    RunState.PLANNED: Span("◌", "dim"),
    RunState.CANCELLED: Span("×", "dim"),
    RunState.SKIPPED: Span("–", "yellow"),
}
LEGEND = (
    (Span("▂▄▆█", "green"), "succeeded (1, 2, 4, 16 runs)"),
    (_GLYPHS[RunState.FAILED], "failed, timed out or lost"),
    (_GLYPHS[RunState.RUNNING], "running; ─ is its length"),
    (_GLYPHS[RunState.RETRYING], "waits for its next attempt"),
    (_GLYPHS[RunState.WAITING], "waits"),
    (_GLYPHS[RunState.SKIPPED], "skipped"),
    (_GLYPHS[RunState.CANCELLED], "cancelled"),
    (Span("·", "dim"), "due; : several"),
    (Span("░", "red"), "no scheduler ran"),
)


class Window(NamedTuple):
    """The time that a strip covers, in cells of one length."""

    since: Instant
    cell_us: int
    cells: int

    @property
    def until(self) -> Instant:
        return self.since + self.cells * self.cell_us

    def at(self, instant: Instant) -> int:
        """The cell of an instant; it may lie outside."""
        return (instant - self.since) // self.cell_us


def window_of(now: Instant, cells: int, past_hours: int) -> Window:
    """Whole cells around now: about three quarters are past."""
    past = max(round(cells * _PAST_SHARE), 1)
    # A round length whose cells begin on full minutes or hours: a run keeps its cell from frame to frame.
    wanted = past_hours * HOUR / past
    cell_us = next((one for one in _ROUND_US if one >= wanted), _ROUND_US[-1])
    return Window(now // cell_us * cell_us - (past - 1) * cell_us, cell_us, cells)


def strip_of(lane: Lane, window: Window, now: Instant, timeline: Timeline) -> list[Span]:
    """One character for each cell: the worst of what happened in it."""
    worst: dict[int, RunState] = {}
    counts: dict[int, int] = {}
    drawn: dict[int, Span] = {}
    for downtime in timeline.downtimes:
        until = now if downtime.through is None else from_datetime(downtime.through)
        _fill(drawn, window, from_datetime(downtime.at), until, Span("░", "red"))
    for instant in map(from_datetime, lane.future):
        number = window.at(instant)
        drawn[number] = Span(":" if number in drawn else "·", "dim")
    for cell in lane.future_cells:
        several = (from_datetime(cell.through) - from_datetime(cell.at)) / cell.count < window.cell_us
        _fill(drawn, window, from_datetime(cell.at), from_datetime(cell.through), Span(":" if several else "·", "dim"))
    for gap in lane.gaps:
        end = gap.through or gap.at
        _fill(drawn, window, from_datetime(gap.at), from_datetime(end), _GLYPHS[RunState.SKIPPED])
    for mark in lane.marks:
        if mark.started_at is not None:
            end_at = now if mark.finished_at is None else from_datetime(mark.finished_at)
            style = "cyan" if mark.state in ACTIVE else "green" if mark.state is RunState.SUCCEEDED else "red"
            _fill(drawn, window, from_datetime(mark.started_at), end_at, Span("─", style))
        number = window.at(from_datetime(mark.at))
        if mark.state in ACTIVE:
            # What is in progress is seen at its newest cell, however long ago it was due.
            number = min(max(number, 0), window.at(now)) if mark.started_at is None else window.at(now)
        if mark.state is RunState.PLANNED:
            drawn.setdefault(number, Span("·", "dim"))  # it is entered a few seconds before it is due
        else:
            _note(worst, counts, number, mark.state, 1)
    for counted in lane.cells:
        state = counted.worst
        if state is RunState.PLANNED and counted.succeeded:
            state = RunState.SUCCEEDED
        _note(worst, counts, window.at(from_datetime(counted.at)), state, counted.count)
    for number, state in worst.items():
        drawn[number] = _glyph(state, counts[number])
    here = window.at(now)
    return [drawn.get(number, Span("│" if number == here else " ", "dim")) for number in range(window.cells)]


def _note(worst: dict[int, RunState], counts: dict[int, int], number: int, state: RunState, count: int) -> None:
    worst[number] = max(worst.get(number, state), state, key=BADNESS.__getitem__)
    counts[number] = counts.get(number, 0) + count


def _fill(drawn: dict[int, Span], window: Window, since: Instant, until: Instant, span: Span) -> None:
    for number in range(max(window.at(since), 0), min(window.at(until), window.cells - 1) + 1):
        drawn[number] = span


def _glyph(state: RunState, count: int) -> Span:
    if state is RunState.SUCCEEDED:
        return Span(_BARS[0 if count < 2 else 1 if count < 4 else 2 if count < 16 else 3], "green")
    return _GLYPHS[state]


def scale_of(window: Window, now: Instant, zone: str) -> str:
    """The labels above the strips, each over the cell with which its time begins."""
    step_us = next((one for one in _ROUND_US if one >= _LABEL_CELLS * window.cell_us), _ROUND_US[-1])
    here, place = window.at(now), ZoneInfo(zone)
    written = list(" " * window.cells)
    for number in range(window.cells):
        local = to_datetime(window.since + number * window.cell_us).astimezone(place)
        if _is_multiple(local, step_us):
            label = f"{local:%H:%M}" if step_us < DAY else f"{local:%a %d}"
            if number + len(label) <= window.cells and not number - 4 <= here <= number + len(label):
                written[number : number + len(label)] = label
    written[here : here + 3] = "now"
    return "".join(written)[: window.cells]


def _is_multiple(local: datetime, step_us: int) -> bool:
    since_midnight = (local.hour * 60 + local.minute) * MINUTE
    if step_us < DAY:
        return since_midnight % step_us == 0
    return since_midnight == 0 and local.toordinal() % (step_us // DAY) == 0
