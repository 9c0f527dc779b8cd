"""Which jobs are due in a stretch of time, out of very many, without looking at the others.

Jobs with the same schedules form a group, and each group has one place in a heap ordered by when it is due
next. What a stretch costs follows the groups that are due in it: neither the jobs in a group nor the groups
that are not due add anything.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple, TypeAlias

from evertick.model.instant import Instant
from evertick.model.schedule import AtSpec, CalendarSpec, CronSpec, EverySpec, ScheduleSpec
from evertick.planning.schedules import At, Schedule, compile_occurrences, next_of, uses_name

DUE_MAX = 100_000
"""Entries handed out at once: a year of a job that is due every second must not fill the memory."""
_STALE_MIN = 64  # below this many left-overs the heap is not worth rebuilding


class Due(NamedTuple):
    """The jobs of one group at one instant; groups that share an instant have an entry each."""

    instant: Instant
    members: Sequence[str]
    """Job ids in the order they were added; one object for all entries of a group, and never changed."""


class _Group:
    """The jobs that share their schedules."""

    __slots__ = ("_snapshot", "engines", "key", "members", "next_at", "number")

    def __init__(self, key: _Key, engines: tuple[Schedule, ...], next_at: Instant | None, number: int) -> None:
        self.key = key
        self.engines = engines
        self.members: tuple[str, ...] | dict[str, None] = ()
        """Job ids; a dict from the second one on, because most groups of a million one-offs have one."""
        self.next_at = next_at
        """The first occurrence after the horizon; None: there is none, and the group is not in the heap."""
        self.number = number
        """Groups that share an instant come in the order they were formed."""
        self._snapshot: tuple[str, ...] | None = None

    def add(self, job_id: str) -> None:
        if not self.members:
            self.members = (job_id,)
            return
        if isinstance(self.members, tuple):
            self.members = dict.fromkeys(self.members)
        self.members[job_id] = None
        self._snapshot = None

    def remove(self, job_id: str) -> None:
        if isinstance(self.members, tuple):
            self.members = ()
            return
        del self.members[job_id]
        self._snapshot = None

    def snapshot(self) -> tuple[str, ...]:
        """The members as an immutable value; rebuilt only after a change."""
        if isinstance(self.members, tuple):
            return self.members
        if self._snapshot is None:
            self._snapshot = tuple(self.members)
        return self._snapshot


_Key: TypeAlias = Hashable
"""Equal for schedules that are due at the same instants by the way they are written."""
_Place: TypeAlias = tuple[Instant, int, _Group]


class OccurrenceIndex:
    """The occurrences of all registered jobs, handed out once each and in order."""

    def __init__(self, horizon: Instant) -> None:
        self._horizon = horizon
        self._group_of: dict[str, _Group] = {}
        self._groups: dict[_Key, _Group] = {}
        self._heap: list[_Place] = []
        self._stale = 0  # places in the heap whose group has lost its last member
        self._formed = 0

    @property
    def horizon(self) -> Instant:
        """Everything up to and including this instant has been handed out."""
        return self._horizon

    def __len__(self) -> int:
        return len(self._group_of)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._group_of

    def add(self, job_id: str, schedules: tuple[ScheduleSpec, ...]) -> None:
        """Hand out this job's occurrences after the horizon; a known job takes the new schedules.

        Schedules that cannot be used raise a `DefinitionError` and leave the index as it was.
        """
        key = _key_of(schedules[0]) if len(schedules) == 1 else _key_of_all(schedules)
        old = self._group_of.get(job_id)
        group = self._groups.get(key)
        if group is None:
            group = self._form(key, schedules)
        elif group is old:
            return
        if old is not None:
            self._leave(old, job_id)
        group.add(job_id)
        self._group_of[job_id] = group

    def remove(self, job_id: str) -> None:
        """Hand out nothing more of this job; an unknown one is no error, it has nothing to hand out."""
        group = self._group_of.pop(job_id, None)
        if group is not None:
            self._leave(group, job_id)

    def next_at(self) -> Instant | None:
        """The earliest instant that has not been handed out."""
        self._drop_stale_top()
        return self._heap[0][0] if self._heap else None

    def advance(self, until: Instant, limit: int = DUE_MAX) -> list[Due]:
        """What is due after the horizon, up to and including `until`, in order; the horizon moves along.

        Beyond `limit` entries it stops at the end of an instant: the horizon then says how far it came, and
        the next call goes on from there. A time before the horizon was handed out already and yields nothing.
        """
        due: list[Due] = []
        heap = self._heap
        while heap and heap[0][0] <= until:
            instant, number, group = heap[0]
            if not group.members:
                heappop(heap)
                self._stale -= 1
                continue
            if due and len(due) >= limit and due[-1].instant != instant:
                self._horizon = due[-1].instant
                return due
            due.append(Due(instant, group.snapshot()))
            group.next_at = following = next_of(group.engines, instant)
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, (following, number, group))
        self._horizon = max(self._horizon, until)
        return due

    def skip(self, until: Instant) -> list[str]:
        """Pass over what is due up to and including `until`: the jobs that were due meanwhile, each once.

        For a stretch that is settled job by job; however often a job was due in it, it costs one place in the heap.
        """
        passed: list[str] = []
        heap = self._heap
        while heap and heap[0][0] <= until:
            _, number, group = heap[0]
            if not group.members:
                heappop(heap)
                self._stale -= 1
                continue
            passed += group.members
            group.next_at = following = next_of(group.engines, until)
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, (following, number, group))
        self._horizon = max(self._horizon, until)
        return passed

    def due_between(self, start: Instant, end: Instant, limit: int = DUE_MAX) -> list[Due]:
        """What is due in any window, past or future, for a preview: the horizon stays, nothing is handed out.

        Looks at every group once. Beyond `limit` entries it stops at the end of an instant.
        """
        heap = [
            (first, group.number, group)
            for group in self._groups.values()
            if (first := self._first_after(group, start)) is not None and first <= end
        ]
        heapify(heap)
        due: list[Due] = []
        while heap:
            instant, number, group = heap[0]
            if due and len(due) >= limit and due[-1].instant != instant:
                break
            due.append(Due(instant, group.snapshot()))
            following = next_of(group.engines, instant)
            if following is None or following > end:
                heappop(heap)
            else:
                heapreplace(heap, (following, number, group))
        return due

    def _first_after(self, group: _Group, start: Instant) -> Instant | None:
        # From the horizon on, the group knows the answer for every start before its next occurrence.
        if start >= self._horizon and (group.next_at is None or group.next_at > start):
            return group.next_at
        return next_of(group.engines, start)

    def _form(self, key: _Key, schedules: tuple[ScheduleSpec, ...]) -> _Group:
        engines: tuple[Schedule, ...]
        if len(schedules) == 1 and isinstance(only := schedules[0], AtSpec):
            # There may be a million of these, each alone: the short way.
            engines, next_at = (At(only.instant),), only.instant if only.instant > self._horizon else None
        else:
            engines = compile_occurrences(schedules)
            next_at = next_of(engines, self._horizon)
        group = self._groups[key] = _Group(key, engines, next_at, self._formed)
        self._formed += 1
        if next_at is not None:
            heappush(self._heap, (next_at, group.number, group))
        return group

    def _leave(self, group: _Group, job_id: str) -> None:
        group.remove(job_id)
        if group.members:
            return
        del self._groups[group.key]
        if group.next_at is not None:
            self._stale += 1
            self._compact()

    def _drop_stale_top(self) -> None:
        while self._heap and not self._heap[0][2].members:
            heappop(self._heap)
            self._stale -= 1

    def _compact(self) -> None:
        """Rebuild the heap once most of it is left over: churn costs little and leaves nothing behind."""
        if self._stale > _STALE_MIN and 2 * self._stale > len(self._heap):
            self._heap = [place for place in self._heap if place[2].members]
            heapify(self._heap)
            self._stale = 0


def _key_of_all(schedules: tuple[ScheduleSpec, ...]) -> _Key:
    """The same in any order, and with a schedule written twice."""
    keys = frozenset(map(_key_of, schedules))
    return next(iter(keys)) if len(keys) == 1 else keys


def _key_of(spec: ScheduleSpec) -> _Key:
    """The same for the same schedule, whatever the job is called; plain values, which are quick to look up."""
    if isinstance(spec, AtSpec):
        return spec.instant
    match spec:
        case CronSpec(text, timezone, name):
            return (text, timezone, name) if name and uses_name(text) else (text, timezone)
        case EverySpec(period_us):
            return ("every", period_us)
        case CalendarSpec(schedule, rule, timezone):
            return (_key_of(schedule), rule, timezone)
