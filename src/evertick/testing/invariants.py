"""Checks the invariants after every write to the ledger and at every launch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from evertick.model.facts import read_facts
from evertick.model.instant import Instant, to_text
from evertick.model.job import After
from evertick.model.ledger import Batch, Claim, Committed, JobRecord, ScheduleLine, bucket_of
from evertick.model.lifecycle import ACTIVE, PLANNED, TERMINAL, WAITING, Trigger
from evertick.model.run import Change, LedgerRow, RunKey
from evertick.planning.schedules import next_of
from evertick.planning.verify import Coverage, stretches, uncovered, watermark_of


class Violation(AssertionError):
    """An invariant was violated."""


class LedgerWatch:
    """Observes every write to the ledger.

    It keeps its own account of what was asked for and compares it with what the store has: the watermark is never
    ahead of the entries, nothing is decided twice, what has ended stays as it is, and no fence goes back.
    """

    def __init__(
        self,
        line: Callable[[RunKey], LedgerRow | None],
        queue_limit: int | None = None,
        is_queued: Callable[[str], bool] = lambda _job_id: False,
        rivals: Mapping[str, int] | None = None,
        chained: Mapping[str, After] | None = None,
    ) -> None:
        self._line = line
        self._chained = chained or {}
        self._queue_limit = queue_limit
        self._is_queued = is_queued
        self._rivals = rivals or {}
        """The priority of each job whose waiting runs need nothing but a place in the queue."""
        self._in_queue: set[RunKey] = set()
        self.on_end: Callable[[LedgerRow], None] = lambda _row: None
        self.rows: dict[RunKey, LedgerRow] = {}
        self._by_job: defaultdict[str, dict[Instant, LedgerRow]] = defaultdict(dict)
        self._gaps: defaultdict[str, list[tuple[Instant, Instant]]] = defaultdict(list)
        self._lines: defaultdict[str, list[ScheduleLine]] = defaultdict(list)
        self._records: dict[str, JobRecord] = {}
        self._floors: dict[int, Instant] = {}
        self._jobs_of: defaultdict[int, dict[str, None]] = defaultdict(dict)
        self._checked: dict[str, Instant] = {}
        self._next_due: dict[str, Instant | None] = {}

    # What is written

    def committed(self, batch: Batch, result: Committed) -> None:
        """A batch was written in one transaction: look at all it touched."""
        for claim in batch.claims:
            self._check_turns(claim, result)
        withdrawn = set(batch.withdrawn)
        for key in batch.withdrawn:
            row = self._line(key)
            # Withdrawn and entered anew by the same batch: a pause and a resume in one breath.
            if key in self.rows and (row is None or row.decided_by == batch.by != self.rows[key].decided_by):
                self._note_withdrawn(key)
        for entry in batch.entries:
            self._note_entry(entry.key, entry.key in result.refused, batch.by)
        touched = {change.key: None for change in batch.changes}
        for key in touched:
            if key not in withdrawn:
                self._note_change(key)
        self._note_planning(batch)

    def _check_turns(self, claim: Claim, result: Committed) -> None:
        """A place in a queue goes to the highest priority that waits, on whichever node; asked before it is noted."""
        waiting = {
            row.key.job_id
            for row in self.rows.values()
            if row.state is WAITING and row.key.job_id in self._rivals and not self._is_held(row.key.job_id)
        }
        busy = {key.job_id for key in (*self._in_queue, *claim.keys)}
        taken = len(self._in_queue)
        for key in claim.keys:
            if key in result.crowded or key in self._in_queue or key not in self.rows:
                continue
            taken += 1
            mine = self._rivals.get(key.job_id, claim.priorities.get(key.job_id, 0))
            first = sorted(one for one in waiting - busy if self._rivals[one] > mine)
            if first and taken + len(first) > claim.limit and key not in claim.insisting:
                raise Violation(f"{key.run_id} got a place in the queue, and {first[0]} of a higher priority waits")

    def _is_held(self, job_id: str) -> bool:
        record = self._records.get(job_id)
        return record is not None and record.held

    def recorded(self, changes: Sequence[Change], refused: Collection[RunKey]) -> None:
        for key in dict.fromkeys(change.key for change in changes):
            self._note_change(key, must_stay=key in refused and sum(change.key == key for change in changes) == 1)

    def _note_withdrawn(self, key: RunKey) -> None:
        row = self.rows.pop(key)
        if row.state is not PLANNED:
            raise Violation(f"{key.run_id} was withdrawn although it was {row.state}")
        if not key.origin:
            del self._by_job[key.job_id][key.scheduled_for]

    def _note_entry(self, key: RunKey, is_refused: bool, by: str) -> None:
        row, before = self._line(key), self.rows.get(key)
        if is_refused:
            if before is not None and row != before:
                raise Violation(f"{key.run_id} was refused, and yet its line changed")
            return
        if row is None:
            raise Violation(f"{key.run_id} was committed and is not in the ledger")
        if before is not None:
            if before.decided_by != by or row.decided_by != by:
                raise Violation(f"{key.run_id} was decided twice: by {before.decided_by}, and by {by}")
            self._note_change(key)
            return
        if not key.origin:
            self._refuse_overlapping(row)
            self._by_job[key.job_id][key.scheduled_for] = row
        self.rows[key] = row
        if row.trigger is Trigger.CHAINED:
            self._check_parents(row)
        if row.trigger is Trigger.ITEM:
            self._check_item(row)

    def _check_parents(self, row: LedgerRow) -> None:
        """What runs after other jobs runs because of ends that the ledger has, and that count for it."""
        after = self._chained.get(row.key.job_id)
        for parent in read_facts(row.facts).parents:
            before = self.rows.get(RunKey.from_run_id(parent.run))
            if before is None or not (after or After(())).counts(before.state):
                said = "is not in the ledger" if before is None else f"is {before.state}"
                raise Violation(f"{row.key.run_id} runs after the end of {parent.run}, which {said}")

    def _check_item(self, row: LedgerRow) -> None:
        """An item belongs to one run of its job, which the ledger has, and which is no item itself."""
        parents = read_facts(row.facts).parents
        found = [self.rows.get(RunKey.from_run_id(parent.run)) for parent in parents]
        if len(found) != 1 or found[0] is None or found[0].trigger is Trigger.ITEM:
            raise Violation(f"{row.key.run_id} is an item of {', '.join(one.run for one in parents)}, which is no run")
        if found[0].key.job_id != row.key.job_id:
            raise Violation(f"{row.key.run_id} is an item of a run of {found[0].key.job_id}")

    def _refuse_overlapping(self, row: LedgerRow) -> None:
        job_id, at = row.key.job_id, row.key.scheduled_for
        for first, through in self._gaps[job_id]:
            if first <= (row.through or at) and at <= through:
                raise Violation(f"{row.key.run_id} was decided twice: it is inside the gap from {to_text(first)} too")
        if row.through is None:
            return
        for instant in self._by_job[job_id]:
            if at <= instant <= row.through:
                raise Violation(
                    f"{job_id}: {to_text(instant)} was decided twice, by itself and inside {row.key.run_id}"
                )
        self._gaps[job_id].append((at, row.through))

    def _note_change(self, key: RunKey, *, must_stay: bool = False) -> None:
        row, before = self._line(key), self.rows.get(key)
        if before is None or row == before:
            return
        if row is None:
            raise Violation(f"{key.run_id} was {before.state} and is not in the ledger any more")
        if before.state in TERMINAL:
            raise Violation(f"{key.run_id} had ended as {before.state} and was changed to {row.state}")
        if row.fence < before.fence:
            raise Violation(f"{key.run_id}: a change with the fence {row.fence} went over {before.fence}")
        if must_stay:
            raise Violation(f"{key.run_id}: its change was refused, and yet it became {row.state}")
        if row.decided_by != before.decided_by:
            raise Violation(f"{key.run_id} was decided twice: by {before.decided_by}, and by {row.decided_by}")
        self.rows[key] = row
        if row.state in TERMINAL:
            self.on_end(row)
        if not key.origin:
            self._by_job[key.job_id][key.scheduled_for] = row
        if self._queue_limit is not None and self._is_queued(key.job_id):
            self._note_place(row, self._queue_limit)

    def _note_place(self, row: LedgerRow, limit: int) -> None:
        """No more runs of a queue are active than its limit, on all nodes together."""
        if row.state not in ACTIVE or row.trigger is Trigger.ITEM:
            self._in_queue.discard(row.key)
            return
        self._in_queue.add(row.key)
        if len(self._in_queue) > limit:
            names = ", ".join(sorted(key.run_id for key in self._in_queue))
            raise Violation(f"{len(self._in_queue)} runs are active in a queue of {limit}: {names}")

    # How far planning has come

    def _note_planning(self, batch: Batch) -> None:
        changed: dict[str, None] = {}
        for line in batch.schedules:
            self._note_schedule(line)
            changed[line.job_id] = None
        for job in batch.jobs:
            known = self._records.get(job.job_id)
            watermark = job.watermark if known is None else max(known.watermark, job.watermark)
            self._records[job.job_id] = job._replace(watermark=watermark)
            self._jobs_of[bucket_of(job.job_id)][job.job_id] = None
            changed[job.job_id] = None
        for job_id, watermark in batch.rewinds.items():
            if job_id in self._records:
                self._records[job_id] = self._records[job_id]._replace(watermark=watermark)
                self._checked[job_id] = min(watermark, self._checked.get(job_id, watermark))
                self._next_due.pop(job_id, None)
                changed[job_id] = None
        for bucket, jobs in self._jobs_of.items():
            floor = batch.floors.get(bucket, 0)
            if floor > self._floors.get(bucket, 0):
                self._floors[bucket] = floor
                changed.update(jobs)
        for job_id in changed:
            self._check_covered(job_id)

    def _note_schedule(self, line: ScheduleLine) -> None:
        lines = self._lines[line.job_id]
        if line in lines:
            return  # a call that is repeated
        if lines and line.since < lines[-1].since and line.specs != lines[-1].specs:
            raise Violation(
                f"{line.job_id}: a schedule from {to_text(line.since)} was put before the one from "
                f"{to_text(lines[-1].since)}, which would stay in force"
            )
        self._lines[line.job_id] = sorted([*(one for one in lines if one.since != line.since), line])
        self._checked[line.job_id] = min(line.since, self._checked.get(line.job_id, line.since))
        self._next_due.pop(line.job_id, None)

    def _check_covered(self, job_id: str) -> None:
        """Every occurrence up to the watermark is in the ledger, at this very commit."""
        record, lines = self._records.get(job_id), self._lines[job_id]
        if record is None or not lines:
            return
        watermark = watermark_of(record, self._floors)
        checked = self._checked.get(job_id, lines[0].since)
        if watermark <= checked:
            return
        due = self._next_due.get(job_id, 0)
        if due is not None and due <= watermark:
            cover = Coverage(sorted(self._by_job[job_id].values(), key=lambda row: row.key))
            for stretch in stretches(lines, watermark):
                if stretch.end > checked:
                    rest = stretch._replace(start=max(stretch.start, checked))
                    if lost := uncovered(job_id, rest, cover):
                        raise Violation(f"the watermark is at {to_text(watermark)}, but {lost[0]}")
                    self._next_due[job_id] = next_of(stretch.schedules, watermark)
        self._checked[job_id] = watermark

    # What is launched

    def launched(self, key: RunKey, *, is_owner: bool) -> None:
        """The loop launches an attempt."""
        row = self._line(key)
        if row is None:
            raise Violation(f"{key.run_id} was launched before it was in the ledger")
        if row.state in TERMINAL and is_owner:
            raise Violation(f"{key.run_id} was launched by its owner after it had ended as {row.state}")

    def has_active(self, job_id: str) -> bool:
        mine = (row for row in self.rows.values() if row.key.job_id == job_id and row.trigger is not Trigger.ITEM)
        return any(row.state in ACTIVE for row in mine)

    def open_rows(self) -> Iterable[LedgerRow]:
        return (row for row in self.rows.values() if row.state not in TERMINAL)

    def record(self, job_id: str) -> JobRecord | None:
        return self._records.get(job_id)

    def watermark(self, job_id: str) -> Instant | None:
        record = self._records.get(job_id)
        return None if record is None else watermark_of(record, self._floors)
