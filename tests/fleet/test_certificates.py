"""Does a fleet admit exactly the holders of its own certificates?"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import threading

import psutil
import pytest

from evertick.errors import ExecutorUnavailable
from evertick.executors.fleet.authority import Authority
from evertick.executors.fleet.control import Control
from evertick.executors.fleet.identity import Role
from evertick.executors.fleet.settings import Certificates, fleet_at
from evertick.model.lifecycle import CANCELLED, SUCCEEDED
from tests.cli.invoke import completed
from tests.executors.local_runs import job_of, launch, sh
from tests.fleet.intruder import Intruder, call
from tests.fleet.local_fleet import LocalFleet, Process, wait_for
from tests.ports import free_port
from tests.present import present

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """A fleet as people start one: a hub and two members that have redeemed their tokens."""
    here = LocalFleet(tmp_path_factory.mktemp("secure"), is_secure=True)
    try:
        here.start()
        here.join("ex-a")
        here.join("ex-b")
        here.wait_for_all()
        yield here
    finally:
        here.close()


@pytest.fixture
def executor(secure, reports):
    opened = secure.open(reports, "ex-a", "ex-b")
    yield opened
    opened.close()


def command(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return completed("fleet", *words, **environ)


def given(text: str, member: str, number: int):
    return launch(job_of(sh(text), id=f"safe-{member}-{number}"))._replace(executor=f"fleet:{member}")


def certs_of(local_fleet: LocalFleet, member: str):
    return local_fleet.folder / member / "certs"


def test_a_fleet_is_encrypted_by_default(secure, executor, reports, tmp_path):
    order = given("echo safe", "ex-a", 1)
    executor.launch(order)
    assert reports.end_of(order.key).state is SUCCEEDED
    assert secure.log_of(order.key) == b"safe\n"
    asked = command("list", secure.url, "--certs", str(secure.scheduler_certs), "-o", "name")
    assert asked.stdout.split() == ["ex-a", "ex-b"]
    assert command("list", secure.url.replace("tls:", "tcp:")).returncode == 5
    strangers = Authority(tmp_path / "other")
    strangers.create()
    strangers.issue(tmp_path / "mallory", Role.SCHEDULER, "mallory")
    assert command("list", secure.url, "--certs", str(tmp_path / "mallory")).returncode == 5


def test_the_user_of_the_hub_need_not_name_its_certificates(secure, tmp_path):
    (tmp_path / ".evertick-fleet").symlink_to(secure.folder / "hub")
    assert command("list", secure.url, "-o", "name", HOME=str(tmp_path)).stdout.split() == ["ex-a", "ex-b"]


class TestMemberGoneBad:
    """Everything that the certificate of a member is not good for."""

    def test_a_bad_member_gives_no_orders(self, secure):
        asked = command("list", secure.url, "--certs", str(certs_of(secure, "ex-a")))
        assert (asked.returncode, "certificate belongs to the member ex-a" in asked.stderr) == (5, True)

    @pytest.mark.parametrize("name", ["ex-b", "ex-new"])
    def test_a_bad_member_comes_under_no_other_name(self, secure, name):
        intruder = Intruder(secure.url, name, certs_of(secure, "ex-a"))
        assert present(asyncio.run(intruder.register()))["status"] == "error"

    def test_a_bad_member_does_not_register_twice(self, secure):
        intruder = Intruder(secure.url, "ex-a", certs_of(secure, "ex-a"))
        assert present(asyncio.run(intruder.register()))["status"] == "error"

    def test_a_bad_member_does_not_reach_another_member(self, secure, executor):
        (address,) = [one.address for one in executor.members() if one.name == "ex-b"]
        assert asyncio.run(call(address, {"op": "identity"}, certs_of(secure, "ex-a"))) is None

    def test_a_bad_member_keeps_no_other_member_alive(self, secure, executor):
        (address,) = [one.address for one in executor.members() if one.name == "ex-b"]
        beat = {"op": "heartbeat_worker", "address": address}
        assert asyncio.run(call(secure.url, beat, certs_of(secure, "ex-a"))) == {"status": "missing"}

    def test_a_bad_member_cannot_take_the_place_of_the_hub(self, secure, tmp_path):
        with Squatter(certs_of(secure, "ex-a")) as squatter:
            settings = fleet_at(squatter.url, Certificates.in_folder(secure.scheduler_certs))
            with pytest.raises(ExecutorUnavailable, match="not the hub's"):
                asyncio.run(Control.open(settings))
            other = LocalFleet(tmp_path)
            words = ("fleet", "join", squatter.url, "--name", "ex-b", "--folder", str(tmp_path / "ex-b"))
            victim = Process(*words, "--certs", str(certs_of(secure, "ex-b")), log=tmp_path / "ex-b.log")
            try:
                wait_for(lambda: "not the hub" in (tmp_path / "ex-b.log").read_text(), "its refusal")
            finally:
                victim.kill()
                other.close()
            assert squatter.heard == b""


class Squatter:
    """Listens where a hub was, with the certificate of a member, and keeps what it is told."""

    def __init__(self, certs) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certs / "cert.pem", certs / "key.pem")
        self._context.load_verify_locations(certs / "ca.pem")
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"tls://127.0.0.1:{self._server.getsockname()[1]}"
        self.heard = b""
        self._thread = threading.Thread(target=self._answer, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()

    def _answer(self) -> None:
        while True:
            try:
                visitor, _ = self._server.accept()
            except OSError:
                return
            try:
                with visitor, self._context.wrap_socket(visitor, server_side=True) as secure:
                    self.heard += secure.recv(4_096)
            except OSError:
                continue


class TestTokens:
    def test_a_token_is_good_for_a_single_machine(self, secure, tmp_path):
        token = secure.token("--role", "scheduler")
        first = command("certs", "request", secure.url, str(tmp_path / "a"), "--name", "node-1", "--token", token)
        assert (first.returncode, first.stderr) == (0, "")
        listed = command("list", secure.url, "--certs", str(tmp_path / "a"), "-o", "name")
        assert listed.stdout.split() == ["ex-a", "ex-b"]
        again = command("certs", "request", secure.url, str(tmp_path / "b"), "--name", "node-2", "--token", token)
        assert (again.returncode, "already used by node-1" in again.stderr) == (6, True)
        assert not (tmp_path / "b").exists()

    def test_a_taken_name_is_not_given_away(self, secure, tmp_path):
        home = ("--folder", str(tmp_path / "second"))
        asked = command("join", secure.url, "--name", "ex-a", "--token", secure.token(), *home)
        assert (asked.returncode, "already has a certificate" in asked.stderr) == (6, True)

    def test_a_client_of_another_authority_receives_nothing(self, secure, tmp_path):
        port, secret, fingerprint = secure.token().split(".")
        forged = f"{port}.{secret}.{fingerprint[::-1]}"
        home = ("--folder", str(tmp_path / "second"))
        asked = command("join", secure.url, "--name", "ex-z", "--token", forged, *home)
        assert (asked.returncode, "is not the one that the token was created for" in asked.stderr) == (5, True)

    @pytest.mark.parametrize("garbage", [b"", b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n"])
    def test_a_client_that_sends_nonsense_blocks_no_other(self, secure, tmp_path, garbage):
        port = int(secure.token().split(".")[0])
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(garbage)
            target = str(tmp_path / "a")
            words = ("--name", f"node-{len(garbage)}", "--token", secure.token("--role", "scheduler"))
            assert command("certs", "request", secure.url, target, *words).returncode == 0


def test_a_revoked_member_is_shut_out_and_its_name_is_free(tmp_path, reports):
    local_fleet = LocalFleet(tmp_path, is_secure=True)
    try:
        local_fleet.start()
        member = local_fleet.join("ex-a")
        executor = local_fleet.open(reports, "ex-a")
        hub = ("--folder", str(tmp_path / "hub"))
        assert command("certs", "revoke", "ex-a", *hub).returncode == 0
        wait_for(lambda: not any(one.is_healthy for one in executor.members()), "it to be shut out")
        listed = command("certs", "list", *hub, "-o", "csv").stdout
        assert "ex-a,member,revoked" in listed
        member.stop()
        os.rename(tmp_path / "ex-a", tmp_path / "lost")
        local_fleet.join("ex-a")
        local_fleet.wait_until_ready(executor, "ex-a")
    finally:
        local_fleet.close()


def test_a_replaced_certificate_is_used_and_active_runs_continue(tmp_path, reports):
    local_fleet = LocalFleet(tmp_path, is_secure=True)
    try:
        local_fleet.start()
        member = local_fleet.join("ex-a")
        executor = local_fleet.open(reports, "ex-a")
        go = tmp_path / "go"
        order = given(f"until test -e {go}; do sleep 0.05; done", "ex-a", 2)
        executor.launch(order)
        reports.wait_until(bool)
        worker = member.child()
        before = (certs_of(local_fleet, "ex-a") / "cert.pem").read_bytes()
        done = command("certs", "rotate", str(certs_of(local_fleet, "ex-a")))
        assert (done.returncode, done.stderr) == (0, "")
        assert (certs_of(local_fleet, "ex-a") / "cert.pem").read_bytes() != before
        wait_for(lambda: member.child() != worker, "a worker with the new one")
        local_fleet.wait_until_ready(executor, "ex-a")
        go.touch()
        assert reports.end_of(order.key).state is SUCCEEDED
        assert "replaced" in command("certs", "list", "--folder", str(tmp_path / "hub")).stdout
    finally:
        local_fleet.close()


def test_a_name_stays_with_the_member_that_had_it_when_the_hub_is_started_again(local_fleet, reports, tmp_path):
    real = local_fleet.join("ex-a")
    executor = local_fleet.open(reports, "ex-a")
    order = given("sleep 1000", "ex-a", 3)
    executor.launch(order)
    reports.wait_until(bool)
    # The other one comes first, while the hub is away and the real one stands still.
    family = [real.pid, real.child()]
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    local_fleet.scheduler.kill()
    log = tmp_path / "impostor.log"
    words = ("fleet", "join", local_fleet.url, "--insecure", "--name", "ex-a", "--folder", str(tmp_path / "impostor"))
    impostor = Process(*words, log=log)
    try:
        local_fleet.start()
        wait_for(lambda: "the name belongs to another member" in log.read_text(), "its refusal")
        for pid in family:
            os.kill(pid, signal.SIGCONT)
        local_fleet.wait_until_ready(executor, "ex-a")
        executor.stop(order.key, 1, "enough")
        assert reports.end_of(order.key).state is CANCELLED
    finally:
        impostor.kill()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(("start", "--url", "tcp://127.0.0.1:1"), "is unencrypted", id="plain, not asked for"),
        pytest.param(("start", "--insecure", "--url", "tcp://0.0.0.0:1"), "not on this machine", id="plain, for all"),
        pytest.param(("start", "--insecure", "--url", "tls://127.0.0.1:1"), "Remove --insecure", id="both"),
        pytest.param(("join", "tcp://127.0.0.1:1", "--name", "a"), "is unencrypted", id="join, not asked for"),
        pytest.param(
            ("join", "tcp://127.0.0.1:1", "--name", "a", "--insecure", "--host", "0.0.0.0"),
            "needs certificates",
            id="a plain port for everyone",
        ),
        pytest.param(("join", "tcp://10.0.0.1:1", "--name", "a", "--insecure"), "not on this machine", id="plain, far"),
        pytest.param(("join", "tls://127.0.0.1:1", "--name", "a"), "evertick fleet token", id="without a token"),
        pytest.param(("list", "tls://127.0.0.1:1"), "needs certificates", id="a question without certificates"),
        pytest.param(("token",), "has no fleet", id="a token of no fleet"),
        pytest.param(("certs", "list"), "has no fleet", id="certificates of no fleet"),
    ],
)
def test_what_is_not_safe_is_refused(tmp_path, words, reason):
    done = command(*words, HOME=str(tmp_path))
    assert done.returncode in (2, 3), done
    assert reason in done.stderr


def test_ports_are_where_they_were_put_and_dask_shows_itself_only_when_asked(tmp_path, reports):
    local_fleet = LocalFleet(tmp_path)
    hub_http, member_http, worker_port = free_port(), free_port(), free_port()
    words = ("fleet", "start", "--insecure", "--url", local_fleet.url, "--folder", str(tmp_path / "hub"))
    local_fleet.scheduler = Process(*words, "--dask-http-port", str(hub_http), log=tmp_path / "hub.log")
    try:
        ports = ("--worker-port", str(worker_port), "--dask-http-port", str(member_http))
        member = local_fleet.join("ex-a", *ports)
        executor = local_fleet.open(reports, "ex-a")
        assert [one.address for one in executor.members()] == [f"tcp://127.0.0.1:{worker_port}"]
        assert listeners(member.child()) == {("127.0.0.1", worker_port), ("127.0.0.1", member_http)}
        assert listeners(local_fleet.scheduler.child()) == {("127.0.0.1", local_fleet.port), ("127.0.0.1", hub_http)}
    finally:
        local_fleet.close()


def listeners(pid: int) -> set[tuple[str, int]]:
    found = psutil.Process(pid).net_connections("tcp")
    return {(one.laddr.ip, one.laddr.port) for one in found if one.status == psutil.CONN_LISTEN}


def test_the_hub_receives_nothing_of_the_environment(tmp_path):
    local_fleet = LocalFleet(tmp_path)
    os.environ["EVERTICK_TEST_SECRET"] = "pssst"
    try:
        local_fleet.start()
        wait_for(lambda: "Ctrl-C to stop" in (tmp_path / "scheduler.log").read_text(), "it to be another program")
        child = present(local_fleet.scheduler).child()
        assert "EVERTICK_TEST_SECRET" not in psutil.Process(child).environ()
        assert "EVERTICK_TEST_SECRET" in psutil.Process(present(local_fleet.scheduler).pid).environ()
    finally:
        del os.environ["EVERTICK_TEST_SECRET"]
        local_fleet.close()
