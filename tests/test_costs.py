"""Does the table of costs add up, and does it name first what costs most and what waits longest?"""

from __future__ import annotations

from tests.costs import Cost, table


def test_files_come_first_then_tests_by_processor_time_then_by_what_they_wait():
    tests = {
        "tests/a.py::test_one": Cost(1.0, 0.0, 9.0),
        "tests/a.py::test_two": Cost(2.0, 0.5, 1.0),
        "tests/b.py::test_three": Cost(0.0, 3.0, 2.0),
    }
    assert [line.split() for line in table(tests.items())] == [
        ["own", "children", "wall"],
        ["3.0", "0.5", "10.0", "tests/a.py"],
        ["0.0", "3.0", "2.0", "tests/b.py"],
        ["0.0", "3.0", "2.0", "tests/b.py::test_three"],
        ["2.0", "0.5", "1.0", "tests/a.py::test_two"],
        ["1.0", "0.0", "9.0", "tests/a.py::test_one"],
        ["own", "children", "wall", "what", "waits", "longest"],
        ["1.0", "0.0", "9.0", "tests/a.py::test_one"],
        ["0.0", "3.0", "2.0", "tests/b.py::test_three"],
        ["2.0", "0.5", "1.0", "tests/a.py::test_two"],
        ["3.0", "3.5", "12.0", "all", "of", "it"],
    ]
