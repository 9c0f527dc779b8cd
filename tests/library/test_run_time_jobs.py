"""Jobs that a program adds, changes and removes while it runs."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from evertick import Conflict, DefinitionError, InvalidArgument, NotFound, Scheduler
from tests.library.programs import LIMIT_SECONDS, run


@pytest.fixture
def scheduler(tmp_path):
    return Scheduler(store=f"sqlite:///{tmp_path}/ledger.db")


class Report:
    """Something whose methods are jobs, and which can be called itself."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def send(self, region: str = "eu") -> None:
        self.calls.append(region)

    def __call__(self) -> None:
        self.calls.append("called")


def nothing() -> None:
    """Do nothing."""


def test_partials_methods_and_objects_run_and_can_be_added_while_it_runs(scheduler):
    report = Report()
    with scheduler:
        ids = [
            scheduler.add(partial(report.send, "us"), name="partial", persist=False),
            scheduler.add(report.send, name="method", persist=False),
            scheduler.add(report, name="object", persist=False),
        ]
        for job in ids:
            scheduler.wait(scheduler.trigger_now(job, timeout=LIMIT_SECONDS))
    assert ids == ["partial", "method", "object"]
    assert report.calls == ["us", "eu", "called"]


def test_a_job_is_rescheduled_modified_and_removed_while_it_runs(scheduler):
    with scheduler:
        scheduler.add(nothing, cron="0 9 * * *", timezone="Europe/Berlin")
        due = scheduler.next_run_time("nothing")
        assert due is not None
        assert (due.hour, due.tzinfo) == (9, ZoneInfo("Europe/Berlin"))
        scheduler.reschedule("nothing", cron="0 7 * * *", timezone="Asia/Tokyo")
        due = scheduler.next_run_time("nothing")
        assert due is not None
        assert (due.hour, due.tzinfo) == (7, ZoneInfo("Asia/Tokyo"))
        scheduler.reschedule("nothing", every="1d")
        scheduler.modify("nothing", retries=2, overlap="parallel(3)")
        job = scheduler.jobs["nothing"]
        assert [str(spec) for spec in job.schedules] == ["every 86400s"]
        assert (job.policy.retry.max_retries, job.policy.overlap.limit) == (2, 3)
        scheduler.wait(scheduler.pause("nothing"))
        found = scheduler.wait(scheduler.get_schedule("nothing"))
        assert found is not None
        assert found.status == "paused"
        scheduler.wait(scheduler.resume("nothing"))
        scheduler.remove("nothing")
        assert "nothing" not in scheduler.jobs
        with pytest.raises(NotFound):
            scheduler.remove("nothing")
        with pytest.raises(NotFound, match="was removed"):
            scheduler.run_now("nothing")
        scheduler.add(nothing)
        assert scheduler.run_now("nothing").startswith("nothing@")


def test_a_rescheduled_job_runs_by_its_new_schedule(scheduler):
    class Twice(Report):
        """Says when it was called a second time."""

        def send(self, region: str = "eu") -> None:
            super().send(region)
            if len(self.calls) > 1:
                done.set()

    done, report = threading.Event(), Twice()
    with scheduler:
        scheduler.add(report.send, name="send", at=datetime.now(UTC) + timedelta(days=1), persist=False)
        scheduler.reschedule("send", every="250ms")
        assert done.wait(LIMIT_SECONDS)
    assert scheduler.wait(scheduler.verify()).is_sound


def test_wait_is_refused_where_the_call_can_be_awaited(scheduler):
    async def main():
        with pytest.raises(Conflict, match="await the call"):
            scheduler.wait(scheduler.verify())
        assert (await scheduler.verify()).is_sound

    run(main)


def test_errors_name_what_was_meant(scheduler):
    scheduler.add(nothing, every="1h")
    with pytest.raises(InvalidArgument, match="Did you mean 'retries'"):
        scheduler.add(nothing, retrys=3)
    with pytest.raises(InvalidArgument, match="Did you mean 'cron'"):
        scheduler.job(crn="* * * * *")
    with pytest.raises(InvalidArgument, match="Did you mean 'overlap'"):
        scheduler.modify("nothing", overlp="skip")
    with pytest.raises(DefinitionError, match="'name' cannot be changed"):
        scheduler.modify("nothing", name="other")
    with pytest.raises(DefinitionError, match="without calling it"):
        scheduler.add(nothing())
    with pytest.raises(DefinitionError, match=r"bind a value with functools\.partial"):
        scheduler.add(Report.send, every="1h")
    with pytest.raises(NotFound, match="Did you mean 'nothing'"):
        scheduler.remove("nothin")
    with pytest.raises(InvalidArgument, match="cron, every or at"):
        scheduler.reschedule("nothing", timezone="UTC")
    with pytest.raises(NotFound, match=r"scheduler\.jobs lists"):
        scheduler.next_run_time("other")


def test_the_methods_of_two_objects_are_two_jobs(scheduler):
    scheduler.add(Report().send, name="send", persist=False)
    with pytest.raises(DefinitionError, match="another name"):
        scheduler.add(Report().send, name="send", persist=False)


def test_a_lambda_needs_a_name_and_a_closure_cannot_go_to_another_process(scheduler):
    def closure() -> None:
        scheduler.status  # noqa: B018

    with pytest.raises(DefinitionError, match="or define it with 'def'"):
        scheduler.add(lambda: None)
    assert scheduler.add(lambda: None, name="quick", persist=False) == "quick"
    with pytest.raises(DefinitionError, match="'module:function', or use isolation='thread'"):
        scheduler.add(closure, isolation="process")


def test_a_blackout_is_added_listed_and_removed_while_it_runs(scheduler):
    with scheduler:
        scheduler.add(nothing, every="1d")
        start = scheduler.wait(scheduler.get_upcoming(2, job="nothing"))[1].scheduled_for
        added = scheduler.wait(
            scheduler.add_blackout(start, start + timedelta(days=2), jobs=["nothing"], reason="Upgrade")
        )
        assert (added.jobs, added.occurrences) == (1, 2)
        (known,) = scheduler.wait(scheduler.list_blackouts())
        assert (known.id, known.reason, known.added_by.partition("@")[0]) == (added.blackout.id, "Upgrade", "python")
        assert "Upgrade" in scheduler.wait(scheduler.get_upcoming(2, job="nothing"))[1].detail
        scheduler.wait(scheduler.remove_blackout(known.id))
        assert scheduler.wait(scheduler.list_blackouts(over=True)) == []
