"""`python -m bench`: run the benchmarks, print their tables, keep their figures."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
import traceback
from pathlib import Path

from tests.results import write_results

from bench.harness import Report, Target, goals, whole

BENCHMARKS = (
    *("api_load", "api_pages", "first_paint", "interactions", "slow_line", "import", "cli"),
    *("cron_next", "hour_window", "million", "loop", "storm", "runs", "peers", "slow_jobs", "idle", "fleet"),
)
"""Each is the module `bench_<name>`, with a function `run`."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"which: {', '.join(BENCHMARKS)}; all if none is given"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep the figures here instead of in docs/results/bench/"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round: whether it works, in seconds")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    reports, targets, failed, all_began = [], list[Target](), list[str](), time.monotonic()
    for name in chosen.names or BENCHMARKS:
        began, load = time.monotonic(), [os.getloadavg()[0]]
        try:
            report: Report = importlib.import_module(f"bench.bench_{name}").run(quick=chosen.quick)
        except Exception:
            # The others are measured all the same: together they take a quarter of an hour and more.
            traceback.print_exc()
            failed.append(name)
            continue
        seconds = round(time.monotonic() - began, 1)
        load.append(os.getloadavg()[0])
        print(report)
        shown = " to ".join(f"{one:.1f}" for one in load)
        print(f"(took {seconds:,.0f} s; load of the machine {shown} on {os.cpu_count()} cores)\n", flush=True)
        targets += report.targets
        figures = {"quick": chosen.quick, "load": load, "seconds": seconds, **report.as_json()}
        reports.append(figures)
        if not chosen.quick and not chosen.json:
            # At once: what was measured is kept although a later benchmark may fail.
            write_results(f"bench/{name}", f"python -m bench {name}", [figures])
    if not chosen.quick and not chosen.names:
        targets.append(whole(time.monotonic() - all_began))
    print(goals(targets))
    if chosen.json:
        chosen.json.write_text(json.dumps(reports, indent=2) + "\n")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
