"""Shows a run live: its output as it comes, and the progress of its steps."""

from __future__ import annotations

import codecs
import re
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import click

from evertick.cli.output import note
from evertick.cli.tables import STATE_STYLES, clean, is_terminal
from evertick.model.duration import duration_text
from evertick.model.steps import cut

if TYPE_CHECKING:
    from rich.console import RenderableType

# Colours pass; every other control sequence is escaped.
_UNSAFE = re.compile(rb"\x1b(?!\[[0-9;]*m)|\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]")
MARKS = {"succeeded": "✓", "failed": "✗", "timed_out": "✗", "lost": "✗", "cancelled": "✗", "skipped": "–"}
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ITEM_MAX = 40
LIVE_STEPS_MAX = 12
"""Lines of the terminal for the steps while output scrolls."""


class Step(NamedTuple):
    name: str
    state: str
    seconds: float | None = None
    exit_code: int | None = None
    detail: str = ""
    prefix: str = ""
    """The lines of the tree that lead to it."""
    item: str = ""
    """The value of an item of a step with `each`."""


class Display(Protocol):
    def write(self, step: str, attempt: int, data: bytes) -> None:
        """Show new output of a step."""
        ...

    def show_note(self, words: str) -> None:
        """Show a message about the run."""
        ...

    def show(self, steps: Iterable[Step]) -> None:
        """Show the current state of the steps."""
        ...

    def close(self, steps: Iterable[Step]) -> None: ...


def safe_bytes(data: bytes) -> bytes:
    return _UNSAFE.sub(lambda found: b"".join(b"\\x%02x" % byte for byte in found[0]), data)


def write_bytes(data: bytes, *, to_stderr: bool = False) -> None:
    """Write the output of a step unchanged; for a terminal, escape control sequences."""
    stream = sys.stderr if to_stderr else sys.stdout
    stream.flush()
    stream.buffer.write(safe_bytes(data) if is_terminal(stream) else data)
    stream.buffer.flush()


def open_display(title: str, steps: int, *, output_on_stderr: bool) -> Display:
    """A live display on a terminal, else plain lines."""
    if not is_terminal(sys.stderr):
        return PlainDisplay(output_on_stderr=output_on_stderr, has_headings=steps > 1)
    return LiveDisplay(title, steps, is_output_beside=output_on_stderr or is_terminal())


class PlainDisplay:
    """The output unchanged; a heading and the result of each step on stderr."""

    def __init__(self, *, output_on_stderr: bool, has_headings: bool, tells_ends: bool = True) -> None:
        self._has_headings = has_headings
        self._tells_ends = has_headings and tells_ends
        self._to_stderr = output_on_stderr
        self._last: tuple[str, int] | None = None
        self._told: dict[str, str] = {}
        self._is_inside_line = False
        """Whether the last output did not end its line."""

    def write(self, step: str, attempt: int, data: bytes) -> None:
        if (step, attempt) != self._last and (self._has_headings or attempt > 1):
            self.show_note(f"==> {step} (attempt {attempt})")
        self._last = (step, attempt)
        write_bytes(data, to_stderr=self._to_stderr)
        self._is_inside_line = not data.endswith(b"\n")

    def show_note(self, words: str) -> None:
        # The line break goes to stderr too: stdout stays byte for byte what the job printed.
        if self._is_inside_line:
            click.echo(err=True)
        self._is_inside_line = False
        note(words)

    def show(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if step.state in MARKS and self._told.get(step.name) != step.state:
                self._told[step.name] = step.state
                if self._tells_ends:
                    self.show_note(f"{step.state:<10} {step.name}{_took(step)}{_why(step)}")

    def close(self, steps: Iterable[Step]) -> None:
        self.show(steps)


class LiveDisplay:
    """Output scrolls; the steps and their states stay below it."""

    def __init__(self, title: str, steps: int, *, is_output_beside: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._title = title
        self._has_prefix = steps > 1
        self._is_beside = is_output_beside
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._readers: dict[tuple[str, int], codecs.IncrementalDecoder] = {}
        self._rest: dict[tuple[str, int], str] = {}
        self._since: dict[str, float] = {}
        self._began = time.monotonic()
        self._frame = 0
        self._live.start()

    def write(self, step: str, attempt: int, data: bytes) -> None:
        if not self._is_beside:
            write_bytes(data)
            return
        key = (step, attempt)
        reader = self._readers.setdefault(key, codecs.getincrementaldecoder("utf-8")("replace"))
        *lines, self._rest[key] = (self._rest.get(key, "") + reader.decode(data)).split("\n")
        for line in lines:
            self._print(step, line)

    def show_note(self, words: str) -> None:
        self._console.print(clean(words), style="yellow", markup=False)

    def show(self, steps: Iterable[Step]) -> None:
        self._frame += 1
        self._live.update(self._drawn(list(steps)), refresh=True)

    def close(self, steps: Iterable[Step]) -> None:
        for (step, _), rest in self._rest.items():
            if rest:
                self._print(step, rest)
        self._live.stop()
        shown = list(steps)
        if len(shown) > 1:
            self._console.print(self._drawn(shown, is_over=True))

    def _print(self, step: str, line: str) -> None:
        from rich.text import Text

        # Of a progress bar that redraws its line, show the last state.
        last = line.removesuffix("\r").rpartition("\r")[2]
        text = Text.from_ansi(safe_bytes(last.encode("utf-8", "replace")).decode("utf-8", "replace"))
        prefix = (f"{clean(step)} │ " if self._has_prefix else "", "dim")
        self._console.print(Text.assemble(prefix, text), soft_wrap=True)

    def _drawn(self, steps: list[Step], *, is_over: bool = False) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        spin = FRAMES[self._frame % len(FRAMES)]
        grid = Table.grid(padding=(0, 2, 0, 0))
        shown = _most_relevant(steps, len(steps) if is_over else LIVE_STEPS_MAX)
        is_whole = len(shown) == len(steps)  # of a part, the lines of the tree would lead nowhere
        for step in shown:
            is_running = step.state == "running"
            if is_running:
                self._since.setdefault(step.name, time.monotonic())
            mark = spin if is_running else MARKS.get(step.state, "·")
            taken = time.monotonic() - self._since[step.name] if is_running else step.seconds
            style = STATE_STYLES.get(step.state, "")
            told = "" if step.state == "succeeded" else step.state if step.state in MARKS else ""
            grid.add_row(
                Text(mark, style=style),
                Text.assemble(
                    (step.prefix if is_whole else "", "dim"),
                    (clean(step.name), "bold" if is_running else ""),
                    (clean(f" {cut(step.item, ITEM_MAX)}") if step.item else "", "dim"),
                ),
                Text("" if taken is None else duration_text(round(taken * 1_000_000)), style="dim"),
                Text(clean(f"{told}{_why(step)}"), style=style, overflow="ellipsis", no_wrap=True),
            )
        if not is_over:
            taken_us = round((time.monotonic() - self._began) * 1_000_000)
            grid.add_row(Text(""), Text(f"{clean(self._title)}  {duration_text(taken_us)}", style="dim"))
        return grid


def _most_relevant(steps: list[Step], room: int) -> list[Step]:
    """The steps that fit: running and failed ones before planned ones, planned ones before finished ones."""
    if len(steps) <= room:
        return steps
    ranks = {"running": 0, "failed": 1, "timed_out": 1, "lost": 1, "planned": 2}
    chosen = sorted(steps, key=lambda step: ranks.get(step.state, 3))[:room]
    return [step for step in steps if step in chosen]


def _took(step: Step) -> str:
    return "" if step.seconds is None else f" in {duration_text(round(step.seconds * 1_000_000))}"


def _why(step: Step) -> str:
    return f": {step.detail}" if step.detail and step.state != "succeeded" else ""
