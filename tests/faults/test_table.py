"""Whether the fault table names existing tests, and the page shows only recorded results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults import page
from tests.faults.__main__ import Round, row_of
from tests.faults.table import FAULTS
from tests.results import Results

ROOT = Path(__file__).parent.parent.parent
MACHINE = {"cpu": "x", "cores": 2, "memory_gib": 1.0, "system": "Linux 6", "python": "3.11"}


@pytest.mark.parametrize("test", sorted({test for fault in FAULTS for test in fault.tests}))
def test_a_named_test_is_there(test):
    file, *names = test.split("::")
    source = (ROOT / file).read_text()
    for name in names:
        assert re.search(rf"^\s*(?:def|class) {name}\b", source, re.M), test


def test_every_fault_has_a_name_of_its_own():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) > 30


def test_only_what_was_run_has_a_result(monkeypatch):
    first, second = FAULTS[0], FAULTS[1]
    rows = [
        {"name": first.name, "times": 1234, "failed": [], "commit": "abc1234"},
        {"name": second.name, "times": 5, "failed": ["test_x"], "commit": "def5678"},
    ]
    results = {"faults": Results("make faults", "2026-11-18", "abc1234", MACHINE, rows), "fuzz": None}
    monkeypatch.setattr(page, "read_results", results.get)
    shown = page.reliability_page()
    assert f"| {first.name} | {first.done} | 1,234 | {first.kept} |" in shown
    assert f"| {second.name} | {second.done} | 5 | **failed**: test_x |" in shown
    untested = sum(not fault.tests for fault in FAULTS)
    assert shown.count("| not run |") == untested
    assert shown.count("| only by `make test` |") == len(FAULTS) - 2 - untested
    assert "Measured on 2026-11-18 with `make faults`, commit abc1234, on 2 cores" in shown
    assert f"Rows of other commits: {second.name} (def5678)." in shown


def test_rounds_of_a_fault_are_added_up():
    rounds = [Round(100, 60, frozenset()), Round(40, 30, frozenset({"test_x"}))]
    row = row_of(FAULTS[0], rounds, "abc1234")
    assert (row["times"], row["rounds"], row["seconds"], row["failed"]) == (140, 2, 90, ["test_x"])
