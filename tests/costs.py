"""Where the time of a long run of the suite goes: processor and wall time of each file and of its slowest tests.

The processor time is that of the worker and of the processes that it has waited for; what a killed process leaves to
run by itself (a keeper, a member of a fleet) is not in it.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import NamedTuple

import pytest

KEY = "cost"
SHOWN_FROM = 1_000
"""The tests of a run whose costs are worth a table."""
FILES, TESTS, WAITS = 60, 25, 60
"""How many of each are shown: files and tests by their processor time, then tests by what they wait for."""


class Cost(NamedTuple):
    own: float
    """Processor seconds of the worker."""
    children: float
    wall: float

    def plus(self, other: Cost) -> Cost:
        return Cost(*(one + more for one, more in zip(self, other, strict=True)))

    def since(self, earlier: Cost) -> Cost:
        return Cost(*(one - before for one, before in zip(self, earlier, strict=True)))

    @property
    def cpu(self) -> float:
        return self.own + self.children

    @property
    def waits(self) -> float:
        return self.wall - self.cpu


def spent() -> Cost:
    """What this process has cost so far."""
    own, children = (
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    return Cost(own, children, time.monotonic())


class Meter:
    """In a worker: gives each report what its phase has cost. In the controller: adds it up."""

    def __init__(self) -> None:
        self._before = spent()
        self._tests: dict[str, Cost] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._before = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = spent()
        item.user_properties[:] = [one for one in item.user_properties if one[0] != KEY]
        report.user_properties = [*item.user_properties, (KEY, tuple(now.since(self._before)))]
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == KEY and isinstance(value, list | tuple):
                known = self._tests.get(report.nodeid, Cost(0.0, 0.0, 0.0))
                self._tests[report.nodeid] = known.plus(Cost(*value))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._tests) >= SHOWN_FROM:
            terminalreporter.section("costs")
            for line in table(self._tests.items()):
                terminalreporter.write_line(line)


def table(tests: Iterable[tuple[str, Cost]]) -> Iterator[str]:
    """Files and tests that cost most, tests that wait longest: seconds of processor of worker and children, of wall."""
    known = dict(tests)
    files: dict[str, Cost] = defaultdict(lambda: Cost(0.0, 0.0, 0.0))
    for test, cost in known.items():
        file = test.partition("::")[0]
        files[file] = files[file].plus(cost)
    whole = Cost(0.0, 0.0, 0.0)
    for cost in files.values():
        whole = whole.plus(cost)
    yield "    own children     wall"
    yield from _first(files, FILES, lambda cost: cost.cpu)
    yield from _first(known, TESTS, lambda cost: cost.cpu)
    yield "    own children     wall  what waits longest"
    yield from _first(known, WAITS, lambda cost: cost.waits)
    yield _line(whole, "all of it")


def _first(costs: Mapping[str, Cost], shown: int, by: Callable[[Cost], float]) -> Iterator[str]:
    for name, cost in sorted(costs.items(), key=lambda one: (-by(one[1]), one[0]))[:shown]:
        yield _line(cost, name)


def _line(cost: Cost, name: str) -> str:
    return f"{cost.own:7.1f} {cost.children:8.1f} {cost.wall:8.1f}  {name}"
