"""The states of a run as a picture, drawn from the table of transitions: docs/images/lifecycle.svg."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from evertick.model.lifecycle import TERMINAL, TRANSITIONS, RunState

WIDTH, HEIGHT = 880, 330
BOX_WIDTH, BOX_HEIGHT = 116, 38
OPEN_TOP, TERMINAL_TOP = 92, 260
# A state stands next to those it exchanges runs with, so that most arrows between open states are short.
OPEN_ROW = (RunState.PLANNED, RunState.WAITING, RunState.LAUNCHING, RunState.RETRYING, RunState.RUNNING)
TERMINAL_ROW = (
    RunState.SKIPPED,
    RunState.CANCELLED,
    RunState.FAILED,
    RunState.TIMED_OUT,
    RunState.LOST,
    RunState.SUCCEEDED,
)
COLOURS = {
    RunState.SKIPPED: "#6f6a5f",
    RunState.CANCELLED: "#6b6760",
    RunState.FAILED: "#c4302b",
    RunState.TIMED_OUT: "#a8560a",
    RunState.LOST: "#8a3ea8",
    RunState.SUCCEEDED: "#1b7f5c",
}
INK = "#1d5f6b"


class Box(NamedTuple):
    x: float
    y: float

    @property
    def middle(self) -> float:
        return self.x + BOX_WIDTH / 2


def boxes() -> dict[RunState, Box]:
    """Where each state stands: open states above, terminal ones below."""
    placed = {}
    for row, top in ((OPEN_ROW, OPEN_TOP), (TERMINAL_ROW, TERMINAL_TOP)):
        gap = (WIDTH - len(row) * BOX_WIDTH) / (len(row) + 1)
        for number, state in enumerate(row):
            placed[state] = Box(gap + number * (BOX_WIDTH + gap), top)
    return placed


def lifecycle_picture() -> str:
    """The picture as SVG: one box for each state, one arrow for each transition."""
    placed = boxes()
    arrows = [_arrow(old, new, placed) for old in OPEN_ROW for new in RunState if new in TRANSITIONS[old]]
    marks = [_mark(name, colour) for name, colour in {"open": INK, **{str(s): c for s, c in COLOURS.items()}}.items()]
    style = "font-family: system-ui, sans-serif; font-size: 15px"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" style="{style}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff"/>',
        "<defs>",
        *marks,
        "</defs>",
        *arrows,
        *(_box(state, box) for state, box in placed.items()),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _mark(name: str, colour: str) -> str:
    shape = f'<path d="M0 0 8 4 0 8z" fill="{colour}"/>'
    return f'<marker id="to-{name}" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">{shape}</marker>'


def _box(state: RunState, box: Box) -> str:
    colour = COLOURS.get(state, INK)
    size = f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8"'
    fill = f'fill="{colour}"' if state in TERMINAL else f'fill="#e2eff1" stroke="{colour}"'
    ink = "#ffffff" if state in TERMINAL else "#17343b"
    place = f'x="{box.middle:g}" y="{box.y + 24:g}" text-anchor="middle"'
    return f'<rect x="{box.x:g}" y="{box.y:g}" {size} {fill}/><text {place} fill="{ink}">{state}</text>'


def _arrow(old: RunState, new: RunState, placed: dict[RunState, Box]) -> str:
    name = str(new) if new in TERMINAL else "open"
    colour = COLOURS.get(new, INK)
    line = f'fill="none" stroke="{colour}" stroke-width="1.4" marker-end="url(#to-{name})"'
    return f'<path d="{_path(old, new, placed)}" {line}><title>{old} → {new}</title></path>'


def _path(old: RunState, new: RunState, placed: dict[RunState, Box]) -> str:
    start, end = placed[old], placed[new]
    if new in TERMINAL:
        # Those that leave one box, or arrive at one, spread along its edge.
        out = start.middle + _spread(_targets(old), new)
        into = end.middle + _spread(_sources(new), old)
        low, high = start.y + BOX_HEIGHT, end.y - 3
        return f"M{out:g} {low:g} C{out:g} {low + 60:g} {into:g} {high - 60:g} {into:g} {high:g}"
    if abs(OPEN_ROW.index(new) - OPEN_ROW.index(old)) > 1:
        top = OPEN_TOP - 62
        out, into = start.middle, end.middle
        return f"M{out:g} {start.y:g} C{out:g} {top:g} {into:g} {top:g} {into:g} {end.y - 3:g}"
    # There and back lie side by side.
    level = start.y + (12 if end.x > start.x else 26)
    if end.x > start.x:
        return f"M{start.x + BOX_WIDTH:g} {level:g} H{end.x - 3:g}"
    return f"M{start.x:g} {level:g} H{end.x + BOX_WIDTH + 3:g}"


def _targets(old: RunState) -> list[RunState]:
    return [state for state in TERMINAL_ROW if state in TRANSITIONS[old]]


def _sources(new: RunState) -> list[RunState]:
    return [state for state in OPEN_ROW if new in TRANSITIONS[state]]


def _spread(among: list[RunState], one: RunState) -> float:
    step = BOX_WIDTH * 0.7 / max(len(among) - 1, 1)
    return (among.index(one) - (len(among) - 1) / 2) * step


def transitions_drawn(picture: str) -> Iterator[tuple[str, str]]:
    """The arrows of a picture, as their titles name them."""
    for part in picture.split("<title>")[1:]:
        old, _, new = part.partition("</title>")[0].partition(" → ")
        yield old, new
