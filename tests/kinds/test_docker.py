"""Is a container run, stopped, and removed as a step? With a real Podman, through the API that Docker has too."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from evertick.cli.doctor_checks import OK
from evertick.cli.doctor_checks.machine import check_kinds
from evertick.executors.keeper.procfs import is_alive
from evertick.executors.keeper.recovery import UNKNOWN_EXIT, VANISHED
from evertick.kinds import PAYLOAD_FD, StepError
from evertick.kinds.docker.__main__ import end_of
from evertick.kinds.docker.engine import Engine, EngineError, EngineUnavailable, split_image
from evertick.kinds.docker.program import (
    INSTANCE,
    Allowed,
    StepId,
    container_name,
    container_spec,
    docker_program,
    instance_of,
)
from evertick.kinds.docker.registry import Login, LoginFileError, read_login_file, registry_of
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED, TIMED_OUT
from evertick.model.policy import Retry
from evertick.model.run import RunKey
from evertick.model.work import Container, Each, ItemValue, Mount, Param, Pull, RegistryLogin, Secret, Step
from evertick.settings.parts import DockerSettings
from tests.executors.local_runs import Place, job_of, key_of, kill, launch, sh, until
from tests.kinds.servers import IMAGE, LOGIN, PodmanServer

pytestmark = pytest.mark.slow

ID = StepId("folder", RunKey("report", 0), 1, "main")
SECRET = "geheim-1234"


@pytest.fixture(scope="module")
def server() -> Iterator[PodmanServer]:
    server = PodmanServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    """What the operator lets containers mount."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def place(server, shared, tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("state"))
    allowed = {"EVERTICK_DOCKER_SOCKET": str(server.socket), "EVERTICK_DOCKER_MOUNTS": str(shared)}
    place.open(environ={**allowed, "TOKEN": SECRET, "PATH": os.environ["PATH"]})
    yield place
    place.close()


_numbers = count()


@pytest.fixture
def key() -> RunKey:
    """A run of its own in the place that all tests share."""
    return key_of(next(_numbers))


def container(*words: str, name: str = "main", **known) -> Step:
    """A single word is a line for the shell."""
    own = {field: known.pop(field) for field in Container.__dataclass_fields__ if field in known}
    at = {"image": IMAGE, "network": "none", "pull": Pull.NEVER, **own}
    return Step(name, Container(command=words, is_shell=len(words) == 1, **at), **known)


def containers(server: PodmanServer) -> list[str]:
    """The names of all containers of the engine, also ended ones."""
    found = Engine(str(server.socket)).call("GET", "/containers/json?all=true")["items"]
    return [one["Names"][0].lstrip("/") for one in found]


def watcher(name: str) -> int:
    """The process that watches the container of that name."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            words = (path / "cmdline").read_bytes().split(b"\0")
            if b"evertick.kinds.docker" in words and name.encode() in (path / "fd" / str(PAYLOAD_FD)).read_bytes():
                found.append(int(path.name))
    (one,) = found
    return one


# What the engine is asked for


def test_what_the_engine_is_asked_for(tmp_path):
    (tmp_path / "in").mkdir()
    step = Container(
        "a:1",
        ("python", "etl.py"),
        args=("--full",),
        mounts=(Mount("./in", "/in"), Mount("cache", "/cache", is_writable=True)),
        working_dir="/srv",
        user="1000",
        memory_bytes=2**26,
        cpus=1.5,
        network="none",
        is_read_only=True,
    )
    spec = container_spec(step, ID, {"A": "b=c"}, Allowed("/socket", (str(tmp_path),)), str(tmp_path))
    host = spec["HostConfig"]
    assert (spec["Entrypoint"], spec["Cmd"]) == (["python", "etl.py"], ["--full"])
    assert (spec["Env"], spec["User"], spec["WorkingDir"]) == (["A=b=c"], "1000", "/srv")
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (2**26, 2**26, 1_500_000_000)
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["SecurityOpt"]) == ("none", True, ["no-new-privileges"])
    assert host["Mounts"] == [
        {"Type": "bind", "Source": str(tmp_path / "in"), "Target": "/in", "ReadOnly": True},
        {"Type": "volume", "Source": "cache", "Target": "/cache", "ReadOnly": False},
    ]
    assert "Privileged" not in host


@pytest.mark.parametrize("source", ["/etc", "../x", "./out/../../x", "./link"])
def test_only_folders_that_the_operator_allows_are_mounted(tmp_path, source):
    allowed = tmp_path / "allowed"
    (allowed / "out").mkdir(parents=True)
    (tmp_path / "x").mkdir()
    (allowed / "link").symlink_to("/etc")
    step = Container("a", mounts=(Mount(source, "/in"),))
    with pytest.raises(StepError, match="may not be mounted"):
        container_spec(step, ID, {}, Allowed("/socket", (str(allowed),)), str(allowed))


def test_without_a_socket_in_the_settings_containers_are_refused():
    with pytest.raises(StepError, match=r"docker\.socket"):
        docker_program(Container("a"), ID, {}, Allowed.of({}), "/", 5)


def test_each_attempt_and_step_has_a_name_of_its_own():
    ids = [ID, ID._replace(attempt=2), ID._replace(step="b"), ID._replace(instance="other")]
    names = [container_name(one) for one in ids]
    assert len(set(names)) == 4
    assert names[0] == container_name(ID)
    assert all(name.startswith("evertick-report-") and len(name) <= 72 for name in names)


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("busybox", ("busybox", "latest")),
        ("busybox:1.36", ("busybox", "1.36")),
        ("host:5000/a/b", ("host:5000/a/b", "latest")),
        ("host:5000/a/b:2", ("host:5000/a/b", "2")),
        ("a/b@sha256:12", ("a/b", "sha256:12")),
    ],
)
def test_an_image_is_a_name_and_a_tag(image, parts):
    assert split_image(image) == parts


# What becomes of it


def test_a_container_step_prints_and_ends_as_its_container_does_and_removes_it(place, key, server):
    assert place.run(job_of(container("echo one; echo two >&2")), key=key).state is SUCCEEDED
    assert sorted(place.log(key).split()) == [b"one", b"two"]
    end = place.run(job_of(container("echo three; exit 7")), key=key, attempt=2)
    assert (end.state, end.exit_code, end.detail) == (FAILED, 7, "exit code 7")
    assert place.log(key, attempt=2) == b"three\n"
    assert containers(server) == []


def test_values_go_in_and_come_out_and_secrets_are_masked(place, key):
    job = job_of(
        sh("printf 'hello there'", "first", output="WORD"),
        container(
            'echo not this >&2; echo "$WORD|$DAY|$EVERTICK_RUN_STEP|$TOKEN|${EVERTICK_KEEPER-none}|$(id -u)"',
            depends=("first",),
            env=(("TOKEN", Secret("env", "TOKEN")),),
            user="1234",
            output="ANSWER",
        ),
        sh('echo "$ANSWER"', "last", depends=("main",)),
        params=(Param("DAY"),),
    )
    assert place.run(job, params=json.dumps({"DAY": "$(id)"}), key=key).state is SUCCEEDED
    assert place.log(key, step="last") == b"hello there|$(id)|main|***|none|1234\n"
    assert SECRET.encode() not in place.log(key)


def test_arguments_arrive_as_they_are(place, key):
    step = container("sh", "-c", 'echo "$0|$1"', "a b", "$HOME;'")
    assert place.run(job_of(step), key=key).state is SUCCEEDED
    assert place.log(key) == b"a b|$HOME;'\n"


def test_the_items_of_a_step_have_containers_of_their_own(place, key, shared):
    """Each waits for the other: a container that removed its sibling would wait without end."""
    line = (
        "touch /shared/$EVERTICK_RUN_ITEM; while [ ! -e /shared/left ] || [ ! -e /shared/right ]; do sleep 0.05; done"
    )
    mounts = (Mount(str(shared), "/shared", is_writable=True),)
    each = Each(values=(ItemValue("left"), ItemValue("right")))
    assert place.run(job_of(container(line, mounts=mounts, each=each)), key=key).state is SUCCEEDED


def test_mounts_are_read_only_unless_they_say_otherwise(place, key, shared):
    (shared / "in").mkdir()
    (shared / "out").mkdir()
    (shared / "in" / "data").write_text("from the machine\n")
    mounts = (Mount(str(shared / "in"), "/in"), Mount(str(shared / "out"), "/out", is_writable=True))
    line = "cat /in/data; touch /in/new || echo refused; cat /in/data > /out/copy; touch /new || echo refused too"
    assert place.run(job_of(container(line, mounts=mounts, is_read_only=True)), key=key).state is SUCCEEDED
    said = place.log(key)
    assert said.count(b"refused") == 2
    assert (shared / "out" / "copy").read_text() == "from the machine\n"
    assert not (shared / "in" / "new").exists()


def test_a_container_that_needs_more_memory_than_its_limit_is_killed(place, key):
    line = "head -c 300000000 /dev/zero | tail -c 200000000 > /dev/null; exit $?"
    end = place.run(job_of(container(line, memory_bytes=32 * 2**20)), key=key)
    assert (end.state, end.exit_code) == (FAILED, 137)
    assert "limit" in end.detail
    assert "33,554,432 bytes" in end.detail


@pytest.mark.parametrize(
    ("state", "limit", "end"),
    [
        pytest.param({"Status": "running", "Running": True, "ExitCode": 0}, None, None, id="running"),
        pytest.param({"Status": "created", "ExitCode": 0}, None, None, id="not started"),
        pytest.param({"Status": "exited", "ExitCode": 0, "OOMKilled": True}, 1, (0, ""), id="a child was killed"),
        pytest.param({"Status": "exited", "ExitCode": 3}, 1, (3, "exit code 3"), id="failed"),
        pytest.param({"Status": "exited", "ExitCode": 137}, None, (137, "exit code 137"), id="killed"),
        pytest.param(
            {"Status": "exited", "ExitCode": 137, "OOMKilled": True},
            4_096,
            (137, "it ran out of memory; its limit is 4,096 bytes"),
            id="out of memory",
        ),
    ],
)
def test_how_a_container_ended(state, limit, end):
    found = end_of(state, limit)
    assert (None if found is None else found[:2]) == end


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"image": "localhost/absent:1"}, "absent", id="an image that is not there"),
        pytest.param({"network": "absent"}, "absent", id="a network that is not there"),
    ],
)
def test_a_refusal_of_the_engine_fails_the_step_with_its_text(place, key, server, changes, said):
    end = place.run(job_of(container("true", **changes)), key=key)
    assert (end.state, end.exit_code) == (FAILED, 125)
    assert said in end.detail
    assert containers(server) == []


def test_a_program_that_is_not_in_the_image_fails_the_step(place, key, server):
    end = place.run(job_of(container("absent", "x")), key=key)
    assert (end.state, end.exit_code) == (FAILED, 125)
    assert "did not start" in end.detail
    assert containers(server) == []


def test_an_image_that_cannot_be_fetched_fails_the_step(place, key):
    end = place.run(job_of(container("true", image="registry.invalid/a:1", pull=Pull.MISSING)), key=key)
    assert (end.state, end.exit_code) == (FAILED, 125)
    assert "registry.invalid" in end.detail


def test_an_image_is_fetched_when_it_is_missing_or_always(place, server):
    registry = server.registry

    def fetches(image: str, pull: Pull, said: bytes, **known) -> bool:
        registry.asked.clear()
        key = key_of(next(_numbers))
        assert (
            place.run(job_of(Step("main", Container(image, network="none", pull=pull, **known))), key=key).exit_code
            == 0
        )
        assert place.log(key).endswith(said)
        return bool(registry.asked)

    assert fetches(registry.image, Pull.MISSING, b"from the registry: alone\n")
    assert not fetches(registry.image, Pull.MISSING, b"from the registry: with arguments\n", args=("with", "arguments"))
    assert fetches(registry.image, Pull.ALWAYS, b"from the registry: alone\n")
    assert fetches(registry.digest, Pull.ALWAYS, b"from the registry: alone\n")


def private(server: PodmanServer, **known) -> Step:
    return Step("main", Container(server.private.image, network="none", pull=Pull.ALWAYS, **known))


def test_an_image_of_a_private_registry_is_fetched_with_the_login_of_its_step(place, key, server):
    assert "unauthorized" in place.run(job_of(private(server)), key=key).detail.lower()
    login = RegistryLogin("robot", Secret("env", "TOKEN"))
    end = place.run(job_of(private(server, registry=login)), key=key, attempt=2)
    assert (end.state, place.log(key, attempt=2)) == (
        SUCCEEDED,
        f"[evertick: fetching the image {server.private.image}]\nfrom the registry: alone\n".encode(),
    )
    wrong = RegistryLogin("TOKEN", Secret("env", "PATH"))
    end = place.run(job_of(private(server, registry=wrong)), key=key, attempt=3)
    assert (end.state, end.exit_code) == (FAILED, 125)


def test_an_image_of_a_private_registry_is_fetched_with_the_login_of_the_machine(server, tmp_path):
    """The file is Podman's own: `podman login` has written it."""
    place, file = Place(tmp_path / "state"), tmp_path / "auth.json"
    user, _, password = LOGIN.partition(":")
    server.call("login", "--authfile", str(file), "--username", user, "--password", password, server.private.host)
    place.open(environ={"EVERTICK_DOCKER_SOCKET": str(server.socket), "EVERTICK_DOCKER_AUTH_FILE": str(file)})
    try:
        assert place.run(job_of(private(server))).state is SUCCEEDED
        file.write_text("{")
        end = place.run(job_of(private(server)), key=key_of(1))
        assert (end.state, end.exit_code) == (FAILED, 125)
        assert "is not one of Docker or Podman" in end.detail
    finally:
        place.close()


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("busybox", "docker.io"),
        ("acme/report:1", "docker.io"),
        ("docker.io/acme/report", "docker.io"),
        ("ghcr.io/acme/report@sha256:12", "ghcr.io"),
        ("localhost/a", "localhost"),
        ("host:5000/a/b:2", "host:5000"),
    ],
)
def test_the_registry_of_an_image(image, registry):
    assert registry_of(image) == registry


def _auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize(
    ("auths", "image", "user"),
    [
        pytest.param({"ghcr.io": _auth("a:b:c")}, "ghcr.io/acme/report:1", "a", id="the name of the registry"),
        pytest.param({"https://ghcr.io/v2/": _auth("a:b:c")}, "ghcr.io/x", "a", id="an address"),
        pytest.param({"https://index.docker.io/v1/": _auth("a:b:c")}, "acme/x", "a", id="Docker Hub by Docker"),
        pytest.param({"docker.io": _auth("a:b:c")}, "busybox:1", "a", id="Docker Hub by Podman"),
        pytest.param(
            {"ghcr.io": _auth("a:b:c"), "ghcr.io/acme": _auth("d:b:c")}, "ghcr.io/acme/x:1", "d", id="the nearest part"
        ),
        pytest.param({"ghcr.io/acme/y": _auth("a:b:c")}, "ghcr.io/acme/x", None, id="another part"),
        pytest.param({"host:5000": {"username": "a", "password": "b:c"}}, "host:5000/x", "a", id="written apart"),
        pytest.param({"ghcr.io.evil.example": _auth("a:b:c")}, "ghcr.io/x", None, id="another registry"),
        pytest.param({"ghcr.io": {}}, "ghcr.io/x", None, id="empty"),
    ],
)
def test_the_login_of_an_image_in_a_file(tmp_path, auths, image, user):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"auths": auths}))
    found = read_login_file(str(file), image)
    assert found == (None if user is None else Login(user, "b:c"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[]", "not one of Docker", id="a list"),
        pytest.param('{"auths": 3}', "not one of Docker", id="a number as logins"),
        pytest.param('{"auths": {}, "credHelpers": 3}', "not one of Docker", id="a number as helpers"),
        pytest.param("[" * 100_000, "not one of Docker", id="lists in lists"),
        pytest.param('{"auths": {"ghcr.io": {"auth": "ä"}}}', "damaged", id="not base64"),
        pytest.param('{"auths": {"ghcr.io": {"auth": "/////w=="}}}', "damaged", id="not UTF-8"),
        pytest.param('{"auths": {"ghcr.io": {"auth": "YQ=="}}}', "damaged", id="no password"),
        pytest.param('{"credHelpers": {"ghcr.io": "pass"}}', "credential helper", id="a helper"),
        pytest.param('{"credsStore": "desktop"}', "credential helper", id="a store"),
    ],
)
def test_a_file_of_logins_that_cannot_be_used(tmp_path, text, said):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(LoginFileError, match=said):
        read_login_file(str(file), "ghcr.io/x")


def test_a_present_image_is_not_pulled(place, key):
    assert place.run(job_of(container("true", pull=Pull.MISSING)), key=key).state is SUCCEEDED
    assert place.log(key) == b""


# Its end


def test_the_settings_of_today_decide_and_not_those_with_which_the_keeper_started(place, key, server):
    first = place._opened[-1]
    try:
        place.open(environ={"PATH": os.environ["PATH"]})
        assert "containers are not allowed" in place.run(job_of(container("true")), key=key).detail
    finally:
        place.open(environ=first._environ)
    assert place.run(job_of(container("true")), key=key, attempt=2).state is SUCCEEDED


def test_a_stop_ends_and_removes_the_container(place, key, server):
    executor = place._opened[-1]
    executor.launch(launch(job_of(container('trap "echo ending; exit 3" TERM; echo up; sleep 600 & wait')), key))
    until(lambda: place.log(key) == b"up\n", "it to be up")
    executor.stop(key, 1, "enough")
    assert place.end_of(key).state is CANCELLED
    until(lambda: containers(server) == [], "the container to be gone")


def test_a_timeout_ends_and_removes_the_container(place, key, server):
    assert place.run(job_of(container("sleep 600"), timeout_us=3 * SECOND), key=key).state is TIMED_OUT
    until(lambda: containers(server) == [], "the container to be gone")


def test_a_killed_watching_process_leaves_no_container(place, key, server):
    executor = place._opened[-1]
    executor.launch(launch(job_of(container("echo up; sleep 600")), key))
    until(lambda: place.log(key) == b"up\n", "it to be up")
    (name,) = containers(server)
    kill(watcher(name))
    assert place.end_of(key).detail == "killed by SIGKILL"
    until(lambda: containers(server) == [], "the guard to remove it")


def test_a_container_whose_watching_process_is_gone_is_removed_by_the_next_step(place, key, server):
    engine = Engine(str(server.socket))
    identity = instance_of(str(place.folder))
    spec = container_spec(Container(IMAGE, ("sleep", "600"), network="none"), ID, {}, Allowed("/socket"), "/")
    labels = {**spec["Labels"], INSTANCE: identity, "evertick.watcher": "another-boot 1 1"}
    engine.create("left-behind", {**spec, "Labels": labels})
    engine.create("of-another-scheduler", {**spec, "Labels": {**labels, INSTANCE: "another"}})
    assert place.run(job_of(container("true")), key=key).state is SUCCEEDED
    assert containers(server) == ["of-another-scheduler"]
    engine.remove("of-another-scheduler")


def test_an_earlier_try_of_the_same_step_ends_before_the_next_begins(place, key, server):
    """Also when the earlier one is still watched: two watchers of one step, and the newer one wins."""
    executor = place._opened[-1]
    line = 'echo "$EVERTICK_RUN_ATTEMPT"; test "$EVERTICK_RUN_ATTEMPT" = 2 || sleep 600'
    executor.launch(launch(job_of(container(line)), key))
    until(lambda: place.log(key) == b"1\n", "it to be up")
    assert place.run(job_of(container(line)), key=key, attempt=2).state is SUCCEEDED
    assert "another program removed the container" in place.loss_of(key).detail
    assert containers(server) == []


def test_a_restarted_scheduler_gets_the_result_of_a_container_that_runs_meanwhile(place, key, server, shared):
    line = "echo up; while [ ! -e /shared/go ]; do sleep 0.05; done; echo done; exit 4"
    step = container(line, mounts=(Mount(str(shared), "/shared"),))
    first = place._opened[-1]
    first.launch(launch(job_of(step), key))
    until(lambda: place.log(key) == b"up\n", "it to be up")
    first.close()
    second = place.open(environ=first._environ)
    second.reconcile([(key, 1)])
    (shared / "go").touch()
    end = place.end_of(key)
    assert (end.state, end.exit_code) == (FAILED, 4)
    assert place.log(key) == b"up\ndone\n"
    assert containers(server) == []


def test_an_engine_that_is_restarted_loses_no_output(place, key, server, shared):
    line = "echo one; while [ ! -e /shared/on ]; do sleep 0.05; done; echo two; exit 5"
    place._opened[-1].launch(launch(job_of(container(line, mounts=(Mount(str(shared), "/shared"),))), key))
    until(lambda: place.log(key) == b"one\n", "it to be up")
    server.stop_serving()
    (shared / "on").touch()
    server.serve()
    end = place.end_of(key)
    assert (end.state, end.exit_code) == (FAILED, 5)
    assert place.log(key) == b"one\ntwo\n"
    assert containers(server) == []


@pytest.mark.parametrize("code", [0, 6])
def test_the_result_of_a_container_whose_keeper_was_killed_is_recovered(place, key, server, shared, code):
    """It prints after the kill, which must not end the process that watches it."""
    line = f"echo up; while [ ! -e /shared/kill-{code} ]; do sleep 0.05; done; echo after; exit {code}"
    executor = place._opened[-1]
    executor.launch(launch(job_of(container(line, mounts=(Mount(str(shared), "/shared"),))), key))
    until(lambda: place.log(key) == b"up\n", "it to be up")
    for one in place.keepers():
        kill(one)
    (shared / f"kill-{code}").touch()
    end = place.end_of(key)
    assert (end.state, end.exit_code) == (FAILED if code else SUCCEEDED, code)
    assert [(step.name, step.exit_code) for step in place.steps] == [("main", code)]
    assert containers(server) == []


def test_a_container_that_ends_without_a_keeper_keeps_its_result(place, key, server):
    executor = place._opened[-1]
    executor.launch(launch(job_of(container("echo up; sleep 1; exit 3")), key))
    until(lambda: place.log(key) == b"up\n", "it to be up")
    (name,) = containers(server)
    pid = watcher(name)
    executor.close()
    for one in place.keepers():
        kill(one)
    until(lambda: not is_alive(pid), "the watching process to end")
    place.open(environ=executor._environ).reconcile([(key, 1)])
    end = place.end_of(key)
    assert (end.state, end.exit_code, end.detail) == (FAILED, 3, "exit code 3")


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((container("echo up; sleep 1", output="X"),), id="its output is not known"),
        pytest.param((container("echo up; sleep 1; exit 1", retry=Retry(max_retries=1)),), id="a try is left"),
        pytest.param((container("echo up; sleep 1"), sh("true", "next", depends=("main",))), id="a step is left"),
    ],
)
def test_a_result_that_does_not_decide_the_attempt_leaves_it_lost(place, key, steps):
    executor = place._opened[-1]
    executor.launch(launch(job_of(*steps), key))
    until(lambda: place.log(key) == b"up\n", "it to be up")
    for one in place.keepers():
        kill(one)
    # Which of the two depends on whether the next keeper was there before the end.
    assert place.loss_of(key).detail in (UNKNOWN_EXIT.detail, VANISHED.detail)


def test_a_killed_keeper_leaves_no_container_once_its_attempt_is_stopped(place, key, server):
    executor = place._opened[-1]
    executor.launch(launch(job_of(container("echo up; sleep 600")), key))
    until(lambda: place.log(key) == b"up\n", "it to be up")
    (name,) = containers(server)
    pid = watcher(name)
    for one in place.keepers():
        kill(one)
    executor.stop(key, 1, "enough")
    until(lambda: not is_alive(pid), "the watching process to end")
    until(lambda: containers(server) == [], "the container to be gone")


# The engine


def test_an_engine_that_is_not_there_is_explained(tmp_path):
    with pytest.raises(EngineUnavailable, match="No such file"):
        Engine(str(tmp_path / "socket")).ping()


def test_the_engine_answers_in_words(server):
    engine = Engine(str(server.socket))
    assert "Libpod" in engine.ping()
    assert engine.inspect("absent") is None
    assert not engine.has_image("localhost/absent:1")
    with pytest.raises(EngineError):
        engine.start("absent")


def test_doctor_looks_at_the_engine_and_at_the_logins(server, tmp_path):
    jobs = {"report": job_of(container("true"))}

    def told(**known) -> list[tuple[str, bool]]:
        return [(said, state is OK) for state, said, *_hint in check_kinds(jobs, DockerSettings(**known))]

    ((refused, is_good),) = told()
    assert (refused.startswith("containers are not allowed here"), is_good) == (True, False)
    ((away, is_good),) = told(socket=tmp_path / "absent")
    assert ("does not answer" in away, is_good) == (True, False)
    (tmp_path / "auth.json").write_text("{}")
    ((answer, is_good),) = told(socket=server.socket, auth_file=tmp_path / "auth.json")
    assert ("Libpod" in answer, is_good) == (True, True)
    _, (logins, is_good) = told(socket=server.socket, auth_file=tmp_path / "absent.json")
    assert (logins, is_good) == (f"docker.auth_file cannot be read: {tmp_path / 'absent.json'}", False)
