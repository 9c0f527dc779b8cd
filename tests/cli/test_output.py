"""How results are shown: aligned, in colour only where it is wanted, and without control characters."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from evertick.cli.tables import Column, Table, clean, fitting, plain_table
from evertick.cli.times import local_text
from evertick.model.duration import duration_text
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, from_text

WIDE = Table(
    (Column("Name", "name"), Column("Count", "count", right=True, optional=True), Column("Text", "text", wrap=True)),
    [{"name": "ä", "count": 5, "text": "x"}, {"name": "日本", "count": 12, "text": None}],
)


def test_aligned_text_counts_the_columns_of_wide_characters():
    assert plain_table(WIDE).split("\n") == [
        "NAME  COUNT  TEXT",
        "ä         5  x",
        "日本     12",
    ]


def test_a_title_is_printed_above_its_table():
    assert plain_table(Table(WIDE.columns, [], "Things")).split("\n") == ["Things", "NAME  COUNT  TEXT"]


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        pytest.param(80, ["Name", "Count", "Text"], id="all of them in eighty columns"),
        pytest.param(17, ["Name", "Count", "Text"], id="all of them where they just fit"),
        pytest.param(16, ["Name", "Text"], id="not the optional one where they do not"),
        pytest.param(1, ["Name", "Text"], id="never fewer than those that are needed"),
    ],
)
def test_a_terminal_has_room_for(width, titles):
    assert [column.title for column in fitting(WIDE, width)] == titles


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain é 日本", "plain é 日本", id="letters stay"),
        pytest.param("\x1b[31mred", "\\x1b[31mred", id="colours do not work"),
        pytest.param("a\nb\rc", "a\\nb\\rc", id="a line break is shown"),
        pytest.param("a\u202eb", "a\\u202eb", id="nor does a change of direction"),
        pytest.param("\x9b31m", "\\x9b31m", id="nor a control character beyond ASCII"),
    ],
)
def test_a_text_is_cleaned(text, shown):
    assert clean(text) == shown


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [
        pytest.param(0, "0ms", id="nothing"),
        pytest.param(250_000, "250ms", id="a quarter of a second"),
        pytest.param(2_560_000, "2.56s", id="milliseconds below ten seconds"),
        pytest.param(10 * SECOND, "10s", id="seconds"),
        pytest.param(MINUTE + SECOND, "1m 1s", id="minutes and seconds"),
        pytest.param(HOUR + SECOND, "1h", id="an hour, its second left out"),
        pytest.param(2 * DAY + 3 * HOUR + MINUTE, "2d 3h", id="days and hours"),
    ],
)
def test_a_duration_has_its_two_largest_units(duration_us, text):
    assert duration_text(duration_us) == text


def test_a_local_time_keeps_its_fraction():
    assert local_text(from_text("2027-01-01T00:00:00.25Z"), "Asia/Kathmandu") == "Fri 2027-01-01 05:45:00.25"


def on_a_terminal(command_name: str = "next", **environ: str) -> str:
    """What `evertick cron` writes when its standard output is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "evertick", "cron", command_name, "@daily", "--timezone", "UTC"]
    settings = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLUMNS": "100", **environ}
    with subprocess.Popen(command, stdout=theirs, stdin=theirs, stderr=subprocess.PIPE, env=settings) as process:
        os.close(theirs)
        written = b""
        try:
            while chunk := os.read(ours, 65_536):
                written += chunk
        except OSError:  # how a terminal says that its other end is closed
            pass
        assert process.wait() == 0
    os.close(ours)
    return written.decode()


def test_a_stream_that_knows_few_letters_gets_those_it_knows(tmp_path):
    (tmp_path / "a.yaml").write_text("description: für 日本\ncommand: x\n", encoding="utf-8")
    command = [sys.executable, "-m", "evertick", "list", "--folder", str(tmp_path)]
    environ = {"PATH": os.environ["PATH"], "PYTHONIOENCODING": "ascii", "PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run(command, capture_output=True, env=environ, check=True)
    assert shown.stdout.splitlines()[1].startswith(b"a ")


def test_a_terminal_gets_lines_and_colour():
    shown = on_a_terminal()
    assert "─" in shown
    assert "\x1b[32m" in shown


def test_a_terminal_gets_an_explanation_with_its_first_line_in_bold():
    first, *_rest = on_a_terminal("explain").splitlines()
    assert first.startswith("\x1b[1m")
    assert "00:00" in first
    assert "\\x1b" not in first


def test_no_color_is_honoured():
    shown = on_a_terminal(NO_COLOR="1")
    assert "─" in shown
    assert "\x1b[32m" not in shown


@pytest.mark.parametrize(
    "environ", [pytest.param({"TERM": "dumb"}, id="dumb"), pytest.param({"CI": "true"}, id="of a build server")]
)
def test_some_terminals_get_aligned_text(environ):
    shown = on_a_terminal(**environ)
    assert "LOCAL TIME" in shown
    assert "\x1b" not in shown
