"""Builders of attempts on a cluster, and waits for their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from evertick.executors.kubernetes.executor import KubernetesExecutor
from evertick.executors.logs import Logs
from evertick.kinds.kubernetes.cluster import Cluster
from evertick.kinds.kubernetes.names import job_name
from evertick.loop.effects import Launch
from evertick.model.instant import SECOND
from evertick.model.job import Job
from evertick.model.lifecycle import Trigger
from evertick.model.report import Report, RunFinished, RunLost, RunStarted
from evertick.model.run import RunKey
from evertick.model.work import Pod, Step, Work
from evertick.settings.parts import KubernetesSettings
from tests.executors.contract import KEY, NINE, Reports
from tests.executors.local_runs import OfAttempt

SOON = KubernetesSettings(start_timeout_us=3600 * SECOND)


def pod_job(line: str = "true", *, image: str = "shell", id: str = "report", pod=None, **work) -> Job:  # noqa: A002
    pod = pod or Pod(image, (line,), is_shell=True)
    return Job(id, work=Work((Step("main", pod),), **work))


def launch(job: Job, key: RunKey = KEY, attempt: int = 1, params: str = "") -> Launch:
    return Launch(key, attempt, 65_537, job, Trigger.SCHEDULER, params, None)


def key_of(number: int) -> RunKey:
    return RunKey("report", NINE + number * SECOND)


class PodPlace:
    """A state folder and a cluster, and the executors opened on them one after another."""

    def __init__(
        self,
        connect: Callable[[], Cluster],
        folder: Path,
        image: str = "shell",
        instance: str = "evertick",
        pod_spec=None,
    ) -> None:
        self.connect = connect
        self.folder = folder
        self.image = image
        self.instance = instance
        self.pod_spec = pod_spec or {}
        self.logs = Logs(folder)
        self.reports = Reports()
        self._opened: list[KubernetesExecutor] = []

    def open(self, settings: KubernetesSettings = SOON) -> KubernetesExecutor:
        settings = replace(settings, instance=self.instance)
        executor = KubernetesExecutor(self.connect, self.folder, settings, grace_seconds=1)
        executor.open(self.reports)
        self._opened.append(executor)
        return executor

    @property
    def executor(self) -> KubernetesExecutor:
        return self._opened[-1] if self._opened else self.open()

    def restart(self) -> KubernetesExecutor:
        """As after kill -9: nothing is said, another one is opened."""
        self.executor.close()
        self.reports.clear()
        return self.open()

    def start(
        self, line: str, key: RunKey = KEY, attempt: int = 1, *, image: str | None = None, given="", **work
    ) -> None:
        pod = Pod(image or self.image, (line,), is_shell=True, pod_spec=self.pod_spec)
        self.executor.launch(launch(pod_job(pod=pod, **work), key, attempt, given))

    def run(self, line: str, key: RunKey = KEY, attempt: int = 1, **known) -> RunFinished:
        self.start(line, key, attempt, **known)
        return self.end_of(key, attempt)

    def name_of(self, key: RunKey = KEY, attempt: int = 1) -> str:
        return job_name(self.instance, key, attempt)

    def end_of(self, key: RunKey = KEY, attempt: int = 1) -> RunFinished:
        return self.first(RunFinished, key, attempt)

    def start_of(self, key: RunKey = KEY, attempt: int = 1) -> RunStarted:
        return self.first(RunStarted, key, attempt)

    def loss_of(self, key: RunKey = KEY, attempt: int = 1) -> RunLost:
        return self.first(RunLost, key, attempt)

    def first(self, kind: type[OfAttempt], key: RunKey = KEY, attempt: int = 1) -> OfAttempt:
        def fitting(said: Sequence[Report]) -> list[OfAttempt]:
            return [one for one in said if isinstance(one, kind) and (one.key, one.attempt) == (key, attempt)]

        return fitting(self.reports.wait_until(lambda said: bool(fitting(said))))[0]

    def log(self, key: RunKey = KEY, attempt: int = 1) -> tuple[bytes, bool]:
        chunk = self.logs.read_log(key, attempt, "main")
        return chunk.data, chunk.is_complete

    def close(self) -> None:
        for executor in self._opened:
            executor.close()


class EndsWell:
    """An executor as the contract wants it: whatever it is given ends well and soon."""

    def __init__(self, place: PodPlace) -> None:
        self._place = place
        self._executor = place.executor

    def launch(self, attempt: Launch) -> None:
        pod = Pod(self._place.image, ("true",), is_shell=True, pod_spec=self._place.pod_spec)
        self._executor.launch(attempt._replace(job=pod_job(pod=pod)))

    def __getattr__(self, name: str):
        return getattr(self._executor, name)
