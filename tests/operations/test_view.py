"""Is a view of all jobs computed once for many callers, and never older than allowed?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.definitions.source import Folder
from evertick.model.instant import SECOND, to_datetime
from evertick.model.ledger import Snapshot
from evertick.operations.context import CHANGED_US, REST, View
from evertick.operations.local import LocalOperations
from evertick.operations.timeline import KEPT_MAX
from tests.operations.ledger import at, entry, fill, job, key, ran


def test_concurrent_questions_about_all_jobs_are_computed_once(store):
    clock = [at(4.5)]
    fill(store, entry(4), watermark=4)
    folder = Folder(jobs={"etl": job()})
    operations = LocalOperations(store, lambda: folder, now=lambda: clock[0], keep_us=SECOND)
    assert operations.list_jobs() is operations.list_jobs()
    assert operations.list_jobs(search="etl") is not operations.list_jobs(search="e")
    overview = operations.overview()
    ran(store, key(4), at(4), None)
    assert operations.overview() == overview
    clock[0] += SECOND
    assert operations.overview().running_count == 1


def test_pages_with_the_same_period_share_an_answer_and_each_receives_the_time(store):
    clock = [at(4.5)]
    fill(store, entry(4), watermark=4)
    folder = Folder(jobs={"etl": job()})
    operations = LocalOperations(store, lambda: folder, now=lambda: clock[0], keep_us=SECOND)
    window = ("2026-03-02T00:00Z", "2026-03-02T08:00Z")
    first = operations.timeline(*window)
    clock[0] += SECOND // 2
    second = operations.timeline(*window)
    assert second.lanes is first.lanes
    assert (first.now, second.now) == (to_datetime(at(4.5)), to_datetime(clock[0]))
    assert replace(first, now=second.now) == second
    assert operations.timeline(*window, cells=7).lanes is not first.lanes
    ran(store, key(4), at(4), None)
    clock[0] += SECOND // 2
    states = [mark.state for lane in operations.timeline(*window).lanes for mark in lane.marks]
    assert (states, first.lanes[0].marks[0].state) == (["running"], "planned")


def test_many_long_answers_are_not_kept_at_once(store):
    fill(store, entry(4), watermark=4)
    folder = Folder(jobs={"etl": job()})
    operations = LocalOperations(store, lambda: folder, now=lambda: at(4.5), keep_us=SECOND)
    window = ("2026-03-02T00:00Z", "2026-03-02T08:00Z")
    kept = [
        cells
        for cells in range(1, 30)
        if operations.timeline(*window, cells=cells) == operations.timeline(*window, cells=cells)
    ]
    shared = [
        cells
        for cells in kept
        if operations.timeline(*window, cells=cells).lanes is operations.timeline(*window, cells=cells).lanes
    ]
    assert (len(kept), 5 < len(shared) <= KEPT_MAX) == (29, True)


def test_what_is_kept_is_kept_for_less_once_something_has_happened(store):
    clock = [at(4.5)]
    fill(store, entry(4), watermark=4)
    folder = Folder(jobs={"etl": job()})
    operations = LocalOperations(store, lambda: folder, now=lambda: clock[0], keep_us=60 * SECOND)
    view = operations.view()
    view.took_us = 1
    operations.stir()
    clock[0] += CHANGED_US - 1
    assert operations.view() is view
    clock[0] += 1
    assert operations.view() is not view


def test_what_was_dear_to_make_rests_for_longer(store):
    clock = [at(4.5)]
    fill(store, entry(4), watermark=4)
    folder = Folder(jobs={"etl": job()})
    operations = LocalOperations(store, lambda: folder, now=lambda: clock[0], keep_us=60 * SECOND)
    view = operations.view()
    view.took_us = SECOND
    operations.stir()
    clock[0] += REST * SECOND - 1
    assert operations.view() is view
    clock[0] += 1
    assert operations.view() is not view


def test_a_failed_answer_is_computed_again():
    view = View(Folder(jobs={}), Snapshot(jobs=(), open_runs=(), floors={}))
    with pytest.raises(ZeroDivisionError):
        view.kept("question", lambda: 1 // 0)
    assert view.kept("question", lambda: 7) == view.kept("question", lambda: 8) == 7


def test_a_lane_is_drawn_as_long_as_it_has_no_more_lines_than_cells(store):
    folder = Folder(jobs={"etl": job()})
    fill(store, *(entry(minute / 60) for minute in range(120)), watermark=4)
    lanes = (
        LocalOperations(store, lambda: folder, now=lambda: at(4.5))
        .timeline("2026-03-02T00:00Z", "2026-03-02T02:00Z", cells=50)
        .lanes
    )
    assert [len(lane.marks) for lane in lanes] == [0]
    assert sum(cell.count for cell in lanes[0].cells) == 120
    lanes = (
        LocalOperations(store, lambda: folder, now=lambda: at(4.5))
        .timeline("2026-03-02T00:00Z", "2026-03-02T02:00Z", cells=120)
        .lanes
    )
    assert [(len(lane.marks), lane.cells) for lane in lanes] == [(120, ())]
