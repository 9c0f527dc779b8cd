"""Whether the status of a Job and its pods is read as the outcome of the attempt."""

from __future__ import annotations

import pytest

from evertick.kinds.kubernetes.diagnostics import DETAIL_MAX
from evertick.kinds.kubernetes.status import Ended, EndedByCluster, Pending, Running, judge
from evertick.model.instant import SECOND, from_text
from evertick.model.lifecycle import FAILED, SUCCEEDED, TIMED_OUT

NINE, LATER = "2026-03-02T09:00:00Z", "2026-03-02T09:00:05Z"
AT, THEN = from_text(NINE), from_text(LATER)


def job(*conditions):
    return {"metadata": {"name": "j"}, "status": {"conditions": [{"status": "True", **one} for one in conditions]}}


def pod(state=None, *, conditions=(), node="n1", name="main", deleted=False, others=(), **status):
    containers = [{"name": name, "image": "acme/etl:1", "state": state}] if state else []
    return {
        "metadata": {"name": "j-x", **({"deletionTimestamp": LATER} if deleted else {})},
        "spec": {"containers": [{"name": "main", "image": "acme/etl:1"}], "nodeName": node},
        "status": {"containerStatuses": [*others, *containers], "conditions": list(conditions), **status},
    }


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


def ended(code, reason="Error", **more):
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": NINE, "finishedAt": LATER, **more}}


RUNNING = {"running": {"startedAt": NINE}}
COMPLETE = {"type": "Complete", "lastTransitionTime": LATER}
GAVE_UP = {"type": "Failed", "reason": "BackoffLimitExceeded", "message": "no more tries", "lastTransitionTime": LATER}
TOO_LONG = {"type": "Failed", "reason": "DeadlineExceeded", "lastTransitionTime": LATER}
ENDING = {"type": "FailureTarget", "reason": "DeadlineExceeded"}
EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}


@pytest.mark.parametrize(
    ("job", "pods", "verdict"),
    [
        pytest.param(job(), [], Pending("the cluster has not created its pod yet.", False, False), id="no pod"),
        pytest.param(job(), [pod(RUNNING)], Running(AT), id="its container runs"),
        pytest.param(job(), [pod(ended(0))], Running(AT), id="its container has ended and its Job does not know yet"),
        pytest.param(job(ENDING), [pod(RUNNING, deleted=True)], Running(AT), id="it is being ended"),
        pytest.param(job(COMPLETE), [pod(ended(0))], Ended(SUCCEEDED, AT, THEN, 0), id="it ended well"),
        pytest.param(job(COMPLETE), [], Ended(SUCCEEDED, None, THEN, 0), id="it ended well and its pod is removed"),
        pytest.param(job(GAVE_UP), [pod(ended(7))], Ended(FAILED, AT, THEN, 7, "exit code 7"), id="an exit code"),
        pytest.param(
            job(GAVE_UP),
            [pod(ended(137, "OOMKilled"))],
            Ended(
                FAILED,
                AT,
                THEN,
                137,
                "it used more memory than its limit (exit code 137). Raise 'resources.limits.memory'.",
            ),
            id="out of memory",
        ),
        pytest.param(
            job(GAVE_UP),
            [pod(ended(0), others=[{"name": "proxy", "state": ended(3)}])],
            Ended(FAILED, AT, THEN, 3, "container 'proxy': exit code 3"),
            id="another container failed",
        ),
        pytest.param(
            job(TOO_LONG),
            [pod(ended(143), deleted=True)],
            Ended(TIMED_OUT, AT, THEN, None, "it took longer than its timeout"),
            id="its deadline",
        ),
        pytest.param(
            job(TOO_LONG),
            [pod(node="")],
            Ended(
                TIMED_OUT,
                None,
                THEN,
                None,
                "it did not start within its timeout: it waits for a node.",
            ),
            id="its deadline before it started",
        ),
        pytest.param(
            job(GAVE_UP),
            [pod(ended(143), conditions=[EVICTED])],
            EndedByCluster("it was evicted from its node"),
            id="evicted",
        ),
        pytest.param(
            job(GAVE_UP),
            [pod(reason="Evicted", message="The node was low on memory.")],
            EndedByCluster("its node ended it (Evicted): The node was low on memory."),
            id="evicted by its node",
        ),
        pytest.param(
            job(GAVE_UP),
            [pod(ended(143), deleted=True)],
            EndedByCluster("its pod was deleted from outside"),
            id="pod deleted",
        ),
        pytest.param(
            job(GAVE_UP),
            [],
            EndedByCluster("its pod was deleted, and its Job says: no more tries"),
            id="pod deleted and gone",
        ),
        pytest.param(
            job(COMPLETE),
            [pod(ended(0), conditions=[EVICTED])],
            Ended(SUCCEEDED, AT, THEN, 0),
            id="it ended well before it was evicted",
        ),
        pytest.param(
            job(GAVE_UP),
            [pod()],
            Ended(FAILED, None, THEN, None, "its Job failed: no more tries"),
            id="no reason at all",
        ),
    ],
)
def test_a_job_and_its_pod(job, pods, verdict):
    assert judge(job, pods) == verdict


@pytest.mark.parametrize(
    ("found", "words", "is_hopeless"),
    [
        pytest.param(
            pod(waiting("ImagePullBackOff", 'Back-off pulling image "acme/etl:1"')),
            "the image 'acme/etl:1' cannot be pulled: Back-off pulling image \"acme/etl:1\"."
            " Check its name and 'imagePullSecrets'.",
            False,
            id="the image cannot be pulled",
        ),
        pytest.param(
            pod(waiting("InvalidImageName", "x")),
            "'acme/etl:1' is not a valid image name. Example: ghcr.io/acme/report:1.4.",
            True,
            id="not an image",
        ),
        pytest.param(
            pod(waiting("ErrImageNeverPull")),
            "the image 'acme/etl:1' is not on the node, and 'imagePullPolicy: Never' forbids pulling it.",
            True,
            id="never pulled",
        ),
        pytest.param(
            pod(waiting("CreateContainerConfigError", 'secret "db" not found')),
            'its container cannot be set up: secret "db" not found. Check its secrets and volumes.',
            False,
            id="a secret is missing",
        ),
        pytest.param(
            pod(
                node="",
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes are available: 3 Insufficient memory.",
                    }
                ],
            ),
            "no node of the cluster can run it: 0/3 nodes are available: 3 Insufficient memory.",
            False,
            id="no room",
        ),
        pytest.param(pod(node=""), "it waits for a node.", False, id="no node yet"),
        pytest.param(
            pod(waiting("ContainerCreating")), "its node 'n1' has not started it yet.", False, id="being created"
        ),
    ],
)
def test_why_it_does_not_start(found, words, is_hopeless):
    assert judge(job(), [found]) == Pending(words, is_hopeless)


def test_the_newest_pod_counts():
    old = pod(ended(1))
    old["metadata"]["creationTimestamp"] = "2026-03-02T08:00:00Z"
    new = pod(RUNNING)
    new["metadata"]["creationTimestamp"] = NINE
    assert judge(job(), [new, old]) == judge(job(), [old, new]) == Running(AT)


def test_a_long_message_is_one_line_that_fits_into_the_ledger():
    verdict = judge(job(), [pod(waiting("ErrImagePull", "no\nroute " * 500))])
    assert isinstance(verdict, Pending)
    assert len(verdict.why) <= DETAIL_MAX
    assert "\n" not in verdict.why


def test_a_job_without_a_status_has_only_been_asked_for():
    assert isinstance(judge({"metadata": {"name": "j"}}, []), Pending)
    assert THEN - AT == 5 * SECOND
