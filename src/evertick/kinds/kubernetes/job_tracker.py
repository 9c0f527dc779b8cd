"""The state machine of one Job: what to do when its Job or pods change, or while its pod does not start.

The executor drives one for each attempt, the process of a step drives one for itself. It asks the cluster nothing but
in `final_verdict`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple

from evertick.kinds.kubernetes import job_api
from evertick.kinds.kubernetes.cluster import ApiError, ApiUnavailable, Cluster
from evertick.kinds.kubernetes.diagnostics import why_no_pod
from evertick.kinds.kubernetes.names import STOPPED
from evertick.kinds.kubernetes.status import Ended, EndedByCluster, Pending, Running, Verdict, judge, newest, vanished
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED, RunState
from evertick.model.plain_json import Document

log = logging.getLogger("evertick.kubernetes")

TICK_SECONDS: Final = 1.0
READ_SECONDS: Final = 30.0
"""How long reading the pods of an ended Job is retried."""


class Ending(NamedTuple):
    """We end the Job ourselves: as what, and why."""

    state: RunState
    detail: str


class Action(Enum):
    """What to do next."""

    WAIT = auto()
    FOLLOW = auto()
    """Its container runs: report the start, follow the log."""
    END = auto()
    """Delete the Job, because of `ending`."""
    SETTLE = auto()
    """The Job has ended or is gone: find out how."""


class JobTracker:
    """Mutable; the caller's lock guards it."""

    def __init__(self, name: str, namespace: str = "") -> None:
        self.name = name
        self.namespace = namespace
        """Empty until it is known."""
        self.job: Document | None = None
        self.is_gone = False
        self.pods: dict[str, Document] = {}
        """The last seen state of each pod, deleted ones included."""
        self.deleted: set[str] = set()
        """Pods whose last state, at their deletion, was seen."""
        self.ending: Ending | None = None
        self.has_started = False
        self.why = ""
        """Why it has not started."""
        self.waited_us = 0
        """How long it was seen not to start."""

    def see_job(self, job: Document, *, is_gone: bool = False) -> bool:
        """Whether another scheduler has begun to end it, and left a mark."""
        self.job, self.is_gone = job, is_gone
        stopped = (job["metadata"].get("annotations") or {}).get(STOPPED)
        if stopped is None or self.ending is not None:
            return False
        self.ending = Ending(CANCELLED, stopped)
        return True

    def see_pod(self, pod: Document, *, is_deleted: bool = False) -> None:
        name = pod["metadata"]["name"]
        self.pods[name] = pod
        if is_deleted:
            self.deleted.add(name)

    def verdict(self) -> Verdict:
        assert self.job is not None
        return judge(self.job, list(self.pods.values()))

    def newest_pod(self) -> Document | None:
        return newest(list(self.pods.values()))

    def next_action(self) -> Action:
        """After a change of the Job or of a pod."""
        if self.is_gone:
            return Action.SETTLE
        match self.verdict():
            case Pending(why, is_hopeless, has_pod):
                if has_pod or not self.why:
                    self.why = why
                if is_hopeless and self.ending is None:
                    self.ending = Ending(FAILED, why)
                    return Action.END
            case Running():
                self.has_started = True
                return Action.FOLLOW
            case Ended(state):
                # A Job that we end has ended when it is gone, unless it succeeded before that.
                if self.ending is None or state is SUCCEEDED:
                    return Action.SETTLE
            case EndedByCluster():
                if self.ending is None:
                    return Action.SETTLE
        return Action.WAIT

    def wait(self, elapsed_seconds: float, start_timeout_us: int, *, may_expire: bool = True) -> Action:
        """While its pod has not started. The time is counted in ticks: a suspended machine has not waited."""
        self.waited_us += int(min(elapsed_seconds, 2 * TICK_SECONDS) * SECOND)
        if self.has_started or self.ending is not None or not may_expire or self.waited_us < start_timeout_us:
            return Action.WAIT
        self.ending = Ending(FAILED, f"it did not start in time: {self.why or why_no_pod('')}")
        return Action.END

    def final_verdict(
        self,
        cluster: Cluster,
        grace_seconds: int,
        closing: threading.Event,
        wait_for_deletions: Callable[[list[Document]], None] = lambda _: None,
    ) -> Verdict:
        """How a Job that has ended or is gone ended; blocks while it reads the pods, and ends those of a gone Job.

        The watch of pods may lag behind that of Jobs; `wait_for_deletions` waits for the last state of pods that are
        gone, because that says why.
        """
        if self.is_gone:
            pods = job_api.end_pods(cluster, self.namespace, self.name, grace_seconds, closing)
        else:
            pods = self._read_pods(cluster, closing)
            gone = vanished(list(self.pods.values()), pods)
            wait_for_deletions(gone)
            pods += vanished(list(self.pods.values()), pods)
        self.pods |= {pod["metadata"]["name"]: pod for pod in pods}
        return self.verdict()

    def _read_pods(self, cluster: Cluster, closing: threading.Event) -> list[Document]:
        backoff = job_api.Backoff(closing, READ_SECONDS)
        while True:
            try:
                return job_api.pods_of(cluster, self.namespace, self.name)
            except (ApiUnavailable, ApiError) as error:
                log.warning("kubernetes.pods_not_read job=%s reason=%s", self.name, error)
            if not backoff.wait():
                return []

    @property
    def deleted_detail(self) -> str:
        return f"its Job {self.name!r} was deleted from outside"
