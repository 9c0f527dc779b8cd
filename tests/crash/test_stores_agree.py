"""Does the same morning leave the same ledger, to the last byte, in every store?"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from evertick.store import RunFilter
from evertick.stores import open_store
from tests.crash.driver import Driver
from tests.crash.scenario import REQUESTS
from tests.disk_executor import launches_in


class Outcome(NamedTuple):
    decisions: list[str]
    rows: list[str]
    jobs: list[str]
    floors: dict[int, int]
    schedules: list[str]
    answers: list[str]
    counters: dict[str, int]
    attempts: bytes


def outcome(url: str, folder: Path) -> Outcome:
    """Live through the scenario on this store, and write down everything that can be read from it."""
    with closing(open_store(url)) as store:
        driver = Driver(store, folder, "only")
        driver.run()
        snapshot = store.load()
        rows = store.query(RunFilter(), limit=10_000).rows
        counters = {name: count for name, count in store.counters().items() if count}
        return Outcome(
            [repr(decision) for decision in driver.decisions],
            [repr(row) for row in rows],
            sorted(repr(job) for job in snapshot.jobs),
            dict(snapshot.floors),
            [repr(line) for line in store.schedules()],
            [repr(request) for request in store.requests([request.id for request in REQUESTS])],
            counters,
            (folder / "attempts").read_bytes(),
        )


@pytest.fixture
def expected(tmp_path):
    folder = tmp_path / "memory"
    folder.mkdir()
    return outcome("memory:", folder)


@pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        "files",
        pytest.param("postgres", marks=pytest.mark.slow),
        pytest.param("mysql", marks=pytest.mark.slow),
    ],
)
def test_a_store_leaves_what_the_one_in_memory_leaves(request, tmp_path, expected, kind):
    match kind:
        case "sqlite":
            url = f"sqlite:///{tmp_path}/evertick.db"
        case "files":
            url = f"files://{tmp_path}/pipelines"
        case server:
            url = request.getfixturevalue(f"fresh_{server}")()
    found = outcome(url, tmp_path)
    for name, left, right in zip(Outcome._fields, found, expected, strict=True):
        assert left == right, name


def test_the_morning_is_the_same_each_time(tmp_path, expected):
    again = tmp_path / "again"
    again.mkdir()
    assert outcome("memory:", again) == expected
    assert len(launches_in(again / "attempts")) > 15
    assert len(expected.decisions) > 100
