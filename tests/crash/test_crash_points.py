"""Is the history after a crash the same as without it, wherever the crash occurs?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.share import share

ROOT = Path(__file__).parent.parent.parent
MEMORY = Path("/dev/shm")
TRIED = {"sqlite": 12, "files": 40, "postgres": 6, "mysql": 6}
"""The number of calls at which it dies; `make seeds` takes all of them. Each store has other ones."""


@pytest.fixture
def folder(tmp_path):
    """In memory where that can be had: what `kill -9` leaves behind does not hang on the disk, only its cost does."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path / "scenario"
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        yield Path(made) / "scenario"


@pytest.fixture(params=TRIED)
def kind(request):
    return request.param


@pytest.fixture
def url(request, folder, kind):
    match kind:
        case "sqlite":
            return f"sqlite:///{folder}/evertick.db"
        case "files":
            return f"files://{folder}/pipelines"
        case server:
            return request.getfixturevalue(f"fresh_{server}")()


@pytest.mark.slow
def test_a_kill_at_any_call_of_the_store_changes_no_history(url, folder, record_property, kind):
    count, offset = TRIED[kind], list(TRIED).index(kind)
    command = [sys.executable, "-m", "tests.crash.runner", url, str(folder), str(count), str(offset)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    record_property("faults", found["cases"])
    assert found["mismatches"] == []
    assert found["is_sound"]
    calls = len(found["calls"])
    assert found["cases"] == 2 * share(min(count, calls), calls)
    assert {"commit", "record", "lease", "load", "claim"} == set(found["calls"])
    assert found["calls"].count("commit") > 10
    _assert_everything_happened(found["history"])


def _assert_everything_happened(history: list[list[str]]) -> None:
    """A scenario in which nothing goes wrong would prove nothing."""
    what = {(run_id.partition("@")[0], *rest) for run_id, *rest in history}
    assert {
        ("queue", "succeeded", "scheduler", ""),
        ("queue", "waiting", "catchup", ""),
        ("queue", "skipped", "scheduler", "missed"),
        ("minutely", "skipped", "scheduler", "overlap"),
        ("minutely", "skipped", "scheduler", "missed"),
        ("minutely", "skipped", "manual", "overlap"),
        ("flaky", "succeeded", "scheduler", ""),
        ("flaky", "succeeded", "catchup", ""),
        ("edited", "succeeded", "scheduler", ""),
        ("paused", "skipped", "scheduler", "paused"),
        ("by-hand", "succeeded", "manual", ""),
    } <= what
    assert len(history) == len({run_id for run_id, *_ in history})
