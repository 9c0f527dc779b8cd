"""`python -m bench`: run the benchmarks, print their tables, keep their figures."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Protocol

from bench import (
    bench_api_load,
    bench_api_pages,
    bench_cli,
    bench_cron_next,
    bench_first_paint,
    bench_fleet,
    bench_hour_window,
    bench_import,
    bench_lateness,
    bench_loop,
    bench_million,
    bench_runs,
    bench_storm,
)
from bench.harness import Report

RESULTS = Path(__file__).parent / "results"


class Benchmark(Protocol):
    def __call__(self, *, quick: bool) -> Report: ...


BENCHMARKS: dict[str, Benchmark] = {
    "api_load": bench_api_load.run,
    "api_pages": bench_api_pages.run,
    "first_paint": bench_first_paint.run,
    "import": bench_import.run,
    "cli": bench_cli.run,
    "cron_next": bench_cron_next.run,
    "hour_window": bench_hour_window.run,
    "million": bench_million.run,
    "loop": bench_loop.run,
    "storm": bench_storm.run,
    "runs": bench_runs.run,
    "lateness": bench_lateness.run,
    "fleet": bench_fleet.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"which: {', '.join(BENCHMARKS)}; all if none is given"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures here instead of in bench/results/")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller sizes: a look, not a figure")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    reports = []
    for name in chosen.names or BENCHMARKS:
        report = BENCHMARKS[name](quick=chosen.quick)
        load = os.getloadavg()[0]
        print(report)
        print(f"(load of the machine over the last minute: {load:.1f} on {os.cpu_count()} cores)\n", flush=True)
        reports.append({"quick": chosen.quick, "load": load, "cores": os.cpu_count(), **report.as_json()})
    if chosen.json:
        _write(chosen.json, reports)
    else:
        for figures in reports:
            _write(RESULTS / f"{figures['name']}.json", figures)


def _write(path: Path, figures: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
