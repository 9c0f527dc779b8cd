"""A node as `evertick serve` makes one, in a storm: job files, ledger, socket, and the API beside it if it is wanted.

`python -m bench.api_storm FOLDER STORE LEAD SECONDS 0|1` prints a line when it is up and waits for one; it then prints
from when on it measures, so many seconds later, and at last what was fired and how late. Runs take no time, but for one
job that really runs and prints, so that there is a log to read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.bench_storm import Shots, verified
from bench.instant_executor import InstantExecutor
from evertick.cli.web import add_web
from evertick.executor import Attempt, Capabilities, Executor, Member
from evertick.model.instant import SECOND
from evertick.model.report import Report
from evertick.model.run import RunKey
from evertick.service import FolderService
from evertick.settings import Settings

PRINTING = "printing"
"""The job that really runs."""


def write_jobs(folder: Path, jobs: int) -> None:
    """Job files: so many that are due every second, and one that prints a log."""
    for number in range(jobs):
        text = f"schedule: [{{every: 1s}}]\ntags: [team-{number % 20}]\nsteps: [{{name: main, command: [/bin/true]}}]\n"
        (folder / f"{job_name(number)}.yaml").write_text(text)
    shell = "for n in $(seq 4000); do echo line $n of a log that somebody reads; done"
    text = f"schedule: [{{every: 1h}}]\nsteps: [{{name: main, script: '{shell}'}}]\n"
    (folder / f"{PRINTING}.yaml").write_text(text)


def door_of(folder: Path) -> tuple[Path, Path]:
    """The files in which a server tells where it is, and what lets somebody in: there as soon as it answers."""
    return folder / ".evertick" / "server.json", folder / ".evertick" / "token"


def job_name(number: int) -> str:
    return f"job-{number:03}"


class Shooting:
    """Notes when each run is started; only the job that prints goes to the executor that was there before."""

    def __init__(self, real: Executor, shots: Shots) -> None:
        self.name = real.name
        self._real, self._shots, self._instant = real, shots, InstantExecutor()

    @property
    def capabilities(self) -> Capabilities:
        return self._real.capabilities

    def open(self, report: Callable[[Report], None]) -> None:
        self._real.open(report)
        self._instant.open(report)

    def launch(self, attempt: Attempt) -> None:
        if attempt.key.job_id == PRINTING:
            self._real.launch(attempt)
            return
        self._shots.add(attempt.key.scheduled_for / SECOND)
        self._instant.launch(attempt)

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        self._real.stop(key, attempt, detail)

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        self._real.reconcile(runs)

    def members(self) -> Sequence[Member]:
        return self._real.members()

    def close(self) -> None:
        self._real.close()


def storm(folder: Path, store: str, lead: int, seconds: int, *, with_api: bool) -> dict[str, Any]:
    settings = Settings.load(folder, {}, {"store": store, "port": 0, "node": "bench"})
    node = FolderService(folder, settings)
    shots = Shots(seconds)
    executors: Any = node.node._executors
    executors["local"] = Shooting(executors["local"], shots)
    if with_api:
        add_web(node, {"store": store, "port": 0, "node": "bench"})

    async def run() -> None:
        running = asyncio.create_task(node.run())
        while with_api and not running.done() and not all(path.exists() for path in door_of(folder)):
            await asyncio.sleep(0.05)
        print("up", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        shots.begin(float(int(time.time()) + 1 + lead))
        print(json.dumps({"first": shots.first}), flush=True)
        await shots.wait(jobs)
        if running.done():
            running.result()
        node.shut_down(5)
        await running

    jobs = sum(1 for path in folder.glob("job-*.yaml"))
    asyncio.run(run())
    if not store.startswith("memory:"):
        verified(store)
    return shots.report(jobs)


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    folder, store, lead, seconds, with_api = sys.argv[1:6]
    print(json.dumps(storm(Path(folder), store, int(lead), int(seconds), with_api=with_api == "1")))


if __name__ == "__main__":
    main()
