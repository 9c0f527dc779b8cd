"""Faults of a real cluster, caused and observed without the executor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from evertick.kinds.kubernetes.names import JOB_NAME
from evertick.kinds.kubernetes.status import is_over
from tests.executors.local_runs import until
from tests.kubernetes.cluster import RealCluster

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"


class RealTroubles:
    def __init__(self, cluster: RealCluster, instance: str) -> None:
        self._cluster = cluster
        self._instance = instance
        self.expire_watches = cluster.restart_api
        """A new API server remembers nothing from before its start."""

    def jobs(self) -> list[dict[str, Any]]:
        return self._list(JOBS, f"evertick/instance={self._instance}")

    def count_jobs(self) -> int:
        return len(self.jobs())

    def pods_of(self, job: str) -> list[dict[str, Any]]:
        return self._list(PODS, f"{JOB_NAME}={job}")

    def ttl_of(self, job: str) -> int:
        return self._cluster.ask("GET", f"{JOBS}/{job}")["spec"]["ttlSecondsAfterFinished"]

    def delete_job(self, job: str) -> None:
        """As `kubectl delete` does it: the Job goes at once, its pods in the background."""
        self._cluster.ask("DELETE", f"{JOBS}/{job}", {"propagationPolicy": "Background"})

    def delete_pod(self, job: str) -> None:
        for pod in self.pods_of(job):
            self._cluster.ask("DELETE", f"{PODS}/{pod['metadata']['name']}", {})

    def evict(self, job: str) -> None:
        for pod in self.pods_of(job):
            name = pod["metadata"]["name"]
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            self._cluster.ask("POST", f"{PODS}/{name}/eviction", eviction)

    def is_alive(self, job: str) -> bool:
        """Whether a process of its pods runs on this machine, whatever the cluster says."""
        return any(f"HOSTNAME={job}-".encode() in _environment(pid) for pid in os.listdir("/proc") if pid.isdigit())

    def wait_until_over(self, job: str) -> None:
        until(lambda: is_over(self._cluster.ask("GET", f"{JOBS}/{job}")), f"{job} to be over")

    def clean_up(self) -> None:
        for job in self.jobs():
            self._cluster.ask("DELETE", f"{JOBS}/{job['metadata']['name']}", {"propagationPolicy": "Foreground"})

    def _list(self, path: str, selector: str) -> list[dict[str, Any]]:
        return self._cluster.connect().list_all(path, selector)[0]


def _environment(pid: str) -> bytes:
    try:
        return Path("/proc", pid, "environ").read_bytes()
    except OSError:
        return b""
