"""An executor whose runs take no time: for benchmarks and tests of everything around the running."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from evertick.executor import Attempt, Capabilities, Member
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.report import Report, RunFinished, RunStarted, RunUnknown
from evertick.model.run import RunKey


class InstantExecutor:
    """Reports each attempt as started and succeeded at once, and has forgotten it by the next call."""

    def __init__(self, name: str = "local") -> None:
        self.name = name
        self.launched = 0
        self._report: Callable[[Report], None] = _nowhere

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def open(self, report: Callable[[Report], None]) -> None:
        self._report = report

    def launch(self, attempt: Attempt) -> None:
        self.launched += 1
        now = time.time_ns() // 1_000
        self._report(RunStarted(attempt.key, attempt.attempt, now))
        self._report(RunFinished(attempt.key, attempt.attempt, now, SUCCEEDED, 0))

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        """There is nothing left to stop."""

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        for key, attempt in runs:
            self._report(RunUnknown(key, attempt))

    def members(self) -> Sequence[Member]:
        return (Member(self.name, is_healthy=True, running=0),)

    def close(self) -> None: ...


def _nowhere(report: Report) -> None:
    raise AssertionError(f"{report} before open()")
