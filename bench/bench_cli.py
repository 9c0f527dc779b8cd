"""What a person waits for when they type a command."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.harness import Report, Table, Target

JOBS, QUICK_JOBS = 1_000, 10
ROUNDS, QUICK_ROUNDS = 11, 1
HELP_MS = 200.0


def run(*, quick: bool) -> Report:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "jobs"
        _write_jobs(folder, QUICK_JOBS if quick else JOBS)
        environ = {**os.environ, "XDG_CACHE_HOME": place, "EVERTICK_TIMEZONE": "UTC"}
        with _scheduler(folder, environ):
            store = f"sqlite:///{folder}/.evertick/ledger.db"
            cases: dict[str, tuple[list[str], dict[str, str]]] = {
                "python -c pass": ([], {}),
                "--help": (["--help"], {}),
                "serve --help": (["serve", "--help"], {}),
                "cron next": (["cron", "next", "@daily"], {}),
                "list, from the server": (["list", "--folder", str(folder), "-o", "name"], {}),
                "list, from the ledger": (["list", "--folder", str(folder), "--store", store, "-o", "name"], {}),
                "a job completed": ([], _completing(f"status --folder {folder} job-00")),
            }
            taken: dict[str, list[float]] = {name: [] for name in cases}
            worked: dict[str, list[float]] = {name: [] for name in cases}
            for _ in range(QUICK_ROUNDS if quick else ROUNDS):
                for name, (arguments, extra) in cases.items():
                    bare = name == "python -c pass"
                    command = [sys.executable, *(["-c", "pass"] if bare else ["-m", "evertick", *arguments])]
                    began, used = time.perf_counter(), _used_by_children()
                    subprocess.run(command, env={**environ, **extra}, check=True, stdout=subprocess.DEVNULL)
                    taken[name].append((time.perf_counter() - began) * 1_000)
                    worked[name].append((_used_by_children() - used) * 1_000)
    median = {name: statistics.median(figures) for name, figures in taken.items()}
    own = {name: statistics.median(figures) for name, figures in worked.items()}
    rows = tuple((name, f"{median[name]:,.0f} ms", f"{own[name]:,.0f} ms") for name in median)
    heading = ("command", "waited", "worked")
    table = Table(f"commands on a folder of {QUICK_JOBS if quick else JOBS:,} jobs", heading, rows)
    # What it works for: on a machine that is busy with other things, waiting says more about those.
    target = Target("evertick --help, its own work", own["--help"], HELP_MS, "ms")
    figures = {**{f"{name}, waited": median[name] for name in median}, **{f"{name}, worked": own[name] for name in own}}
    return Report("cli", (table,), (target,), figures)


def _used_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write_jobs(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"job-{number:05}.yaml").write_text(f"schedule: '{number % 60} 3 * * *'\ncommand: 'true'\n")


def _completing(line: str) -> dict[str, str]:
    words = f"evertick {line}"
    return {"_EVERTICK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}


class _scheduler:  # noqa: N801  # used as a verb: with a scheduler at work
    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._folder = folder
        command = [sys.executable, "-m", "evertick", "serve", str(folder), "--port", "0", "--quiet"]
        self._process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)

    def __enter__(self) -> None:
        place, deadline = self._folder / ".evertick" / "server.json", time.monotonic() + 60
        while not place.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("the server did not start")
            time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
