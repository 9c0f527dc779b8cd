"""The tests that every cluster must pass: the same suite runs on the fake one and on a real one.

Who takes it provides `place`, a `PodPlace`, and `troubles`, which can do to the cluster what clusters suffer.
"""

from __future__ import annotations

import json

import pytest

from evertick.kinds.kubernetes.names import STOPPED
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED
from evertick.model.report import RunStarted, RunUnknown
from evertick.model.work import Param
from tests.executors.contract import KEY, ExecutorContract
from tests.executors.kubernetes.pods import EndsWell
from tests.executors.local_runs import until

IGNORES_TERM = "trap '' TERM; echo up; while :; do sleep 0.1; done"


class PodContract(ExecutorContract):
    @pytest.fixture
    def executor(self, place):
        return EndsWell(place)

    @pytest.fixture
    def reports(self, place):
        return place.reports


class PodBehaviour:
    def test_an_exit_code_is_reported(self, place):
        end = place.run("exit 7")
        assert (end.state, end.exit_code, end.detail) == (FAILED, 7, "exit code 7")

    def test_the_output_of_a_pod_is_in_the_log_folder_when_it_has_ended(self, place):
        assert place.run("echo one; echo two; printf three").state is SUCCEEDED
        assert place.log() == (b"one\ntwo\nthree", True)

    def test_what_it_complains_is_in_the_log_too(self, place):
        assert place.run("echo one >&2").state is SUCCEEDED
        assert place.log() == (b"one\n", True)

    def test_its_log_is_read_while_it_runs(self, place):
        place.start("echo one; sleep 60")
        until(lambda: place.log() == (b"one\n", False), "the first line")
        place.executor.stop(KEY, 1, "enough")
        place.end_of()
        assert place.log() == (b"one\n", True)

    def test_a_pod_receives_its_run_and_its_parameters(self, place):
        line = 'echo "$EVERTICK_RUN_ID $EVERTICK_RUN_ATTEMPT $EVERTICK_RUN_SCHEDULED_FOR $DAY $MODE"'
        given = json.dumps({"DAY": "$(MODE); $$ 'x'", "PATH": "/nowhere"})
        place.run(line, given=given, env=(("MODE", "full"),), params=(Param("DAY"),))
        assert place.log()[0] == f"{KEY.run_id} 1 2026-03-02T09:00:00Z $(MODE); $$ 'x' full\n".encode()

    def test_a_launch_repeated_while_it_runs_starts_nothing(self, place, troubles):
        place.start("echo up; sleep 60")
        place.start_of()
        place.reports.clear()
        place.start("echo up; sleep 60")
        assert place.start_of().attempt == 1
        assert troubles.count_jobs() == 1
        place.executor.stop(KEY, 1, "enough")
        place.end_of()

    def test_a_stopped_pod_is_cancelled_when_it_is_really_gone(self, place, troubles):
        place.start(IGNORES_TERM)
        until(lambda: place.log()[0] == b"up\n", "it to be up")
        place.executor.stop(KEY, 1, "replaced by a newer one")
        end = place.end_of()
        assert (end.state, end.detail) == (CANCELLED, "replaced by a newer one")
        assert troubles.count_jobs() == 0
        assert not troubles.is_alive(place.name_of())

    def test_stopping_twice_is_stopping_once(self, place):
        place.start("sleep 60")
        place.start_of()
        place.executor.stop(KEY, 1, "first")
        place.executor.stop(KEY, 1, "second")
        assert place.end_of().detail == "first"

    def test_a_run_outlives_its_scheduler_and_is_found_again(self, place, troubles):
        place.start("echo one; sleep 3; echo two")
        until(lambda: place.log()[0] == b"one\n", "the first line")
        place.restart()
        place.executor.reconcile([(KEY, 1)])
        assert place.start_of().executor == "kubernetes"
        end = place.end_of()
        assert (end.state, end.exit_code) == (SUCCEEDED, 0)
        assert place.log() == (b"one\ntwo\n", True)
        assert troubles.count_jobs() == 1

    def test_an_end_during_a_downtime_is_reported_later(self, place, troubles):
        place.start("echo up; exit 3")
        until(lambda: troubles.count_jobs() == 1, "its Job")
        place.executor.close()
        troubles.wait_until_over(place.name_of())
        place.restart()
        place.executor.reconcile([(KEY, 1), (KEY, 2)])
        end = place.end_of()
        assert (end.state, end.exit_code) == (FAILED, 3)
        assert place.first(RunUnknown, attempt=2)
        assert place.log() == (b"up\n", True)

    def test_a_stop_that_the_scheduler_did_not_live_to_see_is_finished_by_the_next(self, place):
        place.start(IGNORES_TERM)
        until(lambda: place.log()[0] == b"up\n", "it to be up")
        place.executor.stop(KEY, 1, "replaced")
        until(lambda: _is_marked(place), "the stop to have begun")
        place.restart()
        place.executor.reconcile([(KEY, 1)])
        said = place.reports.wait_until(lambda all_: any(not isinstance(one, RunStarted) for one in all_))
        end = next(one for one in said if not isinstance(one, RunStarted))
        # Either it was still there, and is known to be ended by us, or it was gone and nobody knows of it.
        assert isinstance(end, RunUnknown) or (end.state, end.detail) == (CANCELLED, "replaced")

    def test_a_stop_that_another_scheduler_began_is_a_stop_and_is_finished(self, place):
        place.start(IGNORES_TERM)
        until(lambda: place.log()[0] == b"up\n", "it to be up")
        cluster = place.connect()
        cluster.patch_job("default", place.name_of(), {"metadata": {"annotations": {STOPPED: "replaced"}}})
        end = place.end_of()
        assert (end.state, end.detail) == (CANCELLED, "replaced")
        assert cluster.read_job("default", place.name_of()) is None

    def test_a_deleted_cluster_job_is_lost_once_its_pod_is_gone(self, place, troubles):
        place.start(IGNORES_TERM)
        until(lambda: place.log()[0] == b"up\n", "it to be up")
        troubles.delete_job(place.name_of())
        assert place.loss_of().detail == f"its Job {place.name_of()!r} was deleted from outside"
        assert not troubles.is_alive(place.name_of())

    def test_a_deleted_pod_is_lost(self, place, troubles):
        place.start("echo up; sleep 60")
        place.start_of()
        troubles.delete_pod(place.name_of())
        assert "deleted" in place.loss_of().detail

    def test_a_pod_that_is_evicted_is_lost(self, place, troubles):
        place.start("echo up; sleep 60")
        place.start_of()
        troubles.evict(place.name_of())
        assert "evicted" in place.loss_of().detail

    def test_the_cluster_removes_its_job_soon_after_the_request(self, place, troubles):
        place.run("true")
        until(lambda: troubles.ttl_of(place.name_of()) == 600, "the Job to be left to the cluster")

    def test_every_watch_may_expire(self, place, troubles):
        place.start("echo up; sleep 4; echo down")
        place.start_of()
        troubles.expire_watches()
        assert place.end_of().state is SUCCEEDED
        assert place.log() == (b"up\ndown\n", True)
        assert len([one for one in place.reports if isinstance(one, RunStarted)]) == 1


def _is_marked(place) -> bool:
    """Whether its Job says that it is being ended, or has gone already."""
    job = place.connect().read_job("default", place.name_of())
    return job is None or STOPPED in job["metadata"]["annotations"]
