"""What the user has chosen on the page, and what each key does to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from evertick.cli.top.strip import PAST_HOURS
from evertick.model.lifecycle import OPEN, JobStatus
from evertick.operations.figures import BAD
from evertick.operations.results.attention import AttentionAction
from evertick.operations.results.schedule import TimelineSort

if TYPE_CHECKING:
    from evertick.cli.top.snapshot import Snapshot
    from evertick.operations.results.schedule import Lane

SORTS = (TimelineSort.WORST, TimelineSort.NEXT, TimelineSort.NAME)
FILTER_MAX = 100


class ActionKind(StrEnum):
    RUN = "run"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    RETRY_FAILED = "retry-failed"


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send a request to the scheduler."""

    kind: ActionKind
    target: str
    """A job, or a run to retry."""


@dataclass(frozen=True, slots=True)
class OpenLog:
    target: str
    """A run, or a job for its newest started run."""


@dataclass(frozen=True, slots=True)
class OpenWhy:
    target: str


class Plain(StrEnum):
    QUIT = "quit"
    REREAD = "reread"


Command: TypeAlias = SendRequest | OpenLog | OpenWhy | Plain


class Mode(StrEnum):
    JOBS = "jobs"
    FILTER = "filter"
    CONFIRM = "confirm"
    HELP = "help"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Confirmation:
    text: str
    choices: dict[str, SendRequest]
    """The keys that carry something out; every other key does nothing."""


@dataclass(slots=True)
class Message:
    text: str = ""
    is_error: bool = False


@dataclass(slots=True)
class Page:
    mode: Mode = Mode.JOBS
    row: int = 0
    """The chosen place in the order of all jobs."""
    first: int = 0
    """The place at the top of the screen."""
    job: str = ""
    """The chosen job: it stays chosen when it moves."""
    search: str = ""
    written: str = ""
    """The filter while it is written."""
    sort: TimelineSort = TimelineSort.WORST
    hours: int = 12
    confirmation: Confirmation | None = None
    message: Message = field(default_factory=Message)
    text: Sequence[str] = ()
    """The lines of an explanation, in the mode TEXT."""
    text_first: int = 0

    def settle(self, snapshot: Snapshot, rows: int) -> None:
        """Follow the chosen job, and keep the choice on the screen."""
        total = snapshot.timeline.total
        if self.job:
            moved = [number for number, lane in enumerate(snapshot.timeline.lanes) if lane.job == self.job]
            if moved:
                self.row = snapshot.timeline.offset + moved[0]
        self.row = min(max(self.row, 0), max(total - 1, 0))
        self.first = min(max(self.first, self.row - rows + 1, 0), self.row, max(total - rows, 0))
        lane = snapshot.lane(self.row)
        if lane is not None:
            self.job = lane.job

    def press(self, key: str, snapshot: Snapshot, rows: int) -> Command | None:
        """Change the page by a key; what must be asked of the scheduler is returned."""
        match self.mode:
            case Mode.FILTER:
                return self._press_in_filter(key)
            case Mode.CONFIRM:
                return self._press_in_confirmation(key)
            case Mode.HELP:
                self.mode = Mode.JOBS
                return None
            case Mode.TEXT:
                return self._press_in_text(key, rows)
            case Mode.JOBS:
                return self._press_in_jobs(key, snapshot, rows)

    def show_text(self, lines: Sequence[str]) -> None:
        self.mode, self.text, self.text_first = Mode.TEXT, lines, 0

    def _press_in_jobs(self, key: str, snapshot: Snapshot, rows: int) -> Command | None:
        self.message = Message()
        match key:
            case "q":
                return Plain.QUIT
            case "up" | "k" | "down" | "j" | "pageup" | "pagedown" | "home" | "g" | "end" | "G":
                return self._move(key, snapshot, rows)
            case "/":
                self.mode, self.written = Mode.FILTER, ""
            case "escape" if self.search:
                return self._filter("")
            case "?" | "h":
                self.mode = Mode.HELP
            case "s":
                self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
                return Plain.REREAD
            case "+" | "=" | "-":
                place = PAST_HOURS.index(self.hours) + (1 if key == "-" else -1)
                self.hours = PAST_HOURS[min(max(place, 0), len(PAST_HOURS) - 1)]
                return Plain.REREAD
            case "f5":
                return Plain.REREAD
            case _:
                return self._press_on_job(key, snapshot)
        return None

    def _press_on_job(self, key: str, snapshot: Snapshot) -> Command | None:
        lane = snapshot.lane(self.row)
        if lane is None or not lane.job:
            return None
        match key:
            case "enter" | "l":
                return OpenLog(lane.job)
            case "w":
                return OpenWhy(lane.job)
            case "r":
                self._confirm(
                    f"Run {lane.name} now? Its overlap rule applies.", y=SendRequest(ActionKind.RUN, lane.job)
                )
            case "p" if lane.status is JobStatus.PAUSED:
                self._confirm(
                    f"Resume {lane.name}? Its catch-up rule decides which missed occurrences run.",
                    y=SendRequest(ActionKind.RESUME, lane.job),
                )
            case "p":
                self._confirm(
                    f"Pause {lane.name}? It starts no scheduled runs until it is resumed.",
                    y=SendRequest(ActionKind.PAUSE, lane.job),
                )
            case "c":
                count = sum(mark.state in OPEN for mark in lane.marks)
                runs = (
                    f"the {count} unfinished runs"
                    if count > 1
                    else "the unfinished run"
                    if count
                    else "every unfinished run"
                )
                self._confirm(f"Cancel {runs} of {lane.name}?", y=SendRequest(ActionKind.CANCEL, lane.job))
            case "t":
                self._confirm_retry(lane, snapshot)
        return None

    def _confirm_retry(self, lane: Lane, snapshot: Snapshot) -> None:
        item = snapshot.item(lane.job)
        run = item.run if item is not None and item.state in BAD else None
        run = run or next((mark.run for mark in reversed(lane.marks) if mark.state in BAD), None)
        if run is None:
            self.message = Message(f"{lane.name} has no failed run in this period.")
            return
        choices = {"y": SendRequest(ActionKind.RETRY, run)}
        text = f"Retry {run}?"
        if item is None or item.action is AttentionAction.RETRY_FAILED:
            choices["f"] = SendRequest(ActionKind.RETRY_FAILED, run)
            text = f"Retry {run}? (f: from the failed step)"
        self._confirm(text, **choices)

    def _confirm(self, text: str, **choices: SendRequest) -> None:
        self.mode, self.confirmation = Mode.CONFIRM, Confirmation(text, choices)

    def _press_in_confirmation(self, key: str) -> Command | None:
        assert self.confirmation is not None, "the mode CONFIRM has a question"
        chosen = self.confirmation.choices.get(key)
        self.mode, self.confirmation = Mode.JOBS, None
        self.message = Message("" if chosen is not None else "Nothing was changed.")
        return chosen

    def _press_in_filter(self, key: str) -> Command | None:
        match key:
            case "enter":
                return self._filter(self.written)
            case "escape":
                return self._filter("")
            case "backspace":
                self.written = self.written[:-1]
            case _ if len(key) == 1 and key.isprintable() and len(self.written) < FILTER_MAX:
                self.written += key
        return None

    def _filter(self, text: str) -> Command:
        self.mode, self.search, self.written = Mode.JOBS, text.strip(), ""
        self.row, self.first, self.job = 0, 0, ""
        return Plain.REREAD

    def _press_in_text(self, key: str, rows: int) -> Command | None:
        if key in ("q", "escape", "enter", "w"):
            self.mode = Mode.JOBS
        else:
            self.text_first = moved(key, self.text_first, rows, max(len(self.text) - rows, 0))
        return None

    def _move(self, key: str, snapshot: Snapshot, rows: int) -> Command | None:
        self.row = moved(key, self.row, rows, max(snapshot.timeline.total - 1, 0))
        self.job = ""
        self.settle(snapshot, rows)
        # Beyond what was read: more is read at once, not with the next refresh.
        return Plain.REREAD if snapshot.lane(self.row) is None else None


def moved(key: str, place: int, rows: int, last: int) -> int:
    """Where a key leads from a place in a list."""
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": 1 - rows, "pagedown": rows - 1, " ": rows - 1}
    ends = {"home": 0, "g": 0, "end": last, "G": last}
    return min(max(ends.get(key, place + steps.get(key, 0)), 0), last)
