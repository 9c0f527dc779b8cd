"""Runs attempts on a Kubernetes cluster, one Job each, and reports what the cluster says about them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from evertick.errors import SettingsError
from evertick.executor import Attempt, AttemptId, Capabilities, Member
from evertick.executors.kubernetes.attempt import Phase, TrackedAttempt, WatchedObjects, job_of, slim
from evertick.executors.kubernetes.attempt_manifest import manifest_of
from evertick.executors.kubernetes.connection import CLOSE_SECONDS, Connection
from evertick.executors.kubernetes.finalize import NAME, Finalizer
from evertick.executors.kubernetes.log_copy import LogCopies
from evertick.executors.paths import private_folder
from evertick.kinds import StepError
from evertick.kinds.kubernetes import job_api
from evertick.kinds.kubernetes.cluster import ApiError, ApiUnavailable, Cluster
from evertick.kinds.kubernetes.diagnostics import why_no_pod
from evertick.kinds.kubernetes.job_tracker import TICK_SECONDS, Action, Ending
from evertick.kinds.kubernetes.manifest import GRACE_SECONDS
from evertick.kinds.kubernetes.names import job_name
from evertick.kinds.kubernetes.status import Running, is_over
from evertick.model.instant import SECOND, Instant, from_text
from evertick.model.lifecycle import CANCELLED, FAILED
from evertick.model.plain_json import Document
from evertick.model.report import LaunchRefused, Report, RunFinished, RunLost, RunStarted, RunUnknown
from evertick.model.run import RunKey
from evertick.settings.parts import KubernetesSettings

log = logging.getLogger("evertick.kubernetes")

LAUNCHERS = 8
SETTLERS = 16
LAUNCHES_MAX = 10_000
"""Launches that wait for the cluster; more are refused, and retried by the loop."""
RETRY_SECONDS = 5.0
"""Between two looks for a cluster that is not configured yet."""
LATE_SECONDS = 5.0
"""A tick later than this was delayed with everything else here: unread changes may wait, so nothing times out."""
WARNINGS_US = 10 * SECOND
"""How often the cluster is asked why it creates no pod."""


class KubernetesExecutor:
    """The cluster holds the attempts; the next process that opens the executor finds them by their names."""

    name = NAME

    def __init__(
        self,
        connect: Callable[[], Cluster],
        state_folder: Path | str,
        settings: KubernetesSettings | None = None,
        grace_seconds: int = GRACE_SECONDS,
    ) -> None:
        self._logs = Path(state_folder).absolute() / "logs"
        self._settings = settings or KubernetesSettings()
        self._grace_seconds = grace_seconds
        """Between SIGTERM and SIGKILL, when a run is stopped."""
        self._report: Callable[[Report], None] = _not_open
        self._lock = threading.RLock()
        self._attempts: dict[str, TrackedAttempt] = {}
        """Attempts launched or reconciled here, by the names of their Jobs; those of other nodes are not reported."""
        self._seen = WatchedObjects()
        self._connection = Connection(connect, self._settings, self)
        self._closing = threading.Event()
        self._copies = LogCopies(self._settings.log_streams)

    # The executor contract

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def open(self, report: Callable[[Report], None]) -> None:
        self._report = report
        self._launching = ThreadPoolExecutor(LAUNCHERS, "evertick-pod-launch")
        self._settling = ThreadPoolExecutor(SETTLERS, "evertick-pod-settle")

    def launch(self, attempt: Attempt) -> None:
        attempt_id = AttemptId(attempt.key, attempt.attempt)
        name = job_name(self._settings.instance, *attempt_id)
        with self._lock:
            tracked = self._attempts.get(name)
            if tracked is not None and tracked.phase is not Phase.RECONCILING:
                self._report_again(tracked)
                return
            if len(self._attempts) >= LAUNCHES_MAX and self._launches() >= LAUNCHES_MAX:
                self._report(LaunchRefused(*attempt_id, "too many launches are in progress", attempt.fence))
                return
            tracked = self._attempts[name] = TrackedAttempt(attempt_id, name, Phase.LAUNCHING, _now())
            tracked.launch = attempt
        self._submit(self._launching, self._create, tracked)

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        name = job_name(self._settings.instance, key, attempt)
        with self._lock:
            tracked, job = self._attempts.get(name), self._seen.jobs.get(name)
            if tracked is None and job is not None and not is_over(job):
                tracked = TrackedAttempt(AttemptId(key, attempt), name, Phase.RECONCILING, _now())
                self._attempts[name] = tracked
                self._adopt(tracked, job)
            if tracked is not None:
                self._end(tracked, Ending(CANCELLED, detail))

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        for key, attempt in runs:
            name = job_name(self._settings.instance, key, attempt)
            with self._lock:
                tracked = self._attempts.get(name)
                if tracked is not None:
                    self._report_again(tracked)
                    continue
                tracked = TrackedAttempt(AttemptId(key, attempt), name, Phase.RECONCILING, _now())
                self._attempts[name] = tracked
            self._submit(self._launching, self._look_up, tracked)

    def members(self) -> Sequence[Member]:
        """The cluster, once a connection was tried."""
        with self._lock:
            if not self._connection.was_tried:
                return ()
            running = sum(tracked.phase is not Phase.RECONCILING for tracked in self._attempts.values())
            return (Member(self.name, self._connection.is_healthy, running),)

    def close(self) -> None:
        """Disconnect; attempts continue, and the next process finds them."""
        with self._lock:
            self._closing.set()
        self._connection.close()
        self._copies.close(CLOSE_SECONDS)
        for pool in (self._launching, self._settling):
            pool.shutdown(wait=False, cancel_futures=True)

    def begin(self, cluster: Cluster) -> None:
        """The first connection to the cluster."""
        private_folder(self._logs.parent)
        private_folder(self._logs)
        self._finalizer = Finalizer(
            cluster, self._logs, self._settings.keep_us // SECOND, self._grace_seconds, self._copies, self._closing
        )
        threading.Thread(target=self._tick, args=(cluster,), name="evertick-pod-clock", daemon=True).start()

    # Work of the pools' threads

    def _submit(
        self, pool: ThreadPoolExecutor, work: Callable[[TrackedAttempt], None], tracked: TrackedAttempt
    ) -> None:
        with self._lock:
            if not self._closing.is_set():
                pool.submit(self._guarded, work, tracked)

    def _guarded(self, work: Callable[[TrackedAttempt], None], tracked: TrackedAttempt) -> None:
        """A defect with one attempt must not affect the others."""
        try:
            work(tracked)
        except Exception as error:
            if not self._closing.is_set():
                log.exception("kubernetes.raised job=%s", tracked.name)
                self._finish(tracked, RunLost(*tracked.attempt_id, f"{type(error).__name__}: {error}"))

    def _create(self, tracked: TrackedAttempt) -> None:
        with self._lock:
            if tracked.ending is not None:
                self._finish(tracked, tracked.ended_by_us(_now()))
                return
        assert tracked.launch is not None
        attempt_id, fence = tracked.attempt_id, tracked.launch.fence
        try:
            cluster = self._connection.cluster()
            built = manifest_of(tracked.launch, self._settings.instance, cluster.namespace)
        except SettingsError as error:
            self._finish(tracked, LaunchRefused(*attempt_id, str(error), fence))
            return
        except StepError as error:
            self._finish(tracked, RunFinished(*attempt_id, _now(), FAILED, None, str(error)))
            return
        tracked.namespace = built.manifest["metadata"]["namespace"]
        if tracked.namespace not in self._connection.namespaces:
            why = f"the namespace {tracked.namespace!r} is not in the settings. Add it to 'kubernetes.namespaces'."
            self._finish(tracked, LaunchRefused(*attempt_id, why, fence))
            return
        tracked.step, tracked.log_max_bytes, tracked.launch = built.step, built.log_max_bytes, None
        match job_api.create(cluster, built.manifest, self._closing):
            case job_api.Refused(why):
                self._finish(tracked, LaunchRefused(*attempt_id, why, fence))
            case job_api.NotCreated(why):
                self._finish(tracked, RunFinished(*attempt_id, _now(), FAILED, None, why))
            case job_api.Created(job, is_new):
                with self._lock:
                    tracked.is_ours = is_new
                    self._adopt(tracked, job)

    def _look_up(self, tracked: TrackedAttempt) -> None:
        with self._lock:
            job: Document | bool | None = self._seen.jobs.get(tracked.name)
        if job is None:
            # What the watch has seen may be old: the cluster itself must say that the Job does not exist.
            try:
                cluster = self._connection.cluster()
            except SettingsError as error:
                log.warning("kubernetes.not_connected reason=%s", error)
                if not self._closing.wait(RETRY_SECONDS):
                    self._submit(self._launching, self._look_up, tracked)
                return
            job = job_api.read(cluster, self._connection.namespaces, tracked.name, self._closing)
        with self._lock:
            is_current = self._attempts.get(tracked.name) is tracked and tracked.phase is Phase.RECONCILING
            if job is False or not is_current:
                return  # closed, or launched meanwhile
            if isinstance(job, dict):
                self._adopt(tracked, job)
                self._report_again(tracked)
            else:
                self._finish(tracked, RunUnknown(*tracked.attempt_id))

    def _end_job(self, tracked: TrackedAttempt) -> None:
        assert tracked.ending is not None
        job = (self._connection.cluster(), tracked.namespace, tracked.name)
        job_api.end(*job, tracked.ending.detail, self._grace_seconds, self._closing)

    def _settle(self, tracked: TrackedAttempt) -> None:
        with self._lock:
            is_gone = tracked.name not in self._seen.jobs
        reports = self._finalizer.settle(tracked, is_gone=is_gone)
        if reports is not None:
            self._finish(tracked, *reports)

    def _confirm_gone(self, tracked: TrackedAttempt) -> None:
        """The list did not have it; it may have been created after the list."""
        job = job_api.read(self._connection.cluster(), (tracked.namespace,), tracked.name, self._closing)
        with self._lock:
            if job is None:
                self._seen.jobs.pop(tracked.name, None)
                self._gone(tracked, None)
            elif isinstance(job, dict):
                self.job_changed("MODIFIED", job)

    # State changes, under the lock

    def _launches(self) -> int:
        return sum(tracked.phase is Phase.LAUNCHING for tracked in self._attempts.values())

    def _adopt(self, tracked: TrackedAttempt, job: Document) -> None:
        """Its Job exists: track it from now on."""
        metadata = job["metadata"]
        tracked.namespace, tracked.phase = metadata["namespace"], Phase.POSTED
        if not tracked.is_ours:
            tracked.since = from_text(metadata["creationTimestamp"])
            tracked.waited_us = max(_now() - tracked.since, 0)
        # The watch may have been faster than the answer to our own request.
        tracked.see_job(self._seen.jobs.setdefault(tracked.name, slim(job)))
        tracked.pods |= self._seen.pods_of(tracked.name)
        if tracked.was_deleted:
            self._submit(self._settling, self._confirm_gone, tracked)
        elif tracked.ending is not None:
            self._end(tracked, tracked.ending)
        self._advance(tracked)

    def _report_again(self, tracked: TrackedAttempt) -> None:
        """Answer a repeated launch or a reconciliation; an attempt that is ending is answered by its end."""
        if tracked.phase is Phase.POSTED:
            running = tracked.verdict()
            at = tracked.clamped(running.at, _now()) if isinstance(running, Running) else tracked.since
            self._report_started(tracked, at)

    def _report_started(self, tracked: TrackedAttempt, at: Instant) -> None:
        tracked.is_reported = True
        self._report(RunStarted(*tracked.attempt_id, at, NAME))

    def _end(self, tracked: TrackedAttempt, ending: Ending) -> None:
        if tracked.ending is None:
            tracked.ending = ending
        if tracked.phase is Phase.POSTED:
            self._submit(self._settling, self._end_job, tracked)

    def _saw(self, tracked: TrackedAttempt, job: Document) -> None:
        if tracked.see_job(job) and tracked.ending is not None:
            self._end(tracked, tracked.ending)  # the scheduler that began to end it may not live to finish
        self._advance(tracked)

    def _advance(self, tracked: TrackedAttempt) -> None:
        if tracked.phase is not Phase.POSTED:
            return
        before = tracked.why
        action = tracked.next_action()
        if tracked.why != before and tracked.pods:
            log.info("run.pending run=%s why=%s", tracked.attempt_id.key.run_id, tracked.why)
        if action is Action.END and tracked.ending is not None:
            self._end(tracked, tracked.ending)
        elif action is Action.SETTLE:
            self._begin_settling(tracked)
        elif action is Action.FOLLOW:
            running, pod = tracked.verdict(), tracked.newest_pod()
            if not tracked.is_reported and isinstance(running, Running):
                self._report_started(tracked, tracked.clamped(running.at, _now()))
            if pod is not None:
                copy = partial(self._finalizer.copy_of, tracked, pod["metadata"]["name"])
                self._copies.start(tracked.attempt_id, copy)

    def _gone(self, tracked: TrackedAttempt, last: Document | None) -> None:
        """Its Job no longer exists."""
        if tracked.phase is Phase.POSTED:
            if last is not None:
                tracked.see_job(last)
            self._begin_settling(tracked)

    def _begin_settling(self, tracked: TrackedAttempt) -> None:
        tracked.phase = Phase.SETTLING
        self._submit(self._settling, self._settle, tracked)

    def _finish(self, tracked: TrackedAttempt, *reports: Report) -> None:
        """Report and forget it: a later reconciliation looks it up again."""
        with self._lock:
            if self._attempts.get(tracked.name) is tracked:
                del self._attempts[tracked.name]
            for report in reports:
                if not self._closing.is_set():
                    self._report(report)

    # ClusterListener: called from the watches' threads

    def all_jobs(self, namespace: str, jobs: Sequence[Document]) -> None:
        with self._lock:
            self._seen.list_jobs(namespace, jobs)
            for tracked in list(self._attempts.values()):
                job = self._seen.jobs.get(tracked.name)
                if job is not None:
                    self._saw(tracked, job)
                elif tracked.namespace == namespace and tracked.phase is Phase.POSTED:
                    self._submit(self._settling, self._confirm_gone, tracked)

    def job_changed(self, kind: str, job: Document) -> None:
        name, job = job["metadata"]["name"], slim(job)
        with self._lock:
            tracked = self._attempts.get(name)
            if kind == "DELETED":
                self._seen.jobs.pop(name, None)
                if tracked is not None:
                    tracked.was_deleted = True
                    self._gone(tracked, job)
                return
            self._seen.jobs[name] = job
            if tracked is not None and tracked.phase is Phase.POSTED:
                self._saw(tracked, job)

    def all_pods(self, namespace: str, pods: Sequence[Document]) -> None:
        with self._lock:
            self._seen.list_pods(namespace, pods)
            for tracked in list(self._attempts.values()):
                tracked.pods |= self._seen.pods_of(tracked.name)
                self._advance(tracked)

    def pod_changed(self, kind: str, pod: Document) -> None:
        pod = slim(pod)
        with self._lock:
            self._seen.see_pod(pod, is_gone=kind == "DELETED")
            tracked = self._attempts.get(job_of(pod))
            if tracked is not None:
                tracked.see_pod(pod, is_deleted=kind == "DELETED")
                self._advance(tracked)

    # Attempts whose pod does not start

    def _tick(self, cluster: Cluster) -> None:
        ticked_at = time.monotonic()
        while not self._closing.wait(TICK_SECONDS):
            now, elapsed = _now(), time.monotonic() - ticked_at
            ticked_at += elapsed
            with self._lock:
                # If the pods of a namespace are not listed, it is unknown whether they have started.
                waiting = [
                    one
                    for one in self._attempts.values()
                    if one.phase is Phase.POSTED and not one.has_started and one.namespace in self._seen.listed
                ]
            for tracked in waiting if self._connection.is_healthy else ():
                if not tracked.pods and now - max(tracked.warnings_read_at, tracked.since) >= WARNINGS_US:
                    _read_warnings(cluster, tracked, now)
                with self._lock:
                    is_late = elapsed >= LATE_SECONDS or tracked.phase is not Phase.POSTED
                    action = tracked.wait(elapsed, self._settings.start_timeout_us, may_expire=not is_late)
                    if action is Action.END and tracked.ending is not None:
                        self._end(tracked, tracked.ending)


def _read_warnings(cluster: Cluster, tracked: TrackedAttempt, now: Instant) -> None:
    tracked.warnings_read_at = now
    try:
        warnings = cluster.warnings_about(tracked.namespace, tracked.name)
    except (ApiUnavailable, ApiError):
        return  # it only improves the text
    if warnings and why_no_pod(warnings[-1]) != tracked.why:
        tracked.why = why_no_pod(warnings[-1])
        log.warning("run.pending run=%s why=%s", tracked.attempt_id.key.run_id, tracked.why)


def _now() -> Instant:
    return time.time_ns() // 1_000


def _not_open(report: Report) -> None:
    raise AssertionError(f"{report} before open()")
