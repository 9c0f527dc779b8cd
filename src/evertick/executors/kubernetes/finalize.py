"""Brings an attempt whose Job has ended or is gone to its end: its pods, its log and its report."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from evertick.executors.kubernetes.log_copy import Copies, LogCopy
from evertick.executors.kubernetes.settings import KubernetesSettings
from evertick.executors.kubernetes.track import Track, slim
from evertick.kinds.kubernetes import job_api
from evertick.kinds.kubernetes.cluster import ApiAway, ApiError, Cluster
from evertick.kinds.kubernetes.overlay import Json
from evertick.kinds.kubernetes.status import Ended, Taken, Verdict, newest, vanished
from evertick.model.instant import SECOND, Instant
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.report import Report, RunFinished, RunLost, RunStarted

log = logging.getLogger("evertick.kubernetes")

NAME: Final = "kubernetes"
LOG_SECONDS: Final = 30.0
"""How long the end of a run waits for the end of its log."""


class Finalizer:
    """Blocks while it asks the cluster, and so belongs into threads of its own."""

    def __init__(
        self, cluster: Cluster, logs: Path, settings: KubernetesSettings, copies: Copies, closing: threading.Event
    ) -> None:
        self._cluster = cluster
        self._logs = logs
        self._settings = settings
        self._copies = copies
        self._closing = closing

    def settle(self, track: Track, *, is_gone: bool) -> Sequence[Report] | None:
        """What is to be said; None when we are closed before it is known."""
        pods = self._gone_pods(track) if is_gone else self._fresh_pods(track)
        if self._closing.is_set():
            return None
        track.pods |= {pod["metadata"]["name"]: slim(pod) for pod in pods}
        verdict = track.verdict()
        self._complete_log(track)
        if isinstance(verdict, Ended) and not is_gone and track.ending is None:
            job_api.tell(self._cluster, track.namespace, track.name, self._settings.keep_us // SECOND)
        return reports_of(track, verdict, time.time_ns() // 1_000)

    def copy_of(self, track: Track, pod: str) -> LogCopy:
        return LogCopy(
            self._cluster, self._logs, track.attempt_id, track.step, track.log_max_bytes, track.namespace, pod
        )

    def _gone_pods(self, track: Track) -> list[Json]:
        grace_seconds = self._settings.grace_us // SECOND
        return job_api.end_pods(self._cluster, track.namespace, track.name, grace_seconds, self._closing)

    def _fresh_pods(self, track: Track) -> list[Json]:
        """The cluster's own word: what the watch of pods has seen may be older than what that of Jobs has."""
        patience = job_api.Patience(self._closing, LOG_SECONDS)
        while True:
            try:
                found = job_api.pods_of(self._cluster, track.namespace, track.name)
                return [*found, *vanished(list(track.pods.values()), found)]
            except (ApiAway, ApiError) as error:
                log.warning("kubernetes.pods_not_read job=%s reason=%s", track.name, error)
            if not patience.again():
                return []

    def _complete_log(self, track: Track) -> None:
        pod = newest(list(track.pods.values()))
        if pod is not None and pod["status"].get("containerStatuses"):
            self._copies.finish(track.attempt_id, partial(self.copy_of, track, pod["metadata"]["name"]), LOG_SECONDS)


def reports_of(track: Track, verdict: Verdict, now: Instant) -> Sequence[Report]:
    """What became of an attempt whose Job has ended, or is gone."""
    attempt_id = track.attempt_id
    if isinstance(verdict, Ended) and (track.ending is None or verdict.state is SUCCEEDED):
        at = track.clamped(verdict.at, now)
        end = RunFinished(*attempt_id, at, verdict.state, verdict.exit_code, verdict.detail)
        # One that was asked after is answered once.
        if track.is_told or not track.is_ours or verdict.started_at is None:
            return (end,)
        return RunStarted(*attempt_id, min(track.clamped(verdict.started_at, now), at), NAME), end
    if track.ending is not None:
        return (track.ended_by_us(now),)
    if isinstance(verdict, Taken):
        return (RunLost(*attempt_id, verdict.detail),)
    return (RunLost(*attempt_id, f"its Job {track.name!r} was deleted by somebody"),)
