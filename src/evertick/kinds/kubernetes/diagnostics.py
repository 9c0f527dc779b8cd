"""Explains why a pod does not start or did not end well, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from evertick.model.lifecycle import exit_code_text
from evertick.model.plain_json import Document

DETAIL_MAX: Final = 500

_HOPELESS: Final = {"InvalidImageName", "ErrImageNeverPull"}
"""Reasons for waiting that will not go away."""
_DISRUPTIONS: Final = {
    "EvictionByEvictionAPI": "it was evicted from its node",
    "PreemptionByScheduler": "it was preempted by a pod of higher priority",
    "DeletionByTaintManager": "its node was drained",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "its node ended it because it ran out of resources",
}


def why_pending(pod: Document) -> tuple[str, bool]:
    """Why the pod has not started, and whether it never will."""
    image = _first(pod["spec"].get("containers")).get("image", "")
    for status in _statuses(pod):
        waiting = status.get("state", {}).get("waiting") or {}
        reason, message = waiting.get("reason", ""), waiting.get("message", "")
        name = status.get("image") or image
        if reason in {"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable", *_HOPELESS}:
            return _pull(name or image, reason, message), reason in _HOPELESS
        if reason == "CreateContainerConfigError":
            return cut(f"its container cannot be set up: {message}. Check its secrets and volumes."), False
        if reason in {"CreateContainerError", "RunContainerError"}:
            return cut(f"its container cannot be started: {message or reason}."), False
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            text = condition.get("message") or condition.get("reason") or "no reason given"
            return cut(f"no node of the cluster can run it: {text.rstrip('.')}."), False
    if not pod["spec"].get("nodeName"):
        return "it waits for a node.", False
    return f"its node {pod['spec']['nodeName']!r} has not started it yet.", False


def why_no_pod(message: str) -> str:
    """The Job exists and the cluster creates no pod for it."""
    if not message:
        return "the cluster has not created its pod yet."
    return cut(
        f"the cluster cannot create its pod: {message.rstrip('.')}. Check quotas, permissions and the service account."
    )


def why_failed(status: Document, terminated: Document) -> str:
    """Why a container failed."""
    code, reason = terminated.get("exitCode"), terminated.get("reason", "")
    who = "" if status.get("name") == "main" else f"container {status.get('name')!r}: "
    if reason == "OOMKilled":
        return f"{who}it used more memory than its limit (exit code {code}). Raise 'resources.limits.memory'."
    if reason in {"ContainerCannotRun", "StartError"}:
        return cut(f"{who}its program cannot be started: {terminated.get('message') or reason}")
    return f"{who}{exit_code_text(code)}"


def disruption_of(pod: Document) -> str | None:
    """What the cluster did to the pod; None if the pod ended by itself."""
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            known = _DISRUPTIONS.get(condition.get("reason", ""), "the cluster ended its pod")
            return cut(f"{known}: {condition['message']}") if condition.get("message") else known
    status = pod.get("status", {})
    if status.get("reason") in {"Evicted", "Preempting", "NodeLost", "Shutdown", "Terminated", "NodeShutdown"}:
        return cut(f"its node ended it ({status['reason']}): {status.get('message', '')}".rstrip(": "))
    return None


def cut(text: str) -> str:
    """One line, short enough for the ledger."""
    line = " ".join(text.split())
    return line if len(line) <= DETAIL_MAX else line[: DETAIL_MAX - 3] + "..."


def _pull(image: str, reason: str, message: str) -> str:
    if reason == "InvalidImageName":
        return cut(f"{image!r} is not a valid image name. Example: ghcr.io/acme/report:1.4.")
    if reason == "ErrImageNeverPull":
        return cut(f"the image {image!r} is not on the node, and 'imagePullPolicy: Never' forbids pulling it.")
    text = message or reason
    return cut(f"the image {image!r} cannot be pulled: {text}. Check its name and 'imagePullSecrets'.")


def _statuses(pod: Document) -> list[Document]:
    status = pod.get("status", {})
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _first(items: Sequence[Document] | None) -> Document:
    return items[0] if items else {}
