"""Creates and deletes an attempt's Job, retrying until it is certain whether that was done."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final, NamedTuple, TypeAlias

from evertick.kinds.kubernetes.cluster import ApiError, ApiUnavailable, Cluster, pods_path
from evertick.kinds.kubernetes.diagnostics import cut
from evertick.kinds.kubernetes.names import ATTEMPT, JOB_NAME, REPORTED, RUN_ID, STOPPED
from evertick.model.plain_json import Document

log = logging.getLogger("evertick.kubernetes")

RETRY_SECONDS: Final = 0.25
RETRY_MAX_SECONDS: Final = 5.0
GONE_SECONDS: Final = 120.0
"""How long to wait for the pods of a gone Job; an unreachable node never reports their end."""
_FOREVER: Final = float("inf")


class Created(NamedTuple):
    job: Document
    is_new: bool


class Refused(NamedTuple):
    """Nothing was created; a retry may succeed."""

    why: str


class NotCreated(NamedTuple):
    """Nothing was created, and a retry cannot succeed."""

    why: str


Creation: TypeAlias = Created | Refused | NotCreated


class Backoff:
    """Waits that double, and end when the executor closes."""

    def __init__(self, closing: threading.Event, limit_seconds: float = _FOREVER) -> None:
        self._closing = closing
        self._until = time.monotonic() + limit_seconds
        self._seconds = RETRY_SECONDS

    def wait(self) -> bool:
        """Whether to try once more."""
        if self._closing.wait(self._seconds) or time.monotonic() >= self._until:
            return False
        self._seconds = min(self._seconds * 2, RETRY_MAX_SECONDS)
        return True


def create(cluster: Cluster, manifest: Document, closing: threading.Event) -> Creation | None:
    """The Job, created now or before; None if we are closed before that is known."""
    metadata = manifest["metadata"]
    backoff = Backoff(closing)
    may_exist = False
    while True:
        try:
            return Created(cluster.create_job(manifest), is_new=True)
        except ApiUnavailable as error:
            if error.is_unsent and not may_exist:
                return Refused(cut(f"the cluster cannot be reached: {error}"))
            # The request may have arrived: a refusal could leave a Job that nothing tracks.
            may_exist = True
        except ApiError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                found = _existing(cluster, metadata)
                if found is not None:
                    return found
            elif error.status >= 500:
                may_exist = True
            elif not may_exist or error.status in {400, 422}:
                return _refusal(error)
        if not backoff.wait():
            return None


def end(cluster: Cluster, namespace: str, name: str, detail: str, grace_seconds: int, closing: threading.Event) -> None:
    """Mark the Job as ended by us, delete it, and delete its pods at once."""
    backoff = Backoff(closing)
    while True:
        try:
            if cluster.patch_job(namespace, name, {"metadata": {"annotations": {STOPPED: cut(detail)}}}) is None:
                return
            cluster.delete_job(namespace, name)
            for pod in pods_of(cluster, namespace, name):
                cluster.delete_pod(namespace, pod["metadata"]["name"], grace_seconds)
            return
        except (ApiUnavailable, ApiError) as error:
            log.warning("kubernetes.not_ended job=%s reason=%s", name, error)
        if not backoff.wait():
            return


def release(cluster: Cluster, namespace: str, name: str, keep_seconds: int) -> None:
    """Leave the Job to the cluster's clean-up, now that its result is known here."""
    change = {"metadata": {"annotations": {REPORTED: "true"}}, "spec": {"ttlSecondsAfterFinished": keep_seconds}}
    try:
        cluster.patch_job(namespace, name, change)
    except (ApiUnavailable, ApiError) as error:
        # The cluster removes it later.
        log.info("kubernetes.not_marked job=%s reason=%s", name, error)


def read(cluster: Cluster, namespaces: tuple[str, ...], name: str, closing: threading.Event) -> Document | bool | None:
    """The Job; None if it does not exist, False if we are closed before that is known."""
    backoff = Backoff(closing)
    while True:
        try:
            for namespace in namespaces:
                found = cluster.read_job(namespace, name)
                if found is not None:
                    return found
            return None
        except (ApiUnavailable, ApiError) as error:
            log.warning("kubernetes.not_read job=%s reason=%s", name, error)
        if not backoff.wait():
            return False


def pods_of(cluster: Cluster, namespace: str, name: str) -> list[Document]:
    return cluster.list_all(pods_path(namespace), f"{JOB_NAME}={name}")[0]


def end_pods(
    cluster: Cluster, namespace: str, name: str, grace_seconds: int, closing: threading.Event
) -> list[Document]:
    """Delete the pods of a gone Job and wait until they have ended; the last seen state of each.

    A Job can be deleted without its pods, and they must have ended before another attempt starts.
    """
    backoff = Backoff(closing, GONE_SECONDS)
    seen: dict[str, Document] = {}
    while True:
        try:
            left = pods_of(cluster, namespace, name)
            seen |= {pod["metadata"]["name"]: pod for pod in left}
            alive = [pod for pod in left if pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}]
            if not alive:
                return list(seen.values())
            for pod in alive:
                if not pod["metadata"].get("deletionTimestamp"):
                    cluster.delete_pod(namespace, pod["metadata"]["name"], grace_seconds)
        except (ApiUnavailable, ApiError) as error:
            log.warning("kubernetes.pods_not_read job=%s reason=%s", name, error)
        if not backoff.wait():
            log.warning("kubernetes.pods_left job=%s pods=%s", name, ",".join(seen))
            return list(seen.values())


def _existing(cluster: Cluster, metadata: Document) -> Creation | None:
    """The Job of that name: ours from an earlier launch, or a foreign one."""
    try:
        job = cluster.read_job(metadata["namespace"], metadata["name"])
    except (ApiUnavailable, ApiError):
        return None
    if job is None:
        return None
    marks = job["metadata"].get("annotations") or {}
    wanted = metadata["annotations"]
    if (marks.get(RUN_ID), marks.get(ATTEMPT)) != (wanted[RUN_ID], wanted[ATTEMPT]):
        return NotCreated(
            f"the cluster has a Job {metadata['name']!r} that Evertick did not create. Remove it, and retry."
        )
    return Created(job, is_new=False)


def _refusal(error: ApiError) -> Creation:
    words = cut(error.message or str(error)).rstrip(".")
    match error.status:
        case 400 | 422:
            return NotCreated(cut(f"the cluster rejects its Job: {words}."))
        case 401:
            return Refused(cut(f"the cluster does not accept our credentials: {words}. Renew them."))
        case 403:
            return Refused(cut(f"the cluster does not permit it: {words}."))
        case _:
            return Refused(cut(f"the cluster refused its Job: {words}."))
