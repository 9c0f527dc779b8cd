"""Results of long runs that the documentation shows: kept beside it, with the command, the machine and the day."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent.parent / "docs" / "results"


class Results(NamedTuple):
    """What one command found."""

    command: str
    measured_on: str
    commit: str
    """Of the code that was measured."""
    machine: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]


def write_results(name: str, command: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Replace the results of that name by these."""
    results = Results(command, datetime.now(UTC).date().isoformat(), commit(), _machine(), rows)
    path = FOLDER / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results._asdict(), indent=1, ensure_ascii=False) + "\n")
    return path


def read_results(name: str) -> Results | None:
    """None if that command was never run."""
    path = FOLDER / f"{name}.json"
    return Results(**json.loads(path.read_text())) if path.exists() else None


def sentence(results: Results) -> str:
    """Where the figures come from, for the page that shows them."""
    machine = results.machine
    return (
        f"Measured on {results.measured_on} with `{results.command}`, commit {results.commit}, "
        f"on {machine['cores']} cores ({machine['cpu']}), {machine['memory_gib']} GiB, {machine['system']}, "
        f"Python {machine['python']}."
    )


def commit() -> str:
    """Of the checkout, and whether it has changes."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=FOLDER.parent, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    # Results that were just written are no change of what was measured.
    changed = git("status", "--porcelain", "--", ":/", ":(top,exclude)docs/results")
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def _machine() -> dict[str, Any]:
    described = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.partition(":")[2].strip() for line in described.splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
    }
