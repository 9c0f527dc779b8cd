"""Whether every benchmark still runs: its quick form, which measures nothing worth keeping, in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.__main__ import BENCHMARKS, main
from bench.figures import FIGURES, figures
from bench.harness import Report

from tests.benchmarks_page import HEADINGS

ROOT = Path(__file__).parent.parent
PLOTS = ROOT / "docs" / "images" / "bench"


def test_every_module_of_a_benchmark_is_among_those_that_make_bench_runs():
    found = {path.stem.removeprefix("bench_") for path in (ROOT / "bench").glob("bench_*.py")}
    assert found == set(BENCHMARKS)


def test_every_benchmark_and_every_plot_has_its_place_on_the_page():
    assert set(HEADINGS) == set(BENCHMARKS)
    assert {plot for _, plots in HEADINGS.values() for plot in plots} | {"soak"} == set(FIGURES)


@pytest.mark.parametrize("name", sorted(figures()))
def test_a_plot_is_drawn_from_the_recorded_results_and_for_both_themes(name):
    drawn = (PLOTS / f"{name}.svg").read_text()
    assert f"from results {figures()[name].digest()} " in drawn, "the plot is stale. Next: make plots"
    assert "prefers-color-scheme:dark" in drawn
    assert "currentColor" in drawn
    assert not re.search(r"<text[^>]*fill: #", drawn), "text has a colour of its own"
    assert len(drawn) < 100_000


def test_no_plot_is_drawn_without_results():
    assert {path.stem for path in PLOTS.glob("*.svg")} == set(figures())


def test_a_benchmark_that_fails_does_not_cost_the_figures_of_the_others(tmp_path, monkeypatch):
    def fail(*, quick: bool) -> Report:
        raise RuntimeError(f"no figures, quick={quick}")

    monkeypatch.setattr("bench.bench_slow_jobs.run", fail)
    monkeypatch.setattr("bench.bench_import.run", lambda *, quick: Report("import", (), (), {"quick": quick}))
    kept = tmp_path / "figures.json"
    monkeypatch.setattr("sys.argv", ["bench", "slow_jobs", "import", "--json", str(kept)])
    with pytest.raises(SystemExit, match=r"^failed: slow_jobs$"):
        main()
    assert [one["name"] for one in json.loads(kept.read_text())] == ["import"]


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
