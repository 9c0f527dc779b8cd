"""The attempts that this scheduler tracks on the cluster, and the objects that the watches have seen."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from evertick.executor import Attempt, AttemptId
from evertick.kinds.kubernetes.job_tracker import JobTracker
from evertick.kinds.kubernetes.names import JOB_NAME
from evertick.model.instant import Instant
from evertick.model.plain_json import Document
from evertick.model.report import RunFinished


class Phase(Enum):
    RECONCILING = auto()
    """The loop asked about it; the cluster was not asked yet."""
    LAUNCHING = auto()
    """Its Job is being created; whether it exists is unknown."""
    POSTED = auto()
    """Its Job exists and has not ended."""
    SETTLING = auto()
    """Its Job has ended or is gone; its result is being determined."""


class TrackedAttempt(JobTracker):
    """An attempt whose Job is tracked; guarded by the executor's lock."""

    def __init__(self, attempt_id: AttemptId, name: str, phase: Phase, now: Instant) -> None:
        super().__init__(name)
        self.attempt_id = attempt_id
        self.phase = phase
        self.since = now
        """When it was launched here; for an attempt that was found, when its Job was created."""
        self.is_ours = False
        """Whether this process created its Job: then `since` is by our own clock."""
        self.is_reported = False
        """Whether its start was reported."""
        self.was_deleted = False
        """Whether its Job was seen deleted before its creation was answered."""
        self.launch: Attempt | None = None
        """What to launch; None once its Job is created."""
        self.step = "main"
        self.log_max_bytes = 64 * 1024 * 1024
        self.warnings_read_at: Instant = 0
        """When the cluster was last asked why it creates no pod."""

    def clamped(self, at: Instant | None, now: Instant) -> Instant:
        """The cluster's times are whole seconds of another clock: never before the launch, never in the future."""
        if at is None:
            return now
        return max(min(at, now), self.since if self.is_ours else at)

    def ended_by_us(self, now: Instant) -> RunFinished:
        assert self.ending is not None
        return RunFinished(*self.attempt_id, now, self.ending.state, None, self.ending.detail)


class WatchedObjects:
    """Our Jobs on the cluster and their pods, as the watches have reported them."""

    def __init__(self) -> None:
        self.jobs: dict[str, Document] = {}
        """By name, which is unique."""
        self._pods: dict[str, dict[str, Document]] = {}
        """By the names of their Jobs."""
        self.listed: set[str] = set()
        """The namespaces whose pods were listed."""

    def pods_of(self, job: str) -> dict[str, Document]:
        return self._pods.get(job, {})

    def list_jobs(self, namespace: str, jobs: Sequence[Document]) -> None:
        """Replace all Jobs of the namespace."""
        self.jobs = {name: job for name, job in self.jobs.items() if job["metadata"]["namespace"] != namespace}
        self.jobs |= {job["metadata"]["name"]: slim(job) for job in jobs}

    def list_pods(self, namespace: str, pods: Sequence[Document]) -> None:
        for job, known in list(self._pods.items()):
            left = {name: pod for name, pod in known.items() if pod["metadata"]["namespace"] != namespace}
            self._keep(job, left)
        for pod in pods:
            self.see_pod(slim(pod))
        self.listed.add(namespace)

    def see_pod(self, pod: Document, *, is_gone: bool = False) -> None:
        job = job_of(pod)
        name = pod["metadata"]["name"]
        others = {other: one for other, one in self.pods_of(job).items() if other != name}
        self._keep(job, others if is_gone else {**others, name: pod})

    def _keep(self, job: str, pods: dict[str, Document]) -> None:
        if pods:
            self._pods[job] = pods
        else:
            self._pods.pop(job, None)


def job_of(pod: Document) -> str:
    """The name of the Job that a pod belongs to."""
    return str((pod["metadata"].get("labels") or {}).get(JOB_NAME, ""))


def slim(found: Document) -> Document:
    """An object without its specification, which may be long and is ours anyway."""
    metadata = {name: value for name, value in found["metadata"].items() if name != "managedFields"}
    spec = found.get("spec", {})
    kept = {name: spec[name] for name in ("nodeName",) if name in spec}
    if "containers" in spec:
        kept["containers"] = [{"name": one["name"], "image": one.get("image", "")} for one in spec["containers"]]
    return {"metadata": metadata, "spec": kept, "status": found.get("status", {})}
