"""What commands show on a terminal of eighty columns."""

from __future__ import annotations

import re

import pytest

from tests.cli.invoke import failed_run
from tests.cli.terminal import on_a_terminal

pytestmark = pytest.mark.slow

COMMANDS = [
    ["list"],
    ["status", "etl"],
    ["history"],
    ["history", "etl"],
    ["why", "etl", "2027-01-15T06:00"],
    ["why", failed_run()],
    ["explain", "etl"],
    ["catchup", "etl", "--dry-run"],
    ["backfill", "etl", "--from", "2027-01-15T05:00", "--to", "2027-01-15T08:00", "--dry-run"],
    ["upcoming"],
    ["plan", "--until", "2199-01-01", "-n", "5"],
    ["verify"],
    ["top", "--once"],
    ["doctor"],
    ["settings", "{folder}"],
]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_nothing_is_wider_than_the_terminal(folder, arguments):
    (folder / ".evertick").chmod(0o700)
    where = [] if arguments[0] == "settings" else ["--folder", str(folder)]
    # The ledger of these tests begins in the middle of a day, and that is found.
    code = 1 if arguments == ["verify"] else 0
    shown = on_a_terminal(*(one.format(folder=folder) for one in arguments), *where, code=code)
    lines = COLOURS.sub("", shown).splitlines()
    tables = [line for line in lines if "─" in line]
    assert all(len(line) <= 80 for line in tables)
    assert "\x1b" not in COLOURS.sub("", shown)
    assert "Traceback" not in shown
