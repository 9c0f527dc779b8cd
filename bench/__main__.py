"""`python -m bench`: run the benchmarks, print their tables, keep their figures."""

from __future__ import annotations

import argparse
import importlib
import json
import os
from pathlib import Path

from bench.harness import Report, Target, goals

RESULTS = Path(__file__).parent / "results"
BENCHMARKS = (
    *("api_load", "api_pages", "first_paint", "import", "cli", "cron_next", "hour_window", "million", "loop"),
    *("storm", "runs", "lateness", "fleet"),
)
"""Each is the module `bench_<name>`, with a function `run`."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"which: {', '.join(BENCHMARKS)}; all if none is given"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures here instead of in bench/results/")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round: whether it works, in seconds")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    reports, targets = [], list[Target]()
    for name in chosen.names or BENCHMARKS:
        report: Report = importlib.import_module(f"bench.bench_{name}").run(quick=chosen.quick)
        load = os.getloadavg()[0]
        print(report)
        print(f"(load of the machine over the last minute: {load:.1f} on {os.cpu_count()} cores)\n", flush=True)
        targets += report.targets
        reports.append({"quick": chosen.quick, "load": load, "cores": os.cpu_count(), **report.as_json()})
    print(goals(targets))
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
