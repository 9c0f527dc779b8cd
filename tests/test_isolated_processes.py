"""Whether a process of ours imports a module that lies in the folder it was started in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

OTHERS = (
    "alembic",
    "click",
    "distributed",
    "evertick",
    "fastapi",
    "re2",
    "rich",
    "sqlalchemy",
    "uvicorn",
    "uvloop",
    "yaml",
)
PLANTED = sorted({name for name in sys.stdlib_module_names if not name.startswith("_")} | set(OTHERS))
LIMIT_SECONDS = 180

PROGRAM = """
import asyncio
import sys
from evertick import Scheduler

scheduler = Scheduler(store="sqlite:///" + sys.argv[1])

@scheduler.job(isolation="process")
def report() -> None:
    print("ran in a process of its own")

async def main() -> None:
    async with scheduler:
        print(await scheduler.trigger_now("report", wait=True))

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def trap(tmp_path) -> Path:
    """A folder in which every module that we might import lies; each leaves its name when it is imported."""
    folder = tmp_path / "trap"
    folder.mkdir()
    (tmp_path / "imported").mkdir()
    for name in PLANTED:
        mark = str(tmp_path / "imported" / name)
        (folder / f"{name}.py").write_text(
            f"open({mark!r}, 'w').close()\nraise ImportError({name!r} + ' was planted')\n"
        )
    return folder


def imported(trap: Path) -> list[str]:
    return sorted(os.listdir(trap.parent / "imported"))


def environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EVERTICK", "PYTHON"))}
    return {**kept, "EVERTICK_TIMEZONE": "UTC"}


EVERTICK = shutil.which("evertick", path=str(Path(sys.executable).parent)) or "evertick"


def test_the_trap_is_one(trap):
    """A Python that is not isolated falls into it."""
    subprocess.run([sys.executable, "-c", "import queue"], cwd=trap, capture_output=True, check=False)
    assert imported(trap) == ["queue"]


@pytest.mark.parametrize("command", [[EVERTICK], [sys.executable, "-m", "evertick"]], ids=["evertick", "python -m"])
def test_a_scheduler_with_its_keeper_and_its_server(trap, command):
    """With jobs of its own folder, in a working folder full of planted modules."""
    if command[0] == sys.executable:
        # What Python itself imports before the first line of ours, it looks for in the working folder.
        before = [sys.executable, "-c", "import runpy, sys; print(*sys.modules)"]
        loaded = subprocess.run(before, capture_output=True, text=True, check=True).stdout.split()
        for name in {"evertick", *loaded} & set(PLANTED):
            (trap / f"{name}.py").unlink()
    jobs = trap.parent / "jobs"
    jobs.mkdir()
    (jobs / "said.yaml").write_text("command: echo said\n")
    started = [*command, "serve", str(jobs), "--node", "a1", "--port", "0", "--patience", "0"]
    with subprocess.Popen(started, cwd=trap, env=environ(), stderr=subprocess.DEVNULL) as scheduler:
        try:
            answer = wait_for_server(jobs / ".evertick" / "server.json", scheduler)
            assert answer["status"] == 200
            ask = [*command, "trigger", "said", "--folder", str(jobs), "--wait"]
            asked = subprocess.run(ask, cwd=trap, env=environ(), capture_output=True, text=True, check=False)
            assert asked.returncode == 0, asked.stderr
        finally:
            scheduler.terminate()
            scheduler.wait(LIMIT_SECONDS)
    assert imported(trap) == []


def test_a_function_of_a_program_in_a_process_of_its_own(trap, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    started = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "ledger.db")]
    ended = subprocess.run(started, cwd=trap, env=environ(), capture_output=True, text=True, timeout=180, check=False)
    assert "succeeded" in ended.stdout.lower(), (ended.stdout, ended.stderr)
    assert imported(trap) == []


@pytest.mark.parametrize(
    "step",
    [
        {"script": "echo said"},
        {"python": "platform:node"},
        {"http": {"url": "http://127.0.0.1:1/"}},
    ],
    ids=["script", "python", "http"],
)
def test_the_kinds_of_step(trap, tmp_path, step):
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps({"steps": [{"name": "one", **step}]}))
    command = [EVERTICK, "run", str(file)]
    ended = subprocess.run(command, cwd=trap, env=environ(), capture_output=True, text=True, timeout=180, check=False)
    # Nothing listens at that address; a definition error would be another code, and would prove nothing.
    assert ended.returncode == (1 if "http" in step else 0), ended.stderr
    assert imported(trap) == []


def wait_for_server(place: Path, scheduler: subprocess.Popen[bytes]) -> Mapping[str, int]:
    for _ in every(0.1):
        assert scheduler.poll() is None, "the scheduler ended"
        try:
            url = json.loads(place.read_text())["url"]
            with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
                return {"status": answer.status}
        except (OSError, ValueError):
            continue
    raise AssertionError("the server did not answer")


def every(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        yield
        time.sleep(seconds)
