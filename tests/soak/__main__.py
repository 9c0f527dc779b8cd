"""`make soak`: 30 minutes with 1,000 jobs, requests, an open page and random kills, into docs/results/soak.json."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from evertick.model.instant import SECOND
from evertick.model.lifecycle import OPEN
from tests.processes import proof
from tests.results import write_results
from tests.soak.account import account_for, is_flat
from tests.soak.soak import PATIENCE_SECONDS, Plan, Soak
from tests.web.web_server import open_browser, open_page

PAGE = "page"


def soak(folder: Path, plan: Plan) -> dict[str, Any]:
    """Do it, and return what was found; raises if anything was lost."""
    with closing(Soak(folder, plan)) as soaked, open_browser() as browser:
        soaked.start()
        page = open_page(browser, soaked, [])
        page.goto(soaked.url)
        page.get_by_text("Live", exact=True).first.wait_for(state="attached")
        first = int(time.time()) + 2
        soaked.load()
        while soaked.second < plan.seconds:
            # Waits in the browser, so that the page goes on meanwhile.
            page.wait_for_timeout(plan.sample_each * 1_000)
            heap = page.evaluate("performance.memory.usedJSHeapSize")
            sample = soaked.sample()
            sample.mib[PAGE] = round(heap / 2**20, 1)
            sys.stderr.write(
                f"{sample.second:7.0f} s  load {sample.load:4.1f}  {sample.mib}  {len(soaked.kills)} kills\n"
            )
        last = int(time.time())
        settle(soaked, last)
        page.get_by_text("Live", exact=True).first.wait_for(state="attached")
        page.context.close()
        soaked.stop()
        return account_for(soaked, first, last)


def settle(soaked: Soak, last: int) -> None:
    """Wait until every run that was due has ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := [
        row.key.run_id
        for row in proof.rows_of(soaked.store_url)
        if row.state in OPEN and row.key.scheduled_for < last * SECOND
    ]:
        assert time.monotonic() < deadline, f"{len(left)} runs have not ended: {left[:5]}"
        time.sleep(1.0)


def main(words: list[str]) -> int:
    plan = Plan(seconds=60.0 * float(words[0])) if words else Plan()
    folder = Path(tempfile.mkdtemp(prefix="evertick-soak-"))
    sys.stderr.write(f"everything is in {folder}, which is removed if nothing is lost\n")
    found = soak(folder, plan)
    shutil.rmtree(folder)
    path = write_results("soak", "make soak", [found])
    sys.stderr.write(f"{path}\n{ {name: value for name, value in found.items() if name != 'samples'} }\n")
    if not is_flat(found["memory"]):
        sys.stderr.write("the memory of a process has grown\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
