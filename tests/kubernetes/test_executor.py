"""Running on a real cluster: the contract of executors, what running on any cluster must do, and its faults."""

from __future__ import annotations

from evertick.model.instant import SECOND
from evertick.model.lifecycle import FAILED, SUCCEEDED, TIMED_OUT
from evertick.model.report import LaunchRefused, RunStarted
from evertick.model.work import Pod, SecretKey
from evertick.settings.parts import KubernetesSettings
from tests.executors.contract import KEY
from tests.executors.kubernetes.behaviour import PodBehaviour, PodContract
from tests.executors.kubernetes.pods import key_of, launch, pod_job
from tests.executors.local_runs import until

IMPATIENT = KubernetesSettings(start_timeout_us=3 * SECOND)


class TestContract(PodContract):
    pass


class TestBehaviour(PodBehaviour):
    pass


class TestRealPods:
    def test_a_timeout_ends_it(self, place, troubles):
        end = place.run("echo up; sleep 60", timeout_us=2 * SECOND)
        assert (end.state, end.detail) == (TIMED_OUT, "it took longer than its timeout")
        assert not troubles.is_alive(place.name_of())

    def test_a_secret_of_the_cluster_reaches_it(self, place, real_cluster):
        secret = {"metadata": {"name": "db"}, "stringData": {"password": "open sesame"}}
        real_cluster.ask("POST", "/api/v1/namespaces/default/secrets", secret)
        pod = Pod(
            place.image, ('echo "$PASSWORD"',), is_shell=True, secrets=(("PASSWORD", SecretKey("db", "password")),)
        )
        place.executor.launch(launch(pod_job(pod=pod)))
        assert place.end_of().state is SUCCEEDED
        assert place.log()[0] == b"open sesame\n"

    def test_an_image_that_is_not_there_fails_in_words(self, place, troubles):
        place.open(IMPATIENT)
        end = place.run("true", image="localhost/nothing:1")
        assert end.state is FAILED
        assert end.detail.startswith("it did not start in time: the image 'localhost/nothing:1' cannot be pulled: ")
        assert troubles.count_jobs() == 0

    def test_an_invalid_image_fails_at_once(self, place):
        end = place.run("true", image="No Image!")
        assert (end.state, end.detail.partition(".")[0]) == (FAILED, "'No Image!' is not a valid image name")

    def test_a_pod_that_no_node_can_take_fails_in_words(self, place):
        place.open(IMPATIENT)
        place.executor.launch(launch(pod_job(pod=Pod(place.image, ("true",), requests=(("cpu", "1000"),)))))
        end = place.end_of()
        assert end.state is FAILED
        assert "no node of the cluster can run it: 0/1 nodes are available: 1 Insufficient cpu" in end.detail

    def test_a_missing_secret_fails_in_words(self, place):
        place.open(IMPATIENT)
        pod = Pod(place.image, ("true",), secrets=(("X", SecretKey("nowhere", "x")),))
        place.executor.launch(launch(pod_job(pod=pod)))
        assert 'secret "nowhere" not found' in place.end_of().detail

    def test_a_program_that_is_not_in_the_image_fails_in_words(self, place):
        place.executor.launch(launch(pod_job(pod=Pod(place.image, ("no-such-program",)))))
        end = place.end_of()
        assert end.state is FAILED
        assert "no-such-program" in end.detail

    def test_too_little_memory_fails_in_words(self, place):
        line = "x=$(head -c 100000000 /dev/zero | tr '\\0' x)"
        pod = Pod(place.image, (line,), is_shell=True, limits=(("memory", "20Mi"),))
        place.executor.launch(launch(pod_job(pod=pod)))
        end = place.end_of()
        assert end.state is FAILED
        assert "memory" in end.detail or end.exit_code == 137

    def test_a_manifest_that_the_cluster_refuses_fails_with_a_reason(self, place):
        place.executor.launch(launch(pod_job(pod=Pod(place.image, ("true",), limits=(("cpu", "many"),)))))
        end = place.end_of()
        assert end.state is FAILED
        assert end.detail.startswith("the cluster rejects its Job: ")

    def test_a_service_account_that_is_not_there_is_reported(self, place):
        place.open(KubernetesSettings(start_timeout_us=12 * SECOND))
        place.executor.launch(launch(pod_job(pod=Pod(place.image, ("true",), service_account="nobody"))))
        assert 'serviceaccount "nobody" not found' in place.end_of().detail

    def test_twenty_at_once_all_end_well(self, place):
        keys = [key_of(number) for number in range(20)]
        for key in keys:
            place.start('echo "$EVERTICK_RUN_ID"', key)
        for key in keys:
            assert place.end_of(key).state is SUCCEEDED
            assert place.log(key) == (f"{key.run_id}\n".encode(), True)


class TestApiServer:
    def test_the_api_server_may_die_while_runs_continue_and_end(self, place, real_cluster):
        place.start("echo up; sleep 3; echo down")
        place.start_of()
        real_cluster.kill_api()
        try:
            until(lambda: not place.executor.members()[0].is_healthy, "the trouble to be known")
            place.start("echo never", key_of(1))
            assert "cannot be reached" in place.first(LaunchRefused, key_of(1)).detail
        finally:
            real_cluster.start_api()
        assert place.end_of().state is SUCCEEDED
        assert place.log() == (b"up\ndown\n", True)
        assert len([one for one in place.reports if isinstance(one, RunStarted) and one.key == KEY]) == 1
        assert place.run("echo again", key_of(1)).state is SUCCEEDED

    def test_the_api_server_may_die_while_a_run_is_being_ended(self, place, real_cluster, troubles):
        place.start("trap '' TERM; echo up; sleep 60")
        until(lambda: place.log()[0] == b"up\n", "it to be up")
        place.executor.stop(KEY, 1, "replaced")
        real_cluster.restart_api()
        assert place.end_of().detail == "replaced"
        assert troubles.count_jobs() == 0
