"""Jobs that a program adds while it runs: the ledger keeps them, and the next start finds them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from evertick import DefinitionError, InvalidArgument, NotFound, Scheduler
from evertick.model.ledger import Batch, StoredJob
from evertick.stores import open_store
from tests.library.programs import LIMIT_SECONDS, Program, until

CALLS: list[object] = []


def send(region: str = "eu") -> str:
    CALLS.append(region)
    return region


def anything(value: object = None) -> None:
    """Accepts every argument."""


class Report:
    def send(self, region: str = "eu") -> str:
        CALLS.append(f"report of {region}")
        return region

    def __call__(self) -> None:
        CALLS.append("called")


REPORT = Report()


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


@pytest.fixture(params=["sqlite", "files"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/ledger.db" if request.param == "sqlite" else f"files:{tmp_path}/ledger"


@pytest.fixture
def sqlite(tmp_path):
    return f"sqlite:///{tmp_path}/ledger.db"


def triggered(scheduler, job, params=None):
    return scheduler.wait(scheduler.trigger_now(job, params, timeout=LIMIT_SECONDS))


def test_jobs_are_there_again_after_a_restart_with_their_changes_and_their_pause(url):
    with Scheduler(store=url) as first:
        first.add(send, cron="0 9 * * *", timezone="Europe/Berlin", name="a function")
        first.add(partial(send, region="us"), every=timedelta(hours=1), name="a partial")
        first.add(REPORT.send, at=datetime(2099, 1, 1, tzinfo=UTC), name="a method")
        first.add(REPORT, name="an object", tags={"b", "a"})
        first.add(f"{__name__}:send", name="a name")
        first.add(send, name="removed")
        first.remove("removed")
        first.modify("a-function", retries=2)
        first.reschedule("a-name", every="2h")
        first.wait(first.pause("a-partial"))
        before = dict(first.jobs)
    with Scheduler(store=url) as second:
        assert second.jobs == before
        assert second.jobs["a-function"].policy.retry.max_retries == 2
        paused = second.wait(second.get_schedule("a-partial"))
        assert paused is not None
        assert paused.status == "paused"
        for job in ("a-function", "a-partial", "a-method", "an-object"):
            assert triggered(second, job).is_success
        assert CALLS == ["eu", "us", "report of eu", "called"]
        second.wait(second.resume("a-partial"))
        assert second.wait(second.verify()).is_sound


def test_a_job_that_add_returned_survives_a_kill(tmp_path, sqlite):
    (tmp_path / "reports.py").write_text("def send():\n    print('sent', flush=True)\n")
    text = "import time, reports\nfrom evertick import Scheduler\n"
    text += f"scheduler = Scheduler(store={sqlite!r})\nwith scheduler:\n"
    adds = Program(text + "    print(scheduler.add('reports:send', every='1s'))\n    time.sleep(600)\n", tmp_path)
    adds.until_said("send")
    adds.kill()
    finds = Program(text + "    time.sleep(600)\n", tmp_path)
    try:
        finds.until_said("sent")
    finally:
        finds.kill()


def test_run_now_leaves_a_request_that_the_next_start_carries_out(sqlite):
    with Scheduler(store=sqlite) as scheduler:
        scheduler.add(send, name="send")
    stopped = Scheduler(store=sqlite)
    run = stopped.run_now("send", {"region": "asia"})
    stopped.stop_in_background()
    with Scheduler(store=sqlite) as again:
        found = until(lambda: next((one for one in again.wait(again.get_history("send")) if one.is_success), None), run)
    assert (found.run, CALLS) == (run, ["asia"])


# --- a callable that is gone


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A module of a release; calling it removes it, and calling it again brings it back."""
    file = tmp_path / "shipped_reports.py"
    monkeypatch.syspath_prepend(str(tmp_path))

    def toggle() -> None:
        sys.modules.pop("shipped_reports", None)
        if file.exists():
            file.unlink()
        else:
            file.write_text("def send() -> None:\n    pass\n")

    toggle()
    yield toggle
    sys.modules.pop("shipped_reports", None)


def test_a_job_whose_function_is_gone_is_held_in_error_and_catches_up_when_it_is_back(url, shipped):
    with Scheduler(store=url) as scheduler:
        scheduler.add("shipped_reports:send", every="1s", missed="all", catchup_window="1h", overlap="wait")
        scheduler.wait(scheduler.trigger_now("send", timeout=LIMIT_SECONDS))
    shipped()
    with Scheduler(store=url) as scheduler:

        def in_error():
            found = scheduler.wait(scheduler.get_schedule("send"))
            return found if found is not None and found.status == "error" else None

        held = until(in_error, "the error")
        assert "the module 'shipped_reports' cannot be imported" in held.error
        assert [str(spec) for spec in scheduler.jobs["send"].schedules] == ["every 1s"]
        failed = triggered(scheduler, "send")
        assert (failed.state, "cannot be imported" in failed.detail) == ("failed", True)
        until(lambda: datetime.now(UTC) > held.watermark + timedelta(seconds=2), "an occurrence")
        back_at = datetime.now(UTC)
    shipped()
    with Scheduler(store=url) as scheduler:

        def caught_up():
            found = scheduler.wait(scheduler.get_history("send", since=held.watermark, until=back_at))
            return [run for run in found if run.is_success and run.trigger != "manual"]

        assert until(caught_up, "the occurrences that were due while it was gone")
        assert scheduler.wait(scheduler.verify()).is_sound


@pytest.mark.parametrize("is_there", [True, False], ids=["its function is there", "its function is gone"])
def test_a_change_that_is_no_definition_leaves_the_stored_job_as_it_was(sqlite, shipped, is_there):
    with Scheduler(store=sqlite) as scheduler:
        scheduler.add("shipped_reports:send", cron="0 9 * * *")
    if not is_there:
        shipped()
    with Scheduler(store=sqlite) as scheduler:
        with pytest.raises(DefinitionError, match="minute 99 is out of range"):
            scheduler.reschedule("send", cron="99 * * * *")
        with pytest.raises(DefinitionError, match=r"the job of 'send': 'retryPolicy\.maxRetries' is -1"):
            scheduler.modify("send", retries=-1)
        assert [str(spec).partition(" (")[0] for spec in scheduler.jobs["send"].schedules] == ["0 9 * * *"]
        scheduler.reschedule("send", cron="0 10 * * *")
    with Scheduler(store=sqlite) as scheduler:
        assert [str(spec).partition(" (")[0] for spec in scheduler.jobs["send"].schedules] == ["0 10 * * *"]
        assert bool(scheduler.jobs["send"].invalid) is not is_there


def test_a_job_of_another_program_is_not_confused_with_one_of_the_same_name(tmp_path, sqlite):
    text = "from evertick import Scheduler\ndef send(): pass\n"
    text += f"if __name__ == '__main__':\n    with Scheduler(store={sqlite!r}) as scheduler:\n"
    added = Program(text + "        scheduler.add(send, name='main')\n", tmp_path)
    assert added.process.wait(LIMIT_SECONDS) == 0, added.output
    other = Program(text + "        print(scheduler.jobs['main'].invalid)\n", tmp_path)
    assert other.process.wait(LIMIT_SECONDS) == 0, other.output
    assert "was defined in the program 'program_0.py', and this is 'program_1.py'" in other.output


def test_a_definition_that_cannot_be_read_keeps_its_place_until_it_is_replaced(sqlite):
    store = open_store(sqlite)
    store.commit(Batch(by="test", stored_jobs=[StoredJob("send", '{"format": 99}'), StoredJob("other", "nonsense")]))
    store.close()
    with Scheduler(store=sqlite) as scheduler:
        assert "cannot be read" in scheduler.jobs["send"].invalid
        with pytest.raises(DefinitionError, match="cannot be changed"):
            scheduler.modify("other", retries=1)
        scheduler.remove("other")
        scheduler.add(send, name="send", replace_existing=True)
        assert triggered(scheduler, "send").is_success


# --- two definitions of one id


def test_the_same_definition_again_changes_nothing_and_another_one_is_an_error(sqlite):
    with Scheduler(store=sqlite) as scheduler:
        for _ in range(2):
            assert scheduler.add(send, every="1h") == "send"
        with pytest.raises(DefinitionError, match="exists with another definition"):
            scheduler.add(send, every="2h")
        with pytest.raises(DefinitionError, match="replace_existing=True"):
            scheduler.add(REPORT.send, every="1h", name="send")
        scheduler.add(send, every="2h", replace_existing=True)
        assert [str(spec) for spec in scheduler.jobs["send"].schedules] == ["every 7200s"]


def test_what_is_added_before_the_start_is_compared_with_the_ledger_at_the_start(sqlite):
    def start(**options):
        scheduler = Scheduler(store=sqlite)
        scheduler.add(send, **options)
        with scheduler:
            return [str(spec) for spec in scheduler.jobs["send"].schedules]

    assert start(every="1h") == start(every="1h") == ["every 3600s"]
    with pytest.raises(DefinitionError, match="exists with another definition"):
        start(every="2h")
    assert start(every="2h", replace_existing=True) == ["every 7200s"]


def test_jobs_of_the_code_go_before_jobs_that_the_ledger_keeps(sqlite):
    with Scheduler(store=sqlite) as scheduler:
        scheduler.add(send, every="1h")
    coded = Scheduler(store=sqlite)
    coded.job(every="3h")(send)
    with coded:
        assert [str(spec) for spec in coded.jobs["send"].schedules] == ["every 10800s"]
    with Scheduler(store=sqlite) as scheduler:
        assert "send" not in scheduler.jobs


def test_a_stored_job_can_be_removed_before_the_start(sqlite, tmp_path):
    with Scheduler(store=sqlite) as scheduler:
        scheduler.add(send)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/send.yaml").write_text("command: 'true'\n")
    files = Scheduler(tmp_path / "jobs", store=sqlite)
    with pytest.raises(DefinitionError, match="is defined in"):
        files.start_in_background()
    files.remove("send")
    with files:
        assert str(files.jobs["send"].file).endswith("send.yaml")
    with pytest.raises(NotFound):
        files.remove("send")


def test_processes_that_share_a_ledger_learn_of_each_others_jobs(fresh_postgres):
    url = fresh_postgres()
    with Scheduler(store=url, node="one") as one, Scheduler(store=url, node="two") as two:
        one.add(send, name="shared", every="1h")
        until(lambda: "shared" in two.jobs, "the job of the other process")
        assert triggered(two, "shared").is_success
        two.modify("shared", retries=3)
        until(lambda: one.jobs["shared"].policy.retry.max_retries == 3, "the change")
        two.remove("shared")
        until(lambda: "shared" not in one.jobs, "the removal")


# --- what cannot be stored


def local_function():
    def closure() -> None:
        CALLS.append("closure")

    return closure


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        pytest.param(lambda: None, "it is a lambda, which has no name", id="a lambda"),
        pytest.param(local_function(), "it is defined inside a function", id="a closure"),
        pytest.param(Report().send, "a method of a Report that is not a global of a module", id="a method"),
        pytest.param(Report(), "a Report that is not a global of a module", id="an object"),
        pytest.param(
            partial(anything, datetime(2026, 3, 2, tzinfo=UTC)),
            "its argument 1 has the type 'datetime'",
            id="a partial",
        ),
        pytest.param(partial(anything, value=("a", "b")), "its argument value has the type 'tuple'", id="a tuple"),
    ],
)
def test_what_the_next_start_could_not_find_is_refused_with_what_to_do(sqlite, call, reason):
    scheduler = Scheduler(store=sqlite)
    with pytest.raises(DefinitionError) as refused:
        scheduler.add(call, name="job")
    assert reason in str(refused.value)
    todo = "Bind only such values" if isinstance(call, partial) else "'module:function'"
    assert todo in str(refused.value)
    assert "persist=False" in str(refused.value)
    assert scheduler.add(call, name="job", persist=False) == "job"
    assert Scheduler().add(call, name="job") == "job"


def test_a_job_that_is_not_stored_ends_with_its_program(sqlite):
    with Scheduler(store=sqlite) as first:
        first.add(local_function(), name="quick", persist=False)
        assert triggered(first, "quick").is_success
    with Scheduler(store=sqlite) as second:
        assert "quick" not in second.jobs
    assert CALLS == ["closure"]


def test_a_name_that_leads_nowhere_is_an_error(sqlite):
    scheduler = Scheduler(store=sqlite)
    for name, reason in {
        "reports": "is not 'module:function'",
        f"{__name__}:absent": "has no 'absent'",
        "no_such_module:send": "cannot be imported",
        f"{__name__}:LIMIT_SECONDS": "cannot be called",
    }.items():
        with pytest.raises(InvalidArgument, match=reason):
            scheduler.add(name)


def test_partials_and_methods_of_global_objects_run_in_processes_of_their_own(sqlite):
    with Scheduler(store=sqlite) as scheduler:
        scheduler.add(partial(send, "us"), name="partial", isolation="process")
        scheduler.add(REPORT.send, name="method", isolation="process")
        assert [triggered(scheduler, job).detail for job in ("partial", "method")] == ["us", "eu"]
    assert not CALLS  # it was another process


# --- folders


def test_from_folder_reads_the_files_at_once(tmp_path):
    (tmp_path / "report.yaml").write_text("schedule: '0 9 * * *'\ncommand: 'true'\n")
    scheduler = Scheduler.from_folder(tmp_path, node="own")
    assert list(scheduler.jobs) == ["report"]
    assert scheduler.next_run_time("report") is not None
    (tmp_path / "bad.yaml").write_text("schedule: nonsense\ncommand: 'true'\n")
    with pytest.raises(DefinitionError, match=r"bad\.yaml:1"):
        Scheduler.from_folder(tmp_path)
    with pytest.raises(NotFound, match="does not exist"):
        Scheduler.from_folder(tmp_path / "nowhere")
