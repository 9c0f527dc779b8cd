"""A container as one step of a job on this machine: created, watched and ended, on a real cluster."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from evertick.executors.local import LocalExecutor
from evertick.kinds import PAYLOAD_FD
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED
from evertick.model.work import Handlers, Param, Pod, Secret, Step
from tests.executors.contract import KEY
from tests.executors.local_runs import Place, job_of, kill, launch, sh, until
from tests.kubernetes.images import SHELL


@pytest.fixture
def here(real_cluster, instance, tmp_path):
    """This machine, told which cluster."""
    environ = {"KUBECONFIG": str(real_cluster.kubeconfig), "EVERTICK_KUBERNETES_INSTANCE": instance, "TOKEN": "geheim"}
    place = Place(tmp_path)
    place.open(environ={**environ, "PATH": "/usr/bin:/bin"})
    yield place
    place.close()


def container(line: str, name: str = "main", **known) -> Step:
    return Step(name, Pod(SHELL, (line,), is_shell=True, pod_spec={"terminationGracePeriodSeconds": 1}), **known)


def attendant(kubeconfig: Path) -> int:
    """The process that attends to the container: of this test, whoever else has some on the machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            words = (path / "cmdline").read_bytes().split(b"\0")
            order = path / "fd" / str(PAYLOAD_FD)
            if b"evertick.kinds.kubernetes" in words and str(kubeconfig).encode() in order.read_bytes():
                found.append(int(path.name))
    (one,) = found
    return one


def test_a_container_step_prints_and_ends_as_its_container_does(here):
    assert here.run(job_of(container("echo one; echo two"))).state is SUCCEEDED
    assert here.log() == b"one\ntwo\n"
    end = here.run(job_of(container("echo three; exit 7")), attempt=2)
    assert (end.state, end.exit_code) == (FAILED, 7)
    assert here.log(attempt=2) == b"three\n"


def test_values_go_in_and_come_out_and_secrets_do_not(here):
    job = job_of(
        sh("echo hello", "first", output="WORD"),
        container('echo "$WORD $DAY $EVERTICK_RUN_STEP [$TOKEN]"', depends=("first",), output="ANSWER"),
        sh('echo "$ANSWER"', "last", depends=("main",)),
        params=(Param("DAY"),),
        env=(("TOKEN", Secret("env", "TOKEN")),),
    )
    assert here.run(job, params=json.dumps({"DAY": "$(WORD)"})).state is SUCCEEDED
    assert here.log(step="last") == b"hello $(WORD) main []\n"


def test_an_output_that_holds_a_secret_is_not_written_into_a_pod(here):
    job = job_of(
        sh('echo "$TOKEN"', "first", output="WORD"),
        container("true", depends=("first",)),
        env=(("TOKEN", Secret("env", "TOKEN")),),
    )
    end = here.run(job)
    assert end.state is FAILED
    assert b"holds a secret" in here.log()


def test_a_stop_ends_the_container_too(here, troubles):
    job = job_of(container("trap '' TERM; echo up; sleep 60"))
    order = launch(job)
    executor = here._opened[-1]
    executor.launch(order)
    until(lambda: here.log() == b"up\n", "it to be up")
    (made,) = troubles.jobs()
    executor.stop(KEY, 1, "enough")
    assert here.end_of(KEY).state is CANCELLED
    until(lambda: not troubles.is_alive(made["metadata"]["name"]), "the container to be gone")


def test_what_a_lost_attempt_left_on_the_cluster_ends_before_the_next_begins(here, troubles, real_cluster):
    job = job_of(container('echo "$EVERTICK_RUN_ATTEMPT"; test "$EVERTICK_RUN_ATTEMPT" = 2 || sleep 600'))
    executor: LocalExecutor = here._opened[-1]
    executor.launch(launch(job))
    until(lambda: here.log() == b"1\n", "it to be up")
    (left,) = troubles.jobs()
    kill(attendant(real_cluster.kubeconfig))
    assert here.end_of(KEY).detail == "killed by SIGKILL"
    assert troubles.is_alive(left["metadata"]["name"])
    assert here.run(job, attempt=2).state is SUCCEEDED
    assert here.log(attempt=2) == b"2\n"
    assert not troubles.is_alive(left["metadata"]["name"])


def test_a_container_that_is_evicted_is_lost_where_it_is_all_that_its_run_does(here, troubles):
    job = job_of(container("echo up; sleep 600"), handlers=Handlers(on_exit=sh("echo over", "onExit")))
    here._opened[-1].launch(launch(job))
    until(lambda: here.log() == b"up\n", "it to be up")
    (made,) = troubles.jobs()
    troubles.evict(made["metadata"]["name"])
    assert "evicted" in here.loss_of(KEY).detail
    assert here.log(step="onExit") == b"over\n"


def test_a_cluster_that_is_not_there_fails_the_step_in_words(tmp_path):
    place = Place(tmp_path)
    place.open(environ={"KUBECONFIG": "/nowhere", "PATH": "/usr/bin:/bin"})
    end = place.run(job_of(container("true")))
    assert (end.state, end.exit_code) == (FAILED, 125)
    assert b"the cluster cannot be reached" in place.log()
    place.close()
