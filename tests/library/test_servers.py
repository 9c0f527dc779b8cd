"""Whether a scheduler in every worker of a web server runs each occurrence once, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from evertick import Scheduler
from evertick.model.lifecycle import FAILED, LOST, SUCCEEDED
from tests.library.programs import LIMIT_SECONDS, run, until
from tests.ports import free_port

pytestmark = pytest.mark.slow

# What a user would write: jobs beside the app, started with each worker and not before.
JOBS = """
import os
from evertick import RunContext, Scheduler

scheduler = Scheduler(store=os.environ["STORE"], standby=True)


def note(context: RunContext) -> None:
    line = f"{context.run_id} {os.getpid()}\\n".encode()
    file = os.open("ran", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)


for number in range(12):
    scheduler.job(every="500ms", name=f"job-{number}", grace="60s")(note)
"""
WSGI = """
import os
from jobs import scheduler


def app(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [f"{os.getpid()} {scheduler.status}".encode()]
"""
GUNICORN = """
def post_worker_init(worker):
    from jobs import scheduler

    scheduler.start_in_background()


def worker_exit(server, worker):
    from jobs import scheduler

    scheduler.stop_in_background(timeout=10)
"""
ASGI = """
import os
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from jobs import scheduler


@asynccontextmanager
async def lifespan(app):
    async with scheduler:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/", response_class=PlainTextResponse)
def pid():
    return f"{os.getpid()} {scheduler.status}"
"""


class Web:
    """A web server with three workers, in a folder of its own."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store = folder, store
        self.port = free_port()
        for name, text in {"jobs": JOBS, "wsgi": WSGI, "asgi": ASGI, "gunicorn_settings": GUNICORN}.items():
            (folder / f"{name}.py").write_text(text)

    def start(self, *command: str) -> Web:
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "STORE": self.store, "PYTHONPATH": str(self.folder)},
            )
        return self

    def gunicorn(self, *more: str) -> Web:
        bind = f"127.0.0.1:{self.port}"
        return self.start("gunicorn", "-w", "3", "-b", bind, "-c", "gunicorn_settings.py", *more, "wsgi:app")

    def uvicorn(self) -> Web:
        return self.start("uvicorn", "--workers", "3", "--port", str(self.port), "asgi:app")

    def ask(self) -> tuple[int, str] | None:
        """The pid of the worker that answers, and how its scheduler stands."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5) as answer:
                pid, status = answer.read().decode().split()
                return int(pid), status
        except OSError:
            return None

    def ran(self) -> list[tuple[str, int]]:
        path = self.folder / "ran"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [(run_id, int(pid)) for run_id, pid in (line.split() for line in lines)]

    def workers(self) -> set[int]:
        """Those that have run something within the last lines."""
        return {pid for _, pid in self.ran()[-60:]}

    def until_ran(self, count: int) -> None:
        until(lambda: len(self.ran()) >= count or not self._is_alive(), f"{count} runs: {self.log}")
        assert self._is_alive(), self.log

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()[-5_000:]

    def _is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(LIMIT_SECONDS)
        finally:
            self.process.kill()


@pytest.fixture
def web(tmp_path):
    made: list[Web] = []

    def with_store(store: str) -> Web:
        made.append(Web(tmp_path, store))
        return made[-1]

    yield with_store
    for one in made:
        if one.process.poll() is None:
            one.stop()


def prove(web: Web, killed: int | None = None) -> None:
    """Each occurrence has its line, none is missing, and none was run twice but what a killed worker was just at."""
    scheduler = Scheduler(store=web.store)

    async def look():
        proof = await scheduler.verify()
        history = await scheduler.get_history(limit=1_000)
        await scheduler.stop()
        assert proof.is_sound, proof
        assert not [one for one in history if one.state in (LOST, FAILED)]
        # What a worker had just begun when it was stopped may not have run: the next start tries it again.
        return [one for one in history if one.state is SUCCEEDED]

    workers: dict[str, list[int]] = {}
    for run_id, pid in web.ran():
        workers.setdefault(run_id, []).append(pid)
    assert [one for one in run(look) if one.run not in workers] == []
    assert [run_id for run_id, pids in workers.items() if len(pids) > 1 and killed not in pids] == []


def test_three_workers_on_one_postgres_share_the_jobs_and_a_killed_one_is_replaced(web, fresh_postgres):
    server = web(fresh_postgres()).gunicorn()
    until(lambda: len(server.workers()) >= 2, f"several workers to take part: {server.log}")
    victim = server.ran()[-1][1]
    os.kill(victim, signal.SIGKILL)
    before = len(server.ran())
    until(lambda: any(pid != victim for _, pid in server.ran()[before:]), "the others to go on")
    jobs_of_victim = {run_id.partition("@")[0] for run_id, pid in server.ran()[:before] if pid == victim}

    def taken_over():
        since = [run_id.partition("@")[0] for run_id, pid in server.ran()[before:] if pid != victim]
        return jobs_of_victim <= set(since)

    until(taken_over, f"its jobs to be taken over: {server.log}")
    server.until_ran(len(server.ran()) + 60)
    server.stop()
    prove(server, victim)


def test_a_graceful_reload_of_the_workers_loses_nothing(web, fresh_postgres):
    server = web(fresh_postgres()).gunicorn("--preload")
    until(lambda: len(server.workers()) >= 2, f"several workers to take part: {server.log}")
    old = server.workers()
    server.process.send_signal(signal.SIGHUP)
    until(lambda: server.workers() and not server.workers() & old, f"new workers: {server.log}")
    server.stop()
    prove(server)


def test_with_sqlite_one_worker_owns_and_another_takes_over_when_it_dies(web, tmp_path):
    server = web(f"sqlite:///{tmp_path}/ledger.db").gunicorn()
    server.until_ran(30)
    owners = {pid for _, pid in server.ran()}
    assert len(owners) == 1
    until(lambda: (answer := server.ask()) and answer[1] == "standby", f"a worker that stands by: {server.log}")
    (victim,) = owners
    os.kill(victim, signal.SIGKILL)
    until(lambda: len({pid for _, pid in server.ran()}) == 2, f"a second owner: {server.log}")
    server.until_ran(len(server.ran()) + 60)
    server.stop()
    prove(server, victim)


def test_the_workers_of_an_asgi_server_do_the_same(web, fresh_postgres):
    server = web(fresh_postgres()).uvicorn()
    until(lambda: len(server.workers()) >= 2, f"several workers to take part: {server.log}")
    server.until_ran(60)
    assert server.ask() is not None
    server.stop()
    prove(server)
