"""Has the merged log of all steps every line once, in the order of time, and does it only grow?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.definitions.source import Folder
from evertick.executors.logs import LogChunk, LogFile
from evertick.model.instant import MINUTE, SECOND, to_datetime
from evertick.operations import merged_log
from evertick.operations.local import LocalOperations
from evertick.operations.merged_log import MergedLog, Source
from evertick.operations.run_logs import RunLogs
from tests.operations.ledger import at, entry, fill, job, key, ran

RUN = "etl@2026-03-02T01:00:00Z"
NOON = at(12)


class Printed:
    """The log of a step, with the time of each piece."""

    def __init__(self, step: str, started_at: int = NOON) -> None:
        self.step, self.started_at = step, started_at
        self.data, self.times = b"", [(0, started_at)][:0]

    def print(self, seconds: float, text: str) -> Printed:
        self.times.append((len(self.data), NOON + round(seconds * SECOND)))
        self.data += text.encode()
        return self

    def source(self, *, is_complete: bool = True) -> Source:
        return Source(
            self.step,
            self.started_at,
            len(self.data),
            is_complete,
            lambda offset, limit: self.data[offset : offset + limit],
            lambda: self.times,
        )


def lines_of(merged: MergedLog) -> list[str]:
    return [" ".join(line.split("\t")[1:]) for line in merged.data.decode().splitlines()]


def test_lines_of_all_steps_are_in_the_order_of_time_and_name_their_step():
    one = Printed("a").print(1, "a1\n").print(3, "a2\nno end")
    two = Printed("b").print(2, "b1\r10%\r20%\n").print(4, "b\t2\n")
    merged = MergedLog()
    merged.grow([one.source(), two.source()], NOON)
    assert merged.data.decode().split("\n")[0] == "2026-03-02T12:00:01.000Z\ta\ta1"
    assert merged.data.count(b"\n") == 5
    assert [line.split("\t", 2)[2] for line in merged.data.decode().split("\n")[:-1]] == [
        *("a1", "b1\r10%\r20%", "a2", "no end", "b\t2")
    ]
    assert merged.is_complete


def test_what_has_no_time_of_its_own_was_printed_when_its_step_started():
    late, early = Printed("a", NOON + SECOND), Printed("b")
    late.data, early.data = b"late\n", b"early\n"
    merged = MergedLog()
    merged.grow([late.source(), early.source()], NOON)
    assert lines_of(merged) == ["b early", "a late"]


def test_a_clock_that_was_set_back_changes_no_order_within_a_step():
    step = Printed("a").print(5, "first\n").print(1, "second\n")
    merged = MergedLog()
    merged.grow([step.source()], NOON)
    assert lines_of(merged) == ["a first", "a second"]


def test_a_line_waits_until_the_other_steps_can_have_no_earlier_one():
    one, two = Printed("a").print(1, "a1\n").print(9, "a2\nhal"), Printed("b")
    merged = MergedLog()
    merged.grow([one.source(is_complete=False), two.source(is_complete=False)], NOON + 10 * SECOND)
    assert lines_of(merged) == ["a a1"]
    two.print(8, "b1\n")
    one.print(10, "f\n")
    merged.grow([one.source(is_complete=False), two.source(is_complete=False)], NOON + 12 * SECOND)
    assert lines_of(merged) == ["a a1", "b b1", "a a2", "a half"]
    assert not merged.is_complete


PIECES = st.sampled_from(["x\n", "y", "\n", "z\nz\n"])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), PIECES), max_size=20))
def test_a_merged_log_is_the_same_however_often_it_was_read_while_it_grew(events):
    """Read after each output, and once at the end."""
    steps = {name: Printed(name) for name in "abc"}
    often, seconds = MergedLog(), 0.0
    for name, later, text in events:
        seconds += later
        steps[name].print(seconds, text)
        before = bytes(often.data)
        often.grow([step.source(is_complete=False) for step in steps.values()], NOON + round(seconds * SECOND))
        assert often.data.startswith(before)
    for step in steps.values():
        step.print(seconds + 10, "end\n")
    once = MergedLog()
    for merged in (often, once):
        merged.grow([step.source() for step in steps.values()], NOON)
    assert often.data == once.data
    assert once.data.count(b"\n") == sum(step.data.count(b"\n") for step in steps.values())


def test_a_log_that_is_too_long_to_merge_says_so(monkeypatch):
    monkeypatch.setattr(merged_log, "MERGED_MAX", 1_000)
    step = Printed("a").print(1, "line\n" * 1_000)
    merged = MergedLog()
    merged.grow([step.source()], NOON)
    assert merged.is_complete
    assert merged.data.endswith(b"[evertick: the rest is in the logs of the steps]\n")


class TwoLogs:
    """The logs of two steps in one place."""

    def __init__(self) -> None:
        self.steps = {
            "fetch": Printed("fetch", at(1)).print(0, "begin\n"),
            "load": Printed("load", at(1)).print(0, "Error: no table\n"),
        }
        self.steps["fetch"].times = [(0, at(1) + 3 * SECOND)]
        self.steps["load"].times = [(0, at(1) + SECOND)]

    def list_logs(self, _):
        return [LogFile(1, name, len(step.data), True) for name, step in self.steps.items()]

    def read_log(self, _key, _attempt, step, offset=0, limit=1 << 20):
        data = self.steps[step].data[offset : offset + limit]
        return LogChunk(data, offset + len(data), True)

    def read_times(self, _key, _attempt, step):
        return self.steps[step].times


@pytest.fixture
def operations(store):
    fill(store, entry(1), watermark=4)
    ran(store, key(1), at(1), at(1) + MINUTE)
    return LocalOperations(store, lambda: Folder(jobs={"etl": job()}), now=lambda: at(4.5), logs=RunLogs(TwoLogs()))


def test_the_log_of_all_steps_is_read_continued_searched_and_linked_as_any_other(operations):
    found = operations.read_log(RUN, 1, "*", lines=True)
    first, second = found.text.splitlines()
    assert first.endswith("\tload\tError: no table")
    assert second == "2026-03-02T01:00:03.000Z\tfetch\tbegin"
    assert (found.size, found.is_complete) == (len(found.text), True)
    assert operations.log_bytes(RUN, 1, "*", len(first) + 1).data.decode() == f"{second}\n"
    assert [hit.line for hit in operations.search_log(RUN, 1, "*", "BEGIN").items] == [2]
    assert [hit.line for hit in operations.search_log(RUN, 1, "*", errors=True).items] == [1]


def test_times_begin_with_that_of_the_byte_that_was_asked_for(operations):
    assert [(time.offset, time.at) for time in operations.log_times(RUN, 1, "load")] == [
        (0, to_datetime(at(1) + SECOND))
    ]
    operations.logs._here.steps["load"].times.append((6, at(2)))
    assert [time.offset for time in operations.log_times(RUN, 1, "load", 5)] == [0, 6]
    assert [time.offset for time in operations.log_times(RUN, 1, "load", 7)] == [6]
