"""How fast does the API answer what a page shows first, on ten thousand jobs and a million runs?"""

from __future__ import annotations

import gc
import http.client
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.big_ledger import make_folder, make_ledger
from bench.harness import Report, Table, Target
from evertick.api.__main__ import prepare
from evertick.api.factory import open_app_state
from evertick.api.server import ApiServer
from evertick.model.instant import DAY, HOUR, to_text
from evertick.operations.context import now_by_the_clock
from evertick.operations.tokens import Role
from evertick.settings import Settings
from evertick.stores import open_store

LIMIT_MS = 200.0
FIRST_LIMIT_MS = {"/overview": 50.0, "/calendar": 100.0}
"""Of these the first answer of a process counts as much as the others."""


def run(*, quick: bool) -> Report:
    """Each question over HTTP, one after another, with what the server remembers for a moment run out in between."""
    jobs, runs, rounds = (50, 1_000, 1) if quick else (10_000, 1_000_000, 7)
    folder, now = make_folder(jobs), now_by_the_clock()
    with tempfile.TemporaryDirectory() as place:
        url = make_ledger(Path(place) / "ledger.db", folder, runs, now)
        store = open_store(url)
        settings = Settings.load(None, {}, {"port": 0})
        app_state = open_app_state(store, url, lambda: folder, settings, Path(place))
        token = app_state.tokens.create("bench", Role.ADMIN)[1]
        server = ApiServer(app_state)
        # As the server's own process does: definitions stay.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        server.start(lambda _: None)
        prepare(app_state.operations)
        try:
            rows = [
                _measure(server, token, name, path, rounds, app_state.operations.forget)
                for name, path in _questions(now).items()
            ]
        finally:
            server.stop()
            store.close()
    table = Table(
        f"Answers on {jobs:,} jobs and {runs:,} runs, SQLite, milliseconds over HTTP",
        ("question", "first", "median", "worst", "CPU", "bytes"),
        tuple((name, *(f"{value:.0f}" for value in measured), f"{size:,}") for name, *measured, size in rows),
        (
            "between two rounds everything the server keeps for a moment is forgotten",
            "CPU: the median that server and asker used of a processor, which holds on a busy machine too",
        ),
    )
    targets = tuple(
        Target(f"{name} ({which})", took, FIRST_LIMIT_MS.get(name, LIMIT_MS), "ms")
        for name, first, median, *_ in rows
        for which, took in (("median", median), ("first", first))
        if which == "median" or name in FIRST_LIMIT_MS
    )
    figures = {name: median for name, _, median, *_ in rows} | {f"{name}: CPU": cpu for name, *_, cpu, _ in rows}
    return Report("api_pages", (table,), targets, figures)


def _questions(now: int) -> dict[str, str]:
    def timeline(before: int, after: int) -> str:
        return f"/timeline?from={to_text(now - before)}&to={to_text(now + after)}&limit=30&cells=220"

    return {
        "/overview": "/overview",
        "/jobs": "/jobs?limit=50",
        "/jobs with sparklines": "/jobs?limit=50&sparkline=20",
        "/timeline: an hour": timeline(HOUR, HOUR),
        "/timeline: a day": timeline(DAY, DAY),
        "/timeline: a month": timeline(30 * DAY, DAY),
        "/runs": "/runs",
        "/runs: failed": "/runs?state=failed",
        "/runs: five of a kind": "/runs?state=lost",
        "/runs: none of a kind": "/runs?state=timed_out",
        "/runs: caught up": "/runs?trigger=catchup",
        "/calendar": "/calendar",
        "/jobs/{job}": "/jobs/job-00004",
    }


def _measure(
    server: ApiServer, token: str, name: str, path: str, rounds: int, forget: Callable[[], None]
) -> tuple[str, float, float, float, float, int]:
    host, _, port = server.url.removeprefix("http://").partition(":")
    took, used, size = [], [], 0
    for _ in range(rounds):
        forget()
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        began, cpu = time.perf_counter(), time.process_time()
        connection.request("GET", f"/api/v1{path}", headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        size = len(answer.read())
        took.append((time.perf_counter() - began) * 1_000)
        used.append((time.process_time() - cpu) * 1_000)
        connection.close()
        assert answer.status == 200, (name, answer.status)
    return name, took[0], statistics.median(took), max(took), statistics.median(used), size
