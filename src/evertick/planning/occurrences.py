"""Which jobs are due in a stretch of time, out of very many, without looking at the others.

Jobs with the same schedules form a group, and each group waits at the instant at which it is due next; a heap orders
the instants. What a stretch costs follows the groups that are due in it: neither the jobs in a group nor the groups
that are not due add anything. Ten thousand expressions of one hour share sixty instants, so the heap is small.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple

from evertick.model.instant import SECOND, Instant
from evertick.model.schedule import AtSpec, ScheduleSpec
from evertick.planning.cron import Cron, Window
from evertick.planning.schedules import At, CronSchedule, Schedule, compile_occurrences, key_of, next_of

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

    __slots__ = ("_snapshot", "cron", "engines", "key", "members", "next_at", "number", "window")

    def __init__(self, key: Hashable, engines: tuple[Schedule, ...], number: int) -> None:
        self.key = key
        self.engines = engines
        self.cron: Cron | None = engines[0].cron if len(engines) == 1 and isinstance(engines[0], CronSchedule) else None
        """The only schedule, if it is a cron expression, as nearly all are: asked without a detour."""
        self.members: tuple[str, ...] | dict[str, None] = ()
        """Job ids; a dict from the second one on, because most groups of a million one-offs have one."""
        self.next_at: Instant | None = None
        """The first occurrence after the horizon; None: there is none, and the group is not on the agenda."""
        self.number = number
        """Groups that share an instant come in the order they were formed."""
        self.window = _NO_WINDOW
        """Where the next occurrences are; one object for all groups that have the same times on the same day."""
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


_number_of = attrgetter("number")
_NO_WINDOW: Window = (0, 0, 0, ())
_WINDOWS_MAX = 4_096
"""Kept to be shared; those of a day that has passed are dropped in time."""
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
        groups = placed = there if isinstance(there, list) else [there]
        if self.stale:
            groups = [group for group in placed if group.members]
            self.stale -= len(placed) - len(groups)
        groups.sort(key=_number_of)
        return groups

    def add_all(self, instants: Iterable[Instant | None], groups: Iterable[_Group]) -> None:
        """Each group at its instant; those without one are left out."""
        groups_at = self._groups_at
        for instant, group in zip(instants, groups, strict=True):
            if instant is None:
                continue
            # As in `add`, which would be a call for each: among very many groups, others wait at that instant already.
            there = groups_at.get(instant)
            if isinstance(there, list):
                there.append(group)
            else:
                self.add(instant, group)

    def between(self, start: Instant, end: Instant) -> _Agenda:
        """A copy of what is on it after an instant, up to and including another."""
        copy = _Agenda()
        copy._groups_at = {
            instant: list(there) if isinstance(there, list) else there
            for instant, there in self._groups_at.items()
            if start < instant <= end
        }
        copy._instants = sorted(copy._groups_at)  # a sorted list is a heap
        copy.stale = self.stale  # at most
        return copy

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
        self._groups: dict[Hashable, _Group] = {}
        self._agenda = _Agenda()
        self._formed = 0
        self._windows: dict[tuple[int, ...], Window] = {}

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
        key = key_of(schedules)
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
            self._move(groups, instant)
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
            for group in groups:
                passed += group.members
            self._move(groups, until)
        self._horizon = max(self._horizon, until)
        return passed

    def due_between(self, start: Instant, end: Instant, limit: int = DUE_MAX) -> list[Due]:
        """What is due in any window, past or future, for a preview: the horizon stays, nothing is handed out.

        Looks at every group at most once. Beyond `limit` entries it stops at the end of an instant.
        """
        if start < self._horizon:
            agenda = _Agenda()
            groups = list(self._groups.values())
        else:
            # From the horizon on, a group knows the answer for every start before its next occurrence.
            agenda = self._agenda.between(start, end)
            groups = list(self._agenda.groups(start))
        agenda.add_all(_up_to(end, self._followings(groups, start)), groups)
        due: list[Due] = []
        while (instant := agenda.first()) is not None and not (due and len(due) >= limit):
            groups = agenda.take_first()
            due += _dues(instant, groups)
            agenda.add_all(_up_to(end, self._followings(groups, instant)), groups)
        return due

    def _move(self, groups: Sequence[_Group], after: Instant) -> None:
        """Place groups that were taken from the agenda at their next occurrence after an instant."""
        followings = self._followings(groups, after)
        for group, following in zip(groups, followings, strict=True):
            group.next_at = following
        self._agenda.add_all(followings, groups)

    def _followings(self, groups: Iterable[_Group], after: Instant) -> list[Instant | None]:
        """When each group is due next after an instant.

        Ten thousand groups do not fit the processor's cache. So neighbours that share their window are answered by one
        search, and nothing of them is read but the window's address.
        """
        found: list[Instant | None] = []
        after_second = after // SECOND
        last: Window | None = None
        following = 0
        for group in groups:
            window = group.window
            if window is not last:
                low, high, base, table = window
                if not low <= after_second < high:
                    found.append(self._following(group, after))
                    continue
                last = window
                following = (base + table[bisect_right(table, after_second - base)]) * SECOND
            found.append(following)
        return found

    def _following(self, group: _Group, after: Instant) -> Instant | None:
        cron = group.cron
        if cron is None:
            return next_of(group.engines, after)
        second = cron.next_second(after // SECOND)
        group.window = self._shared(cron.window)
        return None if second is None else second * SECOND

    def _shared(self, window: Window) -> Window:
        """That window, or an equal one that another group has."""
        low, high, base, table = window
        if low == high:
            return _NO_WINDOW
        if len(self._windows) >= _WINDOWS_MAX:
            self._windows.clear()
        # Hashing a whole table would take too long. Of two different tables with the same key, only one is shared.
        kept = self._windows.setdefault((low, high, base, len(table), table[0]), window)
        return kept if kept[3] is table else window

    def _form(self, key: Hashable, schedules: tuple[ScheduleSpec, ...]) -> _Group:
        if len(schedules) == 1 and isinstance(only := schedules[0], AtSpec):
            # There may be a million of these, each alone: the short way.
            group = _Group(key, (At(only.instant),), self._formed)
            group.next_at = only.instant if only.instant > self._horizon else None
        else:
            group = _Group(key, compile_occurrences(schedules), self._formed)
            (group.next_at,) = self._followings((group,), self._horizon)
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
    # Most groups of ten thousand have one member: those need no call for their snapshot.
    members = [group.members if isinstance(group.members, tuple) else group.snapshot() for group in groups]
    return map(_due_of, zip(repeat(instant), members))  # endless


def _up_to(end: Instant, instants: Iterable[Instant | None]) -> list[Instant | None]:
    """None in place of those that are later."""
    return [None if instant is None or instant > end else instant for instant in instants]
