"""The Kubernetes executor on a fake cluster: what it decides, and how it handles faults."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from evertick.errors import SettingsError
from evertick.executors.kubernetes import executor
from evertick.executors.kubernetes.executor import LAUNCHERS
from evertick.kinds.kubernetes.cluster import ApiError, ApiUnavailable
from evertick.kinds.kubernetes.names import STOPPED
from evertick.kinds.kubernetes.status import is_over
from evertick.model.instant import SECOND
from evertick.model.job import Job
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED
from evertick.model.report import LaunchRefused, RunFinished, RunStarted, RunUnknown
from evertick.model.work import Command, Param, Pod, Secret, Step, Work
from evertick.settings.parts import KubernetesSettings
from tests.executors.contract import KEY
from tests.executors.kubernetes.behaviour import PodBehaviour, PodContract
from tests.executors.kubernetes.fake import FakeCluster
from tests.executors.kubernetes.pods import PodPlace, launch, pod_job
from tests.executors.local_runs import until

pytestmark = pytest.mark.slow

IMPATIENT = KubernetesSettings(start_timeout_us=SECOND)


class FakeTroubles:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.expire_watches = cluster.forget_the_past
        self.delete_job = cluster.remove_job
        self.evict = cluster.evict

    def delete_pod(self, job: str) -> None:
        self._cluster.delete_pod("default", f"{job}-pod", 1)

    def count_jobs(self) -> int:
        return len(self._cluster.jobs())

    def ttl_of(self, job: str) -> int:
        (found,) = [one for one in self._cluster.jobs() if one["metadata"]["name"] == job]
        return found["spec"]["ttlSecondsAfterFinished"]

    def is_alive(self, job: str) -> bool:
        return f"{job}-pod" in self._cluster._processes

    def wait_until_over(self, job: str) -> None:
        until(lambda: any(is_over(one) for one in self._cluster.jobs()), f"{job} to be over")


@pytest.fixture
def cluster():
    fake = FakeCluster()
    yield fake
    fake.end_all()


@pytest.fixture
def place(cluster, tmp_path):
    place = PodPlace(lambda: cluster, tmp_path)
    yield place
    place.close()


@pytest.fixture
def troubles(cluster):
    return FakeTroubles(cluster)


class TestContract(PodContract):
    pass


class TestBehaviour(PodBehaviour):
    pass


class TestLaunching:
    def test_a_creation_whose_answer_is_lost_is_found_and_not_repeated(self, place, cluster):
        cluster.loses_answers = 1
        assert place.run("echo once").state is SUCCEEDED
        assert cluster.creations == 1
        assert place.log()[0] == b"once\n"

    def test_after_a_doubtful_creation_nothing_is_refused(self, place, cluster):
        """Whether it was made is not known: to refuse would leave a Job that nobody attends to."""
        cluster.refusals = [
            ApiUnavailable("reset"),
            ApiUnavailable("refused", is_unsent=True),
            ApiError(503, "", "not ready"),
        ]
        assert place.run("true").state is SUCCEEDED
        assert not [one for one in place.reports if isinstance(one, LaunchRefused)]

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            pytest.param(
                ApiUnavailable("no route", is_unsent=True), "the cluster cannot be reached: no route", id="away"
            ),
            pytest.param(
                ApiError(403, "Forbidden", "exceeded quota: pods"),
                "the cluster does not permit it: exceeded quota: pods.",
                id="forbidden",
            ),
            pytest.param(
                ApiError(401, "Unauthorized", "Unauthorized"),
                "the cluster does not accept our credentials: Unauthorized. Renew them.",
                id="unknown to the cluster",
            ),
            pytest.param(
                ApiError(429, "TooManyRequests", "slow down"),
                "the cluster refused its Job: slow down.",
                id="too many requests",
            ),
        ],
    )
    def test_what_passes_is_refused_and_may_come_again(self, place, cluster, answer, words):
        cluster.refusals = [answer]
        place.start("true")
        assert place.first(LaunchRefused).detail == words
        assert place.run("true").state is SUCCEEDED

    def test_what_can_never_be_fails_in_words(self, place, cluster):
        cluster.refusals = [ApiError(422, "Invalid", "spec.template.spec.containers[0].image: Required value")]
        end = place.run("true")
        assert (end.state, end.detail) == (
            FAILED,
            "the cluster rejects its Job: spec.template.spec.containers[0].image: Required value.",
        )

    def test_a_job_of_that_name_that_is_not_ours_is_left_alone(self, place, cluster):
        cluster.create_job(
            {
                "metadata": {"name": place.name_of(), "namespace": "default", "labels": {}, "annotations": {}},
                "spec": {"template": {"metadata": {"labels": {}}, "spec": {"containers": [{"image": "no-pod"}]}}},
            }
        )
        end = place.run("true")
        assert end.state is FAILED
        assert "Evertick did not create" in end.detail

    def test_a_pod_that_is_stopped_before_its_request_is_never_requested(self, place, cluster):
        executor, is_stopped = place.executor, threading.Event()
        for _ in range(LAUNCHERS):
            executor._launching.submit(is_stopped.wait)
        place.start("true")
        executor.stop(KEY, 1, "never mind")
        is_stopped.set()
        assert (place.end_of().state, place.end_of().detail) == (CANCELLED, "never mind")
        assert cluster.creations == 0

    @pytest.mark.parametrize(
        ("work", "words"),
        [
            pytest.param(Work((Step("a", Command(("true",))),)), "one container", id="a command"),
            pytest.param(
                Work((Step("a", Pod("x")),), env=(("P", Secret("env", "P")),)),
                "Put it into a Secret of the cluster",
                id="a secret of the scheduler",
            ),
            pytest.param(
                Work((Step("a", Pod("x")),), params=(Param("DAY"),)),
                "the parameter 'DAY' was not given",
                id="a parameter is missing",
            ),
        ],
    )
    def test_what_cannot_be_a_pod_fails_in_words(self, place, cluster, work, words):
        place.executor.launch(launch(Job("report", work=work)))
        end = place.end_of()
        assert end.state is FAILED
        assert words in end.detail
        assert cluster.creations == 0

    def test_a_namespace_that_is_not_watched_is_refused(self, place):
        place.executor.launch(launch(pod_job(pod=Pod("shell", ("true",), namespace="elsewhere"))))
        assert place.first(LaunchRefused).detail == (
            "the namespace 'elsewhere' is not in the settings. Add it to 'kubernetes.namespaces'."
        )


class TestNotStarting:
    @pytest.mark.parametrize(
        ("image", "words"),
        [
            pytest.param("no-image", "the image 'no-image' cannot be pulled: not found", id="no image"),
            pytest.param("no-room", "no node of the cluster can run it: 0/1 nodes.", id="no room"),
            pytest.param("no-pod", "the cluster has not created its pod yet.", id="no pod"),
        ],
    )
    def test_a_pod_that_does_not_start_in_time_fails_in_words(self, place, cluster, image, words):
        place.open(IMPATIENT)
        end = place.run("true", image=image)
        assert end.state is FAILED
        assert end.detail.startswith(f"it did not start in time: {words}")
        assert cluster.jobs() == []

    def test_an_image_that_never_will_be_is_not_waited_for(self, place):
        end = place.run("true", image="no-image!")
        assert (end.state, end.detail.partition(".")[0]) == (FAILED, "'no-image!' is not a valid image name")

    def test_after_a_restart_it_is_still_given_up_in_time(self, place):
        place.start("true", image="no-room")
        until(lambda: place.connect().jobs() != [], "the Job")
        place.executor.close()
        place.open(IMPATIENT)
        place.executor.reconcile([(KEY, 1)])
        assert place.end_of().state is FAILED

    def test_a_pod_without_a_known_status_is_not_given_up(self, place, cluster, monkeypatch):
        """After a restart its Job may be found before its pod is: that runs, for longer than the time to start."""
        monkeypatch.setattr(executor, "TICK_SECONDS", 0.01)
        place.start("echo up; sleep 1000")
        place.start_of()
        long_ago = {"metadata": {"creationTimestamp": "2026-03-02T09:00:00Z"}}
        cluster.patch_job("default", place.name_of(), long_ago)
        place.executor.close()
        cluster.withholds_pods = True
        place.open(IMPATIENT)
        place.executor.reconcile([(KEY, 1)])
        place.start_of()
        until(lambda: cluster.withheld >= 4, "its pod to be asked for, in vain")
        assert STOPPED not in cluster.jobs()[0]["metadata"]["annotations"]
        cluster.withholds_pods = False
        until(lambda: place.executor.members()[0].is_healthy, "the trouble to be over")
        place.executor.stop(KEY, 1, "enough")
        assert place.end_of().detail == "enough"


class TestHealth:
    """Where nobody has asked, nothing is known; a green light would be a guess."""

    def test_an_unused_cluster_is_not_reported(self, place):
        assert place.executor.members() == ()

    def test_where_no_cluster_is_named_it_is_not_well_until_one_is(self, cluster, tmp_path):
        named = threading.Event()

        def connect() -> Any:
            if not named.is_set():
                raise SettingsError("no cluster is named.")
            return cluster

        place = PodPlace(connect, tmp_path)
        try:
            place.start("true")
            assert place.first(LaunchRefused).detail == "no cluster is named."
            assert [member.is_healthy for member in place.executor.members()] == [False]
            named.set()
            place.start("true")
            assert place.end_of().state is SUCCEEDED
            until(lambda: place.executor.members()[0].is_healthy, "the trouble to be over")
        finally:
            place.close()


class TestTrouble:
    def test_a_deleted_pod_is_lost_also_when_the_end_of_its_job_is_seen_first(self, place, cluster, troubles):
        place.start("echo up; sleep 60")
        place.start_of()
        cluster.hides_pods = True
        troubles.delete_pod(place.name_of())
        assert "deleted" in place.loss_of().detail

    def test_a_cluster_that_is_away_for_a_while_is_waited_for(self, place, cluster):
        place.start("echo up; sleep 1; echo down")
        place.start_of()
        cluster.is_away = True
        until(lambda: not place.executor.members()[0].is_healthy, "the trouble to be known")
        cluster.is_away = False
        assert place.end_of().state is SUCCEEDED
        assert place.log() == (b"up\ndown\n", True)
        until(lambda: place.executor.members()[0].is_healthy, "the trouble to be over")

    def test_asking_while_the_cluster_is_away_is_answered_when_it_is_back(self, place, cluster):
        cluster.is_away = True
        place.executor.reconcile([(KEY, 1)])
        cluster.is_away = False
        assert place.first(RunUnknown)

    def test_lost_connections_lose_nothing_and_repeat_nothing(self, place, cluster):
        place.start("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done")
        for line in (b"1\n", b"3\n", b"5\n"):
            until(partial(lambda line: line in place.log()[0], line), "another line")
            cluster.cut_connections()
        assert place.end_of().state is SUCCEEDED
        assert place.log() == (b"1\n2\n3\n4\n5\n6\n7\n8\n", True)

    def test_a_job_that_vanished_while_the_watch_was_blind_is_lost(self, place, cluster):
        place.start("echo up; sleep 60")
        place.start_of()
        cluster.is_away = True
        until(lambda: not place.executor.members()[0].is_healthy, "the watch to be blind")
        cluster.remove_job(place.name_of())
        cluster.forget_the_past()
        cluster.is_away = False
        assert "deleted" in place.loss_of().detail

    def test_the_attempts_of_other_nodes_are_not_reported(self, place, cluster, tmp_path):
        other = PodPlace(lambda: cluster, tmp_path / "other")
        other.open()
        assert place.run("true").state is SUCCEEDED
        other.executor.reconcile([(KEY, 2)])
        assert other.first(RunUnknown, attempt=2)
        assert [one for one in other.reports if isinstance(one, RunStarted | RunFinished)] == []
        other.close()

    def test_another_node_takes_a_run_over(self, place, cluster, tmp_path):
        place.start("echo one; sleep 2; echo two")
        place.start_of()
        other = PodPlace(lambda: cluster, tmp_path / "other")
        other.open()
        other.executor.reconcile([(KEY, 1)])
        assert other.start_of()
        assert (other.end_of().state, other.log()) == (SUCCEEDED, (b"one\ntwo\n", True))
        other.close()

    def test_logs_beyond_the_limit_are_fetched_at_the_end(self, place):
        place.open(KubernetesSettings(log_streams=0))
        assert place.run("echo one").state is SUCCEEDED
        assert place.log() == (b"one\n", True)
