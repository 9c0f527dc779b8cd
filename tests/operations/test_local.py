"""Do the local operations answer and act as every interface expects?"""

from __future__ import annotations

import json
import threading
from itertools import count

import pytest

from evertick.definitions.source import Folder
from evertick.errors import Conflict, InvalidArgument, NotFound
from evertick.executors.logs import LogChunk, LogFile
from evertick.model.answer import Answer, Refusal, answer_text
from evertick.model.instant import DAY, MINUTE, SECOND, to_datetime
from evertick.model.ledger import Batch
from evertick.model.lifecycle import FAILED, PLANNED, SKIPPED, SUCCEEDED, JobStatus, SkipReason, Trigger
from evertick.model.policy import Missed
from evertick.model.run import Entry, RunKey
from evertick.operations.codec import to_json
from evertick.operations.local import LocalOperations
from evertick.operations.protocol import RunQuery, enums_of
from evertick.operations.results.jobs import EnvVariable, JobSort
from evertick.operations.results.requests import RequestAnswer
from evertick.operations.results.runs import RunSort
from tests.operations.ledger import TEXT, at, entry, fill, job, key, ran

IDS = map("request-{}".format, count())
TAGGED = TEXT + "tags: [nightly, sales]\ndescription: What was sold.\n"


class FakeLogs:
    """One log, in memory."""

    def __init__(self, text):
        self.data = text.encode()

    def list_logs(self, run):
        return [LogFile(1, "main", len(self.data), True)] if not run.origin else []

    def read_log(self, run, attempt, step, offset=0, limit=1 << 20):  # noqa: ARG002
        data = self.data[offset : offset + limit]
        return LogChunk(data, offset + len(data), offset + len(data) >= len(self.data))


@pytest.fixture
def make(store):
    """A operations on the ledger, at half past four."""

    def make(*jobs, hour=4.5, **known):
        folder = Folder(jobs={one.id: one for one in jobs})
        return LocalOperations(store, lambda: folder, now=lambda: at(hour), **known)

    return make


@pytest.fixture
def operations(store, make):
    """The hourly job: a success, a failure, a skip, and a run that goes on."""
    fill(
        store,
        entry(1),
        entry(2),
        entry(3, state=SKIPPED, reason=SkipReason.OVERLAP, detail="busy"),
        entry(4),
        watermark=4,
    )
    ran(store, key(1), at(1) + SECOND, at(1) + MINUTE)
    ran(store, key(2), at(2), at(2) + 2 * MINUTE, FAILED, exit_code=3)
    ran(store, key(4), at(4), None)
    return make(job(TAGGED))


def test_a_listed_job_has_its_status(operations):
    page = operations.list_jobs()
    (one,) = page.items
    assert (one.job, one.status, one.tags) == ("etl", "running", ("nightly", "sales"))
    assert (one.next_at, one.timezone, one.active) == (to_datetime(at(5)), "Europe/Berlin", 1)
    assert one.last.run == "etl@2026-03-02T02:00:00Z"
    assert (page.total, page.statuses, page.tags) == (1, {"running": 1}, ("nightly", "sales"))


@pytest.mark.parametrize(
    ("how", "found"),
    [
        pytest.param({}, ["a", "b", "c", "etl"], id="all"),
        pytest.param({"search": "SOLD"}, ["etl"], id="a word of the description"),
        pytest.param({"search": "nobody"}, [], id="a word that nobody has"),
        pytest.param({"tags": ["sales", "nightly"]}, ["etl"], id="tags"),
        pytest.param({"tags": ["sales", "weekly"]}, [], id="all tags must be there"),
        pytest.param({"statuses": [JobStatus.IDLE]}, ["a", "b", "c"], id="a status"),
        pytest.param({"limit": 2}, ["a", "b"], id="a first page"),
        pytest.param({"limit": 2, "after": "b"}, ["c", "etl"], id="the next"),
        pytest.param({"is_reversed": True}, ["etl", "c", "b", "a"], id="from the end"),
        pytest.param({"sort": JobSort.STATE}, ["etl", "a", "b", "c"], id="the worst first"),
        pytest.param({"sort": JobSort.LAST, "limit": 3}, ["etl", "a", "b"], id="what ran last; what never ran, last"),
        pytest.param(
            {"sort": JobSort.DURATION, "is_reversed": True}, ["etl", "a", "b", "c"], id="what never ran, last"
        ),
        pytest.param({"sort": JobSort.NEXT, "after": "b"}, ["c", "etl"], id="by the next due time, from there on"),
    ],
)
def test_jobs_are_listed_by(store, make, operations, how, found):
    many = make(job(TAGGED), *(job(name=name) for name in "abc"))
    page = many.list_jobs(**how)
    assert [one.job for one in page.items] == found
    assert page.next == ("b" if len(found) == how.get("limit") and "after" not in how else None)


def test_the_next_page_of_a_sorted_list_begins_behind_one_that_is_in_it(operations):
    with pytest.raises(InvalidArgument, match="no longer in this list") as refused:
        operations.list_jobs(sort=JobSort.NEXT, after="gone")
    assert "first page" in str(refused.value)
    with pytest.raises(InvalidArgument, match="no longer in this list"):
        operations.list_runs(RunQuery(sort=RunSort.DURATION), after="etl@2020-01-01T00:00:00Z")


def test_the_last_runs_of_a_job_come_with_it_when_asked_for(operations):
    (one,) = operations.list_jobs(recent=5).items
    assert [(mark.state, mark.duration_seconds) for mark in one.recent] == [
        ("succeeded", 59.0),
        ("failed", 120.0),
    ]


def test_an_unknown_word_is_refused_with_those_there_are(operations):
    with pytest.raises(InvalidArgument, match=r"unknown status 'sleepy'.*idle"):
        enums_of("status", ["sleepy"], JobStatus)
    with pytest.raises(InvalidArgument, match="limit is 0"):
        operations.list_runs(limit=0)


def test_a_job_tells_its_definition_without_the_values_of_its_environment(store, make):
    text = TEXT + "env: {TOKEN: s3cret-value}\nparams: {FORMAT: {default: csv, enum: [csv, json]}}\n"
    fill(store, watermark=4, one=job(text))
    found = make(job(text)).job("etl")
    assert "s3cret-value" not in to_json(found).decode()
    assert found.definition.env == (EnvVariable("TOKEN", None),)
    assert found.definition.params["properties"] == {"FORMAT": {"default": "csv", "enum": ["csv", "json"]}}
    assert [step.kind for step in found.definition.steps] == ["command"]


def test_a_job_that_only_the_ledger_knows_is_reported_as_far_as_it_does(store, make):
    fill(store, watermark=4)
    found = make().job("etl")
    assert (found.is_defined, found.definition, found.schedules) == (
        False,
        None,
        ("0 * * * * (Europe/Berlin)",),
    )


def test_an_unknown_job_is_not_found_and_the_nearest_name_is_suggested(operations):
    for ask in (
        operations.job,
        operations.explain,
        operations.graph,
        operations.why,
        operations.catchup,
        operations.durations,
    ):
        with pytest.raises(NotFound, match="'etl'"):
            ask("elt")


def test_rules_and_steps_are_reported(make):
    text = "steps:\n- {name: a, command: x}\n- {name: b, command: y, depends: [a]}\n"
    operations = make(job(text, "one"), job("after: one\ncommand: x\n", "two"))
    graph = operations.graph("one")
    assert [(node.id, node.command, node.depends) for node in graph.nodes] == [
        ("a", "x", ()),
        ("b", "y", ("a",)),
    ]
    assert (graph.before, operations.graph("two").after) == (("two",), ("one",))
    assert (operations.explain("one")[0].name, operations.explain("one")[0].value) == ("enabled", "yes")


def test_why_is_answered_for_a_time_and_for_a_run(operations):
    assert operations.why("etl", "2026-03-02T04:00").verdict == "skipped: overlap"
    by_id = operations.why("etl@2026-03-02T02:00:00Z")
    assert (by_id.outcome, by_id.run.exit_code) == ("failed", 3)


def test_the_preview_lists_what_would_be_caught_up(store, make):
    text = TEXT + "catchupWindow: 6h\noverlapPolicy: all\n"
    fill(store, watermark=1, one=job(text))
    found = make(job(text)).catchup("etl")
    assert (found.kept, [fate.runs for fate in found.fates]) == (3, [True] * 3)
    assert make(job(text)).catchup("etl", keep=Missed.NONE).kept == 0


def test_durations_tell_what_is_usual(operations):
    found = operations.durations("etl")
    assert [point.duration_seconds for point in found.items] == [59.0, 120.0]
    assert (found.percentiles.p50, found.percentiles.max, found.success_rate) == (89.5, 120.0, 0.5)
    assert found.lateness.max == 1.0


def test_what_comes_next_leaves_out_what_is_paused_and_a_plan_tells_it(store, make):
    fill(store, watermark=4, paused_at=at(4), held=True)
    operations = make(job(), job("schedule: {start: '30 * * * *', stop: '45 * * * *'}\ncommand: x\n", "live"))
    assert [(one.job, one.action) for one in operations.upcoming(count=2).items] == [
        ("live", "stop"),
        ("live", "start"),
    ]
    planned = operations.plan("2026-03-02T05:30:00Z")
    assert [(one.job, one.what) for one in planned.items] == [("etl", "skip: paused"), ("live", "run")]
    assert operations.plan("2026-03-02T05:30:00Z", limit=1).has_more


def test_the_next_occurrence_is_computed_again_once_it_is_past(store, make):
    hour = [4.5]
    folder = Folder(jobs={"etl": job()})
    operations = LocalOperations(store, lambda: folder, now=lambda: at(hour[0]))
    assert operations.job_upcoming("etl", 1).items[0].scheduled_for == to_datetime(at(5))
    hour[0] = 5
    assert operations.job_upcoming("etl", 1).items[0].scheduled_for == to_datetime(at(6))
    hour[0] = 1
    assert operations.job_upcoming("etl", 1).items[0].scheduled_for == to_datetime(at(2))


def test_an_expression_is_explained(operations):
    found = operations.cron("30 2 * * *", "Europe/Berlin", count=2)
    assert (found.fields["hour"], len(found.next), len(found.dst_notes)) == ("2", 2, 2)


def test_days_are_counted_on_the_clocks_of_a_zone(operations):
    days = {day.date: day for day in operations.calendar("etl", "2026-03-01", "2026-03-03").days}
    today = days["2026-03-02"]
    assert [today.succeeded, today.failed, today.skipped, today.cancelled, today.running] == [1, 1, 1, 0, 1]
    assert today.skips == {"overlap": 1}
    # A day in Berlin ends at eleven in UTC.
    assert (today.planned, days["2026-03-03"].planned) == (18, 24)
    assert days["2026-03-01"].count == 0


def test_a_day_of_23_hours_is_one_day(store, make):
    fill(store, *(entry(hour) for hour in (26 * 24 + 22, 27 * 24 - 1, 27 * 24)), watermark=4)
    days = make(job(), hour=30 * 24).calendar("etl", "2026-03-28", "2026-03-30").days
    assert [(day.date, day.dst, day.count) for day in days] == [
        ("2026-03-28", None, 1),
        ("2026-03-29", "forward", 2),
        ("2026-03-30", None, 0),
    ]


@pytest.mark.parametrize(
    ("start", "end"), [("2026-03-02", "2026-03-01"), ("2020-01-01", "2026-03-01"), ("soon", "2026-03-01")]
)
def test_days_that_are_none_are_refused(operations, start, end):
    with pytest.raises(InvalidArgument):
        operations.calendar("etl", start, end)


@pytest.mark.parametrize(
    ("how", "hours"),
    [
        pytest.param({}, [4, 3, 2, 1], id="all, newest first"),
        pytest.param({"job": "etl", "states": [FAILED, SUCCEEDED]}, [2, 1], id="states"),
        pytest.param({"triggers": [Trigger.CATCHUP]}, [], id="a trigger"),
        pytest.param({"reasons": [SkipReason.OVERLAP]}, [3], id="a reason"),
        pytest.param({"tags": ["sales"]}, [4, 3, 2, 1], id="a tag"),
        pytest.param({"tags": ["nobody's"]}, [], id="a tag of no job"),
        pytest.param({"executor": "local"}, [4, 2, 1], id="an executor"),
        pytest.param({"since": "2026-03-02T02:00Z", "until": "2026-03-02T04:00Z"}, [3, 2], id="between"),
        pytest.param({"job": "etl", "since": "2026-03-02T05:00"}, [4], id="in the job's time zone"),
        pytest.param({"limit": 2}, [4, 3], id="a page"),
        pytest.param({"after": "etl@2026-03-02T03:00:00Z"}, [2, 1], id="the next"),
        pytest.param({"is_reversed": True}, [1, 2, 3, 4], id="oldest first"),
        pytest.param({"sort": RunSort.DURATION}, [2, 1], id="the longest"),
        pytest.param({"sort": RunSort.DURATION, "is_reversed": True}, [1, 2], id="the shortest"),
        pytest.param({"sort": RunSort.DURATION, "after": "etl@2026-03-02T02:00:00Z"}, [1], id="the next longest"),
        pytest.param({"sort": RunSort.LATENESS, "states": [FAILED]}, [2], id="the latest that failed"),
    ],
)
def test_runs_are_found_by(operations, how, hours):
    paging = {name: how[name] for name in ("limit", "after") if name in how}
    found = operations.list_runs(RunQuery(**{name: how[name] for name in how if name not in paging}), **paging)
    assert [run.scheduled_for for run in found.items] == [to_datetime(at(hour)) for hour in hours]
    assert found.next == ("etl@2026-03-02T03:00:00Z" if how == {"limit": 2} else None)


def test_gaps_are_reported(store, make):
    fill(
        store,
        entry(1, state=SKIPPED, reason=SkipReason.MISSED, through=at(3), occurrences=3),
        entry(4, state=SKIPPED, reason=SkipReason.LATE),
        watermark=4,
    )
    (gap,) = make(job()).gaps().items
    assert (gap.at, gap.through, gap.occurrences, gap.reason) == (
        to_datetime(at(1)),
        to_datetime(at(3)),
        3,
        "missed",
    )


def test_a_run_has_its_next_steps(make, operations):
    active = operations.run("etl@2026-03-02T04:00:00Z")
    assert (active.can_cancel, active.can_retry) == (True, False)
    ended = operations.run("etl@2026-03-02T01:00:00Z")
    assert (ended.can_cancel, ended.can_retry, ended.lateness_seconds, ended.logs) == (False, True, 1.0, ())
    with pytest.raises(NotFound, match="etl@2026-03-02T04"):
        operations.run("etl@2026-03-02T09:00:00Z")
    with pytest.raises(InvalidArgument, match="invalid run id"):
        operations.run("etl@yesterday")


def test_a_log_is_read_by_ranges_that_never_cut_a_character(make, operations):
    text = "größe: 5 €\n"
    reading = make(job(), logs=FakeLogs(text))
    run_id = "etl@2026-03-02T01:00:00Z"
    (log,) = reading.list_logs(run_id)
    assert (log.attempt, log.step, log.size, log.is_complete) == (1, "main", len(text.encode()), True)
    for limit in range(4, 20):
        pieces, offset = [], 0
        while True:
            part = reading.read_log(run_id, 1, "main", offset, limit)
            pieces.append(part.text)
            if part.is_complete:
                break
            offset = part.next_offset
        assert "".join(pieces) == text


def test_broken_text_is_read_to_its_end(make, operations):
    logs = FakeLogs("")
    logs.data = b"\xf0\x9f" * 3
    reading, offset = make(job(), logs=logs), 0
    for _ in range(20):
        part = reading.read_log("etl@2026-03-02T01:00:00Z", 1, "main", offset, 2)
        offset = part.next_offset
        if part.is_complete:
            break
    assert part.is_complete


@pytest.mark.parametrize("step", ["../../etc/passwd", "other", ""])
def test_a_log_that_the_run_does_not_have_is_not_looked_for(make, operations, step):
    with pytest.raises(NotFound, match="has no log"):
        make(job(), logs=FakeLogs("x")).read_log("etl@2026-03-02T01:00:00Z", 1, step)


def test_the_timeline_shows_past_and_future(operations):
    found = operations.timeline("2026-03-02T00:00Z", "2026-03-02T08:00Z")
    (lane,) = found.lanes
    assert [(f"{mark.at:%H}", mark.state) for mark in lane.marks] == [
        ("01", "succeeded"),
        ("02", "failed"),
        ("03", "skipped"),
        ("04", "running"),
    ]
    assert [f"{one:%H}" for one in lane.future] == ["05", "06", "07"]
    # Nobody runs on this ledger, so what came after the watermark is not decided.
    assert (found.total, lane.cells, lane.undecided_since) == (1, (), to_datetime(at(4)))


def test_a_dense_lane_is_counted_in_cells_and_a_sparse_one_beside_it_is_not(store, make):
    fill(store, *(entry(hour / 10) for hour in range(1, 40)), watermark=4)
    fill(store, entry(2, key=key(2, name="calm")), watermark=4, one=job(name="calm"))
    found = make(job(), job(name="calm")).timeline("2026-03-02T00:00Z", "2026-03-02T04:00Z", cells=24)
    calm, dense = found.lanes
    assert (len(calm.marks), calm.cells) == (1, ())
    assert (dense.marks, sum(cell.count for cell in dense.cells)) == ((), 39)
    assert (dense.cells[0].waiting, dense.cells[0].worst) == (1, "planned")


def test_a_dense_future_is_counted_too(make):
    (lane,) = (
        make(job("schedule: {every: 1s}\ncommand: x\n"))
        .timeline("2026-03-02T05:00Z", "2026-03-02T06:00Z", cells=60)
        .lanes
    )
    assert (lane.future, sum(cell.count for cell in lane.future_cells)) == ((), 3_600)


def test_a_run_that_began_before_the_timeline_and_continues_is_part_of_it(operations):
    (lane,) = operations.timeline("2026-03-02T04:10Z", "2026-03-02T04:40Z").lanes
    assert [mark.run for mark in lane.marks] == ["etl@2026-03-02T04:00:00Z"]


def test_the_overview_has_the_figures_of_the_day(operations):
    found = operations.overview()
    assert (found.jobs.total, found.jobs.running, found.jobs.idle) == (1, 1, 0)
    assert [found.day.succeeded, found.day.failed, found.day.skipped, found.day.running] == [1, 1, 1, 1]
    assert (found.day.success_rate, found.day.skips) == (0.5, {"overlap": 1})
    assert [run.state for run in found.failed] == ["failed"]
    assert [run.reason for run in found.missed] == ["overlap"]
    assert (found.running[0].timezone, found.running_count) == ("Europe/Berlin", 1)
    assert found.next[0].scheduled_for == to_datetime(at(5))
    assert (sum(hour.count for hour in found.hours), found.lateness.max) == (4, 1.0)
    assert not found.scheduler.alive


def test_a_job_that_is_due_and_fails_all_the_time_leaves_room_for_others(make, store):
    often, seldom = job("schedule: {every: 5s}\ncommand: x\n", "often"), job()
    keys = [key(1), *(RunKey(often.id, at(3) + number * MINUTE) for number in range(30))]
    fill(store, *(Entry(one, PLANNED, Trigger.SCHEDULER, one.scheduled_for) for one in keys), watermark=4)
    for one in keys:
        ran(store, one, one.scheduled_for, one.scheduled_for + SECOND, FAILED, exit_code=1)
    found = make(often, seldom)
    assert [one.job for one in found.overview().next] == ["often", "etl"]
    assert [one.job for one in found.upcoming(count=2).items] == ["often", "often"]
    assert [one.job for one in found.overview().failed] == ["often", "etl"]
    (busiest, *_) = sorted(found.load("2026-03-03T00:00Z").minutes, key=lambda one: -one.count)
    assert busiest.count == 13, "twelve of one job, and the other on the hour"


def test_an_empty_ledger_answers_everything(make):
    operations = make()
    assert operations.list_jobs().items == operations.list_runs().items == operations.gaps().items == ()
    assert operations.overview().jobs.total == 0
    assert operations.timeline("2026-03-02T00:00Z", "2026-03-02T04:00Z").lanes == ()
    assert operations.upcoming().items == ()
    assert (operations.executors().items, operations.queues().items, operations.nodes().items) == ((), (), ())
    assert operations.verify().is_sound
    assert len(operations.calendar(start="2026-03-01", end="2026-03-02").days) == 2


class Lively:
    def __init__(self, **told):
        self.told = told

    def status(self):
        return self.told


def test_what_only_the_scheduler_knows_comes_from_it(make, operations, store):
    live = Lively(executors={"local": {"slots": 4}}, queues={"db": {"limit": 2}})
    found = make(job(TAGGED + "queue: db\n"), live=live)
    (local,) = found.executors().items
    assert (local.executor, local.slots, local.active) == ("local", 4, 1)
    (queue,) = found.queues().items
    assert (queue.queue, queue.limit, queue.active, queue.jobs) == ("db", 2, 1, ("etl",))
    assert found.overview().scheduler.alive


def test_asking_is_durable_and_asking_twice_is_asking_once(operations, store):
    first = operations.trigger("etl", request_id="r1", by="ann")
    assert (first.request, first.job, first.is_answered) == ("r1", "etl", False)
    assert operations.trigger("etl", request_id="r1", by="ann") == first
    (request,) = store.claim(None, 10)
    assert (request.id, request.submitted_by, json.loads(request.payload)["trigger"]) == ("r1", "ann", "manual")


def test_an_id_that_was_used_for_something_else_is_a_conflict(operations):
    operations.trigger("etl", request_id="r1")
    for other in (
        lambda: operations.pause("etl", request_id="r1"),
        lambda: operations.trigger("etl", {"A": "1"}, request_id="r1"),
    ):
        with pytest.raises(Conflict, match="used for another request"):
            other()


def test_an_answer_is_waited_for_as_long_as_asked(make, operations, store):
    asking = make(job(), is_scheduler_running=lambda: True)

    def answer():
        while not (found := store.claim(None, 10)):
            pass
        store.commit(Batch(by="a1/1", answers={found[0].id: answer_text(Answer(paused_at=at(5)))}))

    answering = threading.Thread(target=answer)
    answering.start()
    found = asking.pause("etl", "holidays", request_id="r1", wait_seconds=60)
    answering.join(60)
    assert (found.is_answered, found.answer) == (True, RequestAnswer(paused_at=to_datetime(at(5))))
    assert asking.answer("r1").is_answered
    with pytest.raises(NotFound, match="unknown request 'r2'"):
        asking.answer("r2")


class CountedStore:
    """A store that notes which of its verbs are called."""

    def __init__(self, store):
        self.store, self.called = store, []

    def __getattr__(self, name):
        self.called.append(name)
        return getattr(self.store, name)


def test_a_run_is_requested_with_one_write_and_no_read(store):
    fill(store, watermark=4)
    counted, folder = CountedStore(store), Folder(jobs={"etl": job()})
    operations = LocalOperations(counted, lambda: folder, now=lambda: at(4.5), is_scheduler_running=lambda: True)
    status = operations.trigger("etl")
    assert counted.called == ["commit"]
    (request,) = store.claim(None, 10)
    assert (status.request, status.is_answered) == (request.id, False)


def test_whether_a_job_of_the_ledger_exists_is_found_without_its_bucket(store):
    fill(store, watermark=4)
    counted = CountedStore(store)
    operations = LocalOperations(counted, Folder, now=lambda: at(4.5), is_scheduler_running=lambda: True)
    operations.pause("etl")
    assert "load" not in counted.called
    with pytest.raises(NotFound, match="'elt'"):
        operations.pause("elt")


def test_an_answer_is_looked_for_when_the_scheduler_reports_a_change(operations, store):
    asking = LocalOperations(store, operations.definitions, now=operations.now, is_scheduler_running=lambda: True)
    waits = []

    def answer_meanwhile(seen, timeout):
        waits.append(timeout)
        if len(waits) == 3:
            store.commit(Batch(by="a1/1", answers={"r1": answer_text(Answer(paused_at=at(5)))}))

    asking.wait_for_change = answer_meanwhile
    found = asking.pause("etl", request_id="r1", wait_seconds=60)
    assert found.is_answered
    assert waits == sorted(set(waits)), "without changes it looks less and less often"


def test_a_change_ends_a_wait_for_it(operations):
    seen = operations.changes
    waiting = threading.Thread(target=operations.wait_for_change, args=(seen, 60), daemon=True)
    waiting.start()
    operations.stir()
    waiting.join(30)
    assert not waiting.is_alive()
    operations.wait_for_change(seen, 60)  # it has changed since, so there is nothing to wait for


def test_a_refusal_is_raised(operations, store):
    operations.resume("etl", request_id="r1")
    store.commit(
        Batch(by="a1/1", answers={"r1": answer_text(Answer(refusal=Refusal.CONFLICT, text="it is not paused"))})
    )
    with pytest.raises(Conflict, match="it is not paused"):
        operations.resume("etl", request_id="r1")


def test_an_ended_run_is_not_cancelled_and_an_active_run_is_not_retried(operations):
    with pytest.raises(Conflict, match="has ended"):
        operations.cancel("etl@2026-03-02T01:00:00Z", request_id=next(IDS))
    with pytest.raises(Conflict, match="is running"):
        operations.retry("etl@2026-03-02T04:00:00Z", request_id=next(IDS))
    assert operations.cancel("etl@2026-03-02T04:00:00Z", request_id=next(IDS)).job == "etl"
    assert operations.cancel("etl", request_id=next(IDS)).job == "etl"
    assert operations.retry("etl@2026-03-02T02:00:00Z", request_id=next(IDS)).job == "etl"


def test_a_backfill_is_previewed_asked_for_followed_and_cancelled(operations, store):
    window = ("2026-03-02T01:00Z", "2026-03-02T04:00Z")
    preview = operations.backfill("etl", *window, preview=True)
    assert [(f"{one.scheduled_for:%H}", one.is_chosen) for one in preview.candidates] == [
        ("01", False),
        ("02", True),
        ("03", True),
    ]
    assert not store.claim(None, 10)
    asked = operations.backfill("etl", *window, request_id="b1")
    assert (asked.request, asked.chosen) == ("b1", 2)
    assert operations.backfill("etl", *window, request_id="b1").chosen == 2
    assert operations.backfill_progress("etl", "b1").total == 2
    assert operations.cancel_backfill("etl", "b1", request_id="c1").cancelled == 2
    with pytest.raises(NotFound):
        operations.backfill_progress("etl", "nobody")


def test_parameters_are_checked_before_anything_is_asked(make, store, operations):
    asking = make(job(TEXT + "params: {FORMAT: {default: csv, enum: [csv, json]}}\n"))
    with pytest.raises(InvalidArgument, match="FORMAT"):
        asking.trigger("etl", {"FORMAT": "xml"}, request_id=next(IDS))
    with pytest.raises(InvalidArgument, match="trigger 'scheduler'"):
        asking.trigger("etl", trigger=Trigger.SCHEDULER, request_id=next(IDS))
    assert not store.claim(None, 10)


def test_what_is_kept_for_a_moment_is_forgotten_by_who_changes_something(store, make):
    clock = [at(4.5)]
    fill(store, entry(4), watermark=4)
    folder = Folder(jobs={"etl": job()})
    operations = LocalOperations(store, lambda: folder, now=lambda: clock[0], keep_us=DAY)
    assert operations.list_jobs().items[0].status == "idle"
    ran(store, key(4), at(4), None)
    assert operations.list_jobs().items[0].status == "idle"
    operations.pause("etl", request_id="r1")
    assert operations.list_jobs().items[0].status == "running"
