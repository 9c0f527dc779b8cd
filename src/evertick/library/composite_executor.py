"""Chooses the executor of an attempt: this process for functions, the machine for jobs from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evertick.dispatch.status import HasLanes
from evertick.executor import Attempt, Executor, HearsOfSubRuns, Member
from evertick.model.report import Report
from evertick.model.run import RunKey
from evertick.model.subrun import SubRunEnd


class CompositeExecutor:
    """To the dispatcher it is one executor; a job of code never reaches the other one."""

    name = "local"

    def __init__(self, functions: Executor, commands: Executor | None, is_function: Callable[[str], bool]) -> None:
        self._functions, self._commands, self._is_function = functions, commands, is_function

    def open(self, report: Callable[[Report], None]) -> None:
        for executor in self._both():
            executor.open(report)

    def launch(self, attempt: Attempt) -> None:
        self._of(attempt.key).launch(attempt)

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        self._of(key).stop(key, attempt, detail)

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        for executor in self._both():
            mine = [(key, attempt) for key, attempt in runs if self._of(key) is executor]
            if mine:
                executor.reconcile(mine)

    def sub_run_ended(self, key: RunKey, attempt: int, step: str, number: int, end: SubRunEnd) -> None:
        executor = self._of(key)
        if isinstance(executor, HearsOfSubRuns):
            executor.sub_run_ended(key, attempt, step, number, end)

    def members(self) -> Sequence[Member]:
        return [member for executor in self._both() for member in executor.members()]

    def lanes(self) -> Mapping[str, Mapping[str, int]]:
        commands = self._commands
        return commands.lanes() if isinstance(commands, HasLanes) else {}

    def close(self) -> None:
        for executor in self._both():
            executor.close()

    def _both(self) -> tuple[Executor, ...]:
        return (self._functions,) if self._commands is None else (self._functions, self._commands)

    def _of(self, key: RunKey) -> Executor:
        return self._functions if self._commands is None or self._is_function(key.job_id) else self._commands
