"""The output of a run, wherever it is: here, on another node, in the log store, or on a member."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from evertick.errors import ExecutorUnavailable, MemberUnavailable, NotFound
from evertick.model.attempts import read_attempts
from evertick.model.instant import Instant
from evertick.model.lifecycle import LAUNCHING, LOST, RUNNING
from evertick.model.routing import KUBERNETES
from evertick.model.run import LedgerRow, RunKey
from evertick.model.steps import StepRecord, read_steps
from evertick.operations.ledger_rows import as_begun
from evertick.operations.log_files import (
    NOT_KEPT,
    AbsentLog,
    Chunk,
    FoundLogs,
    ItemRun,
    LogFile,
    LogsReader,
    LogUnavailable,
    MembersReader,
    PlaceKind,
    StoredLog,
)
from evertick.routing.placement import parse_placement

if TYPE_CHECKING:
    from evertick.operations.node_logs import NodeLogs


class _Attempt(NamedTuple):
    """What the ledger knows about an attempt and its logs."""

    number: int
    executor: str
    is_live: bool
    is_lost: bool
    """Its end was never reported: it may have printed more than any copy has."""
    logged: frozenset[str] | None
    """The steps that have printed something; None where the ledger does not know its steps."""
    shards: tuple[tuple[str, tuple[int, int]], ...] = ()
    """Of a broadcast: the members, and which part of it each of them had in this attempt."""


class RunLogs:
    def __init__(
        self,
        here: LogsReader | None,
        node: str = "",
        others: NodeLogs | None = None,
        copies: LogsReader | None = None,
        members: MembersReader | None = None,
    ) -> None:
        """`node` is this one's name; without `others` every log is assumed to be here, or on a member."""
        self._here, self._node = here, node
        self._others, self._copies, self._members = others, copies, members

    def find(self, row: LedgerRow, *, here_only: bool = False) -> FoundLogs:
        """The logs of a run in the order of its steps, and those that cannot be read now."""
        files = [] if self._here is None else _files(self._here.list_logs(row.key))
        absent: list[AbsentLog] = []
        for attempt in () if here_only else _attempts(row):
            own = [file for file in files if file.attempt == attempt.number]
            if self._is_all(attempt, own):
                continue
            found, missing = self._elsewhere(row.key, attempt, own)
            files = [*(file for file in files if file.attempt != attempt.number), *found]
            if missing is not None:
                absent.append(missing)
        return FoundLogs(tuple(as_begun(row, [*files, *self._of_items(row)])), tuple(absent))

    def _of_items(self, row: LedgerRow) -> Iterator[LogFile]:
        """The logs of items that ran elsewhere; of one without a copy here, the size is not known until it is read."""
        if self._here is None:
            return
        for step in _items_elsewhere(row):
            key = RunKey.from_run_id(step.sub_run)
            own = [log for log in self._here.list_logs(key) if log.step == step.name]
            if own:
                last = max(own, key=lambda log: log.attempt)
                of = ItemRun(key, last.attempt, step.executor)
                yield LogFile(step.attempt, step.name, last.size, last.is_complete, of=of)
            elif step.has_log:
                yield LogFile(step.attempt, step.name, 0, is_complete=True, of=ItemRun(key, 0, step.executor))

    def _of_item(self, file: LogFile, of: ItemRun) -> LogFile:
        """The log of an item under the number of its own attempt, from wherever it is."""
        if of.attempt:
            return file._replace(attempt=of.attempt)
        # It has no copy here, so the attempt that had its log is not known either: nearly always it is the first.
        asked = _Attempt(1, of.executor, is_live=False, is_lost=False, logged=frozenset({file.step}))
        found, missing = self._elsewhere(of.key, asked, [])
        if missing is not None:
            raise LogUnavailable(missing)
        return next((one for one in found if one.step == file.step), file._replace(attempt=1))

    def read(
        self, row: LedgerRow, attempt: int, step: str, offset: int, limit: int, *, here_only: bool = False
    ) -> tuple[bytes, int, bool]:
        """A part of a log, the next offset, and whether the log is complete."""
        found = self.find(row, here_only=here_only)
        file = next((one for one in found.files if (one.attempt, one.step) == (attempt, step)), None)
        run_id = row.key.run_id
        if file is None:
            for one in found.absent:
                if one.attempt == attempt:
                    raise LogUnavailable(one)
            steps = tuple(dict.fromkeys(one.step for one in found.files))
            raise NotFound(f"the run {run_id} has no log of a step '{step}' in attempt {attempt}.", steps[:3])
        key = row.key
        if file.of is not None:
            key, file = file.of.key, self._of_item(file, file.of)
            run_id, attempt = key.run_id, file.attempt
        chunk: Chunk
        if file.node:
            assert self._others is not None
            chunk = self._others.read_log(file.node, run_id, attempt, step, offset, limit, is_closed=file.is_complete)
        elif file.member:
            chunk = self._read_from_member(key, file, offset, limit)
        else:
            source = self._copies if file.is_copy else self._here
            assert source is not None
            try:
                chunk = source.read_log(key, attempt, step, offset, limit)
            except Exception as error:
                if not file.is_copy:
                    raise
                reason = f"{type(error).__name__}: {error}"
                raise LogUnavailable(AbsentLog(attempt, PlaceKind.STORE, "", reason)) from error
        return chunk.data, chunk.next_offset, chunk.is_complete

    def times(
        self, row: LedgerRow, attempt: int, step: str, *, here_only: bool = False
    ) -> Sequence[tuple[int, Instant]]:
        """From which byte on a log was written at which instant; empty where that is not known from here.

        A member that still has the only copy of a log is not asked: its copy here has times.
        """
        files = self.find(row, here_only=here_only).files
        file = next((one for one in files if (one.attempt, one.step) == (attempt, step)), None)
        if file is None or file.member or (file.of is not None and not file.of.attempt):
            return ()
        if file.node:
            assert self._others is not None
            return self._others.read_times(file.node, row.key.run_id, attempt, step)
        source = self._copies if file.is_copy else self._here
        assert source is not None
        key, number = (row.key, attempt) if file.of is None else (file.of.key, file.of.attempt)
        try:
            return source.read_times(key, number, step)
        except Exception:
            if not file.is_copy:
                raise
            return ()  # every store has errors of its own, and the log can be read without times

    def _is_all(self, attempt: _Attempt, own: Sequence[LogFile]) -> bool:
        """Whether this node has everything that an attempt has printed."""
        node = _node_of(attempt.executor)
        if node is not None and node != self._node and (self._others is not None or self._copies is not None):
            return bool(own) and all(file.is_complete for file in own)
        if not _is_remote(attempt):
            # A run on this machine printed here; if it printed and nothing is left, report that.
            return bool(own) or not attempt.logged
        # A node has copies of the logs of members and clusters, and another node may have taken over while they grew.
        return not attempt.is_lost and _is_whole(attempt, own)

    def _elsewhere(
        self, key: RunKey, attempt: _Attempt, own: Sequence[LogFile]
    ) -> tuple[list[LogFile], AbsentLog | None]:
        """The most complete copy of each log of an attempt, and why a part is missing, if so."""
        missing: AbsentLog | None = None
        if self._copies is not None:
            try:
                copies = [file._replace(is_copy=True) for file in _files(self._copies.list_logs(key))]
            except Exception as error:  # every store has errors of its own; the nodes may have it
                reason = f"{type(error).__name__}: {error}"
                copies, missing = [], AbsentLog(attempt.number, PlaceKind.STORE, "", reason)
            found = _best([*own, *(file for file in copies if file.attempt == attempt.number)])
            if _is_whole(attempt, found):
                return found, None
            own = found
        others, away = self._on_nodes(key, attempt)
        found, missing = _best([*own, *others]), away or missing
        if self._should_ask_members(attempt, found):
            kept, away = self._on_members(key, attempt)
            found, missing = _best([*found, *kept]), away or missing
        if (found and attempt.is_live) or _is_whole(attempt, found):
            return found, None
        if missing is None and self._here is not None and attempt.logged and not _is_whole(attempt, found):
            missing = _not_kept(attempt, self._node)
        return found, missing if missing is None else missing._replace(is_partial=bool(found))

    def _on_nodes(self, key: RunKey, attempt: _Attempt) -> tuple[list[LogFile], AbsentLog | None]:
        if self._others is None:
            return [], None
        node, missing = _node_of(attempt.executor), None
        names = [node] if node is not None else self._others.nodes()
        found: list[LogFile] = []
        for name in names:
            if name == self._node:
                continue
            try:
                logs = self._others.list_logs(name, key.run_id)
            except ExecutorUnavailable as error:
                missing = AbsentLog(attempt.number, PlaceKind.NODE, name, str(error))
                continue
            found += [LogFile(*one, node=name) for one in logs if one.attempt == attempt.number]
        return found, missing

    def _should_ask_members(self, attempt: _Attempt, found: Sequence[LogFile]) -> bool:
        """A growing copy is recent enough; an incomplete or missing copy of an ended log is read from its origin."""
        if self._members is None or not _has_members(attempt):
            return False
        if attempt.is_live:
            return not found
        return attempt.is_lost or not _is_whole(attempt, found)

    def _on_members(self, key: RunKey, attempt: _Attempt) -> tuple[list[LogFile], AbsentLog | None]:
        assert self._members is not None
        found: list[LogFile] = []
        missing: AbsentLog | None = None
        whole: tuple[tuple[str, tuple[int, int] | None], ...] = ((parse_placement(attempt.executor).member, None),)
        for member, shard in attempt.shards or whole:
            asked = key if shard is None else self._members.shard_key(key, *shard)
            try:
                logs = self._members.list_logs(member, asked, attempt.number)
            except MemberUnavailable as error:
                missing = AbsentLog(
                    attempt.number, PlaceKind.MEMBER, member, str(error), error.reason, seen_at=error.seen_at
                )
                continue
            found += [
                LogFile(attempt.number, _shown(one.step, shard), one.size, one.is_complete, member=member, shard=shard)
                for one in logs
            ]
        return found, missing

    def _read_from_member(self, key: RunKey, file: LogFile, offset: int, limit: int) -> Chunk:
        assert self._members is not None
        asked, step = key, file.step
        if file.shard is not None:
            asked, step = self._members.shard_key(key, *file.shard), _bare(file)
        try:
            return self._members.read_log(file.member, asked, file.attempt, step, offset, limit)
        except MemberUnavailable as error:
            absent = AbsentLog(
                file.attempt, PlaceKind.MEMBER, file.member, str(error), error.reason, seen_at=error.seen_at
            )
            raise LogUnavailable(absent) from error


def _attempts(row: LedgerRow) -> list[_Attempt]:
    """Where each attempt of a run ran, and what it has printed, as far as the ledger knows."""
    found = {
        one.attempt: _Attempt(one.attempt, one.executor, False, one.state == LOST, _logged(one.steps, one.attempt))
        for one in read_attempts(row.earlier)
    }
    if row.attempt:
        before = found.get(row.attempt)
        found[row.attempt] = _Attempt(
            row.attempt,
            row.executor or (before.executor if before else ""),
            row.state in (LAUNCHING, RUNNING),
            row.state is LOST or (before is not None and before.is_lost),
            _logged(read_steps(row.steps), row.attempt),
        )
    attempts = [found[number] for number in sorted(found) if found[number].executor]
    return [
        attempt._replace(shards=_shards(attempt, before))
        for attempt, before in zip(attempts, [None, *attempts], strict=False)
    ]


def _shards(attempt: _Attempt, before: _Attempt | None) -> tuple[tuple[str, tuple[int, int]], ...]:
    """A retry repeats only the parts that had not succeeded."""
    shards = parse_placement(attempt.executor).shards
    earlier = parse_placement(before.executor).shards if before is not None else ()
    done = {shard.number for shard in earlier if shard.is_done}
    return tuple(
        (shard.member, (shard.number, len(shards))) for shard in shards if shard.member and shard.number not in done
    )


def _logged(steps: Iterable[StepRecord], attempt: int) -> frozenset[str] | None:
    own = [step for step in steps if step.attempt == attempt]
    # The log of an item that ran elsewhere is with its own run.
    return frozenset(step.name for step in own if step.has_log and not step.executor) if own else None


def _items_elsewhere(row: LedgerRow) -> Iterator[StepRecord]:
    """The items of a run, and of its earlier attempts, that were runs of their own."""
    if '"sub_run"' not in row.steps and '"sub_run"' not in row.earlier:
        return
    earlier = [step for one in read_attempts(row.earlier) for step in one.steps]
    for step in (*earlier, *read_steps(row.steps)):
        if step.item_of and step.sub_run.startswith(f"{row.key.job_id}@"):
            yield step


def _has_members(attempt: _Attempt) -> bool:
    return bool(attempt.shards or parse_placement(attempt.executor).member)


def _is_remote(attempt: _Attempt) -> bool:
    """Whether it ran with members or a cluster, so that nodes have copies of its logs."""
    return _has_members(attempt) or parse_placement(attempt.executor).executor == KUBERNETES


def _is_whole(attempt: _Attempt, files: Sequence[LogFile]) -> bool:
    """Whether these are all logs of an attempt, to their ends."""
    if not all(file.is_complete for file in files):
        return False
    if attempt.shards:
        steps = [file.step for file in files]
        return all(any(step.endswith(_shown("", shard)) for step in steps) for _, shard in attempt.shards)
    return bool(files) if attempt.logged is None else attempt.logged <= {file.step for file in files}


def _not_kept(attempt: _Attempt, node: str) -> AbsentLog:
    member = attempt.shards[0][0] if attempt.shards else parse_placement(attempt.executor).member
    if member:
        return AbsentLog(attempt.number, PlaceKind.MEMBER, member, f"the member {member} does not have it", NOT_KEPT)
    name = _node_of(attempt.executor) or node
    return AbsentLog(attempt.number, PlaceKind.NODE, name, "old logs are removed", NOT_KEPT)


def _shown(step: str, shard: tuple[int, int] | None) -> str:
    """The logs of all shards are shown together: `main [0 of 3]`."""
    return step if shard is None else f"{step} [{shard[0]} of {shard[1]}]"


def _bare(file: LogFile) -> str:
    """The step of a log, as its own keeper knows it."""
    return file.step if file.shard is None else file.step.removesuffix(_shown("", file.shard))


def _node_of(executor: str) -> str | None:
    """The node on whose own machine an attempt ran; None: it ran with members or a cluster."""
    _, at, node = executor.partition("@")
    return node if at else None


def _files(logs: Iterable[StoredLog]) -> list[LogFile]:
    return [LogFile(one.attempt, one.step, one.size, one.is_complete) for one in logs]


def _best(files: Iterable[LogFile]) -> list[LogFile]:
    """The complete copy of each log, else the longest; among equals the first."""
    best: dict[tuple[int, str], LogFile] = {}
    for file in files:
        before = best.get((file.attempt, file.step))
        if before is None or (file.is_complete, file.size) > (before.is_complete, before.size):
            best[file.attempt, file.step] = file
    return list(best.values())
