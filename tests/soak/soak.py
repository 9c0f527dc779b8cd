"""A scheduler, its API and a page under load, while its processes are killed at random instants."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import cycle
from pathlib import Path
from random import Random
from typing import NamedTuple
from urllib.parse import quote

import psutil

from tests.ports import free_port

SCHEDULER, API, KEEPER = "scheduler", "API", "keeper"
ASKERS = 4
LONG_EACH = 10
"""One in this number of jobs runs for two seconds, so that a kill of the keeper meets runs."""
PATIENCE_SECONDS = 300.0


class Plan(NamedTuple):
    """How large a soak is."""

    jobs: int = 1_000
    period: int = 60
    """Seconds between two occurrences of a job; a divisor of 60."""
    seconds: float = 1_800.0
    storm: float = 2 / 3
    """The share of the time in which processes are killed; in the rest memory must not grow."""
    kill_each: tuple[float, float] = (15.0, 45.0)
    requests_per_second: float = 20.0
    sample_each: float = 10.0
    seed: int = 1


class Kill(NamedTuple):
    second: float
    process: str


class Sample(NamedTuple):
    """The state of the machine and of the processes at one time."""

    second: float
    load: float
    mib: dict[str, float]
    """Resident memory by process; a process that is being started again is missing."""


def phases(job: int, period: int) -> list[int]:
    """The seconds of each minute at which a job is due."""
    return list(range(job % period, 60, period))


def job_name(number: int) -> str:
    return f"job-{number:04}"


def kills_of(plan: Plan) -> list[Kill]:
    """When which process is killed: at random instants, each process equally often."""
    random, found = Random(plan.seed), list[Kill]()
    at, end = 0.0, plan.seconds * plan.storm
    while True:
        turn = [SCHEDULER, API, KEEPER]
        random.shuffle(turn)
        for process in turn:
            at += random.uniform(*plan.kill_each)
            if at >= end:
                return found
            found.append(Kill(round(at, 1), process))


class Soak:
    """One server on a folder of jobs, a supervisor that starts it again, and clients that ask it."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        self.began, self.ended = folder / "began", folder / "ended"
        self.kills: list[Kill] = []
        self.samples: list[Sample] = []
        self.answers: Counter[str] = Counter()
        """Requests by result: the status, or `no connection` while the API is being started again."""
        self.seconds_of_answers: list[float] = []
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = ""
        self._jobs = folder / "jobs"
        self._state = self._jobs / ".evertick"
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._write_jobs()

    @property
    def store_url(self) -> str:
        return f"sqlite:///{self._state}/ledger.db"

    def _write_jobs(self) -> None:
        self._jobs.mkdir(parents=True)
        for number in range(self.plan.jobs):
            seconds = ",".join(map(str, phases(number, self.plan.period)))
            work = "sleep 2; " if number % LONG_EACH == 0 else ""
            line = 'echo "$EVERTICK_RUN_ID $EVERTICK_RUN_ATTEMPT"'
            (self._jobs / f"{job_name(number)}.yaml").write_text(
                f'schedule: "{seconds} * * * * *"\nmissed: all\noverlap: parallel(20)\n'
                f"command: '{line} >> {self.began}; {work}{line} >> {self.ended}'\n"
            )

    # The server

    def start(self) -> None:
        """Start the server and its supervisor; return when the API answers."""
        self._serve()
        self._spawn(self._supervise)
        deadline = time.monotonic() + PATIENCE_SECONDS
        file = self._state / "token"
        while not (file.exists() and self._is_answering(file.read_text().strip())):
            assert time.monotonic() < deadline, (self.folder / "serve.log").read_text()[-3_000:]
            time.sleep(0.1)

    def _serve(self) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("EVERTICK_")}
        words = [sys.executable, "-m", "evertick", "serve", str(self._jobs), "--port", str(self.port)]
        with (self.folder / "serve.log").open("ab") as log:
            self._process = subprocess.Popen(
                words, stdout=log, stderr=log, env={**own, "EVERTICK_TIMEZONE": "UTC"}, start_new_session=True
            )

    def _supervise(self) -> None:
        """Start the scheduler again a second after it has died, as systemd would."""
        while not self._is_over.is_set():
            assert self._process is not None
            if self._process.poll() is not None and not self._is_over.wait(1.0):
                self._serve()
            self._is_over.wait(0.1)

    def _is_answering(self, token: str) -> bool:
        self.token = token
        with closing(self._connect()) as connection, suppress(OSError, http.client.HTTPException):
            return self._get(connection, "/api/v1/status") == 200
        return False

    def stop(self) -> None:
        """End the load and stop the server in an orderly way."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(PATIENCE_SECONDS) == 0, (self.folder / "serve.log").read_text()[-3_000:]

    def close(self) -> None:
        self._is_over.set()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for one in self._processes()[KEEPER]:
            with suppress(psutil.NoSuchProcess):
                one.kill()

    def _processes(self) -> dict[str, list[psutil.Process]]:
        """The processes of this server by what they are."""
        found: dict[str, list[psutil.Process]] = {SCHEDULER: [], API: [], KEEPER: []}
        assert self._process is not None
        for one in psutil.process_iter():
            with suppress(psutil.Error):
                words = one.cmdline()
                if one.pid == self._process.pid:
                    found[SCHEDULER].append(one)
                elif not any(word.startswith(str(self._jobs)) for word in words):
                    continue
                elif "evertick.executors.keeper" in words:
                    found[KEEPER].append(one)
                elif "evertick.api" in words:
                    found[API].append(one)
        return found

    # The load

    def load(self) -> None:
        """Begin to ask the API, and to kill processes."""
        self._began_at = time.monotonic()
        paths = self._paths()
        for _ in range(ASKERS):
            self._spawn(self._ask, paths)
        self._spawn(self._kill_some)

    def _spawn(self, work: object, *given: object) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    @property
    def second(self) -> float:
        return round(time.monotonic() - self._began_at, 1)

    def sample(self) -> Sample:
        mib = {}
        for name, some in self._processes().items():
            with suppress(psutil.Error):
                if some:
                    mib[name] = round(sum(one.memory_info().rss for one in some) / 2**20, 1)
        found = Sample(self.second, round(os.getloadavg()[0], 1), mib)
        self.samples.append(found)
        return found

    def _kill_some(self) -> None:
        random = Random(self.plan.seed)
        for planned in kills_of(self.plan):
            if self._is_over.wait(max(planned.second - self.second, 0)):
                return
            some = self._processes()[planned.process]
            if some:
                with suppress(psutil.NoSuchProcess):
                    random.choice(some).send_signal(signal.SIGKILL)
                    self.kills.append(Kill(self.second, planned.process))

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def _get(self, connection: http.client.HTTPConnection, path: str) -> int:
        connection.request("GET", path, headers={"authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def _paths(self) -> Iterator[str]:
        """What a page and its users request."""
        numbers = cycle(range(0, self.plan.jobs, 7))
        kinds = ("overview", "jobs?limit=50&sparkline=20", "runs?limit=50", "upcoming?limit=20", "jobs/{job}")
        for kind in cycle((*kinds, "runs?job={job}&limit=20", "runs?state=failed&limit=50", "jobs/{job}")):
            yield f"/api/v1/{kind}".replace("{job}", quote(job_name(next(numbers))))

    def _ask(self, paths: Iterator[str]) -> None:
        pause = ASKERS / self.plan.requests_per_second
        with closing(self._connect()) as connection:
            while not self._is_over.wait(pause):
                with self._lock:
                    path = next(paths)
                asked_at = time.monotonic()
                try:
                    result = str(self._get(connection, path))
                except (OSError, http.client.HTTPException):
                    result = "no connection"
                    connection.close()
                with self._lock:
                    self.answers[result] += 1
                    if result == "200":
                        self.seconds_of_answers.append(time.monotonic() - asked_at)


def attempts_in(file: Path) -> Counter[tuple[str, str]]:
    """Run and attempt of each line that a job has written, with their number."""
    found = re.findall(r"^(\S+) (\d+)$", file.read_text(), re.MULTILINE) if file.exists() else []
    return Counter(found)
