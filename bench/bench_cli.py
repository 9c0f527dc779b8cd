"""What a person waits for when they type a command."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from bench.harness import Report, Table, Target
from evertick.definitions.source import load_folder

JOBS, QUICK_JOBS = 10_000, 10
FEW_JOBS = 10
ROUNDS, QUICK_ROUNDS = 5, 1
COMMAND_ROUNDS = 2
BARE = "python -c pass"
OUTCOMES = (0, 1)
"""Of a command that did its work: 1 says that what it looked at is not as it should be."""
HELP_MS, COMMAND_MS, LIST_MS = 200.0, 300.0, 500.0
READY_SECONDS = 2.0
LEDGER = "list, from the ledger"


def run(*, quick: bool) -> Report:
    with tempfile.TemporaryDirectory() as place:
        many, few = Path(place) / "many", Path(place) / "few"
        _write_jobs(many, QUICK_JOBS if quick else JOBS)
        _write_jobs(few, FEW_JOBS)
        environ = {**os.environ, "XDG_CACHE_HOME": place, "EVERTICK_TIMEZONE": "UTC"}
        with _scheduler(many, environ), _scheduler(few, environ):
            lists = _timed(_on_many(many), environ, QUICK_ROUNDS if quick else ROUNDS)
            others = _timed(_on_few(few, quick=quick), environ, QUICK_ROUNDS if quick else COMMAND_ROUNDS)
        cache = Path(place) / "definitions"
        load_folder(many, cache=cache, keeps_cache=True)
        ready = min(_load(many, cache) for _ in range(QUICK_ROUNDS if quick else ROUNDS))
    tables = tuple(
        Table(
            f"Commands on a folder of {count:,} jobs, with a scheduler",
            ("command", "waited", "worked"),
            tuple((name, f"{one.waited_ms:,.0f} ms", f"{one.worked_ms:,.0f} ms") for name, one in found.items()),
            (f"best of {rounds} rounds in turns; worked: CPU of the command itself",),
        )
        for count, found, rounds in (
            (QUICK_JOBS if quick else JOBS, lists, QUICK_ROUNDS if quick else ROUNDS),
            (FEW_JOBS, others, QUICK_ROUNDS if quick else COMMAND_ROUNDS),
        )
    )
    slowest = max((name for name in others if name != BARE), key=lambda name: others[name].waited_ms)
    jobs = f"{QUICK_JOBS if quick else JOBS:,} jobs"
    targets = (
        # What it works for: on a machine that is busy with other things, waiting says more about those.
        Target("evertick --help, its own work", lists["--help"].worked_ms, HELP_MS, "ms"),
        Target(f"evertick list of {jobs}", lists["list"].waited_ms, LIST_MS, "ms"),
        Target(f"evertick list of {jobs} without a server, its own work", lists[LEDGER].worked_ms, LIST_MS, "ms"),
        *(
            Target(f"evertick {name}, {jobs}, its own work", lists[name].worked_ms, COMMAND_MS, "ms")
            for name in ("status", "upcoming", "history")
        ),
        Target(f"the files of {jobs} ready from a warm cache", ready, READY_SECONDS, "s of CPU"),
        Target(f"any other command; the slowest: {slowest}", others[slowest].waited_ms, COMMAND_MS, "ms"),
    )
    figures = {
        f"{name}, {what}": took
        for name, one in (*lists.items(), *others.items())
        for what, took in (("waited", one.waited_ms), ("worked", one.worked_ms))
    }
    return Report("cli", tables, targets, figures | {"files ready, seconds": ready})


class _Taken(NamedTuple):
    waited_ms: float
    worked_ms: float


class _Case(NamedTuple):
    arguments: Sequence[str]
    environ: Mapping[str, str] = MappingProxyType({})


def _on_many(folder: Path) -> dict[str, _Case]:
    at, store = ("--folder", str(folder)), ("--store", f"sqlite:///{folder}/.evertick/ledger.db")
    return {
        BARE: _Case(()),
        "--help": _Case(("--help",)),
        "list": _Case(("list", *at)),
        "list -o name": _Case(("list", *at, "-o", "name")),
        LEDGER: _Case(("list", *at, *store)),
        "status": _Case(("status", *at)),
        "upcoming": _Case(("upcoming", *at)),
        "history": _Case(("history", *at)),
        "a job completed": _Case((), _completing(f"status --folder {folder} job-00")),
    }


def _on_few(folder: Path, *, quick: bool) -> dict[str, _Case]:
    """Every command that ends by itself; groups with one that only reads."""
    at, job = ("--folder", str(folder)), "job-00001"
    since = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-02-01T00:00:00Z")
    lines = {
        "trigger": ("trigger", job, *at),
        "list": ("list", *at),
        "status JOB": ("status", job, *at),
        "history": ("history", *at),
        "logs": ("logs", job, *at),
        "why": ("why", job, *at),
        "pause": ("pause", job, *at),
        "resume": ("resume", job, *at),
        "cancel": ("cancel", job, *at),
        "retry": ("retry", job, *at),
        "blackout list": ("blackout", "list", *at),
        "backfill --dry-run": ("backfill", job, *since, "--dry-run", *at),
        "catchup --dry-run": ("catchup", job, "--dry-run", *at),
        "upcoming": ("upcoming", *at),
        "plan": ("plan", str(folder), "--until", "2d"),
        "diff": ("diff", str(folder), "--base", str(folder)),
        "simulate": ("simulate", str(folder)),
        "explain": ("explain", job, *at),
        "cron next": ("cron", "next", "@daily"),
        "validate": ("validate", str(folder)),
        "settings": ("settings", str(folder)),
        "schema": ("schema",),
        "completion": ("completion", "bash"),
        "doctor": ("doctor", *at),
        "verify": ("verify", *at),
        "token list": ("token", "list", *at),
        "db check": ("db", "check", *at),
        "run": ("run", job, *at),
        "serve --help": ("serve", "--help"),
        "fleet --help": ("fleet", "--help"),
    }
    chosen = {"list", "cron next"} if quick else lines.keys()
    return {name: _Case(line) for name, line in lines.items() if name in chosen}


def _timed(cases: Mapping[str, _Case], environ: Mapping[str, str], rounds: int) -> dict[str, _Taken]:
    taken: dict[str, list[_Taken]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            command = [sys.executable, *(["-c", "pass"] if name == BARE else ["-m", "evertick", *case.arguments])]
            began, used = time.perf_counter(), _used_by_children()
            done = subprocess.run(command, env={**environ, **case.environ}, capture_output=True, check=False)
            if done.returncode not in OUTCOMES:
                raise RuntimeError(f"{name} failed:\n{done.stderr.decode()[-2_000:]}")
            waited, worked = time.perf_counter() - began, _used_by_children() - used
            taken[name].append(_Taken(waited * 1_000, worked * 1_000))
    # The best round says what a command costs; the others what else the machine did.
    return {name: _Taken(*map(min, zip(*found, strict=True))) for name, found in taken.items()}


def _load(folder: Path, cache: Path) -> float:
    """Seconds of CPU to load the job files as a process does that starts again."""
    began = time.process_time()
    load_folder(folder, cache=cache)
    return time.process_time() - began


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
