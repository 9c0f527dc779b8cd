"""A folder where a scheduler has run for a day, and how the tests run commands on it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner

from evertick.cli import app
from evertick.cli.app import evertick
from evertick.cli.exits import exit_code
from evertick.definitions.source import load_folder
from evertick.errors import EvertickError
from evertick.model.instant import HOUR, MINUTE, from_text
from evertick.model.ledger import Batch, JobRecord, ScheduleLine
from evertick.model.lifecycle import FAILED, LAUNCHING, PLANNED, RUNNING, SKIPPED, SkipReason, Trigger
from evertick.model.run import Change, Entry, RunKey
from evertick.model.schedule import specs_to_text
from evertick.settings import Settings
from evertick.stores import open_store

FILES = {
    "etl.yaml": "schedule: '0 * * * *'\ntimezone: UTC\ncommand: x\n",
    "export.yaml": "params: {FORMAT: {enum: [csv, json], default: csv}}\ncommand: x\n",
}
NOW = from_text("2027-01-15T07:30:00Z")


def hour(number: int) -> int:
    """So many whole hours ago."""
    return NOW - 30 * MINUTE - number * HOUR


def make_folder(tmp_path: Path) -> None:
    """A scheduler has run here for a day: one run failed, one occurrence was skipped."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / ".evertick").mkdir()
    jobs = load_folder(tmp_path, Settings()).jobs
    failed = RunKey("etl", hour(2))
    store = open_store(f"sqlite:///{tmp_path}/.evertick/ledger.db")
    store.commit(
        Batch(
            by="a1/7f#1",
            entries=[
                Entry(failed, PLANNED, Trigger.SCHEDULER, hour(2)),
                Entry(RunKey("etl", hour(1)), SKIPPED, Trigger.SCHEDULER, hour(1), reason=SkipReason.OVERLAP),
                Entry(RunKey("etl", hour(0)), PLANNED, Trigger.SCHEDULER, hour(0)),
            ],
            jobs=[JobRecord(job.id, NOW, fingerprint=job.fingerprint) for job in jobs.values()],
            schedules=[ScheduleLine(job.id, hour(24), specs_to_text(job.schedules)) for job in jobs.values()],
        )
    )
    store.record([Change(failed, LAUNCHING, hour(2), 1, 1), Change(failed, RUNNING, hour(2), 1, started_at=hour(2))])
    store.record([Change(failed, FAILED, hour(2) + MINUTE, 1, finished_at=hour(2) + MINUTE, exit_code=3)])
    store.close()


def run(*arguments: object, **environ: str):
    env = {"EVERTICK_TIMEZONE": "UTC", "EVERTICK_STORE": "", **environ}
    return CliRunner(env=env).invoke(evertick, [str(argument) for argument in arguments])


def completed(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command as a process would end, with its errors and its exit code, but in this one: none has to start."""
    runner, code = CliRunner(env=environ), 0
    with runner.isolation() as (output, errors, _), mock.patch.object(sys, "argv", ["evertick", *words]):
        try:
            app.run()
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
        said = [stream.getvalue().decode() for stream in (output, errors)]
    return subprocess.CompletedProcess(words, code, *said)


def code_of(result) -> int:
    """The exit code as the process would end with it."""
    return exit_code(result.exception) if isinstance(result.exception, EvertickError) else result.exit_code


def requests_in(folder: Path):
    store = open_store(f"sqlite:///{folder}/.evertick/ledger.db")
    found = store.claim(None, 1_000)
    store.close()
    return found


def failed_run() -> str:
    return RunKey("etl", hour(2)).run_id


def strictly(text: str) -> Any:
    """What a strict reader makes of JSON: one document, and no numbers that are none."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def through_jq(text: str) -> Any:
    """What `jq` makes of it, where it is installed; otherwise what a strict reader does."""
    jq = shutil.which("jq")
    if jq is None:
        return strictly(text)
    done = subprocess.run([jq, "-e", "[.]"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (only,) = strictly(done.stdout)
    return only
