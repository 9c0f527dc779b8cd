"""Derives the state of an attempt from its Job and pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from evertick.kinds.kubernetes.diagnostics import cut, disruption_of, why_failed, why_no_pod, why_pending
from evertick.kinds.kubernetes.manifest import CONTAINER
from evertick.model.instant import Instant, from_text
from evertick.model.lifecycle import FAILED, SUCCEEDED, TIMED_OUT, RunState
from evertick.model.plain_json import Document


class Pending(NamedTuple):
    """Not started yet; `is_hopeless` when it never will."""

    why: str
    is_hopeless: bool = False
    has_pod: bool = True


class Running(NamedTuple):
    at: Instant


class Ended(NamedTuple):
    state: RunState
    started_at: Instant | None
    at: Instant | None
    exit_code: int | None = None
    detail: str = ""


class EndedByCluster(NamedTuple):
    """The cluster, or one of its users, ended the attempt: it is lost, whatever its exit code."""

    detail: str


Verdict: TypeAlias = Pending | Running | Ended | EndedByCluster


def judge(job: Document, pods: Sequence[Document]) -> Verdict:
    """Only a condition of the Job ends an attempt: it is set when its pods have really ended."""
    pod = newest(pods)
    main = _status_of(pod)
    terminated = main.get("state", {}).get("terminated") or {}
    started_at = _instant(terminated.get("startedAt") or (main.get("state", {}).get("running") or {}).get("startedAt"))
    for condition in job.get("status", {}).get("conditions") or ():
        if condition.get("status") != "True":
            continue
        ended_at = _instant(terminated.get("finishedAt") or condition.get("lastTransitionTime"))
        if condition["type"] == "Complete":
            return Ended(SUCCEEDED, started_at, ended_at, 0)
        if condition["type"] == "Failed":
            return _failed(condition, pod, terminated, started_at, ended_at)
    if started_at is not None:
        return Running(started_at)
    if pod is None:
        return Pending(why_no_pod(""), has_pod=False)
    return Pending(*why_pending(pod))


def is_over(job: Document) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any(one.get("status") == "True" and one["type"] in {"Complete", "Failed"} for one in conditions)


def newest(pods: Sequence[Document]) -> Document | None:
    """Usually there is one; more if a pod was deleted at the wrong moment."""
    return max(
        pods, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]), default=None
    )


def vanished(known: Sequence[Document], found: Sequence[Document]) -> list[Document]:
    """Pods that are gone and were not seen to end: they were deleted, and the watch has not reported it yet."""
    there = {pod["metadata"]["name"] for pod in found}
    return [
        {**pod, "metadata": {"deletionTimestamp": "unknown", **pod["metadata"]}}
        for pod in known
        if pod["metadata"]["name"] not in there and pod["status"].get("phase") not in {"Succeeded", "Failed"}
    ]


def _failed(
    condition: Document,
    pod: Document | None,
    terminated: Document,
    started_at: Instant | None,
    ended_at: Instant | None,
) -> Verdict:
    if condition.get("reason") == "DeadlineExceeded":
        detail = "it took longer than its timeout" if started_at is not None else _never_started(pod)
        return Ended(TIMED_OUT, started_at, ended_at, None, detail)
    if pod is None:
        return EndedByCluster(
            cut(f"its pod was deleted, and its Job says: {condition.get('message', '')}".rstrip(": "))
        )
    disruption = disruption_of(pod)
    if disruption is not None:
        return EndedByCluster(disruption)
    if pod["metadata"].get("deletionTimestamp"):
        return EndedByCluster("its pod was deleted from outside")
    for status in [*(pod.get("status", {}).get("initContainerStatuses") or ()), *_containers(pod)]:
        end = status.get("state", {}).get("terminated") or {}
        if end.get("exitCode"):
            code = end["exitCode"] if status.get("name") == CONTAINER else terminated.get("exitCode") or end["exitCode"]
            return Ended(FAILED, started_at, ended_at, code, why_failed(status, end))
    message = pod.get("status", {}).get("message") or condition.get("message") or condition.get("reason", "")
    return Ended(FAILED, started_at, ended_at, terminated.get("exitCode"), cut(f"its Job failed: {message}"))


def _never_started(pod: Document | None) -> str:
    why = why_pending(pod)[0] if pod is not None else why_no_pod("")
    return cut(f"it did not start within its timeout: {why}")


def _containers(pod: Document) -> list[Document]:
    """The main one first."""
    found: list[Document] = list(pod.get("status", {}).get("containerStatuses") or ())
    return sorted(found, key=lambda status: status.get("name") != CONTAINER)


def _status_of(pod: Document | None) -> Document:
    return next((one for one in _containers(pod) if one.get("name") == CONTAINER), {}) if pod is not None else {}


def _instant(text: str | None) -> Instant | None:
    return from_text(text) if text else None
