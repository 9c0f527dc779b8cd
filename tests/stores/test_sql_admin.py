"""Does `evertick db` maintain a database, and report its findings?"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from evertick import __version__
from evertick.cli.commands.db import db
from evertick.cli.exits import exit_code
from evertick.errors import EvertickError
from evertick.model.lifecycle import SUCCEEDED
from evertick.store import Batch, JobRecord
from evertick.stores import open_store
from evertick.stores.sql.migrations import newest
from tests.stores.builders import NINE, TEN, asked, enter, occurrence, planned

NEWEST = newest()


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/evertick.db"


def run(*arguments: str) -> tuple[int, str]:
    """The exit code and the text that a person would see."""
    result = CliRunner().invoke(db, arguments)
    if isinstance(result.exception, EvertickError):
        return exit_code(result.exception), str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def fill(url: str) -> None:
    store = open_store(url)
    enter(store, planned(occurrence(NINE)), planned(occurrence(TEN), SUCCEEDED))
    store.commit(Batch(by="node-1", jobs=[JobRecord("report", NINE)], requests=[asked()]))
    store.close()


def test_migrate_makes_a_ledger_and_then_has_nothing_to_do(url):
    made = f"schema version {NEWEST}, written by Evertick {__version__}.\n"
    assert run("migrate", "--store", url) == (0, f"{url}: migrated; {made}")
    assert run("migrate", "--store", url) == (0, f"{url}: already up to date; {made}")


def test_check_reports_what_it_finds(url, tmp_path):
    fill(url)
    (tmp_path / "evertick.db").chmod(0o644)
    code, text = run("check", "--store", url)
    assert code == 0
    assert text.splitlines() == [
        "CHECK  FINDING",
        "ok     the file passed its full integrity check",
        f"warn   other users can read the file (mode 644). Next: chmod 600 {tmp_path}/evertick.db",
        "warn   no backup exists. Next: evertick db backup --store URL, or let the scheduler run for a day",
        f"ok     schema version {NEWEST}, written by Evertick {__version__}",
        "ok     entries: 2 (1 open), jobs: 1, unanswered requests: 1",
    ]


def test_check_answers_programs_too(url):
    fill(url)
    code, text = run("check", "--store", url, "-o", "json")
    findings = json.loads(text)
    assert code == 0
    assert {finding["is_fine"] for finding in findings} == {True, False}


def test_check_of_a_ledger_that_is_not_migrated_says_so(url, tmp_path):
    (tmp_path / "evertick.db").touch(0o600)
    code, text = run("check", "--store", url)
    assert code == 0
    assert (
        f"warn   schema version 0 is older than {NEWEST}, which this Evertick needs. Next: evertick db migrate" in text
    )


def test_check_does_not_create_a_ledger(url, tmp_path):
    code, text = run("check", "--store", url)
    assert (code, "no ledger at" in text) == (5, True)
    assert list(tmp_path.iterdir()) == []


def test_check_of_a_damaged_ledger_says_how_to_restore_it(url, tmp_path):
    fill(url)
    assert run("backup", "--store", url)[0] == 0
    (tmp_path / "evertick.db").write_bytes(b"\xff" * 9_000)
    code, text = run("check", "--store", url)
    assert code == 5
    (command,) = [line.split() for line in text.splitlines() if line.startswith("    evertick db")]
    assert run(*command[2:])[0] == 0
    assert run("check", "--store", url)[0] == 0


def test_a_copy_is_verified(url, tmp_path):
    fill(url)
    code, text = run("copy", url, f"sqlite:///{tmp_path}/other/evertick.db")
    assert (code, "Verified" in text) == (0, True)
    code, text = run("copy", url, f"sqlite:///{tmp_path}/other/evertick.db")
    assert (code, "Name an empty database" in text) == (5, True)
    code, text = run("copy", url, "files:///x")
    assert code == 2


def test_a_backup_is_made_whenever_it_is_asked_for(url):
    fill(url)
    made = [run("backup", "--store", url)[1].strip() for _ in range(2)]
    assert all(file.endswith("Z.db") for file in made)
    code, text = run("check", "--store", url)
    assert (code, "newest backup: " in text) == (0, True)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        pytest.param("postgresql://u@127.0.0.1:1/x", "pg_dump", id="PostgreSQL"),
        pytest.param("mysql://u@127.0.0.1:1/x", "mysqldump", id="MySQL"),
        pytest.param("files:///srv", "is not a database", id="files"),
        pytest.param("sqlite://", "needs a file", id="no file"),
    ],
)
def test_a_backup_that_is_not_ours_to_make_is_refused_in_words(url, says):
    code, text = run("backup", "--store", url)
    assert (code, says in text) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_a_server_is_migrated_and_checked(kind, request):
    url = request.getfixturevalue(f"fresh_{kind}")()
    assert "schema version 0" in run("check", "--store", url)[1]
    code, text = run("migrate", "--store", url)
    assert (code, f"migrated; schema version {NEWEST}" in text, "***" in text) == (0, True, True)
    code, text = run("check", "--store", url)
    assert (code, "entries: 0" in text) == (0, True)


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_an_unreachable_server_is_reported(scheme):
    code, text = run("check", "--store", f"{scheme}://u@127.0.0.1:1/x")
    assert (code, "did not answer" in text) == (5, True)
