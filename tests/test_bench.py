"""Whether every benchmark still runs: its quick form, which measures nothing worth keeping, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.__main__ import BENCHMARKS

ROOT = Path(__file__).parent.parent


def test_every_module_of_a_benchmark_is_among_those_that_make_bench_runs():
    found = {path.stem.removeprefix("bench_") for path in (ROOT / "bench").glob("bench_*.py")}
    assert found == set(BENCHMARKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs(name, tmp_path):
    command = [sys.executable, "-m", "bench", name, "--quick", "--json", str(tmp_path / "figures.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (figures,) = json.loads((tmp_path / "figures.json").read_text())
    assert (figures["name"], figures["quick"]) == (name, True)
    assert figures["figures"]
    assert all(table["rows"] for table in figures["tables"])
    for table in figures["tables"]:
        assert table["title"] in done.stdout
