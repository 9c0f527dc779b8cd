"""Which jobs a program has: those that its code defines, and those that it added while it ran and the ledger keeps."""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import ismethod
from typing import Final, Protocol

from evertick.errors import DefinitionError, NotFound
from evertick.executors.function import Function
from evertick.library.definition import JobFunction, read_function
from evertick.library.options import JobFields, JobOptions
from evertick.library.stored_job import (
    StoredDefinition,
    check_stored,
    invalid_job,
    read_stored,
    store_definition,
)
from evertick.model.job import Job
from evertick.model.ledger import StoredJob
from evertick.settings import Settings

log = logging.getLogger("evertick.library")

REMOVED_MAX: Final = 1_000
"""A program may add and remove jobs for months."""


class JobLedger(Protocol):
    """Where jobs are kept that a program added while it ran."""

    def stored_jobs(self) -> Mapping[str, str]: ...
    def store_jobs(self, jobs: Sequence[StoredJob]) -> None: ...


class ForkLock:
    """A lock of this process; a copy of it after a fork may be locked forever."""

    def __init__(self) -> None:
        self._lock = (os.getpid(), threading.RLock())

    def __call__(self) -> threading.RLock:
        if self._lock[0] != os.getpid():
            self._lock = (os.getpid(), threading.RLock())
        return self._lock[1]


@dataclass(frozen=True, slots=True)
class _Known:
    """A job, and what it was defined with."""

    one: JobFunction
    options: JobFields
    isolation: str | None
    stored: StoredDefinition | None = None
    text: str | None = None
    """What the ledger keeps, also where it cannot be read; None: only the code defines the job."""


class JobRegistry:
    """The jobs of code. Functions are added while modules are imported, before and after the scheduler starts."""

    def __init__(self, settings: Settings, on_change: Callable[[Sequence[Job], Sequence[str]], None]) -> None:
        """`on_change` receives the jobs that are new or changed, and the ids of those that were removed."""
        self._settings, self._on_change = settings, on_change
        self._known: dict[str, _Known] = {}
        self._removed: deque[str] = deque(maxlen=REMOVED_MAX)
        self._in_ledger: dict[str, str] = {}
        """What the ledger keeps, by job, as it was read last."""
        self._unsaved: dict[str, bool] = {}
        """Jobs to keep that were added before the ledger was open, and whether each replaces another definition."""
        self._changing = ForkLock()

    def jobs(self) -> Mapping[str, Job]:
        return {job_id: known.one.job for job_id, known in list(self._known.items())}

    def find(self, job_id: str) -> Function | None:
        known = self._known.get(job_id)
        return None if known is None else known.one.function

    def is_removed(self, job_id: str) -> bool:
        """Whether a program has removed a job, which the ledger knows for a while longer."""
        return job_id in self._removed and job_id not in self._known

    @property
    def has_unsaved(self) -> bool:
        """Whether jobs were added that are not in the ledger yet."""
        return bool(self._unsaved)

    def is_only_here(self, job_id: str) -> bool:
        """Whether the program has a job that the ledger does not keep yet, or never."""
        known = self._known.get(job_id)
        return known is not None and (known.text is None or job_id in self._unsaved)

    def define(self, call: Callable[..., object], options: JobFields, isolation: str | None) -> None:
        """A job of the code: a module that is read again defines it again."""
        one = read_function(call, options, self._settings, isolation)
        with self._changing():
            other = self._known.get(one.job.id)
            if other is not None and other.text is None and not _is_same(other.one.function.call, call):
                raise _twin(one, other)
            self._put(_Known(one, options, isolation))

    def add(
        self,
        call: Callable[..., object],
        options: JobFields,
        isolation: str | None,
        *,
        is_stored: bool,
        replaces: bool,
        ledger: JobLedger | None,
    ) -> str:
        """A job of the running program; its id. A ledger that is not open yet keeps it from the start on."""
        one = read_function(call, options, self._settings, isolation)
        job_id = one.job.id
        stored = store_definition(call, one.job, options, isolation) if is_stored else None
        added = _Known(one, options, isolation, stored, None if stored is None else stored.text)
        with self._changing():
            other = self._known.get(job_id)
            if other is not None and not replaces:
                if _is_equal(other, added):
                    return job_id
                raise _other_definition(job_id)
            self._keep(job_id, added.text, ledger, replaces=replaces)
            self._put(added)
        return job_id

    def modify(self, job_id: str, changes: JobOptions, ledger: JobLedger | None) -> None:
        """Define a job again, with some options changed."""
        with self._changing():
            known = self._require(job_id)
            if "name" in changes:
                raise DefinitionError(
                    f"the job '{job_id}': 'name' cannot be changed.",
                    hint="Add a job with the other name, and remove this one.",
                    field="name",
                )
            merged: JobOptions = {**known.options, "name": known.options.get("name") or job_id, **changes}
            isolation = merged.pop("isolation", known.isolation)
            if known.text is None:
                one = read_function(known.one.function.call, merged, self._settings, isolation)
                self._put(_Known(one, merged, isolation))
                return
            if known.stored is None:
                raise DefinitionError(f"the job '{job_id}' cannot be changed: {known.one.job.invalid}.", field="name")
            stored = known.stored.changed(merged, isolation)
            check_stored(stored, self._settings)  # read below, a wrong option would leave a job that cannot run
            one = read_stored(stored, job_id, self._settings)
            self._keep(job_id, stored.text, ledger, replaces=True)
            self._put(_Known(one, merged, isolation, stored, stored.text))

    def remove(self, job_id: str, ledger: JobLedger | None) -> None:
        with self._changing():
            self._require(job_id)
            self._keep(job_id, None, ledger)
            del self._known[job_id]
            self._removed.append(job_id)
            self._on_change((), [job_id])

    def refresh(self, ledger: JobLedger) -> None:
        """Read what the ledger keeps, and let it keep what was added before it was open.

        The ledger is read under the lock: what it held before a change of this process must not undo that.
        """
        with self._changing():
            found = dict(ledger.stored_jobs())
            self._settle(ledger, found)
            removed = [job_id for job_id, known in self._known.items() if known.text and job_id not in found]
            for job_id in removed:
                del self._known[job_id]
                self._removed.append(job_id)
            self._in_ledger = found
            taken = [self._take(job_id, text) for job_id, text in found.items()]
            jobs = [job for job in taken if job is not None]
            if jobs or removed:
                self._on_change(jobs, removed)

    def _settle(self, ledger: JobLedger, found: dict[str, str]) -> None:
        """Compare the jobs of this program with those that the ledger keeps under the same ids."""
        writes: list[StoredJob] = []
        for job_id, known in self._known.items():
            kept, replaces = found.get(job_id), self._unsaved.get(job_id)
            if known.text is None:
                if kept is not None:  # what the code defines counts, and the ledger need not keep it
                    writes.append(StoredJob(job_id, None))
            elif replaces is not None and kept != known.text:
                if kept is not None and not replaces and self._read(kept) != known.stored:
                    raise _other_definition(job_id)
                writes.append(StoredJob(job_id, known.text))
        if writes:
            ledger.store_jobs(writes)
        self._unsaved.clear()
        for job_id, text in writes:
            if text is None:
                log.info("job.unstored job=%s reason=the code of the program defines it", job_id)
                del found[job_id]
            else:
                found[job_id] = text

    def _take(self, job_id: str, text: str) -> Job | None:
        """A job that the ledger keeps; None where the program knows the same."""
        known = self._known.get(job_id)
        if known is not None and known.text == text:
            return None
        stored = self._read(text)
        if stored is None:
            one = invalid_job(job_id, "its definition in the ledger cannot be read")
            self._known[job_id] = _Known(one, {}, None, None, text)
        else:
            one = read_stored(stored, job_id, self._settings)
            self._known[job_id] = _Known(one, stored.options, stored.isolation, stored, text)
        if one.job.invalid:
            log.warning("job.invalid job=%s reason=%s", job_id, one.job.invalid)
        return one.job

    def _read(self, text: str) -> StoredDefinition | None:
        try:
            return StoredDefinition.from_text(text)
        except ValueError as error:
            log.warning("job.unreadable reason=%s text=%.200s", error, text)
            return None

    def _keep(self, job_id: str, text: str | None, ledger: JobLedger | None, *, replaces: bool = False) -> None:
        """In the ledger before any other part has it: what a call has returned survives a crash."""
        if ledger is None:
            if text is None:
                self._unsaved.pop(job_id, None)
            else:
                self._unsaved[job_id] = replaces
            return
        if self._in_ledger.get(job_id) != text:
            ledger.store_jobs([StoredJob(job_id, text)])
        if text is None:
            self._in_ledger.pop(job_id, None)
        else:
            self._in_ledger[job_id] = text

    def _put(self, known: _Known) -> None:
        self._known[known.one.job.id] = known
        self._on_change([known.one.job], ())

    def _require(self, job_id: str) -> _Known:
        found = self._known.get(job_id)
        if found is None:
            near = get_close_matches(job_id, self._known, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "Jobs of files are changed in their files."
            raise NotFound(f"the program defines no job '{job_id}'. {hint}")
        return found


def _twin(one: JobFunction, other: _Known) -> DefinitionError:
    return DefinitionError(
        f"the job id '{one.job.id}' is defined in {other.one.job.file} and in {one.job.file}.",
        hint="Give one of them another name.",
        field="name",
    )


def _other_definition(job_id: str) -> DefinitionError:
    return DefinitionError(
        f"the job '{job_id}' exists with another definition.",
        hint="Change it with modify() or reschedule(), replace it with add(..., replace_existing=True), or give this "
        "one another name.",
        field="name",
    )


def _is_equal(known: _Known, added: _Known) -> bool:
    """Whether adding a job again changes nothing."""
    if known.text is not None or added.text is not None:
        return known.stored is not None and known.stored == added.stored
    return known.one.job == added.one.job and _is_same(known.one.function.call, added.one.function.call)


def _is_same(one: Callable[..., object], other: Callable[..., object]) -> bool:
    """A module that is read again defines its functions again; the methods of two objects are two jobs."""
    if one == other:
        return True
    if any(ismethod(call) and not isinstance(call.__self__, type) for call in (one, other)):
        return False
    if isinstance(one, functools.partial) and isinstance(other, functools.partial):
        is_bound_alike = (one.args, one.keywords) == (other.args, other.keywords)
        return is_bound_alike and _is_same(one.func, other.func)
    names = [(call.__module__, call.__qualname__) for call in (one, other) if hasattr(call, "__qualname__")]
    if len(names) < 2:  # an object with `__call__` is what it is
        return one is other
    return names[0] == names[1] and "<" not in names[0][1]
