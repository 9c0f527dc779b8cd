"""What `evertick simulate` shows of a folder."""

from __future__ import annotations

import json

from evertick.model.ledger import Batch, JobRecord
from evertick.stores import open_store
from tests.cli.invoke import NOW, code_of, make_folder, run

MONDAY = ["--after", "2027-03-01T00:00:00Z", "--days", "1"]


def simulate(folder, *options):
    result = run("simulate", folder, *MONDAY, "-o", "json", *options)
    assert code_of(result) == 0, result.output
    return json.loads(result.stdout)


def test_durations_come_from_the_ledger(tmp_path):
    make_folder(tmp_path)
    found = simulate(tmp_path)
    (etl,) = found["jobs"]
    assert (etl["job"], etl["runs"], etl["typical_seconds"], etl["duration_source"]) == ("etl", 24, 60.0, "measured")
    assert len(found["hours"]) == 24


def test_a_folder_without_a_ledger_assumes_durations(tmp_path):
    (tmp_path / "sync.yaml").write_text("schedule: '0 * * * *'\ncommand: x\n", encoding="utf-8")
    (sync,) = simulate(tmp_path, "--assume", "90m")["jobs"]
    assert (sync["duration_source"], sync["skipped"]) == ("assumed", {"overlap": 12})
    (sync,) = simulate(tmp_path, "--takes", "sync=10m")["jobs"]
    assert (sync["duration_source"], sync["skipped"]) == ("given", {})


def test_people_see_a_bar_for_each_hour(tmp_path):
    (tmp_path / "sync.yaml").write_text("schedule: '0 6 * * *'\ncommand: x\n", encoding="utf-8")
    shown = run("simulate", tmp_path, *MONDAY).output
    assert "Mon 2027-03-01       █" in shown
    assert "1 job without a measured duration" in shown


def test_an_invalid_duration_and_an_unknown_job_are_errors(tmp_path):
    (tmp_path / "sync.yaml").write_text("schedule: '0 6 * * *'\ncommand: x\n", encoding="utf-8")
    assert code_of(run("simulate", tmp_path, "--assume", "soon")) == 2
    result = run("simulate", tmp_path, "--takes", "snyc=5m")
    assert code_of(result) != 0
    assert "Did you mean 'sync'?" in str(result.exception)


def test_a_paused_job_is_left_out(tmp_path):
    make_folder(tmp_path)
    store = open_store(f"sqlite:///{tmp_path}/.evertick/ledger.db")
    store.commit(Batch(by="a1/7f#1", jobs=[JobRecord("etl", NOW, paused_at=NOW, held=True)]))
    store.close()
    assert simulate(tmp_path)["jobs"] == []
