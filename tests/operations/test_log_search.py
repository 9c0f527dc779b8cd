"""Is a text found anywhere in a log, and has every line its number?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.definitions.source import Folder
from evertick.errors import InvalidArgument
from evertick.executors.logs import LogChunk, LogFile
from evertick.model.instant import MINUTE
from evertick.operations.local import LocalOperations
from evertick.operations.log_queries import HITS_MAX, find_line, search_errors, search_lines
from evertick.operations.run_logs import RunLogs
from tests.operations.ledger import at, entry, fill, job, key, ran

RUN = "etl@2026-03-02T01:00:00Z"


@pytest.mark.parametrize(
    ("text", "wanted", "hits"),
    [
        pytest.param("one\ntwo\none", "one", [(1, 0), (3, 8)], id="the last line has no end"),
        pytest.param("One\n\nTWO\n", "two", [(3, 5)], id="whatever the case"),
        pytest.param("\x1b[1;31mER\x1b[0mROR\n", "error", [(1, 0)], id="colours are no text"),
        pytest.param("Größe\nno\nGRÖSSE\n", "größe", [(1, 0)], id="letters of other alphabets"),
        pytest.param("a\rb\nc\n", "c", [(2, 4)], id="a carriage return ends no line"),
        pytest.param("one\ntwo\n", "three", [], id="nowhere"),
    ],
)
def test_the_places_of_a_text(text, wanted, hits):
    found = search_lines([text.encode()], wanted)
    assert ([(hit.line, hit.offset) for hit in found.hits], found.total) == (list(hits), len(hits))


@given(st.text(alphabet="ab\n", max_size=80), st.integers(1, 7))
def test_a_search_finds_the_same_however_the_log_is_cut(text, size):
    data = text.encode()
    pieces = [data[begin : begin + size] for begin in range(0, len(data), size)]
    lines = text.split("\n")
    expected = [number for number, line in enumerate(lines, 1) if "ab" in line]
    found = search_lines(pieces, "ab")
    assert [hit.line for hit in found.hits] == expected
    assert all(data[hit.offset :].startswith(lines[hit.line - 1].encode()) for hit in found.hits)


def test_the_first_of_very_many_lines_are_reported_and_all_are_counted():
    found = search_lines([b"x\n" * 2 * HITS_MAX], "x")
    assert (len(found.hits), found.total) == (HITS_MAX, 2 * HITS_MAX)


class OneLog:
    def __init__(self, data):
        self.data = data

    def list_logs(self, _):
        return [LogFile(1, "main", len(self.data), True)]

    def read_log(self, _key, _attempt, _step, offset=0, limit=1 << 20):
        data = self.data[offset : offset + limit]
        return LogChunk(data, offset + len(data), offset + len(data) >= len(self.data))

    def read_times(self, _key, _attempt, _step):
        return ()


@pytest.fixture
def operations(store):
    fill(store, entry(1), watermark=4)
    ran(store, key(1), at(1), at(1) + MINUTE)
    data = b"".join(b"line %d\n" % number for number in range(1, 1_001))
    return LocalOperations(store, lambda: Folder(jobs={"etl": job()}), now=lambda: at(4.5), logs=RunLogs(OneLog(data)))


@pytest.mark.parametrize(
    ("offset", "line"),
    [
        pytest.param(0, 1, id="the beginning"),
        pytest.param(7, 2, id="where a line begins"),
        pytest.param(8, 3, id="inside a line: the next"),
        pytest.param(5_000, 569, id="far inside"),
    ],
)
def test_a_part_of_a_log_begins_with_a_whole_line_and_its_number(operations, offset, line):
    found = operations.read_log(RUN, 1, "main", offset, 100, lines=True)
    assert (found.first_line, found.text.partition("\n")[0]) == (line, f"line {line}")
    assert operations.read_log(RUN, 1, "main", offset, 100).first_line is None


def test_a_log_is_searched_as_a_whole(operations):
    found = operations.search_log(RUN, 1, "main", "LINE 777")
    assert (found.items[0].line, found.total, found.searched_bytes == found.size) == (777, 1, True)
    hit = found.items[0].offset
    assert operations.read_log(RUN, 1, "main", hit, 8).text == "line 777"
    with pytest.raises(InvalidArgument):
        operations.search_log(RUN, 1, "main", "")


@given(st.text(alphabet="ab\n", max_size=60), st.integers(1, 7), st.integers(1, 70))
def test_a_line_is_found_by_its_number_however_the_log_is_cut(text, size, number):
    data = text.encode()
    pieces = [data[begin : begin + size] for begin in range(0, len(data), size)]
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)] if data else []
    expected = [(number, starts[number - 1])] if number <= len(starts) else []
    assert [(hit.line, hit.offset) for hit in find_line(pieces, number).hits] == expected


def test_lines_that_look_like_errors_are_found():
    log = b"ok\nno errors here\nValueError: x\n\x1b[31mFATAL\x1b[0m y\nterror\n"
    assert [hit.line for hit in search_errors([log]).hits] == [3, 4]
