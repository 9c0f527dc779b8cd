"""One attempt to call a function: what it is, and how it is asked to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from evertick.executor import AttemptId
from evertick.executors.context import RunContext
from evertick.executors.function import Function
from evertick.executors.function_log import FunctionLog
from evertick.model.instant import Instant
from evertick.model.lifecycle import RunState


class Outcome(NamedTuple):
    at: Instant
    state: RunState
    detail: str = ""
    exit_code: int | None = None


class FunctionRun:
    """An attempt that has not ended."""

    def __init__(
        self,
        attempt_id: AttemptId,
        function: Function,
        context: RunContext,
        timeout: float | None,
        said: FunctionLog | None,
    ) -> None:
        self.attempt_id, self.function, self.context, self.timeout = attempt_id, function, context, timeout
        self.said = said
        self.started_at: Instant | None = None
        self.ending: RunState | None = None
        """What it was asked to end for: cancelled, or timed out; None while it may go on."""
        self.detail = ""
        self.is_abandoned = False
        """The scheduler has stopped: nobody learns how it ends, so it counts as lost."""
        self.end: Callable[[], None] | None = None
        """How what runs is ended; None: it can only be asked."""

    def ask_to_end(self, state: RunState, detail: str) -> None:
        if self.ending is None:
            self.ending, self.detail = state, detail
        self.context._stop.set()
        if self.end is not None:
            self.end()
