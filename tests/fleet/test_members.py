"""Whether members run attempts, show their output, end them on request, and can be administered."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from evertick.cli.doctor_checks.scheduler import check_fleet
from evertick.dispatch.notify.announcer import is_missing_member
from evertick.errors import SettingsError
from evertick.executors.fleet.executor import FleetExecutor
from evertick.executors.fleet.settings import Certificates, fleet_at
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED
from evertick.model.report import AttemptQuestion, LaunchRefused, RunFinished, RunStarted, RunUnknown
from evertick.model.routing import Routing
from evertick.model.work import Secret
from evertick.settings import Settings
from evertick.settings.parts import FleetSettings
from tests.cli.invoke import completed
from tests.executors.local_runs import job_of, launch, sh
from tests.fleet.local_fleet import ROOT, Heard, LocalFleet, Process, end_family, wait_for
from tests.ports import free_port

pytestmark = pytest.mark.slow

NUMBERS = count()


@pytest.fixture
def executor(crowd, reports):
    opened = crowd.open(reports, "ex-a", "ex-b", "ex-c")
    yield opened
    opened.close()


def given(command: str, placed: str, **known):
    """An attempt of a run that no other test has."""
    job = job_of(sh(command), id=f"job-{next(NUMBERS)}", **known)
    return launch(job)._replace(executor=placed)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return completed("fleet", *words, EVERTICK_FLEET_LEASE="5m")  # as long as that of the members here


def test_an_attempt_runs_where_it_was_put_and_its_log_is_here(crowd, executor, reports):
    order = given("echo hello from $EVERTICK_RUN_ID", "fleet:ex-b")
    executor.launch(order)
    assert reports.end_of(order.key).state is SUCCEEDED
    assert crowd.log_of(order.key) == f"hello from {order.key.run_id}\n".encode()
    assert (crowd.folder / "ex-b" / "logs" / order.key.job_id).is_dir()
    assert not (crowd.folder / "ex-a" / "logs" / order.key.job_id).exists()


def test_a_run_receives_the_name_of_its_member(crowd, executor, reports):
    order = given('echo "$EVERTICK_RUN_MEMBER $EVERTICK_RUN_MEMBER_LABELS"', "fleet:ex-a")
    executor.launch(order)
    assert reports.end_of(order.key).state is SUCCEEDED
    assert crowd.log_of(order.key) == b'ex-a {"disk": "ssd"}\n'


def test_a_member_gives_no_room_twice_to_two_schedulers(crowd, executor, reports):
    needing = Routing("fleet", resources=(("licenses", 1_000),))
    other_reports = Heard()
    other = crowd.open(other_reports, "ex-a", node="resources")
    orders = (given("sleep 1000", "fleet:ex-a") for _ in range(2))
    first, second = (order._replace(job=replace(order.job, routing=needing)) for order in orders)
    executor.launch(first)
    reports.wait_until(lambda said: any(isinstance(one, RunStarted) for one in said))
    wait_for(lambda: next(one for one in other.members() if one.name == "ex-a").used, "the room to be known as taken")
    assert dict(next(one for one in other.members() if one.name == "ex-a").offers)["cpu"] == 2_000
    other.launch(second)
    refused = LaunchRefused(second.key, 1, "the member has no room for licenses=1", second.fence)
    other_reports.wait_until(lambda said: refused in said)
    # Said again to the member that has it: it is not refused for the room that it takes itself.
    executor.launch(first)
    executor.stop(first.key, 1, "enough")
    assert reports.end_of(first.key).state is CANCELLED
    wait_for(lambda: not next(one for one in other.members() if one.name == "ex-a").used, "the room to be free")
    other.launch(second)
    other_reports.wait_until(lambda said: any(isinstance(one, RunStarted) and one.key == second.key for one in said))
    other.stop(second.key, 1, "enough")
    assert other_reports.end_of(second.key).state is CANCELLED
    other.close()


def test_a_log_grows_here_while_the_attempt_runs(crowd, executor, reports):
    order = given("echo one; sleep 1000", "fleet:ex-a")
    executor.launch(order)
    wait_for(lambda: crowd.logs().read_log(order.key, 1, "main").data == b"one\n", "the first line")
    executor.stop(order.key, 1, "enough")
    assert reports.end_of(order.key).state is CANCELLED
    assert crowd.log_of(order.key).startswith(b"one\n")


def test_a_long_log_comes_whole(crowd, executor, reports):
    order = given("seq 1 200000", "fleet:ex-c")
    executor.launch(order)
    reports.end_of(order.key)
    data, offset = b"", 0
    wait_for(lambda: any(log.is_complete for log in crowd.logs().list_logs(order.key)), "the whole log")
    while chunk := crowd.logs().read_log(order.key, 1, "main", offset).data:
        data, offset = data + chunk, offset + len(chunk)
    assert data.splitlines()[-1] == b"200000"
    assert len(data.splitlines()) == 200_000


def test_a_secret_of_the_scheduler_reaches_the_member_and_is_masked(crowd, reports):
    from evertick.executors.fleet.executor import FleetExecutor

    executor = FleetExecutor(crowd.folder / "secretive", fleet_at(crowd.url, None), environ={"TOKEN": "pssst-12345"})
    executor.open(reports)
    crowd.wait_until_ready(executor, "ex-a")
    order = given("test $MINE = pssst-12345 && echo it is $MINE", "fleet:ex-a", env=(("MINE", Secret("env", "TOKEN")),))
    executor.launch(order)
    assert reports.end_of(order.key).state is SUCCEEDED
    assert b"pssst" not in crowd.log_of(order.key, node="secretive")
    executor.close()


def test_stopping_ends_the_whole_family(executor, reports, tmp_path):
    pid_file = tmp_path / "pid"
    order = given(f"sleep 1000 & echo $! > {pid_file}; wait", "fleet:ex-b")
    executor.launch(order)
    pid = int(wait_for(lambda: pid_file.exists() and pid_file.read_text().strip(), "the child's number"))
    executor.stop(order.key, 1, "replaced")
    assert (reports.end_of(order.key).state, reports.end_of(order.key).detail) == (CANCELLED, "replaced")
    from evertick.executors.keeper.procfs import is_alive

    wait_for(lambda: not is_alive(pid), "the child to end")


def test_a_launch_on_a_member_that_is_not_there_is_refused(executor, reports):
    order = given("true", "fleet:ex-z")
    executor.launch(order)
    (refusal,) = reports.wait_until(lambda said: len(said) == 1)
    assert refusal == LaunchRefused(order.key, 1, "the member ex-z is not connected", order.fence)


class TestBroadcast:
    def test_every_member_has_its_shard_and_the_run_ends_when_all_have(self, crowd, executor, reports):
        order = given("echo $EVERTICK_RUN_SHARD_INDEX/$EVERTICK_RUN_SHARD_TOTAL", "fleet:*ex-a,ex-b,ex-c")
        executor.launch(order)
        assert reports.end_of(order.key).state is SUCCEEDED
        assert reports.end_of(order.key).executor == "fleet:*ex-a+,ex-b+,ex-c+"
        logs = [crowd.log_of(order.key, f"main [{number} of 3]") for number in range(3)]
        assert logs == [b"0/3\n", b"1/3\n", b"2/3\n"]
        assert [type(one) for one in reports] == [RunStarted, RunFinished]

    def test_a_shard_that_fails_fails_the_run_and_only_it_is_retried(self, executor, reports):
        order = given("test $EVERTICK_RUN_SHARD_INDEX != 1 -o $EVERTICK_RUN_ATTEMPT = 2", "fleet:*ex-a,ex-b,ex-c")
        executor.launch(order)
        end = reports.end_of(order.key)
        assert (end.state, end.exit_code, end.executor) == (FAILED, 1, "fleet:*ex-a+,ex-b,ex-c+")
        assert end.detail == "1 of 3 shards did not succeed: 1 on ex-b: exit code 1"
        reports.clear()
        executor.launch(order._replace(attempt=2, fence=order.fence + 1, executor=end.executor))
        assert reports.end_of(order.key).state is SUCCEEDED

    def test_two_shards_may_share_a_member(self, crowd, executor, reports):
        order = given("echo $EVERTICK_RUN_SHARD_INDEX", "fleet:*ex-a+,ex-c,ex-c")
        executor.launch(order)
        assert reports.end_of(order.key).state is SUCCEEDED
        assert [crowd.log_of(order.key, f"main [{number} of 3]") for number in (1, 2)] == [b"1\n", b"2\n"]

    def test_stopping_it_ends_every_shard(self, executor, reports):
        order = given("sleep 1000", "fleet:*ex-a,ex-b,ex-c")
        executor.launch(order)
        reports.wait_until(lambda said: any(isinstance(one, RunStarted) for one in said))
        executor.stop(order.key, 1, "enough")
        assert reports.end_of(order.key).state is CANCELLED

    def test_another_scheduler_continues_it(self, crowd, reports):
        first = crowd.open(reports, "ex-a", "ex-b", "ex-c", node="first")
        order = given("sleep 1.5", "fleet:*ex-a,ex-b,ex-c")
        first.launch(order)
        reports.wait_until(lambda said: any(isinstance(one, RunStarted) for one in said))
        first.close()
        heard = Heard()
        second = crowd.open(heard, "ex-a", "ex-b", "ex-c", node="second")
        second.reconcile_placed([AttemptQuestion(order.key, 1, order.executor)])
        assert heard.end_of(order.key).state is SUCCEEDED
        second.close()


def test_a_member_that_reported_a_run_as_unknown_refuses_a_late_launch_of_the_former_owner(crowd, reports, tmp_path):
    former, heard = crowd.open(reports, "ex-a", node="former"), Heard()
    owner = crowd.open(heard, "ex-a", node="owner")
    late = given(f"touch {tmp_path}/ran", "fleet:ex-a")
    owner.reconcile_placed([AttemptQuestion(late.key, 1, "fleet:ex-a", late.fence + 1)])
    heard.wait_until(lambda said: RunUnknown(late.key, 1) in said)
    former.launch(late)
    (refusal,) = reports.wait_until(lambda said: len(said) == 1)
    assert isinstance(refusal, LaunchRefused)
    assert f"fence {late.fence} is older than {late.fence + 1}" in refusal.detail
    owner.launch(late._replace(fence=late.fence + 1))
    assert heard.end_of(late.key).state is SUCCEEDED
    former.close()
    owner.close()


def test_two_schedulers_receive_reports_only_of_their_own_runs(crowd, executor, reports):
    heard = Heard()
    other = crowd.open(heard, "ex-a", node="other")
    mine, theirs = given("true", "fleet:ex-a"), given("true", "fleet:ex-a")
    executor.launch(mine)
    other.launch(theirs)
    assert (reports.end_of(mine.key).state, heard.end_of(theirs.key).state) == (SUCCEEDED, SUCCEEDED)
    ends = [[one.key for one in said if isinstance(one, RunFinished)] for said in (reports, heard)]
    assert ends == [[mine.key], [theirs.key]]
    other.close()


def test_members_are_listed_with_what_people_want_to_know(crowd):

    def listed():
        told = json.loads(command("list", crowd.url, "-o", "json").stdout)
        # What the tests before had left there is being ended.
        return None if any(row["running"] for row in told) else {row["name"]: row for row in told}

    rows = wait_for(listed, "members with nothing to do")
    assert sorted(rows) == ["ex-a", "ex-b", "ex-c"]
    assert rows["ex-a"]["labels"] == {"disk": "ssd"}
    assert (rows["ex-b"]["state"], rows["ex-b"]["running"]) == ("ready", 0)
    assert rows["ex-b"]["version"]
    assert "disk=ssd" in command("list", crowd.url).stdout


def test_a_member_that_is_away_stays_in_the_list_and_one_that_was_removed_does_not(local_fleet, reports, tmp_path):
    away = local_fleet.join("ex-a", "--label", "zone=eu", "--cpu", "1")
    local_fleet.join("ex-b", "--cpu", "1")
    local_fleet.wait_for_all()
    away.kill()
    end_family(local_fleet.keeper_of("ex-a"))

    def listed():
        told = {row["name"]: row for row in json.loads(command("list", local_fleet.url, "-o", "json").stdout)}
        return told if told["ex-a"]["state"] == "away" else None

    rows = wait_for(listed, "ex-a to be seen as away")
    assert (rows["ex-a"]["labels"], rows["ex-b"]["state"]) == ({"zone": "eu"}, "ready")
    assert rows["ex-a"]["seen_at"]
    assert " ago" in command("list", local_fleet.url).stdout

    # A scheduler that comes later is told of it too, and misses whom it expects.
    settings = FleetSettings(local_fleet.url, lease_us=SECOND, silence_us=SECOND, expected=("ex-b", "ex-z"))
    executor = FleetExecutor(tmp_path / "late", settings)
    executor.open(reports)
    wait_for(lambda: any(is_missing_member(one) for one in executor.members()), "ex-z to be missed")
    known = {one.name: one for one in executor.members()}
    assert {name: (one.is_healthy, one.is_expected) for name, one in known.items()} == {
        "ex-a": (False, False),
        "ex-b": (True, True),
        "ex-z": (False, True),
    }
    assert known["ex-a"].seen_at > 0
    executor.close()

    jobs = {
        name: replace(job_of(sh("true"), id=name), routing=Routing("fleet", resources=resources))
        for name, resources in (("small", (("cpu", 1_000),)), ("large", (("cpu", 4_000),)))
    }
    told = Settings.load(None, {}, {"fleet.url": local_fleet.url, "fleet.expected": "ex-b, ex-z", "fleet.lease": "5m"})
    assert list(check_fleet(told, jobs)) == [
        ("fail", "missing members: ex-z", "start them: evertick fleet join; or change fleet.expected"),
        (
            "warn",
            "no member can run large: of 3 members: none offers cpu=4 (the maximum is 1)",
            "change the job, or add a member that meets it",
        ),
    ]
    assert command("remove", local_fleet.url, "ex-b").returncode == 0
    assert list(listed()) == ["ex-a"]


def test_a_member_that_does_not_come_back_is_forgotten_and_its_name_is_free(local_fleet, reports):
    away = local_fleet.join("ex-a")
    local_fleet.join("ex-b")
    local_fleet.wait_for_all()
    executor = local_fleet.open(reports, "ex-a", "ex-b")
    said = command("forget", local_fleet.url, "ex-b")
    assert (said.returncode, "ex-b is connected" in said.stderr) == (6, True)
    said = command("forget", local_fleet.url, "ex-z")
    assert (said.returncode, "unknown member 'ex-z'" in said.stderr) == (3, True)
    away.kill()
    end_family(local_fleet.keeper_of("ex-a"))
    wait_for(lambda: not executor.members()[0].is_healthy, "the scheduler to miss it")
    said = command("cordon", local_fleet.url, "ex-a")
    assert (said.returncode, "Next: forget it, if it will not return" in said.stderr) == (6, True)
    assert command("forget", local_fleet.url, "ex-a", "-o", "name").stdout == "ex-a\n"
    assert [row["name"] for row in json.loads(command("list", local_fleet.url, "-o", "json").stdout)] == ["ex-b"]
    wait_for(lambda: [one.name for one in executor.members()] == ["ex-b"], "the scheduler to hear of it")
    # Another machine may have the name now.
    local_fleet.join("ex-a", "--folder", str(local_fleet.folder / "another"))
    local_fleet.wait_until_ready(executor, "ex-a", "ex-b")


def test_a_member_whose_lease_is_too_long_shows_why_it_receives_no_runs(local_fleet):
    local_fleet.join("ex-a", lease_us=120 * SECOND)
    local_fleet.wait_for_all()
    line = [sys.executable, "-m", "evertick", "fleet", "list", local_fleet.url, "-o", "json"]
    said = subprocess.run(line, cwd=local_fleet.folder, capture_output=True, text=True, check=True, timeout=180)
    (row,) = json.loads(said.stdout)
    assert (row["state"], row["lease_seconds"]) == ("lease-too-long", 120)
    assert "its lease (120s) is longer than fleet.lease" in said.stderr
    assert list(check_fleet(Settings.load(None, {}, {"fleet.url": local_fleet.url}), {}))[1] == (
        "fail",
        "ex-a receives no runs: its lease (2m) is longer than fleet.lease (1m)",
        "restart it with --lease 60, or set fleet.lease to 2m",
    )


def test_a_cordoned_member_takes_nothing_until_it_is_uncordoned(local_fleet, reports):
    member = local_fleet.join("ex-a")
    executor = local_fleet.open(reports, "ex-a")
    assert json.loads(command("cordon", local_fleet.url, "ex-a", "-o", "json").stdout)[0]["state"] == "cordoned"
    wait_for(lambda: not executor.members()[0].is_open, "the scheduler to know")
    order = given("true", "fleet:ex-a")
    executor.launch(order)
    assert reports.wait_until(lambda said: len(said) == 1) == [
        LaunchRefused(order.key, 1, "the member is cordoned", order.fence)
    ]
    # It is still cordoned when it was started again.
    member.stop()
    local_fleet.join("ex-a")
    wait_for(lambda: executor.members()[0].is_healthy and not executor.members()[0].is_open, "it to be back")
    command("uncordon", local_fleet.url, "ex-a")
    wait_for(lambda: executor.members()[0].is_open, "the scheduler to know")
    executor.launch(order)
    assert reports.end_of(order.key).state is SUCCEEDED


def test_draining_waits_for_what_runs_and_a_drained_member_can_be_removed(local_fleet, reports):
    member = local_fleet.join("ex-a")
    executor = local_fleet.open(reports, "ex-a")
    go = local_fleet.folder / "go"
    order = given(f"until test -e {go}; do sleep 0.05; done", "fleet:ex-a")
    executor.launch(order)
    reports.wait_until(lambda said: bool(said))
    wait_for(lambda: executor.members()[0].running == 1, "the member to count it")
    assert command("remove", local_fleet.url, "ex-a").returncode == 6
    words = [sys.executable, "-m", "evertick", "fleet", "drain", local_fleet.url, "ex-a", "-o", "name"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as draining:
        wait_for(lambda: not executor.members()[0].is_open, "it to take nothing more")
        go.touch()
        assert reports.end_of(order.key).state is SUCCEEDED
        assert draining.communicate(timeout=180)[0] == "ex-a\n"
    assert command("remove", local_fleet.url, "ex-a").stdout == "ex-a\n"
    assert local_fleet.members.pop("ex-a") is member
    assert member.wait() == 0


def test_an_unknown_member_cannot_be_cordoned(crowd):
    said = command("cordon", crowd.url, "ex-z")
    assert (said.returncode, "Members: ex-a, ex-b, ex-c" in said.stderr) == (3, True)


def test_an_unreachable_fleet_is_reported():
    said = command("list", "tcp://127.0.0.1:1")
    assert (said.returncode, "cannot be reached" in said.stderr) == (5, True)


def test_a_second_member_of_one_name_is_refused_with_the_reason(crowd, tmp_path):
    other = LocalFleet(tmp_path)
    second = other.join("ex-a", url=crowd.url)
    try:
        log = tmp_path / "ex-a.log"
        wait_for(lambda: "ex-a: cannot join: the name belongs to another member" in log.read_text(), "its complaint")
        assert "Traceback" not in log.read_text()
    finally:
        assert second.stop() == 0
        other.close()


def test_a_member_that_finds_no_fleet_says_why_and_can_be_stopped(tmp_path):
    lonely = LocalFleet(tmp_path)
    member = lonely.join("ex-a", url="tcp://127.0.0.1:1")
    try:
        log = tmp_path / "ex-a.log"
        wait_for(
            lambda: "ex-a: waits: the fleet at tcp://127.0.0.1:1 cannot be reached" in log.read_text(), "its words"
        )
        assert member.stop() == 0
        assert "Traceback" not in log.read_text()
    finally:
        lonely.close()


def test_a_fleet_on_a_port_in_use_says_so(crowd, tmp_path):
    words = ("fleet", "start", "--insecure", "--url", crowd.url, "--folder", str(tmp_path / "hub"))
    second = Process(*words, log=tmp_path / "second.log")
    try:
        log = tmp_path / "second.log"
        wait_for(lambda: "hub: cannot start: its address is in use" in log.read_text(), "its complaint")
        assert "Traceback" not in log.read_text()
    finally:
        assert second.stop() == 0


class Stranger:
    """Something that listens where a fleet was looked for, and answers everybody in its own words."""

    def __init__(self, words: bytes) -> None:
        self._words = words
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"
        self.visits = 0
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        visitors = []
        while True:
            try:
                visitors.append(self._server.accept()[0])
            except OSError:
                break
            self.visits += 1
            visitors[-1].sendall(self._words)
        for visitor in visitors:
            visitor.close()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()


@pytest.fixture(
    params=[
        pytest.param(b"HTTP/1.1 502 Bad Gateway\r\n\r\n", id="a proxy"),
        pytest.param(b"\0" * 4_096, id="zeros"),
        pytest.param((64).to_bytes(8, "little") + b"\xff" * 64, id="a frame that holds nonsense"),
    ]
)
def stranger(request):
    found = Stranger(request.param)
    yield found
    found.close()


def test_another_server_is_not_taken_for_a_fleet(stranger):
    said = command("list", stranger.url)
    assert (said.returncode, said.stderr.count("\n")) == (5, 1)
    assert "it is not the hub of a fleet" in said.stderr


def test_a_fleet_is_looked_for_again_where_something_else_answers(stranger, tmp_path):
    executor = FleetExecutor(tmp_path, fleet_at(stranger.url, None))
    executor.open(Heard())
    try:
        wait_for(lambda: stranger.visits >= 3, "it to come again")
    finally:
        executor.close()


def test_a_foreign_cluster_is_not_taken_for_a_fleet():
    port = free_port()
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*dask, "--dashboard-address", "127.0.0.1:0"], **quiet) as scheduler:
        try:
            wait_for(
                lambda: "but not the hub of a fleet" in command("list", f"tcp://127.0.0.1:{port}").stderr, "its answer"
            )
        finally:
            scheduler.kill()


@pytest.mark.parametrize(
    ("url", "has_certificates", "reason"),
    [
        pytest.param("tcp://10.0.0.1:8786", False, "everyone could run programs there", id="plain to another machine"),
        pytest.param("tcp://fleet.example:8786", False, "everyone could run", id="plain to a name"),
        pytest.param("tls://10.0.0.1:8786", False, "needs certificates", id="without certificates"),
        pytest.param("tcp://127.0.0.1:8786", True, "uses no certificates", id="certificates for nothing"),
        pytest.param("http://127.0.0.1", False, "is not the address of a fleet", id="another protocol"),
        pytest.param("tcp://", False, "is not the address of a fleet", id="no host"),
    ],
)
def test_an_address_that_is_not_safe_is_refused(url, has_certificates, reason):
    with pytest.raises(SettingsError, match=reason):
        fleet_at(url, Certificates("ca", "cert", "key") if has_certificates else None)


def test_nonsense_from_a_stranger_does_not_disturb_the_hub(crowd, executor, reports):
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 64, b"\xff" * 1_000):
        with socket.create_connection(("127.0.0.1", crowd.port)) as sock:
            sock.sendall(garbage)
    order = given("true", "fleet:ex-a")
    executor.launch(order)
    assert reports.end_of(order.key).state is SUCCEEDED


def test_the_workers_of_a_cluster_that_is_there_already_become_members(tmp_path, reports):
    port = free_port()
    preload = ("--preload", "evertick.executors.fleet.preload")
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--host", "127.0.0.1"]
    env = {**os.environ, "EVERTICK_LABELS": "zone=eu", "EVERTICK_FOLDER": str(tmp_path / "ex-d")}
    here = LocalFleet(tmp_path)
    here.url = f"tcp://127.0.0.1:{port}"
    nothing = ("--dashboard-address", "127.0.0.1:0")
    with (
        subprocess.Popen([*dask, *preload, *nothing], **quiet) as first,
        subprocess.Popen([*worker, "--name", "ex-d", "--no-nanny", *preload, *nothing], env=env, **quiet) as second,
    ):
        try:
            executor = here.open(reports, "ex-d")
            assert executor.members()[0].labels == (("zone", "eu"),)
            order = given("echo hello", "fleet:ex-d")
            executor.launch(order)
            assert reports.end_of(order.key).state is SUCCEEDED
        finally:
            here.close()
            for process in (second, first):
                process.kill()
