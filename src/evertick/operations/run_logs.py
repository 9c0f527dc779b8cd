"""What a run has printed, wherever that is kept: on this node, on another one, or in a store of copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from evertick.errors import ExecutorUnavailable, NotFound
from evertick.model.attempts import read_attempts
from evertick.model.run import LedgerRow, RunKey
from evertick.operations.data import as_begun
from evertick.operations.node_logs import NodeLogs
from evertick.routing.placement import is_shared


class LogsReader(Protocol):
    """The logs of one place; `evertick.executors.logs.Logs` is one."""

    def list_logs(self, key: RunKey) -> Sequence[Any]: ...
    def read_log(self, key: RunKey, attempt: int, step: str, offset: int = 0, limit: int = 1 << 20) -> Any: ...


class LogFile(NamedTuple):
    attempt: int
    step: str
    size: int
    is_complete: bool
    node: str = ""
    """The node that has it; empty: this one."""
    is_copy: bool = False
    """Whether it is read from the store of copies."""


class AbsentLog(NamedTuple):
    """An attempt whose logs are kept where they cannot be read from here now."""

    attempt: int
    place: str
    reason: str

    @property
    def sentence(self) -> str:
        return f"The log of attempt {self.attempt} is on {self.place}, which is not reachable: {self.reason}."


class FoundLogs(NamedTuple):
    files: Sequence[LogFile] = ()
    absent: Sequence[AbsentLog] = ()


class RunLogs:
    def __init__(
        self,
        here: LogsReader | None,
        node: str = "",
        others: NodeLogs | None = None,
        copies: LogsReader | None = None,
    ) -> None:
        """`node` is this one's name; without `others` every log is taken to be here, or nowhere."""
        self._here, self._node = here, node
        self._others, self._copies = others, copies

    def find(self, row: LedgerRow, *, here_only: bool = False) -> FoundLogs:
        """Which logs a run has, as its steps began, and which cannot be read now."""
        files = [] if self._here is None else _files(self._here.list_logs(row.key))
        absent: list[AbsentLog] = []
        if not here_only and (self._others is not None or self._copies is not None):
            for attempt, executor in _places(row):
                own = [file for file in files if file.attempt == attempt]
                if self._is_all(executor, own):
                    continue
                others, missing = self._elsewhere(row.key, attempt, executor)
                files = [*(file for file in files if file.attempt != attempt), *_best([*own, *others])]
                if missing is not None and not any(file.attempt == attempt for file in files):
                    absent.append(missing)
        return FoundLogs(tuple(as_begun(row, files)), tuple(absent))

    def read(
        self, row: LedgerRow, attempt: int, step: str, offset: int, limit: int, *, here_only: bool = False
    ) -> tuple[bytes, int, bool]:
        """A part of a log; where to go on; and whether nothing follows, now or later."""
        found = self.find(row, here_only=here_only)
        file = next((one for one in found.files if (one.attempt, one.step) == (attempt, step)), None)
        run_id = row.key.run_id
        if file is None:
            for one in found.absent:
                if one.attempt == attempt:
                    raise ExecutorUnavailable(one.sentence)
            steps = tuple(dict.fromkeys(one.step for one in found.files))
            raise NotFound(f"the run {run_id} has no log of a step '{step}' in attempt {attempt}.", steps[:3])
        if file.node:
            assert self._others is not None
            chunk: Any = self._others.read_log(
                file.node, run_id, attempt, step, offset, limit, is_closed=file.is_complete
            )
        else:
            source = self._copies if file.is_copy else self._here
            assert source is not None
            try:
                chunk = source.read_log(row.key, attempt, step, offset, limit)
            except Exception as error:
                if not file.is_copy:
                    raise
                reason = f"{type(error).__name__}: {error}"
                raise ExecutorUnavailable(AbsentLog(attempt, "the store of copies", reason).sentence) from error
        return chunk.data, chunk.next_offset, chunk.is_complete

    def _is_all(self, executor: str, own: Sequence[LogFile]) -> bool:
        """Whether what this node has of an attempt is all that there is of it."""
        node = _node_of(executor)
        if node is not None:
            return node == self._node or (bool(own) and all(file.is_complete for file in own))
        # Of members and clusters a node has copies, and another may have taken over while they grew.
        return not is_shared(executor) or (bool(own) and all(file.is_complete for file in own))

    def _elsewhere(self, key: RunKey, attempt: int, executor: str) -> tuple[list[LogFile], AbsentLog | None]:
        missing: AbsentLog | None = None
        if self._copies is not None:
            try:
                copies = [file._replace(is_copy=True) for file in _files(self._copies.list_logs(key))]
            except Exception as error:  # every store has errors of its own; the nodes may have it
                copies, missing = [], AbsentLog(attempt, "the store of copies", f"{type(error).__name__}: {error}")
            copies = [file for file in copies if file.attempt == attempt]
            if copies:
                return copies, None
        if self._others is None:
            return [], missing
        node = _node_of(executor)
        names = [node] if node is not None else [name for name in self._others.nodes() if name != self._node]
        found: list[LogFile] = []
        for name in names:
            try:
                logs = self._others.list_logs(name, key.run_id)
            except ExecutorUnavailable as error:
                missing = AbsentLog(attempt, f"node {name}", str(error))
                continue
            found += [LogFile(*one, node=name) for one in logs if one.attempt == attempt]
        return found, missing


def _places(row: LedgerRow) -> list[tuple[int, str]]:
    """Where each attempt of a run was, as far as the ledger knows."""
    known = {one.attempt: one.executor for one in read_attempts(row.earlier)}
    if row.attempt:
        known[row.attempt] = row.executor or known.get(row.attempt, "")
    return sorted((attempt, executor) for attempt, executor in known.items() if executor)


def _node_of(executor: str) -> str | None:
    """The node on whose own machine an attempt ran; None: it ran with members or a cluster."""
    _, at, node = executor.partition("@")
    return node if at else None


def _files(logs: Iterable[Any]) -> list[LogFile]:
    return [LogFile(one.attempt, one.step, one.size, one.is_complete) for one in logs]


def _best(files: Iterable[LogFile]) -> list[LogFile]:
    """Of each log the copy that is whole, else the longest; of equals the first."""
    best: dict[tuple[int, str], LogFile] = {}
    for file in files:
        before = best.get((file.attempt, file.step))
        if before is None or (file.is_complete, file.size) > (before.is_complete, before.size):
            best[file.attempt, file.step] = file
    return list(best.values())
