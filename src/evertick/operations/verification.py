"""Verifies that the ledger has every occurrence exactly once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from evertick.errors import Conflict
from evertick.model.instant import Instant, to_text
from evertick.model.job import Job
from evertick.operations.context import Context
from evertick.operations.results.system import Finding, Verification
from evertick.planning.stuck import stuck_entries
from evertick.planning.verify import Report, verify_ledger
from evertick.store import RunFilter, Store, WrongCount, every_line

PAGE = 10_000
_verifying = threading.Lock()
_NONE: Mapping[str, Job] = MappingProxyType({})


def verify(context: Context) -> Verification:
    """Reads the whole ledger, so only one caller at a time may do it."""
    if not _verifying.acquire(blocking=False):
        raise Conflict("a verification is already running. Next: wait until it has finished.")
    try:
        report = verify_store(context.store, context.jobs, context.now())
        # A scheduler may write between two reads: only what is wrong at a second look is wrong.
        return result_of(report if report.is_sound else verify_store(context.store, context.jobs, context.now()))
    finally:
        _verifying.release()


def result_of(report: Report) -> Verification:
    found = [Finding("lost", one.job_id, f"lost: {one}") for one in report.lost]
    found += [
        Finding("duplicate", key.job_id, f"duplicate: {key.run_id}: another row already has this occurrence")
        for key in report.duplicates
    ]
    found += [
        Finding("miscounted", key.job_id, f"miscounted: {key.run_id}: this gap has a wrong number of occurrences")
        for key in report.miscounted
    ]
    found += [
        Finding("stray", key.job_id, f"stray: {key.run_id}: no schedule of the job was ever due then")
        for key in report.strays
    ]
    found += [
        Finding("stuck", key.job_id, f"stuck: {key.run_id}: it is overdue, waits for nothing, and does not move")
        for key in report.stuck
    ]
    found += [Finding("wrong-count", "", f"wrong count: {_count_text(one)}") for one in report.wrong_counts]
    return Verification(
        is_sound=report.is_sound,
        occurrences=report.occurrences,
        runs=report.runs,
        skips=dict(report.skips),
        gaps=report.gaps,
        lost=sum(one.occurrences for one in report.lost),
        duplicates=len(report.duplicates),
        miscounted=len(report.miscounted),
        strays=len(report.strays),
        stuck=len(report.stuck),
        wrong_counts=len(report.wrong_counts),
        findings=tuple(found),
    )


def _count_text(wrong: WrongCount) -> str:
    kind = f"{wrong.state} ({wrong.reason})" if wrong.reason else str(wrong.state)
    return (
        f"{to_text(wrong.hour)}: the counts of this hour say {wrong.kept.entries:,} entries with "
        f"{wrong.kept.occurrences:,} occurrences {kind} by {wrong.trigger}, the ledger has "
        f"{wrong.found.entries:,} with {wrong.found.occurrences:,}"
    )


def verify_store(store: Store, definitions: Mapping[str, Job] = _NONE, now: Instant | None = None) -> Report:
    """Prove from the ledger that no occurrence was lost, decided twice or miscounted; given the time, none is stuck."""
    snapshot = store.load()
    rows = list(every_line(store, RunFilter(occurrences_only=True, oldest_first=True), PAGE))
    report = verify_ledger(store.schedules(), snapshot.jobs, snapshot.floors, rows)
    report = replace(report, wrong_counts=tuple(store.wrong_counts()))
    if now is None:
        return report
    return replace(report, stuck=stuck_entries(snapshot.open_runs, snapshot.jobs, snapshot.floors, definitions, now))
