"""The process of a container step: `python -m evertick.kinds.kubernetes FILE`.

It ends the Jobs that earlier tries of the step left on the cluster, creates its Job, prints the container's output, and
exits as the container does. On SIGTERM it ends the container first. What an exit code cannot say, it writes as an
`ExitNote`.
"""

from __future__ import annotations

import json
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from evertick.errors import SettingsError
from evertick.kinds import ExitNote, write_exit_note, write_output
from evertick.kinds.kubernetes import job_api
from evertick.kinds.kubernetes.cluster import Access, ApiError, ApiUnavailable, Cluster, connect, jobs_path, pods_path
from evertick.kinds.kubernetes.job_tracker import TICK_SECONDS, Action, Ending, JobTracker
from evertick.kinds.kubernetes.log_follower import LogFollower
from evertick.kinds.kubernetes.names import JOB_NAME, ROLE, RUN, STEP, selector_of
from evertick.kinds.kubernetes.status import Ended, EndedByCluster
from evertick.kinds.kubernetes.watcher import Watch
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, SUCCEEDED, TIMED_OUT, beyond_exit_code
from evertick.model.plain_json import Document

NOT_RUN: Final = 125
"""The container did not run, or its end is unknown: the cluster refused it, took it away, or cannot be reached."""
EXPIRED: Final = 124
ENDED: Final = 143
QUIET_SECONDS: Final = 10.0
"""After this long the log says why a container does not start."""
LOG_SECONDS: Final = 30.0
LAST_STATE_SECONDS: Final = 5.0
KEEP_SECONDS: Final = 600


class End(NamedTuple):
    """The exit code of this process, and its exit note."""

    code: int
    reason: str = ""
    is_lost: bool = False
    """The cluster took the container away, or its end is unknown: it did not fail by itself."""


class JobStep:
    """Runs one Job to its end. The watches call it from their own threads."""

    def __init__(self, cluster: Cluster, manifest: Document, grace_seconds: int, start_seconds: float) -> None:
        self._cluster = cluster
        self._manifest = manifest
        self._grace = grace_seconds
        self._start_timeout_us = int(start_seconds * SECOND)
        metadata = manifest["metadata"]
        self._labels = {name: metadata["labels"][name] for name in (ROLE, RUN, STEP)}
        self._tracker = JobTracker(metadata["name"], metadata["namespace"])
        self._changes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._has_ended = False

    def stop(self, *_: object) -> None:
        """A signal handler: it only leaves a message."""
        self._changes.put("stop")

    @property
    def has_started(self) -> bool:
        """Whether a Job was created."""
        return self._tracker.job is not None

    def run(self) -> End:
        self._end_earlier()
        match job_api.create(self._cluster, self._manifest, self._closing):
            case job_api.Created(job):
                self._tracker.see_job(job)
            case job_api.Refused(why) | job_api.NotCreated(why):
                return End(NOT_RUN, why)
        namespace, selector = self._tracker.namespace, selector_of(self._labels)
        watches = [
            Watch(self._cluster, jobs_path(namespace), selector, self._saw_jobs, self._saw_job, _print_problem),
            Watch(self._cluster, pods_path(namespace), selector, self._saw_pods, self._saw_pod, _print_problem),
        ]
        for watch in watches:
            watch.start()
        try:
            return self._track()
        finally:
            for watch in watches:
                watch.stop(1.0)

    def _end_earlier(self) -> None:
        """A lost attempt may still run on the cluster, and must not run beside this one."""
        namespace = self._tracker.namespace
        for job in self._cluster.list_all(jobs_path(namespace), selector_of(self._labels))[0]:
            name = job["metadata"]["name"]
            job_api.end(self._cluster, namespace, name, "another try has started", self._grace, self._closing)
            job_api.end_pods(self._cluster, namespace, name, self._grace, self._closing)

    def _track(self) -> End:
        follower: tuple[LogFollower, threading.Thread] | None = None
        tracker, ticked_at, noted = self._tracker, time.monotonic(), ""
        while True:
            with self._lock:
                action = tracker.next_action()
                if action is Action.WAIT and not tracker.has_started:
                    now = time.monotonic()
                    action = tracker.wait(now - ticked_at, self._start_timeout_us)
                    ticked_at = now
            if action is Action.FOLLOW:
                follower = follower or self._follow()
            elif action is Action.SETTLE:
                return self._settle(follower)
            elif action is Action.END:
                assert tracker.ending is not None
                self._end_job(tracker.ending.detail)
                return End(NOT_RUN, f"it did not start: {tracker.why}")
            elif tracker.why != noted and tracker.waited_us > QUIET_SECONDS * SECOND:
                noted = tracker.why
                _print_note(noted)
            if self._wait() == "stop":
                tracker.ending = Ending(CANCELLED, "the step was stopped")
                self._end_job(tracker.ending.detail)
                self._finish_log(follower)
                return End(ENDED)

    def _wait(self) -> str:
        try:
            return self._changes.get(timeout=TICK_SECONDS)
        except queue.Empty:
            return ""

    def _settle(self, follower: tuple[LogFollower, threading.Thread] | None) -> End:
        tracker = self._tracker
        verdict = tracker.final_verdict(self._cluster, self._grace, self._closing, self._wait_for_deletions)
        if follower is None and isinstance(verdict, Ended) and tracker.pods:
            follower = self._follow()
        self._finish_log(follower)
        job_api.release(self._cluster, tracker.namespace, tracker.name, KEEP_SECONDS)
        match verdict:
            case Ended(state, _, _, exit_code, detail):
                if state is SUCCEEDED:
                    return End(0)
                return End(EXPIRED if state is TIMED_OUT else exit_code or 1, detail)
            case EndedByCluster(detail):
                return End(NOT_RUN, detail, is_lost=True)
        return End(NOT_RUN, tracker.deleted_detail, is_lost=True)

    def _wait_for_deletions(self, gone: list[Document]) -> None:
        names, until = {pod["metadata"]["name"] for pod in gone}, time.monotonic() + LAST_STATE_SECONDS
        while not names <= self._tracker.deleted and time.monotonic() < until:
            self._wait()

    def _follow(self) -> tuple[LogFollower, threading.Thread] | None:
        pod = self._tracker.newest_pod()
        if pod is None:
            return None
        follower = LogFollower(self._cluster, self._tracker.namespace, pod["metadata"]["name"], _print)
        thread = threading.Thread(target=follower.run, args=(lambda: self._has_ended,), daemon=True)
        thread.start()
        return follower, thread

    def _finish_log(self, follower: tuple[LogFollower, threading.Thread] | None) -> None:
        self._has_ended = True
        if follower is not None:
            follower[1].join(LOG_SECONDS)
            follower[0].end()

    def _end_job(self, detail: str) -> None:
        job = (self._cluster, self._tracker.namespace, self._tracker.name)
        job_api.end(*job, detail, self._grace, self._closing)
        job_api.end_pods(*job, self._grace, self._closing)

    # Called by the watches

    def _saw_jobs(self, jobs: Sequence[Document]) -> None:
        found = [job for job in jobs if job["metadata"]["name"] == self._tracker.name]
        with self._lock:
            # It was created before the list was requested.
            self._tracker.is_gone = not found
            self._tracker.job = found[0] if found else self._tracker.job
        self._changes.put("")

    def _saw_pods(self, pods: Sequence[Document]) -> None:
        for pod in pods:
            self._saw_pod("", pod)

    def _saw_job(self, kind: str, job: Document) -> None:
        if job["metadata"]["name"] != self._tracker.name:
            return
        with self._lock:
            self._tracker.job, self._tracker.is_gone = job, kind == "DELETED"
        self._changes.put("")

    def _saw_pod(self, kind: str, pod: Document) -> None:
        if (pod["metadata"].get("labels") or {}).get(JOB_NAME) == self._tracker.name:
            with self._lock:
                self._tracker.see_pod(pod, is_deleted=kind == "DELETED")
            self._changes.put("")


def main(path: str) -> int:
    with open(path, "rb") as file:
        request = json.load(file)
    end = _run(request)
    if beyond_exit_code(end.reason, end.code):
        _print_note(end.reason)
    write_exit_note(ExitNote(end.reason, end.is_lost, end.code))
    return end.code


def _run(request: Document) -> End:
    try:
        cluster = connect(Access(**request["access"]), request["environ"])
    except SettingsError as error:
        return End(NOT_RUN, str(error))
    metadata = request["manifest"]["metadata"]
    metadata["namespace"] = metadata["namespace"] or cluster.namespace
    step = JobStep(cluster, request["manifest"], request["grace"], request["start"])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, step.stop)
    try:
        return step.run()
    except (ApiUnavailable, ApiError) as error:
        return End(NOT_RUN, f"the cluster did not answer: {error}", step.has_started)


def _print(data: bytes) -> None:
    write_output(sys.stdout.buffer, data)


def _print_problem(problem: str) -> None:
    if problem:
        _print_note(f"the cluster does not answer: {problem}")


def _print_note(text: str) -> None:
    write_output(sys.stderr.buffer, f"[evertick: {text}]\n".encode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
