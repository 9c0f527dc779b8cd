"""Does the audit log keep every line, and show when one was changed?"""

from __future__ import annotations

import errno
import json
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.errors import AuditUnavailable
from evertick.operations.audit import GENESIS, LINE_MAX, RESERVE_BYTES, Audit, seal
from evertick.operations.audit_head import LedgerHead
from evertick.stores import open_store
from tests.operations.ledger import MIDNIGHT


@pytest.fixture
def audit(tmp_path):
    return Audit(tmp_path, lambda: MIDNIGHT)


def fill(audit, count):
    for number in range(count):
        audit.write("ann", "POST /jobs", f"job-{number}", origin="10.0.0.1", outcome="200", detail={"n": number})


def test_a_line_has_the_user_action_time_address_and_outcome(audit):
    audit.write("ann", "POST /jobs", "etl", origin="10.0.0.1", outcome="200", detail={"note": "x"})
    (line,), following = audit.page()
    assert (line["number"], line["at"], line["by"], line["from"]) == (1, "2026-03-02T00:00:00Z", "ann", "10.0.0.1")
    assert (line["action"], line["target"], line["outcome"], line["detail"]) == (
        "POST /jobs",
        "etl",
        "200",
        {"note": "x"},
    )
    assert (line["previous"], following) == (GENESIS, None)
    assert audit.path.stat().st_mode & 0o777 == 0o600


def test_the_audit_log_is_read_backwards_by_pages(audit):
    fill(audit, 600)  # several blocks of the file
    found, before = [], None
    while True:
        page, before = audit.page(before, 90)
        found += [line["number"] for line in page]
        if before is None:
            break
    assert found == list(range(600, 0, -1))
    assert audit.verify() == (True, 600, audit.page(limit=1)[0][0]["hash"], None, 1, 0)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda lines: lines.pop(3), id="a line is gone"),
        pytest.param(lambda lines: lines.insert(3, lines[2]), id="a line is there twice"),
        pytest.param(lambda lines: lines.reverse(), id="another order"),
        pytest.param(lambda lines: lines.__setitem__(3, lines[3].replace("ann", "bob")), id="another name"),
        pytest.param(lambda lines: lines.__setitem__(3, "garbage"), id="garbage in the place of a line"),
        pytest.param(lambda lines: lines.pop(0), id="the first is gone"),
    ],
)
def test_a_change_shows(audit, change):
    fill(audit, 6)
    lines = audit.path.read_text().splitlines()
    change(lines)
    audit.path.write_text("\n".join(lines) + "\n")
    assert not audit.verify().is_whole


@pytest.mark.parametrize("key", [b"", b"x" * 32], ids=["without a key", "with a key of their own"])
def test_a_rewritten_chain_is_detected(audit, key):
    """By somebody who can write the log and knows how it is sealed, but not the key."""
    fill(audit, 6)
    lines = [json.loads(line) for line in audit.path.read_text().splitlines()]
    lines[3]["by"] = "bob"
    previous = GENESIS
    for line in lines:
        del line["hash"]
        line["previous"] = previous
        previous = line["hash"] = seal(line, key)
    audit.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert audit.verify().broken_at == 1


def test_a_line_that_a_crash_tore_does_not_break_the_chain(audit):
    fill(audit, 3)
    with audit.path.open("ab") as file:
        file.write(b'{"number": 4, "at": "2026')
    fill(audit, 2)
    verdict = audit.verify()
    assert (verdict.is_whole, verdict.lines) == (True, 5)


def test_several_write_at_once_and_the_chain_holds(tmp_path):
    threads = [threading.Thread(target=fill, args=(Audit(tmp_path), 25)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert Audit(tmp_path).verify()[:2] == (True, 100)


# --- files that were put beside


@pytest.fixture
def small(tmp_path):
    """Begins a next file after a few lines."""
    return Audit(tmp_path, lambda: MIDNIGHT, part_bytes=2_000)


def parts(folder):
    return sorted(folder.glob("audit.*.log"))


def test_a_long_log_continues_in_a_next_file_with_its_chain(small, tmp_path):
    fill(small, 30)
    assert len(parts(tmp_path)) > 2
    assert max(part.stat().st_size for part in parts(tmp_path)) < 2_000 + LINE_MAX
    verdict = small.verify()
    assert (verdict.is_whole, verdict.lines, verdict.first) == (True, 30 + len(parts(tmp_path)), 1)
    assert {part.stat().st_mode & 0o777 for part in parts(tmp_path)} == {0o600}


def test_pages_go_through_all_files(small):
    fill(small, 30)
    found, before = [], None
    while True:
        page, before = small.page(before, 4)
        found += [line["number"] for line in page]
        if before is None:
            break
    assert found == list(range(small.verify().lines, 0, -1))


def test_a_change_in_a_file_that_was_put_beside_shows(small, tmp_path):
    fill(small, 30)
    part = parts(tmp_path)[1]
    part.write_text(part.read_text().replace("ann", "bob", 1))
    assert not small.verify().is_whole


def test_a_file_from_the_middle_is_missed(small, tmp_path):
    fill(small, 30)
    parts(tmp_path)[1].unlink()
    verdict = small.verify()
    assert (verdict.is_whole, verdict.first) == (False, 1)


def test_old_files_may_be_moved_away_and_the_rest_tells_from_where_on_it_is_whole(small, tmp_path):
    fill(small, 30)
    lines = small.verify().lines
    for part in parts(tmp_path)[:2]:
        part.unlink()
    verdict = small.verify()
    assert verdict.is_whole
    assert verdict.first > 1
    assert verdict.lines == lines + 1 - verdict.first
    for part in parts(tmp_path):
        part.unlink()
    fill(small, 1)
    assert small.verify().is_whole
    assert small.page(limit=1)[0][0]["number"] == lines + 1


def test_a_crash_right_after_a_file_was_put_beside_loses_nothing(small, tmp_path):
    fill(small, 3)
    small.path.rename(tmp_path / "audit.000000000001.log")
    fill(small, 1)
    verdict = small.verify()
    assert (verdict.is_whole, verdict.lines) == (True, 5)
    (tmp_path / "audit.000000000001.log").unlink()
    verdict = small.verify()
    assert (verdict.is_whole, verdict.lines, verdict.first) == (True, 2, 4)


def test_several_write_at_once_while_files_are_put_beside(tmp_path):
    writers = [Audit(tmp_path, part_bytes=3_000) for _ in range(4)]
    threads = [threading.Thread(target=fill, args=(one, 25)) for one in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    verdict = Audit(tmp_path).verify()
    assert verdict.is_whole
    assert verdict.lines >= 100 + len(parts(tmp_path))
    everything, _ = Audit(tmp_path).page(limit=10_000)
    assert sum(line["by"] == "ann" for line in everything) == 100


@given(st.text(), st.recursive(st.none() | st.text() | st.integers(), lambda one: st.lists(one, max_size=3)))
def test_whatever_is_written_is_one_line_of_a_bounded_length(tmp_path_factory, text, detail):
    audit = Audit(tmp_path_factory.mktemp("audit"))
    audit.write(text * 20, text * 20, text * 20, detail=detail)
    audit.write("ann", "next")
    lines = audit.path.read_bytes().splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) < LINE_MAX
    assert audit.verify().is_whole


class TestTheEndInTheLedger:
    @pytest.fixture
    def store(self):
        store = open_store("memory:")
        yield store
        store.close()

    @pytest.fixture
    def noted(self, tmp_path, store):
        return Audit(tmp_path, lambda: MIDNIGHT, head=lambda log_id: LedgerHead(store, log_id, lambda: MIDNIGHT))

    def test_a_continued_log_is_complete(self, noted):
        fill(noted, 3)
        noted.close()
        fill(noted, 2)  # not noted yet
        assert noted.verify().is_whole

    def test_lines_that_were_cut_off_show(self, noted):
        fill(noted, 5)
        noted.close()
        lines = noted.path.read_text().splitlines(keepends=True)
        noted.path.write_text("".join(lines[:3]))
        assert noted.verify()[:1] + noted.verify()[3:] == (False, 4, 1, 2)

    def test_a_log_that_is_gone_shows(self, noted):
        fill(noted, 5)
        noted.close()
        noted.path.unlink()
        assert not noted.verify().is_whole

    def test_lines_in_the_place_of_others_show(self, noted):
        fill(noted, 5)
        noted.close()
        lines = noted.path.read_text().splitlines(keepends=True)
        noted.path.write_text("".join(lines[:3]))
        fill(noted, 7)  # by whoever has the key
        assert not noted.verify().is_whole

    def test_files_may_be_moved_away(self, tmp_path, store):
        audit = Audit(
            tmp_path, lambda: MIDNIGHT, 1_000, head=lambda log_id: LedgerHead(store, log_id, lambda: MIDNIGHT)
        )
        fill(audit, 20)
        audit.close()
        next(iter(sorted(tmp_path.glob("audit.0*.log")))).unlink()
        assert audit.verify().is_whole


class TestALogThatCannotBeWritten:
    def test_an_unwritable_log_is_reported_before_anything_is_done(self, audit, tmp_path):
        audit.prepare()
        audit.path.unlink()
        audit.path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(AuditUnavailable, match=r"audit\.log"):
            audit.prepare()

    def test_a_full_disk_takes_the_line_of_what_was_begun(self, audit, monkeypatch):
        """The reserve is given back; then there is room for the line."""
        audit.prepare()
        reserve, write = audit.path.with_name("audit.reserve"), os.write
        assert reserve.stat().st_size == RESERVE_BYTES

        def full(fd: int, data: bytes) -> int:
            if reserve.exists():
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(fd, data)

        monkeypatch.setattr(os, "write", full)
        fill(audit, 1)
        assert audit.verify().lines == 1
