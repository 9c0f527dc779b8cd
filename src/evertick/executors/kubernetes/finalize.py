"""Determines the result of an attempt whose Job has ended or is gone: its pods, its log and its reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from evertick.executors.kubernetes.attempt import TrackedAttempt
from evertick.executors.kubernetes.log_copy import LogCopies, LogCopy
from evertick.kinds.kubernetes import job_api
from evertick.kinds.kubernetes.cluster import Cluster
from evertick.kinds.kubernetes.status import Ended, EndedByCluster, Verdict
from evertick.model.instant import Instant
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.report import Report, RunFinished, RunLost, RunStarted

NAME: Final = "kubernetes"
LOG_SECONDS: Final = 30.0
"""How long the result of a run waits for the end of its log."""


class Finalizer:
    """Blocks while it asks the cluster; call it from worker threads."""

    def __init__(
        self,
        cluster: Cluster,
        logs: Path,
        keep_seconds: int,
        grace_seconds: int,
        copies: LogCopies,
        closing: threading.Event,
    ) -> None:
        self._cluster = cluster
        self._logs = logs
        self._keep_seconds = keep_seconds
        self._grace_seconds = grace_seconds
        self._copies = copies
        self._closing = closing

    def settle(self, attempt: TrackedAttempt, *, is_gone: bool) -> Sequence[Report] | None:
        """The reports; None if we are closed before the result is known."""
        attempt.is_gone = is_gone
        verdict = attempt.final_verdict(self._cluster, self._grace_seconds, self._closing)
        if self._closing.is_set():
            return None
        self._complete_log(attempt)
        if isinstance(verdict, Ended) and not is_gone and attempt.ending is None:
            job_api.release(self._cluster, attempt.namespace, attempt.name, self._keep_seconds)
        return reports_of(attempt, verdict, time.time_ns() // 1_000)

    def copy_of(self, attempt: TrackedAttempt, pod: str) -> LogCopy:
        return LogCopy(
            self._cluster, self._logs, attempt.attempt_id, attempt.step, attempt.log_max_bytes, attempt.namespace, pod
        )

    def _complete_log(self, attempt: TrackedAttempt) -> None:
        pod = attempt.newest_pod()
        if pod is not None and pod["status"].get("containerStatuses"):
            self._copies.finish(
                attempt.attempt_id, partial(self.copy_of, attempt, pod["metadata"]["name"]), LOG_SECONDS
            )


def reports_of(attempt: TrackedAttempt, verdict: Verdict, now: Instant) -> Sequence[Report]:
    """The reports of an attempt whose Job has ended or is gone."""
    attempt_id = attempt.attempt_id
    if isinstance(verdict, Ended) and (attempt.ending is None or verdict.state is SUCCEEDED):
        at = attempt.clamped(verdict.at, now)
        end = RunFinished(*attempt_id, at, verdict.state, verdict.exit_code, verdict.detail)
        # A reconciled attempt is reported once.
        if attempt.is_reported or not attempt.is_ours or verdict.started_at is None:
            return (end,)
        return RunStarted(*attempt_id, min(attempt.clamped(verdict.started_at, now), at), NAME), end
    if attempt.ending is not None:
        return (attempt.ended_by_us(now),)
    if isinstance(verdict, EndedByCluster):
        return (RunLost(*attempt_id, verdict.detail),)
    return (RunLost(*attempt_id, attempt.deleted_detail),)
