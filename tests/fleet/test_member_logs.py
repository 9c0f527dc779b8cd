"""Can a log that only a member has be read, and does the answer say so when that member is away?"""

from __future__ import annotations

import json
import shutil
import threading
import urllib.error
from functools import partial
from urllib.parse import quote

import pytest

from evertick.errors import MemberUnavailable, MemberUnavailableReason
from evertick.executors.fleet import messages
from evertick.executors.fleet.member_logs import MemberLogs, answer_about_logs
from evertick.executors.fleet.settings import LEASE_US, fleet_at
from evertick.executors.logs import Logs
from evertick.executors.paths import file_name, run_folder
from evertick.model.lifecycle import LOST, RUNNING, SUCCEEDED, Trigger
from evertick.model.run import LedgerRow, RunKey
from evertick.model.steps import StepRecord, steps_text
from evertick.operations.log_files import LogFile, LogUnavailable, PlaceKind
from evertick.operations.run_logs import RunLogs
from tests.cli.invoke import completed
from tests.executors.contract import NINE
from tests.fleet.cable import Cable
from tests.fleet.local_fleet import LocalFleet, wait_for
from tests.fleet.test_faults import Trace, _listens, started
from tests.web.web_server import WebServer

KEY = RunKey("report", NINE)


def write_log(folder, key, text, step="main", attempt=1, suffix=".log"):
    place = folder.joinpath("logs", *run_folder(key), str(attempt))
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{file_name(step)}{suffix}").write_bytes(text)


def row(executor="fleet:ex-a", state=SUCCEEDED, logged=("main",), key=KEY):
    steps = steps_text(StepRecord(name, "succeeded", has_log=True) for name in logged)
    return LedgerRow(key, state, Trigger.SCHEDULER, NINE, "a1", attempt=1, executor=executor, steps=steps)


class Members:
    """Members played by folders; one that is not named is away."""

    def __init__(self, **folders) -> None:
        self._folders = folders
        self.asked = 0

    def list_logs(self, member, key, attempt):
        self.asked += 1
        return [file for file in self._logs(member).list_logs(key) if file.attempt == attempt]

    def read_log(self, member, key, attempt, step, offset, limit):
        return self._logs(member).read_log(key, attempt, step, offset, limit)

    def shard_key(self, key, number, total):
        return key._replace(origin=f"{key.origin}^{number}.{total}")

    def _logs(self, member):
        if member not in self._folders:
            raise MemberUnavailable(member, MemberUnavailableReason.AWAY, seen_at=NINE)
        return Logs(self._folders[member])


class TestWhichCopyIsShown:
    @pytest.fixture
    def here(self, tmp_path):
        return tmp_path / "here"

    @pytest.fixture
    def there(self, tmp_path):
        return tmp_path / "there"

    def logs(self, here, **members):
        self.members = Members(**members)
        return RunLogs(Logs(here), "a1", members=self.members)

    def test_a_copy_that_is_whole_needs_no_member(self, here, there):
        write_log(here, KEY, b"all")
        assert self.logs(here, **{"ex-a": there}).read(row(), 1, "main", 0, 100) == (b"all", 3, True)
        assert self.members.asked == 0

    def test_a_step_without_output_needs_no_member(self, here):
        steps = steps_text([StepRecord("main", "succeeded")])
        assert self.logs(here).find(row()._replace(steps=steps)) == ((), ())
        (absent,) = self.logs(here).find(row(logged=())).absent
        assert absent.cause == "away", "nothing is known of its steps"

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            pytest.param(None, b"", id="no copy"),
            pytest.param("main.log.part", b"begin", id="a copy that was cut"),
            pytest.param("other.log", b"another step's", id="the copy of another step"),
        ],
    )
    def test_missing_log_parts_come_from_the_member(self, here, there, name, text):
        if name:
            step, _, suffix = name.partition(".")
            write_log(here, KEY, text, step, suffix=f".{suffix}")
        write_log(there, KEY, b"begin and end")
        write_log(there, KEY, b"another step's", "other")
        logs = self.logs(here, **{"ex-a": there})
        both = row(logged=("main", "other"))
        assert logs.read(both, 1, "main", 6, 100) == (b"and end", 13, True)
        assert {file.step for file in logs.find(both).files} == {"main", "other"}
        assert logs.find(both).absent == ()

    def test_a_lost_attempt_may_have_printed_more_than_was_copied(self, here, there):
        write_log(here, KEY, b"first", "first")
        write_log(there, KEY, b"first", "first")
        write_log(there, KEY, b"second", "second")
        found = self.logs(here, **{"ex-a": there}).find(row(state=LOST, logged=("first",)))
        assert [(file.step, file.member) for file in found.files] == [("first", ""), ("second", "ex-a")]

    def test_a_copy_that_grows_is_followed_here(self, here, there):
        write_log(here, KEY, b"so far", suffix=".log.part")
        assert self.logs(here, **{"ex-a": there}).read(row(state=RUNNING), 1, "main", 0, 100)[0] == b"so far"
        assert self.members.asked == 0

    def test_the_answer_names_since_when_a_member_is_away(self, here):
        logs = self.logs(here)
        (absent,) = logs.find(row()).absent
        assert absent[:3] == (1, PlaceKind.MEMBER, "ex-a")
        assert (absent.cause, absent.seen_at, absent.is_partial) == ("away", NINE, False)
        assert absent.sentence == (
            "The log of attempt 1 is on member ex-a, which is unreachable: "
            "the member ex-a is away (last seen 2026-03-02T09:00:00Z)."
        )
        with pytest.raises(LogUnavailable) as caught:
            logs.read(row(), 1, "main", 0, 100)
        assert caught.value.absent == absent

    def test_a_part_that_is_here_is_shown_and_marked_as_a_part(self, here):
        write_log(here, KEY, b"begin", suffix=".log.part")
        found = self.logs(here).find(row())
        assert found.files == (LogFile(1, "main", 5, False),)
        assert found.absent[0].sentence.startswith("A part of the log of attempt 1 is on member ex-a")

    @pytest.mark.parametrize("executor", ["fleet:ex-a", "local@a1"])
    def test_a_log_that_is_not_kept_is_not_shown_as_empty(self, here, there, executor):
        (absent,) = self.logs(here, **{"ex-a": there}).find(row(executor)).absent
        assert absent.cause == "not-kept"
        assert absent.sentence.startswith("The log of attempt 1 is no longer available: ")

    def test_each_part_of_a_broadcasts_log_comes_from_its_member(self, here, tmp_path):
        whole = row("fleet:*ex-a+,ex-b+", logged=())
        write_log(here, KEY, b"zero", "main [0 of 2]")
        write_log(tmp_path / "b", KEY._replace(origin="^1.2"), b"one")
        logs = self.logs(here, **{"ex-a": tmp_path / "a", "ex-b": tmp_path / "b"})
        assert [file.step for file in logs.find(whole).files] == ["main [0 of 2]", "main [1 of 2]"]
        assert logs.read(whole, 1, "main [1 of 2]", 0, 100) == (b"one", 3, True)


class TestWhatAMemberAnswers:
    @pytest.mark.parametrize(
        "words",
        [
            pytest.param([messages.LIST_LOGS], id="about nothing"),
            pytest.param([messages.LIST_LOGS, *KEY, 1], id="to nobody"),
            pytest.param([messages.LIST_LOGS, *KEY, 1, "x" * 65], id="to a long name"),
            pytest.param([messages.LIST_LOGS, *KEY, "1", "me"], id="a text for a number"),
            pytest.param([messages.READ_LOG, *KEY, 1, "me", "main", -1, 10], id="before the beginning"),
            pytest.param([messages.READ_LOG, *KEY, 1, "me", "main"], id="of no size"),
        ],
    )
    def test_an_invalid_question_is_not_answered(self, tmp_path, words):
        write_log(tmp_path, KEY, b"text")
        with pytest.raises(ValueError, match=r"."):
            answer_about_logs(Logs(tmp_path), words)

    @pytest.mark.parametrize("step", ["../main", "nothing", 7, None])
    def test_only_logs_that_are_there_are_read(self, tmp_path, step):
        write_log(tmp_path, KEY, b"text")
        asker, line = answer_about_logs(Logs(tmp_path), [messages.READ_LOG, *KEY, 1, "me", step, 0, 10])
        assert (asker, json.loads(line)) == ("me", [messages.READ, "", True])


@pytest.mark.slow
def test_a_log_whose_copy_was_cut_off_is_read_from_its_member(local_fleet, reports, tmp_path):
    trace = Trace(tmp_path)
    wait_for(lambda: _listens(local_fleet.port), "the hub")
    cable = Cable(local_fleet.port)
    try:
        member = local_fleet.join("ex-a")
        executor = local_fleet.open(reports, "ex-a", url=cable.url)
        executor.launch(trace.order)
        trace.pid()
        started(reports)
        cable.cut()
        trace.let_go()
        wait_for(lambda: trace.times() == (1, 1), "it to end unheard")
        executor.close()  # that scheduler never comes back
        key, logs = (
            trace.key,
            RunLogs(local_fleet.logs(), "node", members=MemberLogs(lambda: fleet_at(local_fleet.url, None), 60)),
        )
        ended = row(key=key)
        kept = wait_for(
            lambda: Logs(local_fleet.folder / "ex-a").read_log(key, 1, "main").data, "the log of the member"
        )
        assert logs.read(ended, 1, "main", 0, 1 << 20)[:2] == (kept, len(kept))
        member.kill()

        def away():
            found = RunLogs(
                local_fleet.logs(), "node", members=MemberLogs(lambda: fleet_at(local_fleet.url, None), 60)
            ).find(ended)
            return found.absent and found.absent[0].cause == "away" and found.absent[0]

        absent = wait_for(away, "the hub to miss it")
        assert (absent.name, absent.kind) == ("ex-a", PlaceKind.MEMBER)
        assert absent.seen_at > NINE
    finally:
        cable.close()


@pytest.mark.slow
def test_only_the_asker_receives_the_answer_and_older_hubs_or_members_are_not_waited_for(local_fleet):
    local_fleet.join("ex-a")
    local_fleet.wait_for_all()
    settings = fleet_at(local_fleet.url, None)
    logs = MemberLogs(lambda: settings, 60)
    heard: list[bool] = []
    threads = [threading.Thread(target=lambda: heard.append(not logs.list_logs("ex-a", KEY, 1))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == [True] * 12
    with pytest.raises(MemberUnavailable) as caught:
        logs.list_logs("ex-z", KEY, 1)
    assert (caught.value.reason, caught.value.seen_at) == (MemberUnavailableReason.UNKNOWN, None)
    local_fleet.scheduler.kill()
    with pytest.raises(MemberUnavailable) as caught:
        MemberLogs(lambda: settings).list_logs("ex-a", KEY, 1)
    assert caught.value.reason is MemberUnavailableReason.FLEET_UNREACHABLE
    local_fleet.start()


@pytest.mark.slow
def test_commands_and_the_api_show_what_only_a_member_has(tmp_path):
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "loud.yaml").write_text("runsOn: {zone: eu}\ncommand: seq 100000; echo the end\n")
    (jobs / "wide.yaml").write_text("routing: SHARDING_BROADCAST\ncommand: echo part $EVERTICK_RUN_SHARD_INDEX\n")
    local_fleet, web_server = LocalFleet(tmp_path, is_secure=True), WebServer(jobs)
    try:
        local_fleet.start()
        local_fleet.join("ex-a", "--label", "zone=eu", lease_us=LEASE_US)
        local_fleet.join("ex-b", lease_us=LEASE_US)
        web_server.start("--fleet", local_fleet.url, "--fleet-certs", str(local_fleet.scheduler_certs))
        fleet = lambda: [one for one in web_server.get("/executors")["items"] if one["executor"] == "fleet"]  # noqa: E731
        wait_for(lambda: (there := fleet()) and len(there[0]["members"]) == 2, "both members")
        runs = {job: web_server.post(f"/jobs/{job}/trigger?wait=60")["run"] for job in ("loud", "wide")}
        for run in runs.values():
            path = f"/runs/{quote(run, safe='')}"
            wait_for(partial(has_succeeded, web_server, path), run)
        paths = {job: f"/runs/{quote(run, safe='')}" for job, run in runs.items()}
        wait_for(lambda: web_server.get(paths["loud"])["logs"][0]["is_complete"], "the copy")
        wait_for(lambda: len(web_server.get(paths["wide"])["logs"]) == 2, "both copies")
        shutil.rmtree(jobs / ".evertick" / "logs")

        detail = web_server.get(paths["loud"])
        assert [(log["step"], log["size"], log["is_complete"]) for log in detail["logs"]] == [("main", 588903, True)]
        assert detail["absent_logs"] == []
        assert web_server.get(f"{paths['loud']}/logs/1/main?offset=588895")["text"] == "the end\n"
        assert web_server.get(f"{paths['loud']}/logs/1/main/search?text=the%20end")["total"] == 1
        said = evertick("logs", runs["loud"], "--folder", str(jobs))
        assert (said.returncode, said.stdout.splitlines()[-2:]) == (0, ["100000", "the end"])
        said = evertick("logs", runs["wide"], "--folder", str(jobs), "-o", "json")
        assert {one["step"]: one["text"] for one in json.loads(said.stdout)} == {
            "main [0 of 2]": "part 0\n",
            "main [1 of 2]": "part 1\n",
        }

        local_fleet.members["ex-a"].kill()
        # Until the hub has missed it, it is a member that does not answer.
        absent_logs = lambda: web_server.get(paths["loud"])["absent_logs"]  # noqa: E731
        wait_for(lambda: [one["cause"] for one in absent_logs()] == ["away"], "it to be missed")
        (absent,) = absent_logs()
        assert (absent["kind"], absent["name"], absent["cause"]) == ("member", "ex-a", "away")
        assert absent["last_seen_at"] > "2026"
        with pytest.raises(urllib.error.HTTPError) as caught:
            web_server.get(f"{paths['loud']}/logs/1/main")
        with caught.value as answer:
            problem = json.load(answer)
        assert (problem["status"], problem["absent_log"]["name"]) == (503, "ex-a")
        said = evertick("logs", runs["loud"], "--folder", str(jobs))
        assert (said.returncode, said.stdout) == (5, "")
        assert "the member ex-a is away (last seen 20" in said.stderr
        assert "Nothing was printed" not in said.stderr
        # What the member that is there has is shown, and what is missing is told beside it.
        # A member on a busy machine may take longer than a reader waits; it is asked again then.
        wait_for(lambda: shows_its_part(runs["wide"], jobs), "the part that ex-b has")
    finally:
        web_server.close()
        local_fleet.close()


def shows_its_part(run, jobs):
    said = evertick("logs", run, "--folder", str(jobs))
    if said.returncode == 5 and not said.stdout:
        return False
    assert (said.returncode, said.stdout) == (0, "part 1\n")
    assert "the member ex-a is away" in said.stderr
    return True


def evertick(*words):
    return completed(*words)


def has_succeeded(web_server: WebServer, path: str) -> bool:
    return bool(web_server.get(path)["state"] == "succeeded")
