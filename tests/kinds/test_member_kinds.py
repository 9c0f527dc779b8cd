"""Do containers and SSH commands run on a member of a fleet? With real member processes, Podman and sshd."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from evertick.kinds.docker.engine import Engine
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED
from evertick.model.run import RunKey
from evertick.model.work import Container, Mount, Pull, RegistryLogin, Secret, SshCommand, Step
from tests.executors.local_runs import job_of, key_of, launch
from tests.fleet.local_fleet import Heard, LocalFleet, kill, wait_for
from tests.kinds.servers import IMAGE, LOGIN, PodmanServer, SshServer

pytestmark = pytest.mark.slow

_numbers = count()


@pytest.fixture(scope="module")
def engine() -> Iterator[PodmanServer]:
    server = PodmanServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def local_fleet(tmp_path_factory, engine, shared) -> Iterator[LocalFleet]:
    """One member whose operator allows containers, and one whose operator does not."""
    here = LocalFleet(tmp_path_factory.mktemp("fleet"))
    try:
        here.start()
        here.join("ex-a", env={"EVERTICK_DOCKER_SOCKET": str(engine.socket), "EVERTICK_DOCKER_MOUNTS": str(shared)})
        here.join("ex-b")
        here.wait_for_all()
        yield here
    finally:
        here.close()


@pytest.fixture(scope="module")
def reports() -> Heard:
    return Heard()


@pytest.fixture(scope="module")
def executor(local_fleet, reports):
    return local_fleet.open(reports, "ex-a", "ex-b")


@pytest.fixture
def key() -> RunKey:
    return key_of(next(_numbers))


def container(line: str, **known) -> Step:
    at = {"image": IMAGE, "network": "none", "pull": Pull.NEVER, **known}
    return Step("main", Container(command=(line,), is_shell=True, **at))


def on(member: str, step: Step, key: RunKey):
    return launch(job_of(step), key)._replace(executor=f"fleet:{member}")


def is_clean(engine: PodmanServer) -> bool:
    return Engine(str(engine.socket)).call("GET", "/containers/json?all=true")["items"] == []


def test_a_container_runs_on_the_member_and_its_log_is_here(local_fleet, executor, reports, key, engine):
    executor.launch(on("ex-a", container('echo "$EVERTICK_RUN_STEP"; exit 7'), key))
    end = reports.end_of(key)
    assert (end.state, end.exit_code, end.detail) == (FAILED, 7, "exit code 7")
    assert local_fleet.log_of(key) == b"main\n"
    assert is_clean(engine)


def test_a_member_whose_operator_allows_no_containers_runs_none(local_fleet, reports, key, engine, monkeypatch):
    """Whatever the scheduler's operator allows."""
    monkeypatch.setenv("EVERTICK_DOCKER_SOCKET", str(engine.socket))
    executor = local_fleet.open(reports, "ex-b", node="permissive")
    executor.launch(on("ex-b", container("true"), key))
    end = reports.end_of(key)
    assert end.state is FAILED
    assert "containers are not allowed on this machine" in end.detail


def test_a_secret_login_reaches_the_member(local_fleet, reports, key, engine, monkeypatch):
    user, _, password = LOGIN.partition(":")
    monkeypatch.setenv("REGISTRY_PASSWORD", password)
    executor = local_fleet.open(reports, "ex-a", node="with-login")
    login = RegistryLogin(user, Secret("env", "REGISTRY_PASSWORD"))
    step = Step("main", Container(engine.private.image, network="none", pull=Pull.ALWAYS, registry=login))
    executor.launch(on("ex-a", step, key))
    assert reports.end_of(key).state is SUCCEEDED


def test_a_stop_ends_the_container_on_the_member(local_fleet, executor, reports, key, engine, shared):
    line = 'trap "exit 3" TERM; touch /shared/up; sleep 600 & wait'
    executor.launch(on("ex-a", container(line, mounts=(Mount(str(shared), "/shared", is_writable=True),)), key))
    wait_for(lambda: (shared / "up").exists(), "it to be up")
    executor.stop(key, 1, "enough")
    assert reports.end_of(key).state is CANCELLED
    wait_for(lambda: is_clean(engine), "the container to be gone")


def test_a_killed_member_and_its_killed_keeper_lose_no_result(local_fleet, executor, reports, key, engine, shared):
    line = "touch /shared/on; while [ ! -e /shared/go ]; do sleep 0.05; done; exit 5"
    executor.launch(on("ex-a", container(line, mounts=(Mount(str(shared), "/shared", is_writable=True),)), key))
    wait_for(lambda: (shared / "on").exists(), "it to be up")
    kill(local_fleet.members["ex-a"].child())
    kill(local_fleet.keeper_of("ex-a"))
    (shared / "go").touch()
    end = reports.end_of(key)
    assert (end.state, end.exit_code) == (FAILED, 5)
    wait_for(lambda: is_clean(engine), "the container to be gone")


def test_an_ssh_command_runs_from_the_member(local_fleet, executor, reports, key):
    server = SshServer()
    try:
        ssh = SshCommand(
            server.host,
            ('echo "$EVERTICK_RUN_STEP"; exit 3',),
            is_shell=True,
            user=server.user,
            port=server.port,
            key=str(server.key),
            known_hosts=str(server.known_hosts),
        )
        executor.launch(on("ex-b", Step("main", ssh), key))
        end = reports.end_of(key)
    finally:
        server.close()
    assert (end.state, end.exit_code) == (FAILED, 3)
    assert local_fleet.log_of(key) == b"main\n"
