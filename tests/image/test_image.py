"""Whether the image is built, starts without rights on a read-only file system, is healthy, and keeps its state."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

from tests.image.podman import IMAGE, Podman
from tests.ports import free_port

PATIENCE_SECONDS = 300.0
# As deploy/compose.yaml has it: no rights, nothing to write to but the volume and /tmp.
SHUT_IN = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true")


@pytest.fixture(scope="module")
def podman():
    folder = Path(tempfile.mkdtemp(prefix="evertick-image-"))
    engine = Podman(folder)
    try:
        engine.build()
        yield engine
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def jobs(podman):
    folder = podman.folder / "jobs"
    folder.mkdir(mode=0o755)
    (folder / "hello.yaml").write_text('schedule: {every: 1s}\ncommand: "id -u; touch /nowhere || echo read-only"\n')
    return folder


@pytest.fixture
def start(podman, jobs):
    """Start a container on one volume; returns the port of its API."""

    def start(name: str) -> int:
        port = free_port()
        words = (
            "--network",
            "host",
            "-e",
            f"EVERTICK_PORT={port}",
            "-v",
            f"{jobs}:/jobs:ro",
            "-v",
            "state:/var/lib/evertick",
        )
        podman.call("run", "-d", "--name", name, *SHUT_IN, *words, IMAGE)
        wait_for(podman, name, lambda: podman.call("healthcheck", "run", name, check=False).returncode == 0)
        return port

    yield start
    podman.call("rm", "--all", "--force", "--time", "0")


def wait_for(podman: Podman, name: str, holds):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := holds()):
        assert time.monotonic() < deadline, podman.call("logs", name, check=False)
        time.sleep(0.5)
    return found


def ask(podman: Podman, name: str, *words: str):
    return json.loads(podman.call("exec", name, "evertick", *words, "--folder", "/jobs", "-o", "json").stdout)


def test_its_settings_are_those_of_the_containerfile(podman):
    (found,) = json.loads(podman.call("inspect", IMAGE).stdout)
    assert found["Config"]["User"] == "evertick"
    assert found["Config"]["Entrypoint"] == ["tini", "--"]
    assert set(found["Config"]["Volumes"]) == {"/var/lib/evertick", "/jobs"}
    assert "evertick.dispatch.control_client" in " ".join(found["Healthcheck"]["Test"])


def test_the_image_runs_jobs_without_rights_and_keeps_its_state_in_the_volume(podman, start):
    port = start("first")
    assert wait_for(podman, "first", lambda: answer_of(port, "/readyz"))
    assert b"<html" in answer_of(port, "/")
    run = wait_for(podman, "first", lambda: succeeded(podman, "first"))
    log = podman.call("exec", "first", "evertick", "logs", run, "--folder", "/jobs").stdout
    assert "10001" in log, "a job does not run as root"
    assert "read-only" in log, "a job cannot write to the image"
    podman.call("stop", "--time", "90", "first")
    (ended,) = json.loads(podman.call("inspect", "first").stdout)
    assert ended["State"]["ExitCode"] == 0, "a stop is orderly"
    start("second")
    assert run in {one["run"] for one in runs(podman, "second")}


def answer_of(port: int, path: str) -> bytes:
    """Empty while the API, a process beside the scheduler, does not listen yet or says that it is not ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.read()
    except OSError:
        return b""


def runs(podman: Podman, name: str):
    return ask(podman, name, "history", "hello", "--limit", "500")["items"]


def succeeded(podman: Podman, name: str):
    return next((one["run"] for one in runs(podman, name) if one["state"] == "succeeded"), None)
