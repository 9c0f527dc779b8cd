"""Do the lists that order the suite name files that are there, and do the longest come first?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from xdist.remote import Producer

from tests import conftest, order

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", [*order.LONG, *order.TOGETHER, *order.TOGETHER.values(), *conftest.SLOW])
def test_every_name_is_that_of_a_file(name):
    assert list(ROOT.glob(f"{name}*")), f"nothing in the suite begins with {name}"


def test_no_file_is_listed_twice():
    assert len(set(order.LONG)) == len(order.LONG)


def test_long_files_come_first_then_those_with_slow_tests_and_files_that_go_together_stay_so():
    names = [("tests/a.py", False), ("tests/b.py", True), ("tests/web/test_pages.py", True), ("tests/b.py", False)]
    names += [(f"{order.LONG[1]}.py", True), (f"{order.LONG[0]}.py", True), ("tests/c.py", False)]
    items = [
        SimpleNamespace(nodeid=f"{file}::test_{number}", get_closest_marker=lambda _, is_slow=is_slow: is_slow or None)
        for number, (file, is_slow) in enumerate(names)
    ]
    files = [item.nodeid.partition("::")[0] for item in order.in_order(items)]
    assert files[0] == f"{order.LONG[0]}.py"
    assert set(files[1:3]) == {f"{order.LONG[1]}.py", "tests/web/test_pages.py"}
    assert files[3:] == ["tests/b.py", "tests/b.py", "tests/a.py", "tests/c.py"]


def test_every_other_worker_begins_at_the_end():
    names = [f"tests/{letter}.py::test_{number}" for letter in "abcdefg" for number in range(3)]
    scheduling, workers = scheduled(names, 3)
    assert [worker.files for worker in workers] == [["tests/a.py"], ["tests/g.py"], ["tests/b.py"]]
    for name in list(workers[1].taken):
        scheduling.mark_test_complete(workers[1], names.index(name))
    assert workers[1].files == ["tests/g.py", "tests/f.py"]
    assert all(len(worker.taken) == 3 * len(worker.files) for worker in workers), "a file stays whole"


def test_of_long_files_every_worker_takes_the_longest_that_is_left():
    names = [f"{file}.py::test_{number}" for file in order.LONG[:3] for number in range(3)]
    _, workers = scheduled(names, 2)
    assert [worker.files for worker in workers] == [[f"{order.LONG[0]}.py"], [f"{order.LONG[1]}.py"]]


def scheduled(names: list[str], workers: int) -> tuple[order.FilesTogether, list[Worker]]:
    """Workers to which the first files were assigned."""
    made = [Worker(names) for _ in range(workers)]
    asked = {"tx": ["popen"] * workers, "loadscopereorder": False}
    config = SimpleNamespace(getvalue=asked.get, option=SimpleNamespace(**asked))
    scheduling = order.FilesTogether(config, Producer("", enabled=False))
    for worker in made:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, names)
    scheduling.schedule()
    return scheduling, made


class Worker:
    """What a scheduling uses of a worker."""

    shutting_down = False
    gateway = SimpleNamespace(id="gw")

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self.taken: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.taken += [self._names[index] for index in indices]

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(name.partition("::")[0] for name in self.taken))
