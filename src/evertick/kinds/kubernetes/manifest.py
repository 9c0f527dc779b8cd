"""Builds the Job of an attempt: one pod, tried once, with the user's own pod specification merged in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evertick.kinds import expand
from evertick.model.instant import SECOND
from evertick.model.plain_json import Document
from evertick.model.work import Pod

CONTAINER: Final = "main"
"""The container of the attempt: its log and exit code are the step's."""
SHELL: Final = ("/bin/sh", "-c")
GRACE_SECONDS: Final = 5
"""Between SIGTERM and SIGKILL; the cluster's default of 30 would delay a replacement for as long."""
ABANDONED_SECONDS: Final = 7 * 24 * 3600
"""The cluster removes a Job this long after its end if its scheduler never comes back."""

# Lists of named items: an item is merged into the one of the same name, as kubectl does it.
_NAMED: Final = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "hostAliases": "ip",
}


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
) -> Document:
    """The Job. The pod's own variables override `env`."""
    # backoffLimit 0 and Never: the ledger decides about retries, not the cluster.
    spec: Document = {
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
        # Whole seconds, rounded up.
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


def pod_spec(pod: Pod, env: Mapping[str, str], working_dir: str | None = None) -> Document:
    container: Document = {
        "name": CONTAINER,
        "image": pod.image,
        "env": _variables(pod, env),
        "securityContext": {"allowPrivilegeEscalation": False},
        # Without a message of its own, the end of its log becomes the pod's message.
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
    spec: Document = {
        "containers": [container],
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": pod.service_account is not None,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    if pod.service_account is not None:
        spec["serviceAccountName"] = pod.service_account
    # Not to be overridden: a container that the kubelet restarts would be an attempt that no ledger records.
    return {**merge(spec, pod.pod_spec), "restartPolicy": "Never"}


def _variables(pod: Pod, env: Mapping[str, str]) -> list[Document]:
    plain = dict(env)
    for name, text in pod.env:
        plain[name] = expand(name, text, plain)
    found: list[Document] = [
        {"name": name, "value": _literal(value)}
        for name, value in plain.items()
        if name not in {name for name, _ in pod.secrets}
    ]
    for name, secret in pod.secrets:
        found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret.secret, "key": secret.key}}})
    return found


def _literal(value: str) -> str:
    """Escape `$`: the cluster expands `$(NAME)`, and a parameter must reach the container unchanged."""
    return value.replace("$", "$$")


def merge(base: Mapping[str, object], override: Mapping[str, object]) -> Document:
    """Maps and named items are merged, any other value is replaced; null removes a value."""
    result = dict(base)
    for name, value in override.items():
        if value is None:
            result.pop(name, None)
            continue
        result[name] = _merge_value(name, result.get(name), value)
    return result


def _merge_value(name: str, base: object, value: object) -> object:
    if isinstance(value, Mapping):
        return merge(base if isinstance(base, Mapping) else {}, value)
    key = _NAMED.get(name)
    if key is None or not isinstance(value, list | tuple):
        return list(value) if isinstance(value, tuple) else value
    if not all(isinstance(item, Mapping) for item in value):
        return list(value)
    items: list[Document] = [dict(item) for item in base] if isinstance(base, list) else []
    for item in value:
        position = next((index for index, one in enumerate(items) if one.get(key) == item.get(key)), None)
        if position is None:
            items.append(merge({}, item))
        else:
            items[position] = merge(items[position], item)
    return items
