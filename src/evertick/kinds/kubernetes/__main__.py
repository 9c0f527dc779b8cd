"""How a step attends to its container: `python -m evertick.kinds.kubernetes ORDER`.

It ends what earlier tries of the step have left on the cluster, makes the Job, prints what the container prints, and
exits as the container does. Told to end, it ends the container first. Where an exit code does not say enough, it leaves
a word beside it.
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
from evertick.kinds import RESULT_FD, ExitNote
from evertick.kinds.kubernetes import job_api
from evertick.kinds.kubernetes.cluster import Access, ApiAway, ApiError, Cluster, connect, jobs_path, pods_path
from evertick.kinds.kubernetes.diagnostics import why_no_pod
from evertick.kinds.kubernetes.log_follower import Follower
from evertick.kinds.kubernetes.names import JOB_NAME, ROLE, RUN, STEP, selector_of
from evertick.kinds.kubernetes.overlay import Json
from evertick.kinds.kubernetes.status import Ended, Pending, Running, Taken, Verdict, judge, newest, vanished
from evertick.kinds.kubernetes.watcher import Watch
from evertick.model.lifecycle import SUCCEEDED, TIMED_OUT

NOT_RUN: Final = 125
"""The container was not run, or its end is not known: the cluster refused it, took it away, or is not there."""
EXPIRED: Final = 124
ENDED: Final = 143
LOOK_SECONDS: Final = 1.0
QUIET_SECONDS: Final = 10.0
"""It is said why a container does not start when it has not for this long."""
LOG_SECONDS: Final = 30.0
LAST_STATE_SECONDS: Final = 5.0


class End(NamedTuple):
    """As what the process ends, and the word that it leaves: what an exit code cannot say."""

    code: int
    why: str = ""
    is_lost: bool = False
    """Whether the cluster took the container away, or what became of it is not known: it did not fail by itself."""


class Attendance:
    def __init__(self, cluster: Cluster, manifest: Json, grace_seconds: int, start_seconds: float) -> None:
        self._cluster = cluster
        self._manifest = manifest
        self._grace = grace_seconds
        self._start_seconds = start_seconds
        self._metadata = manifest["metadata"]
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._job: Json | None = None
        self._is_gone = False
        self._pods: dict[str, Json] = {}
        self._deleted: set[str] = set()
        """The pods whose last state, at their deletion, is the one that is known."""
        self._is_over = False

    def end(self, *_: object) -> None:
        """From a signal: only leave a word."""
        self._news.put("end")

    @property
    def has_begun(self) -> bool:
        """Whether there is a Job of ours, whatever became of it."""
        return self._job is not None

    def run(self) -> End:
        self._end_earlier()
        match job_api.create(self._cluster, self._manifest, self._closing):
            case job_api.Created(job):
                self._job = job
            case job_api.Refused(why) | job_api.Impossible(why):
                return End(NOT_RUN, why)
        namespace, labels = self._metadata["namespace"], self._metadata["labels"]
        selector = selector_of({name: labels[name] for name in (ROLE, RUN, STEP)})
        watches = [
            Watch(self._cluster, jobs_path(namespace), selector, self._saw_jobs, self._saw_job, self._troubled),
            Watch(self._cluster, pods_path(namespace), selector, self._saw_pods, self._saw_pod, self._troubled),
        ]
        for watch in watches:
            watch.start()
        try:
            return self._attend()
        finally:
            for watch in watches:
                watch.stop(1.0)

    def _end_earlier(self) -> None:
        """An attempt that was lost may still run on the cluster, and must not run beside this one."""
        namespace, labels = self._metadata["namespace"], self._metadata["labels"]
        selector = selector_of({name: labels[name] for name in (ROLE, RUN, STEP)})
        for job in self._cluster.list_all(jobs_path(namespace), selector)[0]:
            name = job["metadata"]["name"]
            job_api.end(self._cluster, namespace, name, "another try has begun", self._grace, self._closing)
            job_api.end_pods(self._cluster, namespace, name, self._grace, self._closing)

    def _attend(self) -> End:
        follower: tuple[Follower, threading.Thread] | None = None
        waited, looked_at = 0.0, time.monotonic()
        told = ""
        while True:
            verdict = self._verdict()
            match verdict:
                case Pending(why, is_hopeless):
                    # Counted in looks: a machine that slept, or had no turn, has not waited, and has news to read.
                    now = time.monotonic()
                    waited += min(now - looked_at, 2 * LOOK_SECONDS)
                    looked_at = now
                    if why != told and waited > QUIET_SECONDS:
                        told = why
                        _say(why)
                    if is_hopeless or waited > self._start_seconds:
                        self._end_it(why)
                        return End(NOT_RUN, f"it did not start: {why or why_no_pod('')}")
                case Running() if follower is None:
                    follower = self._follow()
            if isinstance(verdict, Ended | Taken) or self._is_gone:
                return self._conclude(follower)
            if self._wait() == "end":
                self._end_it("the step was ended")
                self._finish(follower)
                return End(ENDED)

    def _wait(self) -> str:
        try:
            return self._news.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            return ""

    def _verdict(self) -> Verdict:
        with self._lock:
            assert self._job is not None
            return judge(self._job, list(self._pods.values()))

    def _conclude(self, follower: tuple[Follower, threading.Thread] | None) -> End:
        namespace, name = self._metadata["namespace"], self._metadata["name"]
        if self._is_gone:
            pods = job_api.end_pods(self._cluster, namespace, name, self._grace, self._closing)
        else:
            pods = self._fresh_pods(namespace, name)
        with self._lock:
            self._pods |= {pod["metadata"]["name"]: pod for pod in pods}
        verdict = self._verdict()
        self._finish(follower or (self._follow() if isinstance(verdict, Ended) and self._pods else None))
        job_api.tell(self._cluster, namespace, name, 600)
        match verdict:
            case Ended(state, _, _, exit_code, detail):
                if state is SUCCEEDED:
                    return End(0)
                return End(EXPIRED if state is TIMED_OUT else exit_code or 1, detail)
            case Taken(detail):
                return End(NOT_RUN, detail, is_lost=True)
        return End(NOT_RUN, f"its Job {name!r} was deleted by somebody", is_lost=True)

    def _fresh_pods(self, namespace: str, name: str) -> list[Json]:
        """The watch of pods may lag behind that of Jobs: a pod that is gone says in its last state why it is."""
        found = job_api.pods_of(self._cluster, namespace, name)
        until = time.monotonic() + LAST_STATE_SECONDS
        while True:
            with self._lock:
                gone = vanished(list(self._pods.values()), found)
                is_told = {pod["metadata"]["name"] for pod in gone} <= self._deleted
            if is_told or time.monotonic() >= until:
                return [*found, *gone]
            self._wait()

    def _follow(self) -> tuple[Follower, threading.Thread] | None:
        pod = newest(list(self._pods.values()))
        if pod is None:
            return None
        follower = Follower(self._cluster, self._metadata["namespace"], pod["metadata"]["name"], _print)
        thread = threading.Thread(target=follower.run, args=(lambda: self._is_over,), daemon=True)
        thread.start()
        return follower, thread

    def _finish(self, following: tuple[Follower, threading.Thread] | None) -> None:
        self._is_over = True
        if following is not None:
            following[1].join(LOG_SECONDS)
            following[0].end()

    def _end_it(self, detail: str) -> None:
        where = (self._cluster, self._metadata["namespace"], self._metadata["name"])
        job_api.end(*where, detail, self._grace, self._closing)
        job_api.end_pods(*where, self._grace, self._closing)

    # What the cluster says; from other threads

    def _saw_jobs(self, jobs: Sequence[Json]) -> None:
        found = [job for job in jobs if job["metadata"]["name"] == self._metadata["name"]]
        with self._lock:
            # It was there before the list was asked for.
            self._is_gone = not found
            self._job = found[0] if found else self._job
        self._news.put("")

    def _saw_pods(self, pods: Sequence[Json]) -> None:
        for pod in pods:
            self._saw_pod("", pod)

    def _saw_job(self, kind: str, job: Json) -> None:
        if job["metadata"]["name"] != self._metadata["name"]:
            return
        with self._lock:
            self._job, self._is_gone = job, kind == "DELETED"
        self._news.put("")

    def _saw_pod(self, kind: str, pod: Json) -> None:
        if (pod["metadata"].get("labels") or {}).get(JOB_NAME) == self._metadata["name"]:
            with self._lock:
                self._pods[pod["metadata"]["name"]] = pod
                if kind == "DELETED":
                    self._deleted.add(pod["metadata"]["name"])
            self._news.put("")

    def _troubled(self, trouble: str) -> None:
        if trouble:
            _say(f"the cluster does not answer: {trouble}")


def main(path: str) -> int:
    with open(path, "rb") as file:
        order = json.load(file)
    end = _attended(order)
    if end.why and end.why != f"exit code {end.code}":
        _say(end.why)
    with open(RESULT_FD, "wb") as answer:
        answer.write(ExitNote(end.why, end.is_lost).encode())
    return end.code


def _attended(order: Json) -> End:
    try:
        cluster = connect(Access(**order["access"]), order["environ"])
    except SettingsError as error:
        return End(NOT_RUN, str(error))
    metadata = order["manifest"]["metadata"]
    metadata["namespace"] = metadata["namespace"] or cluster.namespace
    attendance = Attendance(cluster, order["manifest"], order["grace"], order["start"])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, attendance.end)
    try:
        return attendance.run()
    except (ApiAway, ApiError) as error:
        return End(NOT_RUN, f"the cluster cannot be asked: {error}", attendance.has_begun)


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"[evertick: {text}]\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
