"""Connects to the cluster on first use, and watches its Jobs and pods from then on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from evertick.errors import SettingsError
from evertick.kinds.kubernetes.cluster import Cluster, jobs_path, pods_path
from evertick.kinds.kubernetes.names import ATTEMPT_ROLE, INSTANCE, ROLE, selector_of
from evertick.kinds.kubernetes.watcher import Watch
from evertick.model.plain_json import Document
from evertick.settings.parts import KubernetesSettings

CLOSE_SECONDS: Final = 5.0
_CONFIGURATION: Final = "configuration"
"""The problem that no cluster is configured; the others are named by the watched path."""


class ClusterListener(Protocol):
    """Receives what the watches see, from their threads."""

    def begin(self, cluster: Cluster) -> None:
        """Called once, before the watches start."""
        ...

    def all_jobs(self, namespace: str, jobs: Sequence[Document]) -> None: ...
    def job_changed(self, kind: str, job: Document) -> None: ...
    def all_pods(self, namespace: str, pods: Sequence[Document]) -> None: ...
    def pod_changed(self, kind: str, pod: Document) -> None: ...


class Connection:
    """Connects on first use: most schedulers never have a job for a cluster."""

    def __init__(self, connect: Callable[[], Cluster], settings: KubernetesSettings, listener: ClusterListener) -> None:
        self._connect = connect
        self._settings = settings
        self._listener = listener
        self._lock = threading.Lock()
        self._cluster: Cluster | None = None
        self._watches: list[Watch] = []
        self._problems: dict[str, str] = {}
        self._is_closed = False
        self.namespaces: tuple[str, ...] = ()
        """The watched namespaces; known once connected."""

    def cluster(self) -> Cluster:
        """Raises `SettingsError` if no cluster is configured, or after `close`."""
        with self._lock:
            if self._is_closed:
                raise SettingsError("the executor is closed.")
            if self._cluster is None:
                try:
                    cluster = self._connect()
                except SettingsError as error:
                    self._set_problem(_CONFIGURATION, str(error))
                    raise
                self._set_problem(_CONFIGURATION, "")
                self.namespaces = tuple(dict.fromkeys((cluster.namespace, *self._settings.namespaces)))
                self._listener.begin(cluster)
                self._cluster = cluster
                self._watch(cluster)
            return self._cluster

    @property
    def was_tried(self) -> bool:
        """Whether a connection was tried."""
        return bool(self._problems)

    @property
    def is_healthy(self) -> bool:
        """Whether every watch got an answer the last time."""
        return not any(self._problems.values())

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        for watch in self._watches:
            watch.stop(CLOSE_SECONDS)
        if self._cluster is not None:
            self._cluster.close()

    def _watch(self, cluster: Cluster) -> None:
        selector = selector_of({INSTANCE: self._settings.instance, ROLE: ATTEMPT_ROLE})
        listener = self._listener
        for namespace in self.namespaces:
            for path, on_all, on_change in (
                (jobs_path(namespace), listener.all_jobs, listener.job_changed),
                (pods_path(namespace), listener.all_pods, listener.pod_changed),
            ):
                callbacks = (partial(on_all, namespace), on_change, partial(self._set_problem, path))
                self._watches.append(Watch(cluster, path, selector, *callbacks))
        for watch in self._watches:
            watch.start()

    def _set_problem(self, path: str, problem: str) -> None:
        self._problems = {**self._problems, path: problem}
