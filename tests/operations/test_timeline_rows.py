"""Are the rows of the timeline in the order that an operator needs, and is a downtime one band?"""

from __future__ import annotations

from dataclasses import replace

from evertick.definitions.source import Folder
from evertick.model.facts import Facts, facts_text
from evertick.model.instant import MINUTE, to_datetime
from evertick.model.lifecycle import FAILED, SKIPPED, SkipReason, Trigger
from evertick.operations.local import LocalOperations
from evertick.operations.results.schedule import TimelineGroup, TimelineSort
from tests.operations.ledger import TEXT, at, entry, fill, job, key, ran

NOW = at(5.5)
WINDOW = ("2026-03-02T00:00Z", "2026-03-02T08:00Z")


def named(name, schedule="0 * * * *", tags=""):
    text = TEXT.replace("0 * * * *", schedule) + (f"tags: [{tags}]\n" if tags else "")
    return job(text, name)


def make(store, *jobs, is_running=True):
    folder = Folder(jobs={one.id: one for one in jobs})
    return LocalOperations(store, lambda: folder, now=lambda: NOW, is_scheduler_running=lambda: is_running)


def broken(store, one):
    """A job whose newest run failed."""
    fill(store, entry(4, key=key(4, name=one.id)), watermark=5, one=one, has_failed=True)
    ran(store, key(4, name=one.id), at(4), at(4.1), FAILED)


def lanes(found):
    return [lane.job or (lane.group.name, lane.group.jobs, lane.group.troubled) for lane in found.lanes]


def test_the_worst_comes_first_then_what_is_due_next(store):
    late, soon, bad = named("a-late", "50 * * * *"), named("b-soon", "40 * * * *"), named("z-bad")
    for one in (late, soon):
        fill(store, watermark=5, one=one)
    broken(store, bad)
    operations = make(store, late, soon, bad)
    assert lanes(operations.timeline(*WINDOW, sort=TimelineSort.WORST)) == ["z-bad", "b-soon", "a-late"]
    assert lanes(operations.timeline(*WINDOW, sort=TimelineSort.NEXT)) == ["b-soon", "a-late", "z-bad"]
    assert lanes(operations.timeline(*WINDOW)) == ["a-late", "b-soon", "z-bad"]
    assert [lane.trouble for lane in operations.timeline(*WINDOW).lanes] == [None, None, "failing"]


def test_a_failing_job_names_its_failed_run_where_the_period_does_not_have_it(store):
    bad, well = named("bad"), named("well")
    broken(store, bad)
    fill(store, watermark=5, one=well)
    found = make(store, bad, well).timeline("2026-03-02T05:00Z", "2026-03-02T08:00Z").lanes
    assert [[mark.run for mark in lane.marks] for lane in found] == [[], []]
    assert [lane.failing_run and lane.failing_run.run for lane in found] == [key(4, name="bad").run_id, None]


def test_jobs_are_sorted_by_their_names_and_not_by_their_ids(store):
    one, other = replace(named("a"), name="Zebra"), replace(named("b"), name="ant")
    for each in (one, other):
        fill(store, watermark=5, one=each)
    assert lanes(make(store, one, other).timeline(*WINDOW)) == ["b", "a"]


def test_jobs_are_sorted_by_their_first_tags_and_then_by_their_names(store):
    ops, data = named("a", tags="ops, data"), named("b", tags="data")
    early, plain = replace(named("c", tags="data"), name="Ant"), named("d")
    for one in (ops, data, early, plain):
        fill(store, watermark=5, one=one)
    operations = make(store, ops, data, early, plain)
    assert lanes(operations.timeline(*WINDOW, sort=TimelineSort.TAG)) == ["c", "b", "a", "d"]
    grouped = operations.timeline(*WINDOW, sort=TimelineSort.TAG, group=TimelineGroup.TAG)
    assert lanes(grouped) == [("data", 2, 0), ("ops", 1, 0), ("", 1, 0)]


def test_healthy_jobs_fold_into_one_lane_of_counts(store):
    well, other, bad = named("well"), named("other"), named("z-bad")
    fill(store, entry(3, key=key(3, name="well")), watermark=5, one=well)
    ran(store, key(3, name="well"), at(3), at(3.1))
    fill(store, watermark=5, one=other)
    broken(store, bad)
    operations = make(store, well, other, bad)
    found = operations.timeline(*WINDOW, sort=TimelineSort.WORST, group=TimelineGroup.HEALTH)
    assert (lanes(found), found.total, found.jobs) == (["z-bad", ("", 2, 0)], 2, 3)
    folded = found.lanes[1]
    assert [(cell.count, cell.succeeded) for cell in folded.cells] == [(1, 1)]
    assert sum(cell.count for cell in folded.future_cells) == 4, "two jobs, at six and at seven"
    opened = operations.timeline(*WINDOW, group=TimelineGroup.HEALTH, unfolded=[""])
    assert lanes(opened) == ["z-bad", ("", 2, 0), "other", "well"]


def test_groups_by_tag_have_the_worst_first_and_jobs_without_a_tag_last(store):
    data, money, plain = named("data-1", tags="data"), named("money-1", tags="money, data"), named("plain")
    for one in (data, plain):
        fill(store, watermark=5, one=one)
    broken(store, money)
    operations = make(store, data, money, plain)
    found = operations.timeline(*WINDOW, sort=TimelineSort.WORST, group=TimelineGroup.TAG, unfolded=["money"])
    assert lanes(found) == [("money", 1, 1), "money-1", ("data", 1, 0), ("", 1, 0)]
    assert [lane.trouble for lane in found.lanes] == ["failing", "failing", None, None]
    assert lanes(operations.timeline(*WINDOW, group=TimelineGroup.TAG, offset=1, limit=1)) == [("money", 1, 1)]


def missed(hour, name, **known):
    start = at(4) + MINUTE // 2
    return entry(hour, key=key(hour, name=name), state=SKIPPED, reason=SkipReason.MISSED, decided_at=start, **known)


def test_a_downtime_is_one_band_from_the_first_missed_occurrence_to_the_next_start(store):
    one, other = named("one"), named("other")
    fill(store, missed(2, "one"), watermark=5, one=one)
    caught_up = entry(3, key=key(3, name="other"), trigger=Trigger.CATCHUP, decided_at=at(4))
    fill(store, caught_up, watermark=5, one=other)
    (band,) = make(store, one, other).timeline(*WINDOW).downtimes
    assert (band.at, band.through, band.jobs) == (to_datetime(at(2)), to_datetime(at(4)), 2)


def test_what_one_job_of_several_missed_or_missed_while_paused_is_no_downtime(store):
    one, other = named("one"), named("other")
    fill(store, missed(2, "one"), watermark=5, one=one)
    held = facts_text(Facts(held_since=at(1)))
    fill(store, missed(2, "other", facts=held), watermark=5, one=other)
    assert make(store, one, other).timeline(*WINDOW).downtimes == ()
