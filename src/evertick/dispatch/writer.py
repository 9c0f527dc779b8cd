"""Writing to the ledger: one thread, in order, retried until it is done."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeVar

from evertick.errors import Fenced, GapRefused, StoreUnavailable
from evertick.loop.effects import Commit, Record
from evertick.loop.messages import BatchCommitted, BatchFenced, ChangesRecorded, Message
from evertick.model.instant import Instant
from evertick.model.ledger import Committed
from evertick.model.lifecycle import LAUNCHING, RUNNING, TERMINAL, SkipReason
from evertick.model.run import Change, Entry, RunKey, change_of
from evertick.planning.entries import skip_around
from evertick.planning.schedules import compile_all, excluded_of
from evertick.store import Ledger, RunFilter, every_line

log = logging.getLogger("evertick.writer")


class Ask(NamedTuple):
    """Use the store between writes, and report the result."""

    question: Callable[[Ledger], Sequence[Message]]


Write: TypeAlias = Commit | Record | Ask
_Result = TypeVar("_Result")

RETRY_FIRST_SECONDS = 0.05
RETRY_MAX_SECONDS = 5.0
TOGETHER_MAX = 50_000
"""Changes written in one call at most."""
HOLD_SECONDS = 0.2
"""How long launches wait for what follows them: a run that ends within this time is written once, not twice.

The next scheduler asks the executors about runs whose launch was not written, so the wait breaks no promise.
"""
HOLD_SECONDS_EACH = 0.000_03
"""And so much longer for each of the launches: the loop handles the reports of all of them before it writes one end."""


class Writer:
    """A thread that owns a store handle and writes what the loop decided, in the order it was decided.

    It never drops anything: while the store is unavailable it waits and retries, and the loop, without answers, stops
    planning. Queued changes to the same run are merged into one.
    """

    def __init__(
        self,
        store: Ledger,
        report: Callable[[Message], None],
        confirm: Callable[[Sequence[tuple[RunKey, int]]], None] | None = None,
    ) -> None:
        self._store = store
        self._report = report
        self._confirm = confirm
        """Receives the attempts that the ledger has recorded as launched."""
        self._queue: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evertick-writer", daemon=True)
        self.failure: BaseException | None = None
        """The error that ended the thread early; the service must stop then."""

    @property
    def backlog(self) -> int:
        """Writes that wait."""
        return self._queue.qsize()

    def start(self) -> None:
        self._thread.start()

    def write(self, write: Write) -> None:
        self._queue.put(write)

    def stop(self, timeout: float) -> bool:
        """Write the queue, then stop; returns whether everything was written in time."""
        self._queue.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._stopping.set()
            self._thread.join(RETRY_MAX_SECONDS + 1)
            return False
        return self.failure is None

    def _run(self) -> None:
        try:
            write = self._queue.get()
            while write is not None and not self._stopping.is_set():
                match write:
                    case Commit():
                        self._commit(write)
                        write = self._queue.get()
                    case Record():
                        write = self._record_with_following(write)
                    case Ask(question):
                        for message in self._insist(lambda: question(self._store)) or ():
                            self._report(message)
                        write = self._queue.get()
        except BaseException as error:
            self.failure = error
            log.exception("writer.failed")

    def _record_with_following(self, first: Record) -> Write | None:
        """Write consecutive queued changes, up to the next commit, in one call."""
        changes: list[Change] = list(first.changes)
        numbers = [first.number]
        has_following, following = False, None
        hold_until = time.monotonic() + hold_seconds_of(first.changes) if are_launches(first.changes) else 0.0
        while len(changes) < TOGETHER_MAX:
            try:
                hold_seconds = hold_until and hold_until - time.monotonic()
                following = self._queue.get(timeout=hold_seconds) if hold_seconds > 0 else self._queue.get_nowait()
            except queue.Empty:
                break
            if hold_until and isinstance(following, Commit) and may_overtake_launches(following):
                self._commit(following)
                continue
            if not isinstance(following, Record):
                has_following = True
                break
            changes += following.changes
            numbers.append(following.number)
            if not are_launches(following.changes):
                hold_until = 0.0
        folded = fold(changes)
        refused = self._insist(lambda: self._store.record(folded))
        if refused is not None:
            self._confirm_launched(folded, refused)
            self._report(ChangesRecorded(numbers, refused))
        return following if has_following else self._queue.get()

    def _commit(self, commit: Commit) -> None:
        try:
            committed = self._insist(lambda: commit_around(self._store, commit))
        except Fenced as fenced:
            self._report(BatchFenced(commit.number, fenced.buckets))
            return
        if committed is not None:
            self._confirm_launched(commit.batch.changes, committed.overruled | committed.crowded | committed.refused)
            self._report(answered(commit.number, committed))

    def _confirm_launched(self, changes: Sequence[Change], refused: frozenset[RunKey]) -> None:
        if self._confirm is not None and (launched := launched_in(changes, refused)):
            self._confirm(launched)

    def _insist(self, call: Callable[[], _Result]) -> _Result | None:
        """Retry until it succeeds; None only if the writer was asked to give up."""
        wait = RETRY_FIRST_SECONDS
        is_away = False
        while True:
            try:
                result = call()
            except StoreUnavailable as error:
                if not is_away:
                    log.warning("store.away reason=%s", error)
                    is_away = True
                if self._stopping.wait(wait):
                    return None
                wait = min(wait * 2, RETRY_MAX_SECONDS)
            else:
                if is_away:
                    log.warning("store.back")
                return result


def may_overtake_launches(commit: Commit) -> bool:
    """Whether a commit may be written before launches that were decided before it: it only enters what is to come.

    Otherwise the plan of each second would end the wait for the ends of runs that were launched in the one before.
    """
    batch = commit.batch
    speaks_of_runs = batch.changes or batch.withdrawn or batch.rewinds or batch.claims
    return not (speaks_of_runs or batch.requests or batch.answers)


def are_launches(changes: Sequence[Change]) -> bool:
    """Whether these changes only record launches; for most others the first one shows it."""
    return all(change.state is LAUNCHING for change in changes)


def hold_seconds_of(launches: Sequence[Change]) -> float:
    """How long these launches wait for what follows them."""
    return HOLD_SECONDS + HOLD_SECONDS_EACH * len(launches)


def launched_in(changes: Sequence[Change], refused: frozenset[RunKey]) -> list[tuple[RunKey, int]]:
    """The attempts that the ledger knows to be launched, now that these changes are written."""
    active = [one for one in changes if one.state in (LAUNCHING, RUNNING) and one.key not in refused]
    return [(one.key, one.attempt) for one in active if one.attempt is not None]


def answered(number: int, committed: Committed) -> BatchCommitted:
    """The loop's message about a batch that was written."""
    return BatchCommitted(number, committed.refused, committed.crowded, committed.overruled, committed.outranked)


def commit_around(store: Ledger, commit: Commit) -> Committed:
    """Commit a batch; a gap with entries inside it is written around them, in the same transaction as the rest.

    It may take several tries if others write there at the same time; each try finds more of what they wrote.
    """
    batch = commit.batch
    while True:
        try:
            return store.commit(batch)
        except GapRefused as refused:
            entries: list[Entry] = []
            for entry in batch.entries:
                if entry.key not in refused.keys:
                    entries.append(entry)
                    continue
                engines = compile_all(commit.schedules[entry.key.job_id])
                schedules = excluded_of(engines) if entry.reason is SkipReason.CALENDAR else engines
                entries += skip_around(entry, schedules, _stretches_inside(store, entry))
            batch = replace(batch, entries=entries)


def _stretches_inside(store: Ledger, gap: Entry) -> list[tuple[Instant, Instant]]:
    """The first and last instant of every entry of the schedule inside a gap."""
    assert gap.through is not None
    where = RunFilter(
        job_ids=(gap.key.job_id,),
        since=gap.key.scheduled_for,
        until=gap.through + 1,
        occurrences_only=True,
        oldest_first=True,
    )
    return [(row.key.scheduled_for, row.through or row.key.scheduled_for) for row in every_line(store, where)]


def fold(changes: Sequence[Change]) -> list[Change]:
    """One change per run: the newest, with what earlier ones had and it does not.

    The result is as if they were written one after another: a change that the ledger would refuse after another
    contributes nothing.
    """
    folded: dict[RunKey, Change] = {}
    for change in changes:
        before = folded.get(change.key)
        if before is not None:
            if change.fence < before.fence or before.state in TERMINAL:
                continue
            change = change_of([old if new is None else new for new, old in zip(change, before, strict=True)])
        folded[change.key] = change
    return list(folded.values())
