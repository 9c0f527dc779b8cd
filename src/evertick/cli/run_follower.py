"""Follows a run: new log output, and the state of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from evertick.cli.live_view import Display, Step
from evertick.cli.step_tree import tree_of, with_items
from evertick.cli.times import now
from evertick.model.duration import duration_text

if TYPE_CHECKING:
    from evertick.operations.protocol import Operations
    from evertick.operations.results import runs
    from evertick.operations.results.runs import RunDetail, RunSummary


class Log(NamedTuple):
    attempt: int
    step: str


class Progress(NamedTuple):
    """A run at one moment."""

    run: RunSummary
    steps: Sequence[runs.Step]


class WatchedRun(Protocol):
    """A run whose state and logs can be polled."""

    def look(self) -> Progress: ...

    def logs(self) -> Sequence[Log]:
        """The logs at the last look."""
        ...

    def depends(self) -> Mapping[str, Sequence[str]]:
        """The steps of the definition in order, and the steps that each of them depends on."""
        ...

    def again_at(self) -> int | None:
        """When the next attempt starts, if known."""
        ...

    def read(self, log: Log, offset: int) -> tuple[bytes, int]:
        """The log from an offset on, and the next offset."""
        ...


class RecordedRun:
    """A run in a ledger or on a server."""

    def __init__(self, operations: Operations, run_id: str) -> None:
        self._operations, self._run_id = operations, run_id
        self.detail: RunDetail | None = None

    def look(self) -> Progress:
        self.detail = self._operations.run(self._run_id)
        return Progress(self.detail, self.detail.steps)

    def logs(self) -> list[Log]:
        return [Log(log.attempt, log.step) for log in self.detail.logs] if self.detail is not None else []

    def depends(self) -> Mapping[str, Sequence[str]]:
        return self.detail.depends if self.detail is not None else {}

    def again_at(self) -> None:
        return None

    def read(self, log: Log, offset: int) -> tuple[bytes, int]:
        chunk = self._operations.log_bytes(self._run_id, log.attempt, log.step, offset)
        return chunk.data, chunk.next_offset


class Follower:
    """Sends new output and step states to a display, optionally of one step or attempt only, or without output."""

    def __init__(
        self,
        watched: WatchedRun,
        display: Display,
        *,
        step: str | None = None,
        attempt: int | None = None,
        has_output: bool = True,
    ) -> None:
        self._watched, self._display = watched, display
        self._step, self._attempt, self._has_output = step, attempt, has_output
        self._offsets: dict[Log, int] = {}
        self._failed: set[int] = set()
        self._progress: Progress | None = None
        self.has_told = False

    def look(self) -> RunSummary:
        # The state first: when it is final, the logs that follow are complete.
        progress = self._progress = self._watched.look()
        for log in self._watched.logs() if self._has_output else ():
            if self._step in (None, log.step) and self._attempt in (None, log.attempt):
                self._show_log(log)
        if progress.run.state == "retrying":
            self._show_retry(progress.run)
        self._display.show(self.steps())
        return progress.run

    def close(self) -> None:
        self._display.close(self.steps())

    def steps(self) -> list[Step]:
        """The steps of the definition as a tree, then further ones that have started."""
        seen = {step.name: _step(step) for step in (self._progress.steps if self._progress is not None else ())}
        items = [(step.name, step.item_of) for step in (self._progress.steps if self._progress is not None else ())]
        depends = with_items(self._watched.depends(), items)
        planned = tree_of(list(depends), depends)
        drawn = [seen.pop(one.name, Step(one.name, "planned"))._replace(prefix=one.prefix) for one in planned]
        return [*drawn, *seen.values()]

    def _show_retry(self, run: RunSummary) -> None:
        """Report the wait before the next attempt, which would look like a hang."""
        if run.attempt in self._failed:
            return
        self._failed.add(run.attempt)
        at = self._watched.again_at()
        when = "" if at is None else f" in {duration_text(at - now())}"
        why = f": {run.detail}" if run.detail else ""
        self._display.show_note(f"Attempt {run.attempt} failed{why}. Retrying{when} ...")

    def _show_log(self, log: Log) -> None:
        while True:
            data, self._offsets[log] = self._watched.read(log, self._offsets.get(log, 0))
            if not data:
                return
            self.has_told = True
            self._display.write(log.step, log.attempt, data)


def _step(step: runs.Step) -> Step:
    return Step(step.name, step.state, step.duration_seconds, step.exit_code, step.detail, item=step.item or "")
