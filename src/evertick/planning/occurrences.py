"""Which jobs are due in a stretch of time, out of very many, without looking at the others.

Jobs with the same schedules form a group, and each group waits at the instant at which it is due next; a heap orders
the instants. What a stretch costs follows the groups that are due in it: neither the jobs in a group nor the groups
that are not due add anything. Ten thousand expressions of one hour share sixty instants, so the heap is small.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from evertick.model.instant import SECOND, Instant
from evertick.model.schedule import AtSpec, CalendarSpec, CronSpec, EverySpec, ScheduleSpec
from evertick.planning.schedules import At, CronSchedule, Schedule, compile_occurrences, next_of, uses_name

DUE_MAX = 100_000
"""Entries handed out at once: a year of a job that is due every second must not fill the memory."""
_STALE_MIN = 64  # below this many left-overs a new agenda is not worth its cost


class Due(NamedTuple):
    """The jobs of one group at one instant; groups that share an instant have an entry each."""

    instant: Instant
    members: Sequence[str]
    """Job ids in the order they were added; one object for all entries of a group, and never changed."""


class _Group:
    """The jobs that share their schedules."""

    __slots__ = ("_snapshot", "cron", "engines", "key", "members", "next_at", "number")

    def __init__(self, key: _Key, engines: tuple[Schedule, ...], number: int) -> None:
        self.key = key
        self.engines = engines
        self.cron = engines[0].cron if len(engines) == 1 and isinstance(engines[0], CronSchedule) else None
        """The only schedule, if it is a cron expression, as nearly all are: asked without a detour."""
        self.members: tuple[str, ...] | dict[str, None] = ()
        """Job ids; a dict from the second one on, because most groups of a million one-offs have one."""
        self.next_at: Instant | None = None
        """The first occurrence after the horizon; None: there is none, and the group is not on the agenda."""
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
_number_of = attrgetter("number")
_due_of = partial(tuple.__new__, Due)
"""A `Due` of a pair, without the call of Python code that a named tuple makes."""


class _Agenda:
    """Which groups are due at which instant, the instants in order."""

    __slots__ = ("_groups_at", "_instants", "stale")

    def __init__(self) -> None:
        self.stale = 0
        """Groups in it that have lost their last member."""
        self._instants: list[Instant] = []
        """A heap; each once."""
        self._groups_at: dict[Instant, _Group | list[_Group]] = {}
        """A list from the second group on, because a million one-offs have an instant each."""

    def first(self) -> Instant | None:
        return self._instants[0] if self._instants else None

    def add(self, instant: Instant, group: _Group) -> None:
        there = self._groups_at.get(instant)
        if there is None:
            self._groups_at[instant] = group
            heappush(self._instants, instant)
        elif isinstance(there, list):
            there.append(group)
        else:
            self._groups_at[instant] = [there, group]

    def take_first(self) -> list[_Group]:
        """The groups of the first instant in the order they were formed, without those that lost all members."""
        there = self._groups_at.pop(heappop(self._instants))
        placed = there if isinstance(there, list) else (there,)
        groups = [group for group in placed if group.members]
        self.stale -= len(placed) - len(groups)
        groups.sort(key=_number_of)
        return groups

    def has_members(self, instant: Instant) -> bool:
        """Whether one of the groups of an instant still has a member."""
        there = self._groups_at[instant]
        return any(group.members for group in there) if isinstance(there, list) else bool(there.members)

    def groups(self, until: Instant | None = None) -> Iterator[_Group]:
        """The groups that are due up to and including an instant, or all, in any order; stale ones too."""
        for instant, there in self._groups_at.items():
            if until is None or instant <= until:
                yield from there if isinstance(there, list) else (there,)


class OccurrenceIndex:
    """The occurrences of all registered jobs, handed out once each and in order."""

    def __init__(self, horizon: Instant) -> None:
        self._horizon = horizon
        self._group_of: dict[str, _Group] = {}
        self._groups: dict[_Key, _Group] = {}
        self._agenda = _Agenda()
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
        agenda = self._agenda
        while (first := agenda.first()) is not None and not agenda.has_members(first):
            agenda.take_first()
        return first

    def advance(self, until: Instant, limit: int = DUE_MAX) -> list[Due]:
        """What is due after the horizon, up to and including `until`, in order; the horizon moves along.

        Beyond `limit` entries it stops at the end of an instant: the horizon then says how far it came, and
        the next call goes on from there. A time before the horizon was handed out already and yields nothing.
        """
        due: list[Due] = []
        agenda = self._agenda
        while (instant := agenda.first()) is not None and instant <= until:
            if due and len(due) >= limit:
                self._horizon = due[-1].instant
                return due
            groups = agenda.take_first()
            due += _dues(instant, groups)
            for group, following in zip(groups, _followings(groups, instant), strict=True):
                group.next_at = following
                if following is not None:
                    agenda.add(following, group)
        self._horizon = max(self._horizon, until)
        return due

    def skip(self, until: Instant) -> list[str]:
        """Pass over what is due up to and including `until`: the jobs that were due meanwhile, each once.

        For a stretch that is settled job by job; however often a job was due in it, it costs one place in the heap.
        """
        passed: list[str] = []
        agenda = self._agenda
        while (instant := agenda.first()) is not None and instant <= until:
            groups = agenda.take_first()
            for group, following in zip(groups, _followings(groups, until), strict=True):
                passed += group.members
                group.next_at = following
                if following is not None:
                    agenda.add(following, group)
        self._horizon = max(self._horizon, until)
        return passed

    def due_between(self, start: Instant, end: Instant, limit: int = DUE_MAX) -> list[Due]:
        """What is due in any window, past or future, for a preview: the horizon stays, nothing is handed out.

        Looks at every group at most once. Beyond `limit` entries it stops at the end of an instant.
        """
        agenda = _Agenda()
        if start < self._horizon:
            groups = list(self._groups.values())
            firsts = _followings(groups, start)
        else:
            # From the horizon on, a group knows the answer for every start before its next occurrence.
            groups = list(self._agenda.groups(end))
            firsts = [_first_after(group, start) for group in groups]
        for group, first in zip(groups, firsts, strict=True):
            if first is not None and first <= end:
                agenda.add(first, group)
        due: list[Due] = []
        while (instant := agenda.first()) is not None and not (due and len(due) >= limit):
            groups = agenda.take_first()
            due += _dues(instant, groups)
            for group, following in zip(groups, _followings(groups, instant), strict=True):
                if following is not None and following <= end:
                    agenda.add(following, group)
        return due

    def _form(self, key: _Key, schedules: tuple[ScheduleSpec, ...]) -> _Group:
        if len(schedules) == 1 and isinstance(only := schedules[0], AtSpec):
            # There may be a million of these, each alone: the short way.
            group = _Group(key, (At(only.instant),), self._formed)
            group.next_at = only.instant if only.instant > self._horizon else None
        else:
            group = _Group(key, compile_occurrences(schedules), self._formed)
            (group.next_at,) = _followings((group,), self._horizon)
        self._groups[key] = group
        self._formed += 1
        if group.next_at is not None:
            self._agenda.add(group.next_at, group)
        return group

    def _leave(self, group: _Group, job_id: str) -> None:
        group.remove(job_id)
        if group.members:
            return
        del self._groups[group.key]
        if group.next_at is not None:
            self._agenda.stale += 1
            self._compact()

    def _compact(self) -> None:
        """Rebuild the agenda once most of it is left over: churn costs little and leaves nothing behind."""
        if self._agenda.stale > max(_STALE_MIN, len(self._groups)):
            self._agenda = _Agenda()
            for group in self._groups.values():
                if group.next_at is not None:
                    self._agenda.add(group.next_at, group)


def _dues(instant: Instant, groups: Sequence[_Group]) -> Iterable[Due]:
    return map(_due_of, zip(repeat(instant), [group.snapshot() for group in groups]))  # endless


def _followings(groups: Sequence[_Group], after: Instant) -> list[Instant | None]:
    """When each group is due next after an instant."""
    found: list[Instant | None] = []
    after_second = after // SECOND
    for group in groups:
        cron = group.cron
        if cron is None:
            found.append(next_of(group.engines, after))
        else:
            second = cron.next_second(after_second)
            found.append(None if second is None else second * SECOND)
    return found


def _first_after(group: _Group, start: Instant) -> Instant | None:
    next_at = group.next_at
    return next_at if next_at is None or next_at > start else _followings((group,), start)[0]


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
