"""What a program pays for `import evertick`, before it has asked for anything and after."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from bench.harness import Report, Table, Target

CASES = {
    "python -c pass": "pass",
    "import evertick": "import evertick",
    "evertick.Cron": "import evertick; evertick.Cron",
    "evertick.Scheduler": "import evertick; evertick.Scheduler",
    "import apscheduler's": "from apscheduler.schedulers.background import BackgroundScheduler",
}
ROUNDS, QUICK_ROUNDS = 9, 1
LIMIT_MS = 5.0


def run(*, quick: bool) -> Report:
    figures: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(QUICK_ROUNDS if quick else ROUNDS):
        for name, code in CASES.items():  # in turns, so that a busy moment meets all of them
            began = _spent()
            subprocess.run([sys.executable, "-c", code], check=True)
            figures[name].append((_spent() - began) * 1_000)
    median = {name: statistics.median(taken) for name, taken in figures.items()}
    bare = median["python -c pass"]
    rows = tuple((name, f"{taken:,.0f} ms", f"{taken - bare:,.0f} ms") for name, taken in median.items())
    table = Table("start of a program, in milliseconds of a core", ("what", "whole", "beyond a bare one"), rows)
    target = Target("import evertick, beyond a bare Python", median["import evertick"] - bare, LIMIT_MS, "ms")
    return Report("import", (table,), (target,), median)


def _spent() -> float:
    """Seconds of a core that children have used: a busy machine makes them later, not dearer."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
