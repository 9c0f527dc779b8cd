"""Connects to the cluster on first use, and watches its Jobs and pods from then on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from evertick.errors import SettingsError
from evertick.executors.kubernetes.settings import KubernetesSettings
from evertick.kinds.kubernetes.cluster import Cluster, jobs_path, pods_path
from evertick.kinds.kubernetes.names import ATTEMPT_ROLE, INSTANCE, ROLE, selector_of
from evertick.kinds.kubernetes.overlay import Json
from evertick.kinds.kubernetes.watcher import Watch

CLOSE_SECONDS: Final = 5.0
_WHICH: Final = "which"
"""The trouble of not knowing which cluster is meant; the others are named by what is listened to."""


class Listener(Protocol):
    """Who is told what the cluster says, from threads that are not its own."""

    def begin(self, cluster: Cluster) -> None:
        """Called once, before anything is said."""
        ...

    def all_jobs(self, namespace: str, jobs: Sequence[Json]) -> None: ...
    def job_changed(self, kind: str, job: Json) -> None: ...
    def all_pods(self, namespace: str, pods: Sequence[Json]) -> None: ...
    def pod_changed(self, kind: str, pod: Json) -> None: ...


class Connection:
    """Most schedulers never have a job for a cluster: nothing is asked until somebody needs it."""

    def __init__(self, connect: Callable[[], Cluster], settings: KubernetesSettings, listener: Listener) -> None:
        self._connect = connect
        self._settings = settings
        self._listener = listener
        self._lock = threading.Lock()
        self._cluster: Cluster | None = None
        self._watches: list[Watch] = []
        self._troubles: dict[str, str] = {}
        self._is_closed = False
        self.namespaces: tuple[str, ...] = ()
        """Where Jobs may be; known once the cluster is reached."""

    def cluster(self) -> Cluster:
        """`SettingsError` when nobody says which, or nobody may ask any more."""
        with self._lock:
            if self._is_closed:
                raise SettingsError("the executor is closed.")
            if self._cluster is None:
                try:
                    cluster = self._connect()
                except SettingsError as error:
                    self._troubled(_WHICH, str(error))
                    raise
                self._troubled(_WHICH, "")
                self.namespaces = tuple(dict.fromkeys((cluster.namespace, *self._settings.namespaces)))
                self._listener.begin(cluster)
                self._cluster = cluster
                self._listen(cluster)
            return self._cluster

    @property
    def was_tried(self) -> bool:
        """Whether anything is known of the cluster; before anybody has asked, not even whether there is one."""
        return bool(self._troubles)

    @property
    def is_healthy(self) -> bool:
        """Whether it answered when it was last asked, for all that is listened to."""
        return not any(self._troubles.values())

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        for watch in self._watches:
            watch.stop(CLOSE_SECONDS)
        if self._cluster is not None:
            self._cluster.close()

    def _listen(self, cluster: Cluster) -> None:
        selector = selector_of({INSTANCE: self._settings.instance, ROLE: ATTEMPT_ROLE})
        listener = self._listener
        for namespace in self.namespaces:
            for path, on_all, on_change in (
                (jobs_path(namespace), listener.all_jobs, listener.job_changed),
                (pods_path(namespace), listener.all_pods, listener.pod_changed),
            ):
                told = (partial(on_all, namespace), on_change, partial(self._troubled, path))
                self._watches.append(Watch(cluster, path, selector, *told))
        for watch in self._watches:
            watch.start()

    def _troubled(self, path: str, trouble: str) -> None:
        self._troubles = {**self._troubles, path: trouble}
