"""A ledger without a database: a journal and its snapshots in a folder, and files beside the pipelines for people.

All logic is the in-memory store's. A write is checked, then made durable as one line of the journal, then applied;
so what is in memory is on disk, and what is on disk makes the same memory again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Final, overload

from evertick.errors import SchedulerLockError, StoreUnavailable
from evertick.model.instant import SECOND, Instant
from evertick.model.lifecycle import SKIPPED, TERMINAL, Trigger
from evertick.model.run import Change, LedgerRow, RunKey
from evertick.private_file import sync_folder
from evertick.store import (
    Batch,
    Capabilities,
    Committed,
    Lease,
    Page,
    Request,
    RunFilter,
    ScheduleLine,
    Snapshot,
    WrongCount,
)
from evertick.store import Tally as Counted
from evertick.stores.disk import (
    FOLDER_MODE,
    read_if_there,
    set_aside,
    write_atomically,
)
from evertick.stores.files.codec import Compaction, Leasing, Recording, Write, seen_at
from evertick.stores.files.fold import Fold
from evertick.stores.files.journal import Journal
from evertick.stores.files.projection import (
    STATE_FILE,
    Tally,
    pipeline_of,
    read_tally,
    read_watermarks,
    state_file,
    watermark_file,
)
from evertick.stores.files.recovery import JOURNAL, PREVIOUS, SNAPSHOT, recover
from evertick.stores.memory import MemoryStore

FLUSH_US: Final = 5 * SECOND
"""How old the files for people may be: twelve writes a minute, for any number of jobs."""
FOLD_BYTES: Final = 4 << 20
"""A journal this long is folded into a snapshot, unless the snapshot is longer still."""
LATE: Final = 2
"""At a start, a journal this many times as long is folded at once: no process before ran long enough for it."""
WATERMARKS: Final = "watermarks.json"


class FilesStore:
    def __init__(self, folder: str | os.PathLike[str], fold_bytes: int = FOLD_BYTES) -> None:
        self.folder = Path(folder)
        self._home = self.folder / ".evertick"
        self._fold_bytes = fold_bytes
        self._seen_at: Instant = 0
        self._flushed_at: Instant = 0
        self._next_runs: Mapping[str, Instant] = {}
        self._stale_jobs: set[str] = set()
        """Jobs whose state file is out of date."""
        self._is_stale = False
        """Whether the watermark file is."""
        self._folding: Fold | None = None
        """The next snapshot, while it is being written."""
        self._trouble = ""
        self._writing = RLock()  # a request may be submitted by another thread than the one that schedules
        self._guard: int | None = _own(self._home)
        try:
            self._open()
        except BaseException:
            self._let_go()
            raise

    # Scheduling

    def load(self, buckets: Collection[int] | None = None) -> Snapshot:
        notices = (*self._notices, self._trouble) if self._trouble else tuple(self._notices)
        return replace(self._memory.load(buckets), notices=notices)

    def commit(self, batch: Batch) -> Committed:
        with self._writing:
            self._memory.check_epochs(batch.epochs)
            self._memory.check_gaps(batch)
            return self._perform(batch)

    def record(self, changes: Sequence[Change]) -> frozenset[RunKey]:
        if not changes:
            return frozenset()
        return self._perform(Recording(changes))

    def claim(self, buckets: Collection[int] | None, limit: int) -> Sequence[Request]:
        return self._memory.claim(buckets, limit)

    def lease(self, names: Collection[str], holder: str, ttl_us: int, now: Instant) -> Sequence[Lease]:
        if not names:
            return self._memory.lease(names, holder, ttl_us, now)
        return self._perform(Leasing(tuple(names), holder, ttl_us, now))

    # Reading, for people

    def query(self, where: RunFilter, after: RunKey | None = None, limit: int = 100) -> Page:
        return self._memory.query(where, after, limit)

    def schedules(self, job_ids: Collection[str] | None = None) -> Sequence[ScheduleLine]:
        return self._memory.schedules(job_ids)

    def definition(self, job_id: str, digest: str) -> str | None:
        return self._memory.definition(job_id, digest)

    def stored_jobs(self) -> Mapping[str, str]:
        return self._memory.stored_jobs()

    def blackouts(self) -> Mapping[str, str]:
        return self._memory.blackouts()

    def requests(self, ids: Collection[str]) -> Sequence[Request]:
        return self._memory.requests(ids)

    def newest(
        self, job_ids: Collection[str], count: int = 1, *, with_skips: bool = False
    ) -> Mapping[str, Sequence[LedgerRow]]:
        return self._memory.newest(job_ids, count, with_skips=with_skips)

    def tally(self, where: RunFilter, width_us: int, *, by_job: bool = False) -> Sequence[Counted]:
        return self._memory.tally(where, width_us, by_job=by_job)

    def outcomes(self, bounds: Sequence[Instant], job_id: str | None = None) -> Sequence[Counted]:
        return self._memory.outcomes(bounds, job_id)

    def wrong_counts(self) -> Sequence[WrongCount]:
        return self._memory.wrong_counts()

    def counters(self) -> Mapping[str, int]:
        return self._memory.counters()

    def pause_reads_with(self, pause: Callable[[], None]) -> None:
        self._memory.pause_reads_with(pause)

    # Keeping house

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(next_run_files=self)

    def compact(self, before: Mapping[str, Instant], default_before: Instant | None, limit: int) -> int:
        return self._perform(Compaction(before, default_before, limit))

    def show_next_runs(self, now: Instant, next_runs: Mapping[str, Instant]) -> None:
        self._stale_jobs.update(dict(next_runs.items() ^ self._next_runs.items()))
        self._next_runs = dict(next_runs)
        self.flush(now)

    def flush(self, now: Instant) -> None:
        """Bring the files for people up to date."""
        self._flushed_at = self._seen_at = now
        try:
            self._write_watermarks(now)
            self._write_states(now)
            self._trouble = ""
        except OSError as error:
            # The ledger does not rest on these files; they are tried again at the next flush.
            self._trouble = f"The files for people in {self.folder} are out of date: {error.strerror}."

    def close(self) -> None:
        if self._guard is None:
            return
        if self._is_stale or self._stale_jobs:
            self.flush(self._seen_at)
        self._drop_fold()
        self._journal.close()
        self._let_go()

    # A write, from the call to the disk to the memory

    @overload
    def _perform(self, write: Batch) -> Committed: ...
    @overload
    def _perform(self, write: Recording) -> frozenset[RunKey]: ...
    @overload
    def _perform(self, write: Leasing) -> Sequence[Lease]: ...
    @overload
    def _perform(self, write: Compaction) -> int: ...
    def _perform(self, write: Write) -> object:
        with self._writing:
            return self._write(write)

    def _write(self, write: Write) -> object:
        if self._guard is None:
            raise StoreUnavailable(f"the store in {self.folder} was closed. Open it again.")
        self._journal.append(self._sequence + 1, write)
        self._sequence += 1
        answer = self._apply(write)
        if self._folding is not None or self._journal.end > self._fold_at:
            self._fold_if_possible()
        # Not "later than": the clock may have been set back.
        if abs(self._seen_at - self._flushed_at) >= FLUSH_US and (self._is_stale or self._stale_jobs):
            self.flush(self._seen_at)
        return answer

    def _apply(self, write: Write) -> object:
        """Apply a line of the journal: a new one, or one from a replay."""
        self._seen_at = seen_at(write) or self._seen_at
        match write:
            case Leasing():
                return self._memory.lease(*write)
            case Compaction():
                return self._memory.compact(*write)
            case Recording(changes):
                open_before = self._open_among({change.key for change in changes})
                answer: object = self._memory.record(changes)
            case Batch():
                touched = {change.key for change in write.changes}.union(entry.key for entry in write.entries)
                open_before = self._open_among(touched)
                answer = self._memory.commit(write)
                self._stale_jobs.update(job.job_id for job in write.jobs)
                self._stale_jobs.update(key.job_id for key in write.withdrawn)
        self._is_stale = True
        self._stale_jobs.update(key.job_id for key in open_before)
        for key in sorted(open_before):
            row = self._memory.line(key)
            is_run = row is not None and row.state in TERMINAL and row.state is not SKIPPED
            if row is not None and is_run and row.trigger is not Trigger.ITEM:
                self._tallies.setdefault(key.job_id, Tally()).count(row)
        return answer

    def _open_among(self, keys: set[RunKey]) -> set[RunKey]:
        """Runs that are new or open, so that each end is counted once."""
        lines = ((key, self._memory.line(key)) for key in keys)
        return {key for key, row in lines if row is None or row.state not in TERMINAL}

    # Opening, and the generations of the ledger

    def _open(self) -> None:
        for draft in self._home.glob("*.tmp-*"):
            draft.unlink(missing_ok=True)
        found = recover(self._home)
        self._notices = found.notices
        self._memory = MemoryStore(found.snapshot.contents)
        self._seen_at = found.snapshot.seen_at
        self._tallies = {job_id: Tally.from_json(values) for job_id, values in found.snapshot.tallies.items()}
        for write in found.writes:
            self._apply(write)
        self._sequence = found.sequence
        self._fold_at = max(self._fold_bytes, found.snapshot.size)
        try:
            self._journal = Journal(self._home / JOURNAL, found.journal_end)
            if found.sequence == 0:
                self._take_over(with_watermarks=found.is_new)
            if found.is_patched:
                # Twice: the generation to fall back to must be one that needs nothing of what was set aside.
                self._fold()
                self._fold()
            elif self._journal.end > LATE * self._fold_at:
                self._fold()
        except OSError as error:
            raise StoreUnavailable(
                f"{self._home} cannot be written: {error.strerror}. Check its owner and the space on the disk."
            ) from error
        known = {job.job_id for job in self._memory.load(None).jobs} | self._tallies.keys()
        self._stale_jobs |= known
        self._is_stale = bool(known)

    def _take_over(self, *, with_watermarks: bool) -> None:
        """Start from the files for people that a predecessor left."""
        for place in sorted(path.parent for path in self.folder.glob(f"*/{STATE_FILE}")):
            if pipeline_of(self.folder, place.name) is not None:
                self._tallies[place.name] = read_tally(place)
        path = self._home / WATERMARKS
        content = read_if_there(path) if with_watermarks else None
        if content is not None:
            try:
                jobs = read_watermarks(content)
            except ValueError as error:
                aside = set_aside(path)
                self._notices.append(
                    f"{path} was set aside as {aside.name}: {error}. Every job starts as new, without catch-up."
                )
            else:
                self._perform(Batch(by=WATERMARKS, jobs=jobs))
        if self._tallies:
            self._fold()

    def _fold_if_possible(self) -> None:
        """Continue the snapshot, or begin one if it is due: each write does a small part."""
        try:
            if self._folding is None:
                self._folding = self._begin_fold()
            if self._folding.go_on():
                self._end_fold(self._folding)
        except OSError:
            # Every write is in the journal, so a full disk costs nothing yet but time at the next start.
            self._drop_fold()
            self._fold_at = self._journal.end + self._fold_bytes

    def _fold(self) -> None:
        """Write the whole snapshot at once."""
        self._drop_fold()
        self._folding = self._begin_fold()
        try:
            while not self._folding.go_on():
                pass
            self._end_fold(self._folding)
        except OSError:
            self._drop_fold()
            raise

    def _begin_fold(self) -> Fold:
        tallies = {job_id: tally.to_json() for job_id, tally in self._tallies.items()}
        known = {"seq": self._sequence, "seen_at": self._seen_at, "tallies": tallies}
        return Fold(self._home / SNAPSHOT, known, self._memory.contents(), self._journal.end)

    def _end_fold(self, fold: Fold) -> None:
        """What was written down becomes the present generation; the present one becomes the previous."""
        path = fold.path
        if path.exists():
            link = path.with_name(f"{path.name}.tmp-link")
            link.unlink(missing_ok=True)
            os.link(path, link)  # so that at no moment there is no present snapshot
            os.replace(link, path.with_name(path.name + PREVIOUS))
        os.replace(fold.draft, path)
        sync_folder(self._home)
        self._journal.rotate(self._home / (JOURNAL + PREVIOUS), fold.journal_end)
        self._fold_at = max(self._fold_bytes, fold.size)
        self._folding = None

    def _drop_fold(self) -> None:
        if self._folding is not None:
            self._folding.give_up()
            self._folding = None

    # The files for people

    def _write_watermarks(self, now: Instant) -> None:
        if self._is_stale:
            snapshot = self._memory.load()
            write_atomically(self._home / WATERMARKS, watermark_file(snapshot.jobs, snapshot.floors, now))
            self._is_stale = False

    def _write_states(self, now: Instant) -> None:
        places = {job_id: pipeline_of(self.folder, job_id) for job_id in sorted(self._stale_jobs)}
        if any(places.values()):
            snapshot = self._memory.load()
            jobs = {job.job_id: job for job in snapshot.jobs}
            open_runs: dict[str, list[LedgerRow]] = {}
            for row in snapshot.open_runs:
                open_runs.setdefault(row.key.job_id, []).append(row)
        for job_id, place in places.items():
            if place is not None:
                known = (jobs.get(job_id), open_runs.get(job_id, []), self._tallies.get(job_id, Tally()))
                due = self._next_runs.get(job_id, 0)
                write_atomically(place / STATE_FILE, state_file(job_id, *known, due if due > now else None))
            self._stale_jobs.discard(job_id)

    def _let_go(self) -> None:
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None


def _own(home: Path) -> int:
    """Own the folder until the descriptor is closed; the kernel releases it when this process ends."""
    try:
        home.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        home.mkdir(mode=FOLDER_MODE, exist_ok=True)
        home.chmod(FOLDER_MODE)
        fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreUnavailable(
            f"the folder {home} cannot be used: {error.strerror}. Check its owner and the disk."
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise SchedulerLockError(
            f"another process is using the ledger in {home}. Stop it, or use its API instead of its files."
        ) from error
    return fd
