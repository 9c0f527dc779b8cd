"""How a step attends to its container: `python -m evertick.kinds.kubernetes ORDER`.

It ends what earlier tries of the step have left on the cluster, makes the Job, prints what the container prints, and
exits as the container does. Told to end, it ends the container first.
"""

from __future__ import annotations

import json
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

from evertick.errors import SettingsError
from evertick.kinds.kubernetes import deeds
from evertick.kinds.kubernetes.cluster import Access, ApiAway, ApiError, Cluster, connect, jobs_path, pods_path
from evertick.kinds.kubernetes.following import Follower
from evertick.kinds.kubernetes.judging import Ended, Pending, Running, Taken, Verdict, judge, newest
from evertick.kinds.kubernetes.names import JOB_NAME, ROLE, RUN, STEP, selector_of
from evertick.kinds.kubernetes.overlay import Json
from evertick.kinds.kubernetes.watching import Watch
from evertick.kinds.kubernetes.words import why_no_pod
from evertick.model.lifecycle import SUCCEEDED, TIMED_OUT

NOT_RUN: Final = 125
"""The container was not run, or its end is not known: the cluster refused it, took it away, or is not there."""
EXPIRED: Final = 124
ENDED: Final = 143
START_SECONDS: Final = 600.0
QUIET_SECONDS: Final = 10.0
"""It is said why a container does not start when it has not for this long."""
LOG_SECONDS: Final = 30.0


class Attendance:
    def __init__(self, cluster: Cluster, manifest: Json, grace_seconds: int) -> None:
        self._cluster = cluster
        self._manifest = manifest
        self._grace = grace_seconds
        self._metadata = manifest["metadata"]
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._job: Json | None = None
        self._is_gone = False
        self._pods: dict[str, Json] = {}
        self._is_over = False

    def end(self, *_: object) -> None:
        """From a signal: only leave a word."""
        self._news.put("end")

    def run(self) -> int:
        self._end_earlier()
        match deeds.create(self._cluster, self._manifest, self._closing):
            case deeds.Created(job):
                self._job = job
            case deeds.Refused(why) | deeds.Impossible(why):
                return _said(why, NOT_RUN)
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
            deeds.end(self._cluster, namespace, name, "another try has begun", self._grace, self._closing)
            deeds.end_pods(self._cluster, namespace, name, self._grace, self._closing)

    def _attend(self) -> int:
        follower: tuple[Follower, threading.Thread] | None = None
        began = time.monotonic()
        told = ""
        while True:
            verdict = self._verdict()
            match verdict:
                case Pending(why, is_hopeless):
                    waited = time.monotonic() - began
                    if why != told and waited > QUIET_SECONDS:
                        told = why
                        _say(why)
                    if is_hopeless or waited > START_SECONDS:
                        self._end_it(why)
                        return _said(f"it did not start: {why}", NOT_RUN)
                case Running() if follower is None:
                    follower = self._follow()
            if isinstance(verdict, Ended | Taken) or self._is_gone:
                return self._conclude(follower)
            if self._wait() == "end":
                self._end_it("the step was ended")
                self._finish(follower)
                return ENDED

    def _wait(self) -> str:
        try:
            return self._news.get(timeout=1.0)
        except queue.Empty:
            return ""

    def _verdict(self) -> Verdict:
        with self._lock:
            assert self._job is not None
            return judge(self._job, list(self._pods.values()))

    def _conclude(self, follower: tuple[Follower, threading.Thread] | None) -> int:
        namespace, name = self._metadata["namespace"], self._metadata["name"]
        if self._is_gone:
            pods = deeds.end_pods(self._cluster, namespace, name, self._grace, self._closing)
        else:
            pods = deeds.pods_of(self._cluster, namespace, name)
        with self._lock:
            self._pods |= {pod["metadata"]["name"]: pod for pod in pods}
        verdict = self._verdict()
        self._finish(follower or (self._follow() if isinstance(verdict, Ended) and self._pods else None))
        deeds.tell(self._cluster, namespace, name, 600)
        match verdict:
            case Ended(state, _, _, exit_code, detail):
                if state is SUCCEEDED:
                    return 0
                if state is TIMED_OUT:
                    return _said(detail, EXPIRED)
                return exit_code if exit_code and detail == f"exit code {exit_code}" else _said(detail, exit_code or 1)
            case Taken(detail):
                return _said(detail, NOT_RUN)
        return _said(f"its Job {name!r} was deleted by somebody", NOT_RUN)

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
        deeds.end(*where, detail, self._grace, self._closing)
        deeds.end_pods(*where, self._grace, self._closing)

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

    def _saw_pod(self, _kind: str, pod: Json) -> None:
        if (pod["metadata"].get("labels") or {}).get(JOB_NAME) == self._metadata["name"]:
            with self._lock:
                self._pods[pod["metadata"]["name"]] = pod
            self._news.put("")

    def _troubled(self, trouble: str) -> None:
        if trouble:
            _say(f"the cluster does not answer: {trouble}")


def main(path: str) -> int:
    with open(path, "rb") as file:
        order = json.load(file)
    try:
        cluster = connect(Access(**order["access"]), order["environ"])
    except SettingsError as error:
        return _said(str(error), NOT_RUN)
    metadata = order["manifest"]["metadata"]
    metadata["namespace"] = metadata["namespace"] or cluster.namespace
    attendance = Attendance(cluster, order["manifest"], order["grace"])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, attendance.end)
    try:
        return attendance.run()
    except (ApiAway, ApiError) as error:
        return _said(f"the cluster cannot be asked: {error}", NOT_RUN)


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"[evertick: {text}]\n")
    sys.stderr.flush()


def _said(text: str, code: int) -> int:
    _say(text or why_no_pod(""))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
