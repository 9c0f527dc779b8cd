"""What is known here of attempts on the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from evertick.executor import Attempt, AttemptId
from evertick.kinds.kubernetes.names import JOB_NAME, STOPPED
from evertick.kinds.kubernetes.overlay import Json
from evertick.kinds.kubernetes.status import Verdict, judge
from evertick.model.instant import Instant
from evertick.model.lifecycle import CANCELLED, RunState
from evertick.model.report import RunFinished


class Phase(Enum):
    ASKED = auto()
    """Somebody asked what became of it; nobody has looked yet."""
    LAUNCHING = auto()
    """Its Job is being created; whether it is there is not known."""
    POSTED = auto()
    """Its Job is there, and goes on."""
    SETTLING = auto()
    """It has ended, and how is being found out."""


class Ending(NamedTuple):
    """We end it ourselves: as what, and why."""

    state: RunState
    detail: str


class Track:
    """Mutable; belongs to the executor, under its lock."""

    __slots__ = (
        "attempt_id",
        "ending",
        "has_started",
        "is_ours",
        "is_told",
        "job",
        "launch",
        "log_max_bytes",
        "looked_at",
        "name",
        "namespace",
        "phase",
        "pods",
        "since",
        "step",
        "waited_us",
        "was_deleted",
        "why",
    )

    def __init__(self, attempt_id: AttemptId, name: str, phase: Phase, now: Instant) -> None:
        self.attempt_id = attempt_id
        self.name = name
        self.namespace = ""
        """Empty until it is known."""
        self.phase = phase
        self.since = now
        """When it was launched here; for one that was found, when its Job was made."""
        self.is_ours = False
        """Whether its Job was made by this process: then `since` is by our own clock."""
        self.has_started = False
        """Whether its container was seen to run."""
        self.is_told = False
        """Whether its start was reported; of one that was asked after, as soon as its Job is there."""
        self.was_deleted = False
        """Whether its Job was seen to go before we had the answer that it was made."""
        self.launch: Attempt | None = None
        """What is to be launched, until it is."""
        self.step = "main"
        self.log_max_bytes = 64 * 1024 * 1024
        self.job: Json | None = None
        self.pods: dict[str, Json] = {}
        """The last that was seen of each, also of those that are gone."""
        self.ending: Ending | None = None
        self.why = ""
        """Why it has not started."""
        self.waited_us = 0
        """How long it could be seen that it has not started."""
        self.looked_at: Instant = 0
        """When the cluster was last asked for reasons."""

    def see(self, job: Json) -> bool:
        """What the cluster has of its Job now; whether somebody else has begun to end it, and left a mark there."""
        self.job = job
        stopped = (job["metadata"].get("annotations") or {}).get(STOPPED)
        if stopped is None or self.ending is not None:
            return False
        self.ending = Ending(CANCELLED, stopped)
        return True

    def verdict(self) -> Verdict:
        assert self.job is not None
        return judge(self.job, list(self.pods.values()))

    def clamped(self, at: Instant | None, now: Instant) -> Instant:
        """The cluster's times are whole seconds of another clock: never before the launch, never in the future."""
        if at is None:
            return now
        return max(min(at, now), self.since if self.is_ours else at)

    def ended_by_us(self, now: Instant) -> RunFinished:
        assert self.ending is not None
        return RunFinished(*self.attempt_id, now, self.ending.state, None, self.ending.detail)


class Sightings:
    """All Jobs of ours that the cluster has, and their pods, as far as it has told us."""

    def __init__(self) -> None:
        self.jobs: dict[str, Json] = {}
        """By name, which no two of them share."""
        self._pods: dict[str, dict[str, Json]] = {}
        """By the names of their Jobs."""
        self.heard: set[str] = set()
        """The namespaces whose pods were told of at all."""

    def pods_of(self, job: str) -> dict[str, Json]:
        return self._pods.get(job, {})

    def list_jobs(self, namespace: str, jobs: Sequence[Json]) -> None:
        """These are all in the namespace."""
        self.jobs = {name: job for name, job in self.jobs.items() if job["metadata"]["namespace"] != namespace}
        self.jobs |= {job["metadata"]["name"]: slim(job) for job in jobs}

    def list_pods(self, namespace: str, pods: Sequence[Json]) -> None:
        for job, known in list(self._pods.items()):
            left = {name: pod for name, pod in known.items() if pod["metadata"]["namespace"] != namespace}
            self._keep(job, left)
        for pod in pods:
            self.see_pod(slim(pod))
        self.heard.add(namespace)

    def see_pod(self, pod: Json, *, is_gone: bool = False) -> None:
        job = job_of(pod)
        name = pod["metadata"]["name"]
        others = {other: one for other, one in self.pods_of(job).items() if other != name}
        self._keep(job, others if is_gone else {**others, name: pod})

    def _keep(self, job: str, pods: dict[str, Json]) -> None:
        if pods:
            self._pods[job] = pods
        else:
            self._pods.pop(job, None)


def job_of(pod: Json) -> str:
    """The name of the Job that a pod belongs to."""
    return str((pod["metadata"].get("labels") or {}).get(JOB_NAME, ""))


def slim(found: Json) -> Json:
    """What is worth remembering of an object: not its specification, which may be long and is ours anyway."""
    metadata = {name: value for name, value in found["metadata"].items() if name != "managedFields"}
    spec = found.get("spec", {})
    kept = {name: spec[name] for name in ("nodeName",) if name in spec}
    if "containers" in spec:
        kept["containers"] = [{"name": one["name"], "image": one.get("image", "")} for one in spec["containers"]]
    return {"metadata": metadata, "spec": kept, "status": found.get("status", {})}
