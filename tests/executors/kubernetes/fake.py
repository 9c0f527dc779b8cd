"""A fake cluster: keeps Jobs and pods as an API server does, and runs their shell lines here.

It answers what the executor asks and nothing else. The suite that runs on it runs on a real cluster too
(`make test-kubernetes`), which is what makes its answers worth something.
"""

# ruff: noqa: ARG002 - it answers as the real one does, and has one namespace
from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from evertick.kinds.kubernetes.cluster import ApiError, ApiUnavailable
from evertick.kinds.kubernetes.manifest import merge

Json = dict[str, Any]
KEPT = 1_000


class FakeStream:
    """Grows until it is ended from either side."""

    def __init__(self, source: Callable[[], Iterator[bytes]]) -> None:
        self._source = source
        self.is_ended = threading.Event()

    def chunks(self) -> Iterator[bytes]:
        yield from self._source()

    def lines(self) -> Iterator[bytes]:
        rest = b""
        for chunk in self.chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole

    def end(self) -> None:
        self.is_ended.set()


class FakeCluster:
    namespace = "default"

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._version = 1
        self._objects: dict[str, dict[str, Json]] = {"jobs": {}, "pods": {}}
        self._events: list[tuple[int, str, str, Json]] = []
        self._forgotten = 0
        """Events up to this version are not remembered."""
        self._logs: dict[str, bytes] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._streams: list[FakeStream] = []
        self.warnings: list[str] = []
        self.refusals: list[Exception] = []
        """What the next creations are answered with."""
        self.loses_answers = 0
        """So many creations are carried out, and not answered."""
        self.is_away = False
        self.withholds_pods = False
        """Jobs can be asked for, and pods cannot."""
        self.hides_pods = False
        """Whether the watch of pods lags behind that of Jobs."""
        self.withheld = 0
        self.creations = 0

    # What the executor asks

    def create_job(self, manifest: Json) -> Json:
        self._answer()
        with self._changed:
            if self.refusals:
                raise self.refusals.pop(0)
            name = manifest["metadata"]["name"]
            if name in self._objects["jobs"]:
                raise ApiError(409, "AlreadyExists", f'jobs.batch "{name}" already exists')
            self.creations += 1
            job = copy.deepcopy(manifest)
            job["metadata"]["creationTimestamp"] = _stamp()
            job["status"] = {}
            self._put("jobs", "ADDED", job)
            self._make_pod(job)
            if self.loses_answers:
                self.loses_answers -= 1
                raise ApiUnavailable("the connection was lost")
            return copy.deepcopy(job)

    def read_job(self, namespace: str, name: str) -> Json | None:
        self._answer()
        with self._changed:
            return copy.deepcopy(self._objects["jobs"].get(name))

    def patch_job(self, namespace: str, name: str, change: Json) -> Json | None:
        self._answer()
        with self._changed:
            job = self._objects["jobs"].get(name)
            if job is not None:
                self._put("jobs", "MODIFIED", merge(job, change))
            return job

    def delete_job(self, namespace: str, name: str) -> None:
        """In the foreground."""
        self._answer()
        with self._changed:
            job = self._objects["jobs"].get(name)
            if job is not None:
                job["metadata"]["deletionTimestamp"] = _stamp()
                self._put("jobs", "MODIFIED", job)
                for pod in self._pods_of(name):
                    self._terminate(pod, 1)
                self._collect(job)

    def delete_pod(self, namespace: str, name: str, grace_seconds: int) -> None:
        self._answer()
        assert grace_seconds > 0
        with self._changed:
            pod = self._objects["pods"].get(name)
            if pod is not None:
                self._terminate(pod, grace_seconds)

    def list_all(self, path: str, selector: str) -> tuple[list[Json], str]:
        self._answer()
        if self.withholds_pods and path.endswith("/pods"):
            self.withheld += 1
            raise ApiUnavailable("the connection was lost")
        with self._changed:
            kind = path.rpartition("/")[2]
            found = [one for one in self._objects[kind].values() if _fits(one, selector)]
            return copy.deepcopy(found), str(self._version)

    def watch(self, path: str, selector: str, version: str, seconds: int) -> FakeStream:
        self._answer()
        if int(version) < self._forgotten:
            raise ApiError(410, "Expired", "too old resource version")
        kind = path.rpartition("/")[2]

        def source() -> Iterator[bytes]:
            last = int(version)
            while not stream.is_ended.is_set():
                with self._changed:
                    self._answer()
                    if last < self._forgotten:
                        yield (
                            json.dumps({"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}).encode() + b"\n"
                        )
                        return
                    if self.hides_pods and kind == "pods":
                        self._changed.wait(0.05)
                        continue
                    fresh = [event for event in self._events if event[0] > last]
                    if not fresh:
                        self._changed.wait(0.05)
                last = fresh[-1][0] if fresh else last
                for _, kind_of_event, kind_of_object, found in fresh:
                    if kind_of_object == kind and _fits(found, selector):
                        yield json.dumps({"type": kind_of_event, "object": found}).encode() + b"\n"

        stream = FakeStream(source)
        self._streams.append(stream)
        return stream

    def follow_log(self, namespace: str, pod: str, container: str, since: str | None) -> FakeStream:
        self._answer()
        with self._changed:
            if pod not in self._objects["pods"]:
                raise ApiError(404, "NotFound", f'pods "{pod}" not found')
            if pod not in self._logs:
                raise ApiError(400, "BadRequest", "container is waiting to start")

        def source() -> Iterator[bytes]:
            at = 0
            while not stream.is_ended.is_set():
                with self._changed:
                    self._answer()
                    data = self._logs[pod][at:]
                    is_over = pod not in self._processes
                    if not data:
                        if is_over:
                            return
                        self._changed.wait(0.05)
                at += len(data)
                if data:
                    yield data

        stream = FakeStream(source)
        self._streams.append(stream)
        return stream

    def warnings_about(self, namespace: str, name: str) -> list[str]:
        return self.warnings

    def close(self) -> None:
        pass

    # What happens to a cluster

    def forget_the_past(self) -> None:
        """Whoever watches has seen too old a version, and must list again."""
        with self._changed:
            self._version += 1
            self._forgotten = self._version
            self._events.clear()
            self._changed.notify_all()

    def cut_connections(self) -> None:
        for stream in self._streams:
            stream.end()
        self._streams.clear()

    def remove_job(self, name: str, *, keep_pods: bool = False) -> None:
        """Somebody deletes it; its pods follow in the background, or are left."""
        with self._changed:
            job = self._objects["jobs"][name]
            for pod in [] if keep_pods else self._pods_of(name):
                self._terminate(pod, 1)
            self._put("jobs", "DELETED", job)

    def evict(self, name: str) -> None:
        with self._changed:
            for pod in self._pods_of(name):
                pod["status"]["conditions"].append(
                    {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
                )
                self._terminate(pod, 1)

    def jobs(self) -> list[Json]:
        with self._changed:
            return copy.deepcopy(list(self._objects["jobs"].values()))

    def end_all(self) -> None:
        for process in list(self._processes.values()):
            _kill(process, signal.SIGKILL)

    # The controller and the kubelet

    def _make_pod(self, job: Json) -> None:
        template = job["spec"]["template"]
        name = f"{job['metadata']['name']}-pod"
        labels = {**template["metadata"]["labels"], "batch.kubernetes.io/job-name": job["metadata"]["name"]}
        image = template["spec"]["containers"][0]["image"]
        pod = {
            "metadata": {"name": name, "namespace": job["metadata"]["namespace"], "labels": labels},
            "spec": {**template["spec"], "nodeName": "here"},
            "status": {"phase": "Pending", "conditions": [], "containerStatuses": []},
        }
        pod["metadata"]["creationTimestamp"] = _stamp()
        if image == "no-pod":
            return
        if image == "no-room":
            del pod["spec"]["nodeName"]
            pod["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes."}
            ]
        elif image.startswith("no-image"):
            reason = "InvalidImageName" if image == "no-image!" else "ImagePullBackOff"
            pod["status"]["containerStatuses"] = [
                {"name": "main", "image": image, "state": {"waiting": {"reason": reason, "message": "not found"}}}
            ]
        self._put("pods", "ADDED", pod)
        if not image.startswith("no-"):
            threading.Thread(target=self._run, args=(job["metadata"]["name"], name), daemon=True).start()

    def _run(self, job: str, name: str) -> None:
        with self._changed:
            pod = self._objects["pods"].get(name)
            if pod is None or pod["metadata"].get("deletionTimestamp"):
                return
            container = pod["spec"]["containers"][0]
            env = {one["name"]: one["value"].replace("$$", "$") for one in container["env"]}
            words = [word.replace("$$", "$") for word in container["command"]]
            process = subprocess.Popen(
                words,
                env={"PATH": os.environ["PATH"], **env},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._processes[name] = process
            self._logs[name] = b""
            started = _stamp()
            self._state(pod, {"running": {"startedAt": started}}, "Running")
        assert process.stdout is not None
        for line in process.stdout:
            with self._changed:
                self._logs[name] += (
                    f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}{time.time_ns() % 1000:03}Z ".encode() + line
                )
                self._changed.notify_all()
        code = process.wait()
        process.stdout.close()
        with self._changed:
            del self._processes[name]
            end = {"exitCode": code if code >= 0 else 128 - code, "startedAt": started, "finishedAt": _stamp()}
            self._state(pod, {"terminated": end}, "Succeeded" if code == 0 else "Failed")
            self._ended(job, pod, code == 0)

    def _ended(self, name: str, pod: Json, is_good: bool) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            self._put("pods", "DELETED", pod)
        job = self._objects["jobs"].get(name)
        if job is not None and job["metadata"].get("deletionTimestamp"):
            self._collect(job)
        elif job is not None:
            reason = {"type": "Complete"} if is_good else {"type": "Failed", "reason": "BackoffLimitExceeded"}
            job["status"] = {"conditions": [{**reason, "status": "True", "lastTransitionTime": _stamp()}]}
            self._put("jobs", "MODIFIED", job)

    def _terminate(self, pod: Json, grace_seconds: int) -> None:
        name = pod["metadata"]["name"]
        pod["metadata"].setdefault("deletionTimestamp", _stamp())
        process = self._processes.get(name)
        if process is None:
            self._put("pods", "DELETED", pod)
            return
        self._put("pods", "MODIFIED", pod)
        _kill(process, signal.SIGTERM)
        killer = threading.Timer(grace_seconds, _kill, (process, signal.SIGKILL))
        killer.daemon = True
        killer.start()

    def _collect(self, job: Json) -> None:
        if not self._pods_of(job["metadata"]["name"]):
            self._put("jobs", "DELETED", job)

    def _state(self, pod: Json, state: Json, phase: str) -> None:
        image = pod["spec"]["containers"][0]["image"]
        pod["status"] |= {"phase": phase, "containerStatuses": [{"name": "main", "image": image, "state": state}]}
        self._put("pods", "MODIFIED", pod)

    def _pods_of(self, job: str) -> list[Json]:
        found = self._objects["pods"].values()
        return [pod for pod in found if pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == job]

    def _put(self, kind: str, event: str, found: Json) -> None:
        self._version += 1
        found["metadata"]["resourceVersion"] = str(self._version)
        if event == "DELETED":
            self._objects[kind].pop(found["metadata"]["name"], None)
        else:
            self._objects[kind][found["metadata"]["name"]] = found
        self._events.append((self._version, event, kind, copy.deepcopy(found)))
        del self._events[:-KEPT]
        self._changed.notify_all()

    def _answer(self) -> None:
        if self.is_away:
            raise ApiUnavailable("connection refused", is_unsent=True)


def _fits(found: Json, selector: str) -> bool:
    labels = found["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, _, value in (part.partition("=") for part in selector.split(",")))


def _stamp() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _kill(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)
