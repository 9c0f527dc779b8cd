"""The parts of a keeper: masking, the journal, the attempt states, and logs of limited size."""

from __future__ import annotations

import asyncio
import html
import json
import os
import shlex
import subprocess
from base64 import b64encode, encodebytes
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.executor import AttemptId
from evertick.executors.keeper import output
from evertick.executors.keeper.attempt_state import (
    ACCEPTED,
    DELIVERED,
    FENCED,
    FINISHED,
    REFUSED,
    SPAWNED,
    STARTED,
    AttemptStates,
    read_states,
)
from evertick.executors.keeper.journal import Journal, read_lines
from evertick.executors.keeper.mask import Masker
from evertick.executors.keeper.output import TAIL_MAX, LogWriter
from evertick.executors.keeper.server import Connection, Server
from evertick.executors.log_times import TimeIndex, read_times
from evertick.model.instant import SECOND
from evertick.model.run import RunKey

KEY = RunKey("report", 5)


# Masking


def masked(masker: Masker, pieces: list[bytes]) -> bytes:
    return b"".join(map(masker.feed, pieces)) + masker.finish()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(bounds)]


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(b"p4ss/w+rd", id="as it is"),
        pytest.param(quote("p4ss/w+rd", safe="").encode(), id="for an address"),
        pytest.param(b64encode(b"user:p4ss/w+rd"), id="in base64, at the third byte"),
        pytest.param(b64encode(b"xuser:p4ss/w+rd!"), id="in base64, at the first byte"),
        pytest.param(b64encode(b"xxuser:p4ss/w+rd?"), id="in base64, at the second byte"),
        pytest.param(b"p4ss%2fw%2brd", id="for an address, in small letters"),
        pytest.param(b"%70%34%73%73%2f%77%2b%72%64", id="for an address, every byte of it"),
        pytest.param(b"p4ss/w+rd".hex().encode(), id="in hexadecimal"),
        pytest.param(b"p4ss/w+rd".hex().upper().encode(), id="in hexadecimal capitals"),
        pytest.param(b"70347373\n2f772b7264", id="in hexadecimal, in two lines"),
    ],
)
def test_a_secret_is_masked_in_every_form(shown):
    text = masked(Masker(["p4ss/w+rd"]), [b"before " + shown + b" after"])
    assert b"***" in text
    assert text.startswith(b"before ")
    assert text.endswith(b" after")
    assert shown not in text


@pytest.mark.parametrize("secret", ['say "hi"', r"back\slash", "pässwörd", "one\nsecond line"])
@pytest.mark.parametrize("is_ascii", [True, False], ids=["in ASCII", "as it is"])
def test_a_secret_in_json_is_masked(secret, is_ascii):
    text = masked(Masker([secret]), [json.dumps({"key": secret}, ensure_ascii=is_ascii).encode()])
    assert text == b'{"key": "***"}'


QUOTED = """it's <a> "secret"/key&\\!"""


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(json.dumps(json.dumps({"key": QUOTED})), id="JSON in JSON"),
        pytest.param(json.dumps(QUOTED).replace("/", "\\/"), id="JSON of PHP"),
        pytest.param(
            json.dumps(QUOTED).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"), id="JSON of Go"
        ),
        pytest.param(repr(QUOTED), id="a text of Python"),
        pytest.param(repr(QUOTED.encode()), id="bytes of Python"),
        pytest.param(html.escape(QUOTED), id="HTML"),
        pytest.param(html.escape(QUOTED, quote=False), id="HTML between tags"),
        pytest.param(shlex.quote(QUOTED), id="a word of a shell, by Python"),
        pytest.param("'" + QUOTED.replace("'", "'\\''") + "'", id="a word of a shell that traces"),
        pytest.param("$'" + QUOTED.replace("\\", "\\\\").replace("'", "\\'") + "'", id="a word of bash"),
        pytest.param("'" + QUOTED.replace("'", "''") + "'", id="SQL"),
        pytest.param(quote(QUOTED, safe="!'()*"), id="encodeURIComponent"),
        pytest.param(quote(QUOTED, safe="!#$&'()*+,/:;=?@"), id="encodeURI"),
        pytest.param(quote(QUOTED, safe="!$&'()*+,;="), id="the user of an address"),
    ],
)
def test_a_secret_is_masked_as_programs_quote_it(shown):
    text = masked(Masker([QUOTED]), [b"before ", shown.encode(), b" after"]).decode()
    assert "***" in text
    assert "secret" not in text


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_secret_is_masked_in_the_trace_of_a_shell(shell):
    traced = subprocess.run(
        [shell, "-xc", 'true "$KEY"'], env={**os.environ, "KEY": QUOTED}, capture_output=True, check=True
    )
    assert b"secret" in traced.stderr
    assert b"secret" not in masked(Masker([QUOTED]), [traced.stderr])


@given(
    st.lists(st.integers(0, 200)), st.lists(st.sampled_from(["abc", "abcabd", "abcabdx", "q", "ab", "\n"]), max_size=20)
)
def test_no_cut_between_two_reads_lets_a_secret_through(places, words):
    data = "".join(words).encode()
    secrets = ["abcabd", "abcabdx", "bcab"]
    text = masked(Masker(secrets), cut(data, places))
    assert text == masked(Masker(secrets), [data])
    assert not any(secret.encode() in text for secret in secrets)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300)))
def test_text_without_secrets_passes_unchanged(data, places):
    masker = Masker(["a secret that is not in there"])
    assert masked(masker, cut(data, places)) == data


def test_each_line_of_a_secret_of_several_lines_is_masked():
    secret = "-----BEGIN KEY-----\nAAAABBBBCCCC\nDDDDEEEEFFFF\n-----END KEY-----\n"
    text = masked(Masker([secret]), [b"  AAAABBBBCCCC\n  DDDDEEEEFFFF\n"])
    assert text == b"  ***\n  ***\n"


@pytest.mark.parametrize("size", [20, 100, 2_000])
@pytest.mark.parametrize("before", [0, 1, 50])
def test_a_secret_is_masked_in_folded_base64(size, before):
    """As mail and `base64` print it, wherever in what is printed."""
    secret = "".join(chr(97 + (number * 7 + number // 13) % 26) for number in range(size))
    told = encodebytes(b"~" * before + secret.encode() + b"!")
    for pieces in ([told], cut(told, list(range(0, len(told), 37)))):
        left = masked(Masker([secret]), pieces)
        assert left.count(b"***") == 1
        # What is left of the secret is part of a letter, at its beginning and at its end.
        assert len(left) <= len(encodebytes(b"~" * before)) + 8


@given(st.lists(st.integers(0, 200)), st.lists(st.integers(0, 40), max_size=3))
def test_no_cut_and_no_fold_lets_a_secret_through(places, folds):
    secret = b"0123456789abcdefghij"
    told = b"\r\n  ".join(cut(secret, folds)) if len(folds) < 2 else b"\n".join(cut(secret, folds[:1]))
    text = masked(Masker([secret.decode()]), cut(b"a " + told + b" b", places))
    assert text == b"a *** b"


def test_a_secret_too_short_to_hide_anything_is_left_alone():
    assert masked(Masker(["ab", ""]), [b"abba"]) == b"abba"
    assert not Masker([]).is_needed


# Logs


@pytest.fixture
def logs(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def writer(logs: int, max_bytes: int = 1000, secrets: tuple[str, ...] = ()) -> LogWriter:
    return LogWriter(logs, lambda: ("job", "day"), "main.log", max_bytes, Masker(secrets))


def test_a_silent_step_leaves_no_file(logs, tmp_path):
    log = writer(logs)
    log.write(b"")
    log.close()
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.binary(min_size=1, max_size=400), max_size=12))
def test_a_log_keeps_its_beginning_and_its_end(tmp_path_factory, pieces):
    folder = tmp_path_factory.mktemp("logs")
    fd = os.open(folder, os.O_RDONLY)
    log = writer(fd, max_bytes=600)
    for piece in pieces:
        log.write(piece)
    log.close()
    os.close(fd)
    whole = b"".join(pieces)
    if not whole:
        return
    text = (folder / "job/day/main.log").read_bytes()
    if len(whole) <= 600:
        assert text == whole
    else:
        assert text == whole[:300] + b"\n[evertick: %d bytes were left out here]\n" % (len(whole) - 600) + whole[-300:]


def test_the_end_that_is_kept_in_memory_is_bounded(logs):
    log = writer(logs, max_bytes=64 * 1024 * 1024)
    log._written = log._head_max
    for _ in range(100):
        log.write(b"x" * 65536)
    assert len(log._tail) <= 2 * TAIL_MAX + 65536
    log.close()


def test_a_handler_of_the_same_name_writes_behind_the_step(logs, tmp_path):
    for text in (b"one\n", b"two\n"):
        log = writer(logs)
        log.write(text)
        log.close()
    assert (tmp_path / "job/day/main.log").read_bytes() == b"one\ntwo\n"


def test_a_link_in_the_place_of_a_log_is_not_followed(logs, tmp_path):
    (tmp_path / "job/day").mkdir(parents=True)
    (tmp_path / "job/day/main.log.part").symlink_to(tmp_path / "target")
    log = writer(logs)
    log.write(b"evil")
    log.close()
    assert not (tmp_path / "target").exists()


def timed(monkeypatch, log: LogWriter, *pieces: tuple[float, bytes]) -> None:
    """Write each piece at its number of seconds after the epoch."""
    for seconds, data in pieces:
        monkeypatch.setattr(output, "_now", lambda at=seconds: round(at * SECOND))
        log.write(data)


def times_in(tmp_path) -> list[tuple[int, float]]:
    file = tmp_path / "job/day/main.log.times"
    return [(offset, at / SECOND) for offset, at in read_times(file.read_bytes())] if file.exists() else []


def test_output_has_the_time_at_which_it_came_to_a_tenth_of_a_second(logs, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "_now", lambda: 10 * SECOND)
    log = writer(logs)
    timed(monkeypatch, log, (10.05, b"at once\n"), (12, b"later\n"), (12.05, b"with it\n"), (11, b"the clock\n"))
    log.close()
    assert times_in(tmp_path) == [(8, 12), (22, 11)]


def test_a_step_that_prints_only_at_its_start_has_no_index(logs, tmp_path):
    log = writer(logs)
    log.write(b"done\n")
    log.close()
    assert [file.name for file in (tmp_path / "job/day").iterdir()] == ["main.log"]


def test_the_end_of_a_log_that_is_too_long_has_its_times(logs, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "_now", lambda: 0)
    log = writer(logs, max_bytes=20)
    timed(monkeypatch, log, (1, b"0123456789"), (2, b"x" * 50), (3, b"abcde"), (4, b"fghij"))
    log.close()
    text = (tmp_path / "job/day/main.log").read_bytes()
    tail = text.index(b"abcde")
    assert times_in(tmp_path) == [(0, 1), (tail, 2), (tail, 3), (tail + 5, 4)]


def test_who_continues_a_log_writes_when(logs, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "_now", lambda: 0)
    for seconds in (0, 5):
        log = writer(logs)
        timed(monkeypatch, log, (seconds, b"x\n"))
        log.close()
    assert times_in(tmp_path)[0] == (2, 5)


def test_an_index_that_was_cut_off_is_read_to_its_last_record():
    assert read_times(b"\1" + b"\0" * 7 + b"\2" + b"\0" * 7 + b"\3\0") == ((1, 2),)


def test_steady_output_makes_a_record_a_second_at_last():
    index = TimeIndex(0)
    count = sum(index.is_due(tenth * SECOND // 10) for tenth in range(1, 20_000))
    assert count == 5_000 + 1_499


# The journal and the attempt states


def lines(*rows: tuple[object, ...]) -> AttemptStates:
    return read_states(rows)


RAN = ((ACCEPTED, 1, *KEY, 1, 7), (SPAWNED, 1, 99, 5), (STARTED, 1, 6), (FINISHED, 1, 1, "failed", 8, 3, "exit code 3"))


def test_the_states_equal_those_of_the_journal():
    state = lines(*RAN).by_id[AttemptId(KEY, 1)]
    assert (state.fence, state.started_at, state.serial) == (7, 6, 1)
    assert state.end is not None
    assert (state.end.state, state.end.exit_code, state.end.detail) == ("failed", 3, "exit code 3")


def test_the_opening_lines_restore_the_open_attempts():
    states = lines(RAN[0], (ACCEPTED, 2, *KEY, 2, 8), RAN[1], RAN[2], RAN[3], (SPAWNED, 2, 100, 50), (DELIVERED, 1))
    again = read_states(states.opening())
    assert again.open.keys() == states.open.keys() == {2}
    assert again.open[2].processes == {100: 50}
    assert (again.last_number, again.last_serial, again.delivered) == (2, 1, 1)


def test_a_refused_attempt_leaves_no_state():
    states = lines(RAN[0], (REFUSED, 1))
    assert not states.by_id
    assert not states.open
    assert states.fence_of(KEY) == -1


def test_a_question_about_an_unknown_run_keeps_its_fence_until_its_file_is_removed():
    states = lines((FENCED, *KEY, 9), *RAN, (FENCED, "other", 1, "", 9))
    assert (states.fence_of(KEY), states.fence_of(RunKey("other", 1))) == (9, 9)
    states.forget(1)
    assert (states.fence_of(KEY), states.fence_of(RunKey("other", 1))) == (-1, 9)


def test_a_result_is_undelivered_until_acknowledged_and_kept_until_forgotten():
    states = lines(*RAN)
    assert [state.serial for state in states.undelivered()] == [1]
    states.apply((DELIVERED, 1))
    assert list(states.undelivered()) == []
    assert AttemptId(KEY, 1) in states.by_id
    states.forget(1)
    assert not states.by_id


def test_the_delivered_attempts_of_a_job_share_what_is_the_same_and_drop_the_rest():
    states = AttemptStates()
    for number in (1, 2):
        job_id = "".join(["job", "-", "1"])  # each launch brings its own text
        states.apply((ACCEPTED, number, job_id, number, "", 1, 7))
        states.apply((STARTED, number, 6))
        states.apply((FINISHED, number, number, "".join(["succeed", "ed"]), 8, 0, ""))
    states.apply((DELIVERED, 2))
    one, two = states.by_id.values()
    assert one.attempt_id.key.job_id is two.attempt_id.key.job_id
    assert one.end is not None
    assert two.end is not None
    assert one.end.state is two.end.state
    assert one.started_at is None
    assert one.steps == ()
    assert not one.begun


def test_a_new_file_begins_with_open_attempts_and_the_old_one_is_removed_when_over(tmp_path):
    journal = Journal(tmp_path, max_bytes=50)
    journal.begin([("keeper", "boot", 0, 0, 0)], 0)
    journal.append(*RAN[0])
    assert journal.flush()
    assert journal.is_full
    journal.rotate([RAN[0]], 4, 10.0)
    journal.append(*RAN[2])
    journal.close()
    assert [line[0] for line in read_lines(tmp_path)] == ["keeper", ACCEPTED, ACCEPTED, STARTED]
    assert journal.remove(lambda file: file.last_serial < 4) is None
    assert journal.remove(lambda file: file.closed_at <= 10.0) == 4
    assert [line[0] for line in read_lines(tmp_path)] == [ACCEPTED, STARTED]


@pytest.mark.parametrize(("ahead", "is_refused"), [(0, False), (1, True)], ids=["its own user", "another user"])
def test_a_keeper_refuses_connections_of_another_user(monkeypatch, ahead, is_refused):
    monkeypatch.setattr("evertick.executors.protocol.peer_uid", lambda _: os.geteuid() + ahead)
    transport = Mock(spec=asyncio.Transport)
    Connection(Server("1")).connection_made(transport)
    assert transport.abort.called is is_refused


def test_the_boot_is_on_disk_before_an_attempt_can_be_accepted(tmp_path, monkeypatch):
    """After a power loss it says that later lines, which are not synced, may be missing."""
    synced = dict[str, str | list[str]]()

    def fsync(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        synced[str(path)] = [one.name for one in path.iterdir()] if path.is_dir() else path.read_text()

    monkeypatch.setattr(os, "fsync", fsync)
    folder = tmp_path / "keeper-0"
    folder.mkdir()
    journal = Journal(folder, max_bytes=10_000)
    journal.begin([("keeper", "boot", 0, 0, 0)], 0)
    journal.close()
    assert synced == {
        f"{folder}/keeper.jsonl": '["keeper","boot",0,0,0]\n',
        str(folder): ["keeper.jsonl"],
        str(tmp_path): ["keeper-0"],
    }


def test_the_journal_of_a_keeper_that_was_killed_knows_which_results_each_file_holds(tmp_path):
    for serial in (3, 5, 9):  # each keeper begins with those that ended before
        journal = Journal(tmp_path, max_bytes=10_000)
        journal.begin([("keeper", "boot", serial, serial, serial)], serial)
        journal.close()
    again = Journal(tmp_path, max_bytes=10_000)
    again.begin([("keeper", "boot", 12, 12, 12)], 12)
    assert [file.last_serial for file in again.archive] == [5, 9, 12]
    assert again.archived_bytes == sum(path.stat().st_size for path in tmp_path.glob("keeper.*.jsonl"))
    again.close()


@given(st.integers(0, 400))
def test_a_journal_torn_anywhere_keeps_every_complete_line(tmp_path_factory, place):
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder, max_bytes=10_000)
    journal.begin([("keeper", "boot", 0, 0, 0)], 0)
    for line in RAN:
        journal.append(*line)
    journal.close()
    path = folder / "keeper.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:place])
    expected = whole[:place].count(b"\n") + (1 if whole[place : place + 1] == b"\n" else 0)
    assert len(list(read_lines(folder))) == min(expected, 5)


# The hello


def test_a_new_scheduler_gets_the_hello_before_queued_reports():
    """Queued reports are sent to all when one connects; the new one would take them for the hello."""
    server = Server("one")
    sent: list[Any] = []

    def open_reports() -> list[bytes]:
        server.send(b"news")
        return [b"known"]

    new: Any = Mock(has_instance=True, send=sent.append)

    handler: Any = SimpleNamespace(open_reports=open_reports)
    server.handler = handler
    server.add(new)
    (greeting,) = sent
    assert greeting.startswith(b'["hello"')
    assert greeting.endswith(b"known")
