"""What surrounds a container: conditions, hooks and handlers run here, before and after it."""

from __future__ import annotations

import pytest

from evertick.definitions.parser import parse_definition
from evertick.executor import AttemptId
from evertick.model.job import Job
from evertick.model.lifecycle import CANCELLED, FAILED, SKIPPED, SUCCEEDED, TIMED_OUT
from tests.executors.contract import KEY
from tests.executors.kubernetes.fake import FakeCluster
from tests.executors.kubernetes.served import served
from tests.executors.local_runs import Place, launch, until

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def here(cluster, tmp_path):
    """This machine, told which cluster."""
    (tmp_path / "state").mkdir()
    place = Place(tmp_path / "state")
    with served(cluster, tmp_path / "kubeconfig") as kubeconfig:
        place.open(environ={"KUBECONFIG": str(kubeconfig), "PATH": "/usr/bin:/bin"})
        yield place
        place.close()


def job_of(text: str, line: str = "echo inside", image: str = "shell") -> Job:
    parsed = parse_definition(f"kubernetes: {{image: {image}, command: '{line}'}}\n{text}\n", "report.yaml")
    assert not parsed.errors
    assert parsed.job is not None
    assert parsed.job.routing.executor == "local"
    return parsed.job


def test_a_container_whose_condition_holds_runs_and_its_handlers_run_behind_it(here, tmp_path):
    said = tmp_path / "said"
    around = (
        f"condition: {{command: 'true'}}\nonSuccess: echo $EVERTICK_RUN_OUTCOME > {said}\nonExit: echo over >> {said}"
    )
    end = here.run(job_of(around))
    assert (end.state, end.exit_code) == (SUCCEEDED, 0)
    assert here.log() == b"inside\n"
    assert said.read_text() == "succeeded\nover\n"


def test_a_container_whose_condition_does_not_hold_is_skipped_and_never_made(here, cluster):
    end = here.run(job_of("condition: {command: 'exit 3'}\nonExit: exit 1"))
    assert end.state is SKIPPED
    assert "exit code 3" in end.detail
    assert cluster.creations == 0


def test_a_container_whose_hook_does_not_agree_is_skipped_and_never_made(here, cluster):
    end = here.run(job_of("constraints: {preRunHook: 'http://127.0.0.1:9/'}"))
    assert (end.state, end.broken) == (SKIPPED, "preRunHook")
    assert cluster.creations == 0


def test_a_container_that_fails_ends_its_run_with_its_own_code_and_the_handler_for_it(here, tmp_path):
    said = tmp_path / "said"
    end = here.run(job_of(f"onFailure: echo $EVERTICK_RUN_OUTCOME > {said}", "exit 7"))
    assert (end.state, end.exit_code, end.detail) == (FAILED, 7, "exit code 7")
    assert said.read_text() == "failed\n"


def test_a_container_that_cannot_start_says_why_in_the_ledger_too(here):
    end = here.run(job_of("onExit: echo over", image="no-image!"))
    assert (end.state, end.exit_code) == (FAILED, 125)
    assert "no-image!" in end.detail


def test_a_container_that_the_cluster_takes_away_is_lost_and_has_not_failed(here, cluster, tmp_path):
    said = tmp_path / "said"
    job = job_of(f"onFailure: echo failed >> {said}\nonExit: echo over >> {said}", "echo up; sleep 600")
    here._opened[-1].launch(launch(job))
    until(lambda: here.log() == b"up\n", "it to be up")
    (made,) = cluster.jobs()
    cluster.evict(made["metadata"]["name"])
    assert "evicted" in here.loss_of(KEY).detail
    assert said.read_text() == "over\n"


def test_a_container_whose_pod_vanishes_before_the_watch_reports_is_lost_not_failed(here, cluster, tmp_path):
    said = tmp_path / "said"
    job = job_of(f"onFailure: echo failed >> {said}\nonExit: echo over >> {said}", "echo up; sleep 600")
    here._opened[-1].launch(launch(job))
    until(lambda: here.log() == b"up\n", "it to be up")
    (made,) = cluster.jobs()
    cluster.hides_pods = True
    cluster.evict(made["metadata"]["name"])
    assert "its pod was deleted" in here.loss_of(KEY).detail
    assert said.read_text() == "over\n"


def test_a_run_that_is_ended_ends_its_container_first_and_then_its_handler_runs(here, cluster, tmp_path):
    said = tmp_path / "said"
    job = job_of(f"onCancel: echo $EVERTICK_RUN_OUTCOME > {said}", "echo up; sleep 600")
    here._opened[-1].launch(launch(job))
    until(lambda: here.log() == b"up\n", "it to be up")
    here._opened[-1].stop(*AttemptId(KEY, 1), "enough")
    assert here.end_of(KEY).state is CANCELLED
    assert cluster.jobs() == []
    assert said.read_text() == "cancelled\n"


def test_the_time_of_the_whole_run_is_reported_to_the_cluster_too(here, cluster):
    job = job_of("timeout: 2s\nonExit: echo over", "sleep 600")
    here._opened[-1].launch(launch(job))
    until(lambda: bool(cluster.jobs()), "its Job")
    (made,) = cluster.jobs()
    assert made["spec"]["activeDeadlineSeconds"] == 2
    assert here.end_of(KEY).state is TIMED_OUT
    assert cluster.jobs() == []


def test_a_run_without_a_configured_cluster_fails_with_a_reason(tmp_path):
    place = Place(tmp_path)
    place.open(environ={"KUBECONFIG": "/nowhere", "PATH": "/usr/bin:/bin"})
    end = place.run(job_of("onExit: echo over"))
    assert (end.state, end.exit_code) == (FAILED, 125)
    assert "the cluster cannot be reached" in end.detail
    place.close()
