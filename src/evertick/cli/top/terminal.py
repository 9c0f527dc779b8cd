"""The whole screen of a terminal, and its keys; the terminal is given back whichever way the page ends."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType

from evertick.cli.tables import has_colour
from evertick.cli.top.styled import Line, ansi

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_ESCAPE_SECONDS = 0.05
"""The rest of a key's sequence follows within this time; without it, it was the key Escape."""
_STDERR = 2
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LETTERS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_NUMBERS = {1: "home", 3: "delete", 4: "end", 5: "pageup", 6: "pagedown", 15: "f5"}
_SEQUENCES = {
    **{f"\x1b{intro}{letter}": name for intro in "[O" for letter, name in _LETTERS.items()},
    **{f"\x1b[{number}~": name for number, name in _NUMBERS.items()},
    "\x1b[Z": "backtab",
}
_CONTROLS = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\b": "backspace", "\x0c": "f5"}
_CONTROLS |= {"\x06": "pagedown", "\x02": "pageup"}


def keys_of(text: str) -> list[str]:
    """The keys that a terminal has sent: characters, or names such as `up`; unknown sequences are dropped."""
    found = []
    while text:
        if not text.startswith("\x1b"):
            found.append(_CONTROLS.get(text[0], text[0]))
            text = text[1:]
            continue
        name = next((name for name in _SEQUENCES if text.startswith(name)), None)
        if name is not None:
            found.append(_SEQUENCES[name])
            text = text[len(name) :]
        elif text[1:2] in ("[", "O"):
            end = next((place for place, one in enumerate(text[2:], 2) if "@" <= one <= "~"), len(text))
            text = text[end + 1 :]
        else:
            found.append("escape")
            text = text[1:]
    return [key for key in found if len(key) > 1 or key.isprintable()]


def is_begun(text: str) -> bool:
    """Whether more of a key's sequence must follow."""
    place = text.rfind("\x1b")
    rest = text[place:] if place >= 0 else ""
    return rest in ("\x1b", "\x1b[", "\x1bO") or (
        rest.startswith("\x1b[") and not any("@" <= one <= "~" for one in rest[2:])
    )


class Terminal:
    """`wake` is called when the size changes, so that the wait for keys ends."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._input, self._output = sys.stdin.fileno(), sys.stdout.fileno()
        self._has_colour = has_colour()
        self._shown: list[str] = []
        self._size = (0, 0)
        self._before: list[object] = []
        self._handlers: dict[signal.Signals, object] = {}
        self._is_stopping = False
        self._undecoded = b""
        self._stderr: int | None = None
        """A copy of the standard error, while the page is on the screen."""

    def __enter__(self) -> Terminal:
        self._before = termios.tcgetattr(self._input)
        for number in _ENDING:
            self._handlers[number] = signal.signal(number, _end)
        self._handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, self._resized)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._asked_to_stop)
        try:
            self._take()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second signal must not end the process between here and the last escape sequence.
        for number in (*_ENDING, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        try:
            self._give_back()
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)  # type: ignore[arg-type]

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        found = os.get_terminal_size(self._output)
        return max(found.columns, 20), max(found.lines, 6)

    def draw(self, lines: Sequence[Line]) -> None:
        """Write the lines that differ from those on the screen."""
        if self.size() != self._size:
            self._size, self._shown = self.size(), []
        frame = [ansi(line, has_colour=self._has_colour) for line in lines]
        written = []
        for number, line in enumerate(frame):
            if number >= len(self._shown) or self._shown[number] != line:
                written.append(f"\x1b[{number + 1};1H\x1b[0m{line}\x1b[K")
        if len(frame) < len(self._shown):
            written.append(f"\x1b[{len(frame) + 1};1H\x1b[J")
        self._shown = frame
        if written:
            self._write("".join(written))

    def keys(self, wake_fd: int, seconds: float) -> list[str]:
        """Wait for keys, until something else happens or that time has passed."""
        if self._is_stopping:
            self._stop()
        ready, _, _ = select.select([self._input, wake_fd], [], [], max(seconds, 0.0))
        if self._input not in ready:
            return []
        text = self._read()
        while is_begun(text) and select.select([self._input], [], [], _ESCAPE_SECONDS)[0]:
            text += self._read()
        return keys_of(text)

    def _read(self) -> str:
        data = os.read(self._input, 4_096)
        if not data:
            raise SystemExit(129)  # the terminal is gone
        data = self._undecoded + data
        for kept in range(4):
            # A character may have arrived in part only.
            try:
                text = data[: len(data) - kept].decode()
            except UnicodeDecodeError:
                continue
            self._undecoded = data[len(data) - kept :]
            return text
        self._undecoded = b""
        return ""

    def _take(self) -> None:
        if os.isatty(_STDERR):
            # A note of a reader in the other thread would be written across the page.
            self._stderr = os.dup(_STDERR)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, _STDERR)
            os.close(nowhere)
        tty.setcbreak(self._input)
        self._shown = []
        self._write(_ENTER)

    def _give_back(self) -> None:
        if self._stderr is not None:
            os.dup2(self._stderr, _STDERR)
            os.close(self._stderr)
            self._stderr = None
        try:
            self._write(_LEAVE)
        except OSError:
            return  # the terminal is gone
        termios.tcsetattr(self._input, termios.TCSAFLUSH, self._before)  # type: ignore[arg-type]

    def _write(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self._output, data) :]

    def _stop(self) -> None:
        """Suspend the process, as Ctrl-Z asks."""
        self._is_stopping = False
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        self._wake()

    def _asked_to_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stopping = True
        self._wake()


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
