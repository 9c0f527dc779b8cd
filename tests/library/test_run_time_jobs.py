"""Jobs that a program adds, changes and removes while it runs, and the table of what APScheduler calls the same."""

from __future__ import annotations

import inspect
import re
import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import BaseScheduler

from evertick import Conflict, DefinitionError, InvalidArgument, NotFound, Scheduler, Settings
from evertick.model.policy import Missed, OverlapKind
from tests.library.programs import LIMIT_SECONDS, run

PAGE = Path(__file__).parents[2] / "docs/migrating/apscheduler.md"


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
            scheduler.add(partial(report.send, "us"), name="partial"),
            scheduler.add(report.send, name="method"),
            scheduler.add(report, name="object"),
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


def test_what_was_rescheduled_runs_by_its_new_schedule(scheduler):
    class Twice(Report):
        """Says when it was called a second time."""

        def send(self, region: str = "eu") -> None:
            super().send(region)
            if len(self.calls) > 1:
                done.set()

    done, report = threading.Event(), Twice()
    with scheduler:
        scheduler.add(report.send, name="send", at=datetime.now(UTC) + timedelta(days=1))
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
    with pytest.raises(DefinitionError, match="Did you mean 'overlap'"):
        scheduler.modify("nothing", overlp="skip")
    with pytest.raises(DefinitionError, match="'name' cannot be changed"):
        scheduler.modify("nothing", name="other")
    with pytest.raises(NotFound, match="Did you mean 'nothing'"):
        scheduler.remove("nothin")
    with pytest.raises(InvalidArgument, match="cron, every or at"):
        scheduler.reschedule("nothing", timezone="UTC")
    with pytest.raises(NotFound, match=r"scheduler\.jobs lists"):
        scheduler.next_run_time("other")


def test_the_methods_of_two_objects_are_two_jobs(scheduler):
    scheduler.add(Report().send, name="send")
    with pytest.raises(DefinitionError, match="another name"):
        scheduler.add(Report().send, name="send")


def test_a_lambda_needs_a_name_and_a_closure_cannot_go_to_another_process(scheduler):
    def closure() -> None:
        scheduler.status  # noqa: B018

    with pytest.raises(DefinitionError, match="or define it with 'def'"):
        scheduler.add(lambda: None)
    assert scheduler.add(lambda: None, name="quick") == "quick"
    with pytest.raises(DefinitionError, match="top level of a module, or use isolation='thread'"):
        scheduler.add(closure, isolation="process")


# --- the table


def rows(title: str) -> str:
    text = PAGE.read_text()
    part = text[text.index(title) :].split("\n## ")[0]
    return "\n".join(line.split("|")[1] for line in part.splitlines() if line.startswith("| `"))


def test_the_page_has_a_line_for_each_argument_of_add_job():
    known = {name for name in inspect.signature(BackgroundScheduler.add_job).parameters if name != "self"}
    assert set(re.findall(r"`(\w+)`", rows("## Each argument of `add_job`"))) - {"add_job"} == known


def test_the_page_has_a_line_for_each_argument_of_a_scheduler():
    source = "".join(inspect.getsource(one) for one in (BaseScheduler._configure, BackgroundScheduler._configure))
    known = set(re.findall(r"config\.(?:pop|get)\(\s*\"(\w+)\"", source))
    named = set(re.findall(r"`(\w+)`", rows("## Each argument of a scheduler"))) - {"BackgroundScheduler"}
    assert known <= named
    assert named <= known | {"jobstores", "executors", "job_defaults"}


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        pytest.param({"cron": ["0 9 * * *", "0 17 * * *"]}, lambda job: len(job.schedules) == 2, id="OrTrigger"),
        pytest.param(
            {"name": "My report"}, lambda job: (job.id, job.name) == ("my-report", "My report"), id="id, name"
        ),
        pytest.param({"grace": "1m"}, lambda job: job.policy.grace_us == 60_000_000, id="misfire_grace_time"),
        pytest.param({"missed": "latest"}, lambda job: job.policy.missed is Missed.LATEST, id="coalesce"),
        pytest.param(
            {"missed": "all", "overlap": "wait"}, lambda job: job.policy.missed is Missed.ALL, id="not coalesce"
        ),
        pytest.param(
            {"overlap": "parallel(3)"}, lambda job: job.policy.overlap.kind is OverlapKind.PARALLEL, id="max_instances"
        ),
        pytest.param({"enabled": False}, lambda job: not job.enabled, id="next_run_time"),
        pytest.param({"timezone": "Asia/Tokyo"}, lambda job: job.timezone == "Asia/Tokyo", id="timezone"),
    ],
)
def test_the_counterpart_of_an_argument_does_what_the_page_says(scheduler, options, holds):
    job = scheduler.add(nothing, **options)
    assert holds(scheduler.jobs[job])


def test_adding_the_same_function_again_replaces_its_job(scheduler):
    scheduler.add(nothing, every="1h")
    scheduler.add(nothing, every="2h")
    assert [str(spec) for spec in scheduler.jobs["nothing"].schedules] == ["every 7200s"]


def test_the_zone_of_the_settings_is_the_default(tmp_path):
    settings = Settings.load(tmp_path, {}, {"timezone": "Asia/Tokyo"})
    scheduler = Scheduler(settings=settings, store=f"sqlite:///{tmp_path}/l.db", max_running=3)
    job = scheduler.add(nothing, cron="0 9 * * *")
    assert scheduler.jobs[job].timezone == "Asia/Tokyo"
