"""Running attempts on a cluster: one Job each, and what becomes of them is what the cluster says."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from evertick.errors import SettingsError
from evertick.executor import Attempt, AttemptId, Member
from evertick.executors.kubernetes.connection import CLOSE_SECONDS, Connection
from evertick.executors.kubernetes.finalize import NAME, Finalizer
from evertick.executors.kubernetes.log_copy import Copies
from evertick.executors.kubernetes.orders import order_of
from evertick.executors.kubernetes.settings import KubernetesSettings
from evertick.executors.kubernetes.track import Ending, Phase, Sightings, Track, job_of, slim
from evertick.executors.paths import private_folder
from evertick.kinds import StepError
from evertick.kinds.kubernetes import job_api
from evertick.kinds.kubernetes.cluster import ApiAway, ApiError, Cluster
from evertick.kinds.kubernetes.diagnostics import why_no_pod
from evertick.kinds.kubernetes.names import job_name
from evertick.kinds.kubernetes.overlay import Json
from evertick.kinds.kubernetes.status import Ended, Pending, Running, Taken, is_over, newest
from evertick.model.instant import SECOND, Instant, from_text
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED
from evertick.model.report import LaunchRefused, Report, RunFinished, RunLost, RunStarted, RunUnknown
from evertick.model.run import RunKey

log = logging.getLogger("evertick.kubernetes")

LAUNCHERS = 8
SETTLERS = 16
LAUNCHES_MAX = 10_000
"""Launches that wait for the cluster; more are refused, and come again."""
AGAIN_SECONDS = 5.0
"""Between two looks for a cluster that nobody has named yet."""
TICK_SECONDS = 1.0
LATE_SECONDS = 5.0
"""A tick that comes later than this was held up with everything else here: what was said meanwhile is to be read."""
REASONS_US = 10 * SECOND
"""How often the cluster is asked why it makes no pod."""


class KubernetesExecutor:
    """The cluster holds the attempts; this only asks and listens. Whoever opens it next finds them by their names."""

    name = NAME

    def __init__(
        self, connect: Callable[[], Cluster], state_folder: Path | str, settings: KubernetesSettings | None = None
    ) -> None:
        self._logs = Path(state_folder).absolute() / "logs"
        self._settings = settings or KubernetesSettings()
        self._report: Callable[[Report], None] = _nowhere
        self._lock = threading.RLock()
        self._tracks: dict[str, Track] = {}
        """What we were given or asked about, by the names of the Jobs; of other nodes' attempts we say nothing."""
        self._seen = Sightings()
        self._reach = Connection(connect, self._settings, self)
        self._closing = threading.Event()
        self._copies = Copies(self._settings.log_streams)

    # The contract

    def open(self, report: Callable[[Report], None]) -> None:
        self._report = report
        self._launching = ThreadPoolExecutor(LAUNCHERS, "evertick-pod-launch")
        self._settling = ThreadPoolExecutor(SETTLERS, "evertick-pod-settle")

    def launch(self, attempt: Attempt) -> None:
        attempt_id = AttemptId(attempt.key, attempt.attempt)
        name = job_name(self._settings.instance, *attempt_id)
        with self._lock:
            track = self._tracks.get(name)
            if track is not None and track.phase is not Phase.ASKED:
                self._say_again(track)
                return
            if len(self._tracks) >= LAUNCHES_MAX and self._launches() >= LAUNCHES_MAX:
                self._report(LaunchRefused(*attempt_id, "too many launches are in progress"))
                return
            track = self._tracks[name] = Track(attempt_id, name, Phase.LAUNCHING, _now())
            track.launch = attempt
        self._soon(self._launching, self._create, track)

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        name = job_name(self._settings.instance, key, attempt)
        with self._lock:
            track, job = self._tracks.get(name), self._seen.jobs.get(name)
            if track is None and job is not None and not is_over(job):
                track = self._tracks[name] = Track(AttemptId(key, attempt), name, Phase.ASKED, _now())
                self._take_up(track, job)
            if track is not None:
                self._end(track, Ending(CANCELLED, detail))

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        for key, attempt in runs:
            name = job_name(self._settings.instance, key, attempt)
            with self._lock:
                track = self._tracks.get(name)
                if track is not None:
                    self._say_again(track)
                    continue
                track = self._tracks[name] = Track(AttemptId(key, attempt), name, Phase.ASKED, _now())
            self._soon(self._launching, self._look_up, track)

    def members(self) -> Sequence[Member]:
        """The cluster, once somebody has needed it: of one that nobody asked nothing can be said."""
        with self._lock:
            if not self._reach.was_tried:
                return ()
            running = sum(track.phase is not Phase.ASKED for track in self._tracks.values())
            return (Member(self.name, self._reach.is_healthy, running),)

    def close(self) -> None:
        """Let go; what runs goes on, and is found by whoever comes next."""
        with self._lock:
            self._closing.set()
        self._reach.close()
        self._copies.close(CLOSE_SECONDS)
        for pool in (self._launching, self._settling):
            pool.shutdown(wait=False, cancel_futures=True)

    def begin(self, cluster: Cluster) -> None:
        """The cluster is reached for the first time."""
        private_folder(self._logs.parent)
        private_folder(self._logs)
        self._settler = Finalizer(cluster, self._logs, self._settings, self._copies, self._closing)
        threading.Thread(target=self._tick, args=(cluster,), name="evertick-pod-clock", daemon=True).start()

    # What is done, each in a thread of a pool

    def _soon(self, pool: ThreadPoolExecutor, deed: Callable[[Track], None], track: Track) -> None:
        with self._lock:
            if not self._closing.is_set():
                pool.submit(self._guarded, deed, track)

    def _guarded(self, deed: Callable[[Track], None], track: Track) -> None:
        """A fault of ours with one attempt must not silence the others."""
        try:
            deed(track)
        except Exception as error:
            if not self._closing.is_set():
                log.exception("kubernetes.raised job=%s", track.name)
                self._conclude(track, RunLost(*track.attempt_id, f"{type(error).__name__}: {error}"))

    def _create(self, track: Track) -> None:
        with self._lock:
            if track.ending is not None:
                self._conclude(track, track.ended_by_us(_now()))
                return
        assert track.launch is not None
        try:
            cluster = self._reach.cluster()
            order = order_of(track.launch, self._settings.instance, cluster.namespace)
        except SettingsError as error:
            self._conclude(track, LaunchRefused(*track.attempt_id, str(error)))
            return
        except StepError as error:
            self._conclude(track, RunFinished(*track.attempt_id, _now(), FAILED, None, str(error)))
            return
        track.namespace = order.manifest["metadata"]["namespace"]
        if track.namespace not in self._reach.namespaces:
            why = f"the namespace {track.namespace!r} is not one of the settings. Add it to 'namespaces' there."
            self._conclude(track, LaunchRefused(*track.attempt_id, why))
            return
        track.step, track.log_max_bytes, track.launch = order.step, order.log_max_bytes, None
        match job_api.create(cluster, order.manifest, self._closing):
            case job_api.Refused(why):
                self._conclude(track, LaunchRefused(*track.attempt_id, why))
            case job_api.Impossible(why):
                self._conclude(track, RunFinished(*track.attempt_id, _now(), FAILED, None, why))
            case job_api.Created(job, is_new):
                with self._lock:
                    track.is_ours = is_new
                    self._take_up(track, job)

    def _look_up(self, track: Track) -> None:
        with self._lock:
            job: Json | bool | None = self._seen.jobs.get(track.name)
        if job is None:
            # Not by what the watch has seen, which may be old: the cluster itself must say that it has none.
            try:
                cluster = self._reach.cluster()
            except SettingsError as error:
                log.warning("kubernetes.not_reached reason=%s", error)
                if not self._closing.wait(AGAIN_SECONDS):
                    self._soon(self._launching, self._look_up, track)
                return
            job = job_api.read(cluster, self._reach.namespaces, track.name, self._closing)
        with self._lock:
            if job is False or self._tracks.get(track.name) is not track or track.phase is not Phase.ASKED:
                return  # closed, or launched meanwhile
            if isinstance(job, dict):
                self._take_up(track, job)
                self._say_again(track)
            else:
                self._conclude(track, RunUnknown(*track.attempt_id))

    def _end_job(self, track: Track) -> None:
        assert track.ending is not None
        where = (self._reach.cluster(), track.namespace, track.name)
        job_api.end(*where, track.ending.detail, self._settings.grace_us // SECOND, self._closing)

    def _settle(self, track: Track) -> None:
        with self._lock:
            is_gone = track.name not in self._seen.jobs
        reports = self._settler.settle(track, is_gone=is_gone)
        if reports is not None:
            self._conclude(track, *reports)

    def _confirm_gone(self, track: Track) -> None:
        """The list did not have it; it may have been made behind the list."""
        job = job_api.read(self._reach.cluster(), (track.namespace,), track.name, self._closing)
        with self._lock:
            if job is None:
                self._seen.jobs.pop(track.name, None)
                self._gone(track, None)
            elif isinstance(job, dict):
                self.job_changed("MODIFIED", job)

    # What follows; under the lock

    def _launches(self) -> int:
        return sum(track.phase is Phase.LAUNCHING for track in self._tracks.values())

    def _take_up(self, track: Track, job: Json) -> None:
        """Its Job is there: from now on it is watched."""
        metadata = job["metadata"]
        track.namespace, track.phase = metadata["namespace"], Phase.POSTED
        if not track.is_ours:
            track.since = from_text(metadata["creationTimestamp"])
            track.waited_us = max(_now() - track.since, 0)
        # The watch may have been faster than the answer to our own request.
        track.see(self._seen.jobs.setdefault(track.name, slim(job)))
        track.pods |= self._seen.pods_of(track.name)
        if track.was_deleted:
            self._soon(self._settling, self._confirm_gone, track)
        elif track.ending is not None:
            self._end(track, track.ending)
        self._consider(track)

    def _say_again(self, track: Track) -> None:
        """To whoever asks after an attempt that is there; one that ends is answered by its end."""
        if track.phase is Phase.POSTED:
            running = track.verdict()
            self._started(track, track.clamped(running.at, _now()) if isinstance(running, Running) else track.since)

    def _started(self, track: Track, at: Instant) -> None:
        track.is_told = True
        self._report(RunStarted(*track.attempt_id, at, NAME))

    def _end(self, track: Track, ending: Ending) -> None:
        if track.ending is None:
            track.ending = ending
        if track.phase is Phase.POSTED:
            self._soon(self._settling, self._end_job, track)

    def _saw(self, track: Track, job: Json) -> None:
        if track.see(job) and track.ending is not None:
            self._end(track, track.ending)  # whoever began may not live to finish it
        self._consider(track)

    def _consider(self, track: Track) -> None:
        """What is known has changed."""
        if track.phase is not Phase.POSTED:
            return
        match track.verdict():
            case Pending(why, is_hopeless, has_pod):
                if has_pod and why != track.why:
                    track.why = why
                    log.info("run.pending run=%s why=%s", track.attempt_id.key.run_id, why)
                if is_hopeless and track.ending is None:
                    self._end(track, Ending(FAILED, why))
            case Running(at):
                track.has_started = True
                if not track.is_told:
                    self._started(track, track.clamped(at, _now()))
                pod = newest(list(track.pods.values()))
                if pod is not None:
                    name = pod["metadata"]["name"]
                    self._copies.start(track.attempt_id, partial(self._settler.copy_of, track, name))
            case Ended(state):
                # One that we end is over when it is gone, unless it was faster.
                if track.ending is None or state is SUCCEEDED:
                    self._begin_to_settle(track)
            case Taken():
                if track.ending is None:
                    self._begin_to_settle(track)

    def _gone(self, track: Track, last: Json | None) -> None:
        """Its Job is no longer there."""
        if track.phase is Phase.POSTED:
            if last is not None:
                track.see(last)
            self._begin_to_settle(track)

    def _begin_to_settle(self, track: Track) -> None:
        track.phase = Phase.SETTLING
        self._soon(self._settling, self._settle, track)

    def _conclude(self, track: Track, *reports: Report) -> None:
        """Say it, and forget it: what is asked again is looked up again."""
        with self._lock:
            if self._tracks.get(track.name) is track:
                del self._tracks[track.name]
            for report in reports:
                if not self._closing.is_set():
                    self._report(report)

    # What the cluster says

    def all_jobs(self, namespace: str, jobs: Sequence[Json]) -> None:
        with self._lock:
            self._seen.list_jobs(namespace, jobs)
            for track in list(self._tracks.values()):
                job = self._seen.jobs.get(track.name)
                if job is not None:
                    self._saw(track, job)
                elif track.namespace == namespace and track.phase is Phase.POSTED:
                    self._soon(self._settling, self._confirm_gone, track)

    def job_changed(self, kind: str, job: Json) -> None:
        name, job = job["metadata"]["name"], slim(job)
        with self._lock:
            track = self._tracks.get(name)
            if kind == "DELETED":
                self._seen.jobs.pop(name, None)
                if track is not None:
                    track.was_deleted = True
                    self._gone(track, job)
                return
            self._seen.jobs[name] = job
            if track is not None and track.phase is Phase.POSTED:
                self._saw(track, job)

    def all_pods(self, namespace: str, pods: Sequence[Json]) -> None:
        with self._lock:
            self._seen.list_pods(namespace, pods)
            for track in list(self._tracks.values()):
                track.pods |= self._seen.pods_of(track.name)
                self._consider(track)

    def pod_changed(self, kind: str, pod: Json) -> None:
        pod = slim(pod)
        with self._lock:
            self._seen.see_pod(pod, is_gone=kind == "DELETED")
            track = self._tracks.get(job_of(pod))
            if track is not None:
                track.pods[pod["metadata"]["name"]] = pod
                self._consider(track)

    # What time says

    def _tick(self, cluster: Cluster) -> None:
        ticked_at = time.monotonic()
        while not self._closing.wait(TICK_SECONDS):
            now, elapsed = _now(), time.monotonic() - ticked_at
            ticked_at += elapsed
            with self._lock:
                # Of pods that cannot be heard of it is not known whether they have started.
                waiting = [
                    one
                    for one in self._tracks.values()
                    if one.phase is Phase.POSTED and not one.has_started and one.namespace in self._seen.heard
                ]
            for track in waiting if self._reach.is_healthy else ():
                if not track.pods and now - max(track.looked_at, track.since) >= REASONS_US:
                    _ask_for_reasons(cluster, track, now)
                # Counted, and not read from a clock: one that is set, or a machine that slept, has waited for nothing.
                track.waited_us += int(min(elapsed, 2 * TICK_SECONDS) * SECOND)
                if track.waited_us >= self._settings.start_timeout_us and elapsed < LATE_SECONDS:
                    self._give_up(track)

    def _give_up(self, track: Track) -> None:
        with self._lock:
            if track.phase is Phase.POSTED and track.ending is None and not track.has_started:
                self._end(track, Ending(FAILED, f"it did not start in time: {track.why or why_no_pod('')}"))


def _ask_for_reasons(cluster: Cluster, track: Track, now: Instant) -> None:
    track.looked_at = now
    try:
        said = cluster.warnings_about(track.namespace, track.name)
    except (ApiAway, ApiError):
        return  # it was only for the words
    if said and why_no_pod(said[-1]) != track.why:
        track.why = why_no_pod(said[-1])
        log.warning("run.pending run=%s why=%s", track.attempt_id.key.run_id, track.why)


def _now() -> Instant:
    return time.time_ns() // 1_000


def _nowhere(report: Report) -> None:
    raise AssertionError(f"{report} before open()")
