"""What is asked of the cluster for an attempt: one Job, one pod, tried once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evertick.kinds.kubernetes.overlay import Json, laid_over
from evertick.model.instant import SECOND
from evertick.model.work import Pod

CONTAINER: Final = "main"
"""The container that is the attempt: its log is the step's log, its exit code the step's."""
SHELL: Final = ("/bin/sh", "-c")
GRACE_SECONDS: Final = 5
"""Between the polite end of a container and the one by force; the cluster's own default of 30 would hold up a
replacement for as long."""
ABANDONED_SECONDS: Final = 7 * 24 * 3600
"""A Job whose scheduler never comes back is removed by the cluster this long after its end."""


def job_manifest(
    pod: Pod,
    *,
    name: str,
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    env: Mapping[str, str],
    working_dir: str | None = None,
    timeout_us: int | None = None,
) -> Json:
    """The Job. `env` is what the run is told; the pod's own variables win over it."""
    # backoffLimit 0 and Never: whether there is another try is decided by the ledger, not by the cluster.
    spec: Json = {
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "ttlSecondsAfterFinished": ABANDONED_SECONDS,
        "template": {
            "metadata": {"labels": dict(labels), "annotations": dict(annotations)},
            "spec": pod_spec(pod, env, working_dir),
        },
    }
    if timeout_us is not None:
        # Whole seconds, rounded up: the cluster knows no others.
        spec["activeDeadlineSeconds"] = max(1, -(-timeout_us // SECOND))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels),
            "annotations": dict(annotations),
        },
        "spec": spec,
    }


def pod_spec(pod: Pod, env: Mapping[str, str], working_dir: str | None = None) -> Json:
    container: Json = {
        "name": CONTAINER,
        "image": pod.image,
        "env": _variables(pod, env),
        "securityContext": {"allowPrivilegeEscalation": False},
        # The end of its log goes into the pod's status when it says nothing itself.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if pod.command:
        words = (*SHELL, " ".join(pod.command)) if pod.is_shell else pod.command
        container["command"] = [_literal(word) for word in words]
    if working_dir is not None:
        container["workingDir"] = working_dir
    resources = {name: dict(given) for name, given in (("requests", pod.requests), ("limits", pod.limits)) if given}
    if resources:
        container["resources"] = resources
    spec: Json = {
        "containers": [container],
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": pod.service_account is not None,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    if pod.service_account is not None:
        spec["serviceAccountName"] = pod.service_account
    # Not to be overlaid: a container that the kubelet starts again would be an attempt that nobody accounts for.
    return {**laid_over(spec, pod.pod_spec), "restartPolicy": "Never"}


def _variables(pod: Pod, env: Mapping[str, str]) -> list[Json]:
    plain = {**env, **dict(pod.env)}
    found: list[Json] = [
        {"name": name, "value": _literal(value)}
        for name, value in plain.items()
        if name not in {name for name, _ in pod.secrets}
    ]
    for name, secret in pod.secrets:
        found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret.secret, "key": secret.key}}})
    return found


def _literal(value: str) -> str:
    """As the container shall see it: the cluster puts variables in for `$(NAME)`, and a parameter is never a text."""
    return value.replace("$", "$$")
