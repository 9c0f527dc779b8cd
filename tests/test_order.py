"""Do the lists that order the suite name files that are there, and do the longest come first?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

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
