"""Creates and deletes an attempt's Job, retrying until it is certain whether that was done."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final, NamedTuple, TypeAlias

from evertick.kinds.kubernetes.cluster import ApiAway, ApiError, Cluster, pods_path
from evertick.kinds.kubernetes.diagnostics import cut
from evertick.kinds.kubernetes.names import ATTEMPT, JOB_NAME, RUN_ID, STOPPED, TOLD
from evertick.kinds.kubernetes.overlay import Json

log = logging.getLogger("evertick.kubernetes")

AGAIN_SECONDS: Final = 0.25
AGAIN_MAX_SECONDS: Final = 5.0
GONE_SECONDS: Final = 120.0
"""How long the pods of a Job that is gone are waited for; a node that is cut off never says that they have ended."""
_FOREVER: Final = float("inf")


class Created(NamedTuple):
    job: Json
    is_new: bool


class Refused(NamedTuple):
    """Nothing was created; another try may be answered otherwise."""

    why: str


class Impossible(NamedTuple):
    """Nothing was created, and the same will never be."""

    why: str


Creation: TypeAlias = Created | Refused | Impossible


class Patience:
    """Waits that grow, and end when the executor does."""

    def __init__(self, closing: threading.Event, limit_seconds: float = _FOREVER) -> None:
        self._closing = closing
        self._until = time.monotonic() + limit_seconds
        self._seconds = AGAIN_SECONDS

    def again(self) -> bool:
        """After a wait: whether to try once more."""
        if self._closing.wait(self._seconds) or time.monotonic() >= self._until:
            return False
        self._seconds = min(self._seconds * 2, AGAIN_MAX_SECONDS)
        return True


def create(cluster: Cluster, manifest: Json, closing: threading.Event) -> Creation | None:
    """The Job, made now or before; None when we are closed before it is known."""
    metadata = manifest["metadata"]
    patience = Patience(closing)
    is_doubtful = False
    while True:
        try:
            return Created(cluster.create_job(manifest), is_new=True)
        except ApiAway as error:
            if error.is_unsent and not is_doubtful:
                return Refused(cut(f"the cluster cannot be reached: {error}"))
            # It may have arrived: to say that nothing was started would leave a run that nobody knows of.
            is_doubtful = True
        except ApiError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                found = _existing(cluster, metadata)
                if found is not None:
                    return found
            elif error.status >= 500:
                is_doubtful = True
            elif not is_doubtful or error.status in {400, 422}:
                return _refusal(error)
        if not patience.again():
            return None


def end(cluster: Cluster, namespace: str, name: str, detail: str, grace_seconds: int, closing: threading.Event) -> None:
    """Mark the Job as ended by us, delete it, and end its pods at once rather than when the cluster comes to it."""
    patience = Patience(closing)
    while True:
        try:
            if cluster.patch_job(namespace, name, {"metadata": {"annotations": {STOPPED: cut(detail)}}}) is None:
                return
            cluster.delete_job(namespace, name)
            for pod in pods_of(cluster, namespace, name):
                cluster.delete_pod(namespace, pod["metadata"]["name"], grace_seconds)
            return
        except (ApiAway, ApiError) as error:
            log.warning("kubernetes.not_ended job=%s reason=%s", name, error)
        if not patience.again():
            return


def tell(cluster: Cluster, namespace: str, name: str, keep_seconds: int) -> None:
    """Leave the Job to the cluster's own clean-up, now that its outcome is known here."""
    change = {"metadata": {"annotations": {TOLD: "true"}}, "spec": {"ttlSecondsAfterFinished": keep_seconds}}
    try:
        cluster.patch_job(namespace, name, change)
    except (ApiAway, ApiError) as error:
        # It goes all the same, only later.
        log.info("kubernetes.not_marked job=%s reason=%s", name, error)


def read(cluster: Cluster, namespaces: tuple[str, ...], name: str, closing: threading.Event) -> Json | bool | None:
    """The Job, None when there is none; False when we are closed before it is known."""
    patience = Patience(closing)
    while True:
        try:
            for namespace in namespaces:
                found = cluster.read_job(namespace, name)
                if found is not None:
                    return found
            return None
        except (ApiAway, ApiError) as error:
            log.warning("kubernetes.not_read job=%s reason=%s", name, error)
        if not patience.again():
            return False


def pods_of(cluster: Cluster, namespace: str, name: str) -> list[Json]:
    return cluster.list_all(pods_path(namespace), f"{JOB_NAME}={name}")[0]


def end_pods(cluster: Cluster, namespace: str, name: str, grace_seconds: int, closing: threading.Event) -> list[Json]:
    """Wait until the pods of a Job that is gone are gone too, and help; answers the last that was seen of them.

    A Job can be taken away from under its pods. Before another attempt may start, this one must have ended.
    """
    patience = Patience(closing, GONE_SECONDS)
    seen: dict[str, Json] = {}
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
        except (ApiAway, ApiError) as error:
            log.warning("kubernetes.pods_not_read job=%s reason=%s", name, error)
        if not patience.again():
            log.warning("kubernetes.pods_left job=%s pods=%s", name, ",".join(seen))
            return list(seen.values())


def _existing(cluster: Cluster, metadata: Json) -> Creation | None:
    """The Job that bears the name: ours from an earlier launch, or somebody else's."""
    try:
        job = cluster.read_job(metadata["namespace"], metadata["name"])
    except (ApiAway, ApiError):
        return None
    if job is None:
        return None
    marks = job["metadata"].get("annotations") or {}
    wanted = metadata["annotations"]
    if (marks.get(RUN_ID), marks.get(ATTEMPT)) != (wanted[RUN_ID], wanted[ATTEMPT]):
        return Impossible(f"the cluster has a Job {metadata['name']!r} that is not ours. Remove it, and try again.")
    return Created(job, is_new=False)


def _refusal(error: ApiError) -> Creation:
    words = cut(error.message or str(error)).rstrip(".")
    match error.status:
        case 400 | 422:
            return Impossible(cut(f"the cluster does not take its Job: {words}."))
        case 401:
            return Refused(cut(f"the cluster does not know us: {words}. Renew the credentials."))
        case 403:
            return Refused(cut(f"the cluster does not let us: {words}."))
        case _:
            return Refused(cut(f"the cluster refuses its Job: {words}."))
