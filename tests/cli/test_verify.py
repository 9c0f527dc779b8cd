"""What `evertick verify` finds in a ledger, and how it reports it."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest
from click.testing import CliRunner

from evertick.cli.app import evertick
from evertick.cli.exits import exit_code
from evertick.cli.times import now
from evertick.errors import EvertickError
from evertick.model.instant import MINUTE, from_text
from evertick.model.ledger import Batch, JobRecord, ScheduleLine, bucket_of
from evertick.model.lifecycle import PLANNED, SKIPPED, SkipReason, Trigger
from evertick.model.run import Entry, RunKey
from evertick.model.schedule import EverySpec, specs_to_text
from evertick.stores import open_store
from tests.cli.invoke import through_jq

NINE = from_text("2026-03-02T09:00:00Z")
EVERY_MINUTE = specs_to_text((EverySpec(MINUTE),))
STORES = [
    pytest.param("sqlite", id="SQLite"),
    pytest.param("files", id="files"),
    pytest.param("postgres", id="PostgreSQL", marks=pytest.mark.slow),
    pytest.param("mysql", id="MariaDB", marks=pytest.mark.slow),
]


def at(minute: int) -> int:
    return NINE + minute * MINUTE


def entry(minute: int, **known: Any) -> Entry:
    return Entry(RunKey("report", at(minute)), PLANNED, Trigger.SCHEDULER, NINE)._replace(**known)


def gap(first: int, last: int) -> Entry:
    reason, count = SkipReason.MISSED, last - first + 1
    return entry(first, state=SKIPPED, reason=reason, through=at(last), occurrences=count)


def write(url: str, *entries: Entry, watermark: int) -> None:
    """A job that is due every minute from nine on, planned up to the watermark, with these entries."""
    store = open_store(url)
    store.commit(
        Batch(
            by="node/1#1",
            entries=entries,
            jobs=[JobRecord("report", at(watermark))],
            schedules=[ScheduleLine("report", NINE, EVERY_MINUTE)],
        )
    )
    store.close()


@pytest.fixture(params=STORES)
def url(request, tmp_path):
    match request.param:
        case "sqlite":
            return f"sqlite:///{tmp_path}/evertick.db"
        case "files":
            return f"files://{tmp_path}/pipelines"
        case server:
            return request.getfixturevalue(f"fresh_{server}")()


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/evertick.db"


def run(*arguments: str, **environ: str):
    return CliRunner().invoke(evertick, ["verify", *arguments], env=environ)


def execute(url: str, statement: str, *values: object) -> int:
    """Change a SQLite ledger behind its back."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    with connection:
        changed = connection.execute(statement, values).rowcount
    connection.close()
    return changed


def delete_line(url: str, minute: int) -> None:
    assert execute(url, "DELETE FROM evertick_runs WHERE scheduled_for = ?", at(minute)) == 1


def counts(output: str) -> dict[str, str]:
    return {what.strip(): count for what, _, count in (line.rpartition(" ") for line in output.splitlines()[1:])}


def test_a_sound_ledger_is_reported_in_counts_and_ends_with_0(url):
    skipped = entry(4, state=SKIPPED, reason=SkipReason.OVERLAP)
    write(url, entry(1), gap(2, 3), skipped, entry(5), watermark=5)
    result = run("--store", url)
    assert (result.exit_code, result.stderr) == (
        0,
        "The ledger is consistent: it holds every occurrence up to the watermarks exactly once.\n",
    )
    assert counts(result.stdout) == {
        "occurrences": "5",
        "runs": "2",
        "skipped: missed": "2",
        "skipped: overlap": "1",
        "gaps": "1",
        "lost": "0",
        "duplicated": "0",
        "gaps with a wrong count": "0",
        "not in any schedule": "0",
        "stuck": "0",
        "wrong hourly counts": "0",
    }


def test_an_occurrence_without_a_line_is_lost_on_every_store(url):
    write(url, entry(1), entry(3), watermark=3)
    result = run("--store", url)
    assert result.exit_code == 1
    assert "lost: report: 2026-03-02T09:02:00Z is not in the ledger" in result.stdout.splitlines()
    assert counts(result.stdout)["lost"] == "1"


def test_a_line_deleted_behind_its_back_is_missed(sqlite_url):
    write(sqlite_url, *(entry(minute) for minute in range(1, 6)), watermark=5)
    assert run("--store", sqlite_url).exit_code == 0
    delete_line(sqlite_url, 2)
    delete_line(sqlite_url, 3)
    result = run("--store", sqlite_url)
    assert result.exit_code == 1
    assert "lost: report: 2 from 2026-03-02T09:02:00Z to 2026-03-02T09:03:00Z are not there" in result.stdout
    assert result.stderr.startswith("The ledger is inconsistent")


def test_a_line_inside_a_gap_is_a_second_decision(sqlite_url):
    write(sqlite_url, gap(1, 5), entry(6), watermark=6)
    assert execute(sqlite_url, "UPDATE evertick_runs SET scheduled_for = ? WHERE scheduled_for = ?", at(3), at(6)) == 1
    data = json.loads(run("--store", sqlite_url, "-o", "json").stdout)
    assert (data["lost"], data["duplicates"], data["is_sound"]) == (1, 1, False)
    assert [(finding["kind"], finding["job"]) for finding in data["findings"]] == [
        ("lost", "report"),
        ("duplicate", "report"),
    ]
    assert data["findings"][1]["text"].startswith("duplicate: report@2026-03-02T09:03:00Z: ")


def test_a_gap_that_counts_wrong_and_a_line_of_no_schedule_are_found(sqlite_url):
    write(sqlite_url, gap(1, 5), entry(6), watermark=6)
    execute(sqlite_url, "UPDATE evertick_runs SET occurrences = 4 WHERE scheduled_for = ?", at(1))
    execute(sqlite_url, "UPDATE evertick_runs SET scheduled_for = ? WHERE scheduled_for = ?", at(6) + 1, at(6))
    data = json.loads(run("--store", sqlite_url, "-o", "json").stdout)
    assert (data["miscounted"], data["strays"], data["lost"]) == (1, 1, 1)


def test_a_wrong_count_is_found_and_the_command_that_mends_it_is_named(sqlite_url):
    write(sqlite_url, entry(1), entry(2, state=SKIPPED, reason=SkipReason.OVERLAP), watermark=2)
    assert execute(sqlite_url, "UPDATE evertick_hour_counts SET occurrences = 7") == 1
    result = run("--store", sqlite_url)
    assert result.exit_code == 1
    assert (
        "wrong count: 2026-03-02T09:00:00Z: the counts of this hour say 1 entries with 7 occurrences skipped (overlap) "
        "by scheduler, the ledger has 1 with 1"
    ) in result.stdout
    assert "Run `evertick db recount`" in result.stderr
    done = CliRunner().invoke(evertick, ["db", "recount", "--store", sqlite_url])
    assert done.exit_code == 0
    assert "corrected 1 count." in done.stdout
    assert run("--store", sqlite_url).exit_code == 0


def test_many_findings_are_shortened_for_people_and_whole_for_programs(sqlite_url):
    write(sqlite_url, *(entry(minute) for minute in range(2, 61, 2)), watermark=60)
    result = run("--store", sqlite_url)
    assert result.stdout.count("lost: report:") == 20
    assert "... and 10 more. Use -o json to list all." in result.stderr
    assert len(json.loads(run("--store", sqlite_url, "-o", "json").stdout)["findings"]) == 30


def test_the_json_is_for_programs(sqlite_url):
    write(sqlite_url, gap(1, 11), entry(12), entry(14), watermark=14)
    result = run("--store", sqlite_url, "-o", "json")
    found = through_jq(result.stdout)
    names = ("is_sound", "occurrences", "runs", "gaps", "lost", "duplicates")
    assert (result.exit_code, [found[name] for name in names]) == (1, [False, 14, 2, 1, 1, 0])
    assert (found["skips"], found["findings"][0]["kind"]) == ({"missed": 11}, "lost")


def test_requested_runs_are_no_occurrences(sqlite_url):
    by_hand = Entry(RunKey("report", at(1) + 7, "request-1"), PLANNED, Trigger.MANUAL, NINE)
    write(sqlite_url, entry(1), by_hand, watermark=1)
    result = run("--store", sqlite_url)
    assert (result.exit_code, counts(result.stdout)["runs"]) == (0, "1")


def test_the_ledger_may_be_named_by_the_environment(sqlite_url):
    write(sqlite_url, entry(1), watermark=1)
    assert run(EVERTICK_STORE=sqlite_url).exit_code == 0


def test_a_scheduler_that_writes_between_two_reads_causes_no_finding(sqlite_url, monkeypatch):
    write(sqlite_url, entry(1), watermark=2)
    from evertick.operations import verification

    look = verification.verify_store

    def look_and_write(store, definitions, now):
        report = look(store, definitions, now)
        store.commit(Batch(by="node/1#2", entries=[entry(2)]))
        return report

    monkeypatch.setattr(verification, "verify_store", look_and_write)
    assert run("--store", sqlite_url).exit_code == 0


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        pytest.param("sqlite:///{tmp}/nothing.db", 5, "does not exist", id="a file that is not there"),
        pytest.param("files://{tmp}/nothing", 5, "does not exist", id="a folder that is not there"),
        pytest.param("postgresql://nobody@127.0.0.1:1/x", 5, "did not answer", id="a server that is away"),
        pytest.param("oracle://db", 2, "no known scheme", id="a store that does not exist"),
    ],
)
def test_a_ledger_that_cannot_be_read(tmp_path, url, code, words):
    result = run("--store", url.format(tmp=tmp_path))
    assert isinstance(result.exception, EvertickError)
    assert (exit_code(result.exception), words in str(result.exception)) == (code, True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_a_scheduler_has_open_cannot_be_read(tmp_path):
    url = f"files://{tmp_path}/pipelines"
    store = open_store(url)
    result = run("--store", url)
    store.close()
    assert isinstance(result.exception, EvertickError)
    assert exit_code(result.exception) == 5
    assert "another process is using the ledger" in str(result.exception)


def test_without_a_ledger_the_way_to_one_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run()
    assert isinstance(result.exception, EvertickError)
    assert (exit_code(result.exception), "--store" in str(result.exception)) == (5, True)


def test_an_entry_that_is_overdue_beside_a_scheduler_at_work_is_stuck(url):
    write(url, entry(1), watermark=1)
    store = open_store(url)
    store.commit(Batch(by="node/1#2", floors={bucket_of("report"): now()}, jobs=[JobRecord("report", at(1))]))
    store.commit(Batch(by="node/1#3", schedules=[ScheduleLine("report", at(1), "[]")]))
    store.close()
    result = run("--store", url, "-o", "json")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["is_sound"], data["stuck"]) == (1, False, 1)
    assert [finding["kind"] for finding in data["findings"]] == ["stuck"]
    assert "The scheduler retries them" in result.stderr
