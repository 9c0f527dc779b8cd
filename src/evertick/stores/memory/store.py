"""A ledger that lives as long as its process: the reference that every other store is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

from evertick.errors import Fenced, GapRefused
from evertick.model.instant import Instant
from evertick.model.ledger import BUCKETS, STORED_JOBS, Claim, bucket_lease, bucket_of
from evertick.model.lifecycle import ACTIVE, ENDED, OPEN, PLANNED, SKIPPED, TERMINAL, WAITING, Trigger
from evertick.model.run import Change, Entry, LedgerRow, RunKey, newest_first
from evertick.store import (
    Batch,
    Capabilities,
    Committed,
    DefinitionLine,
    JobRecord,
    Lease,
    Page,
    Request,
    RunFilter,
    ScheduleLine,
    Snapshot,
    Tally,
    WrongCount,
)
from evertick.stores.hour_counts import (
    Cells,
    HourCounts,
    HourKind,
    count_rows,
    hour_kind,
    outcomes_of_job,
    wrong_counts,
)
from evertick.stores.memory.index import Place, TimeIndex, place_of
from evertick.stores.memory.lines import changed, ends_at, line_of, matches, stands
from evertick.stores.memory.tally import tally

_bucket_of = lru_cache(maxsize=1 << 17)(bucket_of)
_by_time = attrgetter("key.scheduled_for", "key.job_id", "key.origin")
_by_age = attrgetter("submitted_at", "id")

HANDFUL = 1_000
"""A read takes at most this many lines before it lets a writer in."""


class Contents(NamedTuple):
    """The whole ledger as values, which the files store writes to disk."""

    rows: Sequence[LedgerRow] = ()
    jobs: Sequence[JobRecord] = ()
    floors: Mapping[int, Instant] = MappingProxyType({})
    schedules: Sequence[ScheduleLine] = ()
    leases: Sequence[Lease] = ()
    requests: Sequence[Request] = ()
    counters: Mapping[str, int] = MappingProxyType({})
    definitions: Sequence[DefinitionLine] = ()
    stored_jobs: Mapping[str, str] = MappingProxyType({})
    blackouts: Mapping[str, str] = MappingProxyType({})


class MemoryStore:
    def __init__(self, contents: Contents = Contents()) -> None:  # noqa: B008  # a value, never changed
        self._lock = Lock()  # other threads may query
        self._pause: Callable[[], None] = lambda: None
        self._rows: dict[RunKey, LedgerRow] = {}
        self._places = TimeIndex()
        self._open: list[set[RunKey]] = [set() for _ in range(BUCKETS)]
        self._jobs = {job.job_id: job for job in contents.jobs}
        self._floors = dict(contents.floors)
        self._schedules: dict[str, dict[Instant, ScheduleLine]] = {}
        self._definitions: dict[str, dict[str, DefinitionLine]] = {}
        self._stored_jobs = dict(contents.stored_jobs)
        self._blackouts = dict(contents.blackouts)
        self._leases = {lease.name: lease for lease in contents.leases}
        self._requests: dict[str, Request] = {}
        self._unanswered: set[str] = set()
        self._counters: Counter[str] = Counter(contents.counters)
        self._hours = HourCounts()
        for row in contents.rows:
            self._keep(row)
        for line in contents.schedules:
            self._schedules.setdefault(line.job_id, {})[line.since] = line
        for told in contents.definitions:
            self._definitions.setdefault(told.job_id, {})[told.digest] = told
        for request in contents.requests:
            self._submit(request)

    def contents(self) -> Contents:
        with self._lock:
            return Contents(
                rows=tuple(self._rows.values()),
                jobs=tuple(self._jobs.values()),
                floors=dict(self._floors),
                schedules=tuple(line for lines in self._schedules.values() for line in lines.values()),
                leases=tuple(self._leases.values()),
                requests=tuple(self._requests.values()),
                counters=dict(self._counters),
                definitions=tuple(line for lines in self._definitions.values() for line in lines.values()),
                stored_jobs=dict(self._stored_jobs),
                blackouts=dict(self._blackouts),
            )

    def line(self, key: RunKey) -> LedgerRow | None:
        """The line of a run, if there is one."""
        return self._rows.get(key)

    # Scheduling

    def load(self, buckets: Collection[int] | None = None) -> Snapshot:
        wanted = frozenset(range(BUCKETS) if buckets is None else buckets)
        with self._lock:
            open_runs = [self._rows[key] for bucket in wanted for key in self._open[bucket]]
            jobs = [job for job in self._jobs.values() if buckets is None or _bucket_of(job.job_id) in wanted]
            floors = {bucket: floor for bucket, floor in self._floors.items() if bucket in wanted}
        return Snapshot(jobs=jobs, open_runs=sorted(open_runs, key=_by_time), floors=floors)

    def check_epochs(self, epochs: Mapping[int, int]) -> None:
        """Raise `Fenced` unless every one of these epochs is still its lease's."""
        lost = [bucket for bucket, epoch in epochs.items() if self._epoch_of(bucket_lease(bucket)) != epoch]
        if lost:
            raise Fenced(tuple(sorted(lost)))

    def check_gaps(self, batch: Batch) -> None:
        """Refuse a batch with a gap around existing lines that it does not withdraw."""
        gaps = [entry for entry in batch.entries if entry.is_gap and not entry.key.origin]
        if not gaps:
            return
        withdrawn = [row for key in batch.withdrawn if (row := self._rows.get(key)) and row.state is PLANNED]
        for row in withdrawn:
            self._remove(row.key)
        try:
            refused = [gap.key for gap in gaps if not self._is_free(gap, batch.by)]
        finally:
            for row in withdrawn:
                self._keep(row)
        if refused:
            raise GapRefused(frozenset(refused))

    def _is_free(self, entry: Entry, by: str) -> bool:
        known = self._rows.get(entry.key)
        return known.decided_by == by if known is not None else not self._places.is_taken(entry)

    def commit(self, batch: Batch) -> Committed:
        with self._lock:
            self.check_epochs(batch.epochs)
            self.check_gaps(batch)
            for key in batch.withdrawn:
                self._withdraw(key)
            refused = frozenset([entry.key for entry in batch.entries if not self._enter(entry, batch.by)])
            crowded, outranked = self._crowded(batch.claims)
            changes = [change for change in batch.changes if change.key not in refused | crowded]
            rejected = self._apply(changes)
            last = {change.key: change for change in changes if change.key in rejected}
            overruled = frozenset(key for key, change in last.items() if not stands(change, self._rows.get(key)))
            for job in batch.jobs:
                known = self._jobs.get(job.job_id)
                backward = known is not None and known.watermark > job.watermark
                self._jobs[job.job_id] = job._replace(watermark=known.watermark) if known and backward else job
            for job_id, watermark in batch.rewinds.items():
                if job_id in self._jobs:
                    self._jobs[job_id] = self._jobs[job_id]._replace(watermark=watermark)
            for bucket, floor in batch.floors.items():
                self._floors[bucket] = max(floor, self._floors.get(bucket, floor))
            for line in batch.schedules:
                self._schedules.setdefault(line.job_id, {})[line.since] = line
            for told in batch.definitions:
                known_as = self._definitions.setdefault(told.job_id, {})
                since = max(told.since, known_as[told.digest].since) if told.digest in known_as else told.since
                known_as[told.digest] = told._replace(since=since)
            for job_id, text in batch.stored_jobs:
                self._counters[STORED_JOBS] += 1
                if text is None:
                    self._stored_jobs.pop(job_id, None)
                else:
                    self._stored_jobs[job_id] = text
            for blackout_id, said in batch.blackouts:
                if said is None:
                    self._blackouts.pop(blackout_id, None)
                else:
                    self._blackouts[blackout_id] = said
            for request in batch.requests_without(refused | crowded | overruled):
                self._submit(request)
            for request_id, answer in batch.answers.items():
                self._answer(request_id, answer)
        return Committed(refused, crowded, overruled, outranked)

    def _crowded(self, claims: Sequence[Claim]) -> tuple[frozenset[RunKey], frozenset[RunKey]]:
        found: set[RunKey] = set()
        outranked: set[RunKey] = set()
        for claim in claims:
            mates = frozenset(claim.job_ids)
            keys = (key for bucket in {_bucket_of(job_id) for job_id in mates} for key in self._open[bucket])
            mine = [self._rows[key] for key in keys if key.job_id in mates]
            active = {row.key for row in mine if row.state in ACTIVE and row.trigger is not Trigger.ITEM}
            waiting = {row.key for row in mine if row.state is WAITING and row.key.job_id in claim.priorities}
            waiting = {key for key in waiting if (job := self._jobs.get(key.job_id)) is None or not job.held}
            found.update(claim.without_place(active, waiting))
            outranked.update(claim.outranked(active, waiting))
        return frozenset(found), frozenset(outranked)

    def record(self, changes: Sequence[Change]) -> frozenset[RunKey]:
        with self._lock:
            return self._apply(changes)

    def claim(self, buckets: Collection[int] | None, limit: int) -> Sequence[Request]:
        with self._lock:
            waiting = [self._requests[request_id] for request_id in self._unanswered]
        if buckets is not None:
            waiting = [request for request in waiting if _bucket_of(request.job_id) in buckets]
        return sorted(waiting, key=_by_age)[:limit]

    def lease(self, names: Collection[str], holder: str, ttl_us: int, now: Instant) -> Sequence[Lease]:
        with self._lock:
            for name in names:
                held = self._leases.get(name)
                if held is None or held.expires_at <= now:
                    if ttl_us > 0:
                        self._leases[name] = Lease(name, holder, self._epoch_of(name) + 1, now + ttl_us)
                elif held.holder == holder:
                    # The epoch stays with a lease that was given up: the next holder's must be newer.
                    self._leases[name] = held.renewed(now + ttl_us) if ttl_us > 0 else held._replace(expires_at=0)
            return sorted(lease for lease in self._leases.values() if lease.expires_at > now)

    # Reading, for people

    def query(self, where: RunFilter, after: RunKey | None = None, limit: int = 100) -> Page:
        if where.states and OPEN.issuperset(where.states):
            return self._open_page(where, after, limit)
        rows: list[LedgerRow] = []
        for row in self._walk(where, None if after is None else place_of(after), min(limit + 1, HANDFUL)):
            if len(rows) == limit:
                return Page(rows, rows[-1].key)
            rows.append(row)
        return Page(rows, None)

    def _open_page(self, where: RunFilter, after: RunKey | None, limit: int) -> Page:
        """A page of open lines, which are few: ended lines are not read."""
        with self._lock:
            found = [self._rows[key] for keys in self._open for key in keys]
        where = replace(where, job_ids=frozenset(where.job_ids))
        rows = sorted((row for row in found if matches(row, where)), key=_by_time, reverse=not where.oldest_first)
        if after is not None:
            mark = place_of(after)
            rows = [
                row for row in rows if (place_of(row.key) > mark if where.oldest_first else place_of(row.key) < mark)
            ]
        return Page(rows[:limit], rows[limit - 1].key if len(rows) > limit else None)

    def _walk(self, where: RunFilter, after: Place | None = None, count: int = HANDFUL) -> Iterator[LedgerRow]:
        """The matching lines, in order. A writer waits for a few of them, not for all."""
        where = replace(where, job_ids=frozenset(where.job_ids))
        while True:
            with self._lock:
                places = self._places.stretch(where, after, count)
                found = [self._rows[RunKey(job_id, at, origin)] for at, job_id, origin in places]
            yield from (row for row in found if matches(row, where))
            if not places:
                return
            self._pause()
            after, count = places[-1], min(4 * count, HANDFUL)

    def schedules(self, job_ids: Collection[str] | None = None) -> Sequence[ScheduleLine]:
        with self._lock:
            known = self._schedules if job_ids is None else self._schedules.keys() & set(job_ids)
            return sorted(line for job_id in known for line in self._schedules[job_id].values())

    def definition(self, job_id: str, digest: str) -> str | None:
        with self._lock:
            found = self._definitions.get(job_id, {}).get(digest)
        return None if found is None else found.text

    def stored_jobs(self) -> Mapping[str, str]:
        with self._lock:
            return dict(self._stored_jobs)

    def blackouts(self) -> Mapping[str, str]:
        with self._lock:
            return dict(self._blackouts)

    def requests(self, ids: Collection[str]) -> Sequence[Request]:
        with self._lock:
            return sorted((self._requests[name] for name in set(ids) if name in self._requests), key=_by_age)

    def newest(
        self, job_ids: Collection[str], count: int = 1, *, with_skips: bool = False
    ) -> Mapping[str, Sequence[LedgerRow]]:
        found: dict[str, list[LedgerRow]] = {}
        states = TERMINAL if with_skips else ENDED
        for job_id in {job_id for job_id in job_ids if job_id in self._jobs}:
            rows: list[LedgerRow] = []
            for row in self._walk(RunFilter(job_ids=[job_id], states=states), count=count + 1):
                # All of one instant: their places do not show which of them is newer.
                if len(rows) >= count and row.key.scheduled_for != rows[-1].key.scheduled_for:
                    break
                rows.append(row)
            if rows:
                found[job_id] = newest_first(rows)[:count]
        return found

    def tally(self, where: RunFilter, width_us: int, *, by_job: bool = False) -> Sequence[Tally]:
        since = where.since
        assert since is not None
        rows = (row for row in self._walk(where) if row.key.scheduled_for >= since)
        return tally(rows, since, width_us, by_job=by_job)

    def outcomes(self, bounds: Sequence[Instant], job_id: str | None = None) -> Sequence[Tally]:
        if job_id is not None:
            return outcomes_of_job(self.tally, bounds, job_id)
        cells = Cells(bounds)
        # First, because it lets writers in: what ends meanwhile is at worst in the cell before its own.
        rests = [
            (bound, row)
            for bound, end in cells.rests()
            for row in self._walk(RunFilter(states=TERMINAL, since=bound, until=end))
            if row.key.scheduled_for >= bound
        ]
        with self._lock:
            for (hour, state, trigger, reason), counts in self._hours.items():
                cells.add_at(hour, (state, trigger, reason), *counts)
            open_runs = [self._rows[key] for keys in self._open for key in keys]
        for bound, row in rests:
            cells.move_rest(bound, _hour_kind(row)[1:], 1, row.occurrences)
        for row in open_runs:
            cells.add_at(row.key.scheduled_for, (row.state, row.trigger, row.reason), 1, row.occurrences)
        return cells.tallies()

    def wrong_counts(self) -> Sequence[WrongCount]:
        with self._lock:
            ended = (row for row in self._rows.values() if row.state in TERMINAL)
            return wrong_counts(self._hours, count_rows((*_hour_kind(row), 1, row.occurrences) for row in ended))

    def counters(self) -> Mapping[str, int]:
        with self._lock:
            return dict(self._counters)

    def pause_reads_with(self, pause: Callable[[], None]) -> None:
        self._pause = pause

    # Keeping house

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def compact(self, before: Mapping[str, Instant], default_before: Instant | None, limit: int) -> int:
        bounds = [*before.values(), *([] if default_before is None else [default_before])]
        if not bounds:
            return 0

        def is_old(row: LedgerRow) -> bool:
            bound = before.get(row.key.job_id, default_before)
            return bound is not None and row.state in TERMINAL and ends_at(row) < bound

        old = list(
            islice(filter(is_old, self._walk(RunFilter(until=max(bounds), oldest_first=True, with_items=True))), limit)
        )
        with self._lock:
            old = [row for row in old if row.key in self._rows]
            for row in old:
                self._remove(row.key)
            for job_id in sorted({row.key.job_id for row in old}):
                bound = before.get(job_id, default_before)
                assert bound is not None
                self._move_up(job_id, bound)
                self._forget_definitions(job_id, bound)
        return len(old)

    def close(self) -> None:
        """There is nothing to release."""

    # The parts of a commit

    def _epoch_of(self, name: str) -> int:
        held = self._leases.get(name)
        return 0 if held is None else held.epoch

    def _enter(self, entry: Entry, by: str) -> bool:
        """Write an entry unless its occurrence was decided before; returns whether it was written."""
        known = self._rows.get(entry.key)
        if known is not None:
            return known.decided_by == by
        if self._places.is_taken(entry):
            return False
        row = line_of(entry, by)
        self._keep(row)
        self._counters[f"entries.{entry.trigger}"] += 1
        if row.state in TERMINAL:
            self._count_end(row)
        return True

    def _keep(self, row: LedgerRow) -> None:
        self._rows[row.key] = row
        self._places.add(row.key, row.through if row.occurrences > 1 else None, row.state)
        if row.state in TERMINAL:
            self._hours.add(_hour_kind(row), 1, row.occurrences)
        else:
            self._open[_bucket_of(row.key.job_id)].add(row.key)

    def _withdraw(self, key: RunKey) -> None:
        row = self._rows.get(key)
        if row is not None and row.state is PLANNED:
            self._remove(key)

    def _remove(self, key: RunKey) -> None:
        row = self._rows.pop(key)
        self._places.remove(key, row.state)
        if row.state in TERMINAL:
            self._hours.add(_hour_kind(row), -1, -row.occurrences)
        self._open[_bucket_of(key.job_id)].discard(key)

    def _apply(self, changes: Iterable[Change]) -> frozenset[RunKey]:
        refused: set[RunKey] = set()
        for change in changes:
            key = change.key
            row = self._rows.get(key)
            if row is None:
                refused.add(key)
            elif row.state in TERMINAL:
                if row.state is change.state and row.fence == change.fence:
                    # A repeat: what led to this end was applied the first time.
                    refused.discard(key)
                else:
                    refused.add(key)
            elif change.fence < row.fence:
                refused.add(key)
            else:
                row = self._rows[key] = changed(row, change)
                if row.state in TERMINAL:
                    self._open[_bucket_of(key.job_id)].discard(key)
                    self._places.end(key, row.state)
                    self._hours.add(_hour_kind(row), 1, row.occurrences)
                    self._count_end(row)
        return frozenset(refused)

    def _count_end(self, row: LedgerRow) -> None:
        if row.trigger is Trigger.ITEM:
            return
        if row.state is SKIPPED:
            self._counters[f"skipped.{row.reason or 'unknown'}"] += row.occurrences
        else:
            self._counters[f"ended.{row.state}"] += 1

    def _submit(self, request: Request) -> None:
        if request.id not in self._requests:
            self._requests[request.id] = request
            if request.answer is None:
                self._unanswered.add(request.id)

    def _answer(self, request_id: str, answer: str) -> None:
        if request_id in self._unanswered:
            self._unanswered.discard(request_id)
            self._requests[request_id] = self._requests[request_id]._replace(answer=answer)

    def _move_up(self, job_id: str, bound: Instant) -> None:
        """Let the job's schedule lines begin no earlier than the bound."""
        lines = self._schedules.get(job_id, {})
        passed = sorted(since for since in lines if since <= bound)
        if passed:
            current = lines[passed[-1]]
            for since in passed:
                del lines[since]
            lines[bound] = current._replace(since=bound)

    def _forget_definitions(self, job_id: str, bound: Instant) -> None:
        """What the job was before the definition in force at the bound: no run that is left names it."""
        told = self._definitions.get(job_id, {})
        passed = sorted((line.since, digest) for digest, line in told.items() if line.since <= bound)
        in_force = self._jobs[job_id].definition if job_id in self._jobs else ""
        for _, digest in passed[:-1]:
            if digest != in_force:  # it is the older one only where a clock was set back
                del told[digest]


def _hour_kind(row: LedgerRow) -> HourKind:
    return hour_kind(row.key.scheduled_for, row.state, row.trigger, row.reason)
