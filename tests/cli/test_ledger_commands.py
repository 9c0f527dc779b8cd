"""What the daily commands show and request, on a ledger without a running scheduler."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from evertick.definitions.source import load_folder
from evertick.executors.logs import FOLDER
from evertick.executors.paths import run_folder
from evertick.location import lock_path, own_ledger_url
from evertick.loop.messages import BackfillJob, TriggerJob
from evertick.model.definition import definition_text
from evertick.model.instant import HOUR, to_text
from evertick.model.ledger import Batch, DefinitionLine, RequestKind
from evertick.model.lifecycle import LAUNCHING, Trigger
from evertick.model.run import Change, RunKey
from evertick.operations.requests import message_of
from evertick.settings import Settings
from evertick.stores import open_store
from evertick.stores.lock import FolderLock
from tests.cli.invoke import NOW, code_of, failed_run, hour, requests_in, run


def test_list_shows_the_states_of_jobs(folder):
    rows = {row["job"]: row for row in json.loads(run("list", "--folder", folder, "-o", "json").stdout)["items"]}
    assert list(rows) == ["etl", "export"]
    assert (rows["etl"]["status"], rows["etl"]["last"]["state"]) == ("idle", "failed")
    lines = run("list", "--folder", folder).stdout.splitlines()
    assert lines[0].split()[:4] == ["JOB", "STATUS", "LIGHT", "NEXT"]
    assert lines[1].split()[:4] == ["etl", "idle", "down", "30m"]


def test_a_folder_that_was_taken_for_a_search_is_named_with_the_option(folder, tmp_path, monkeypatch):
    (tmp_path / "my jobs").mkdir()
    monkeypatch.chdir(tmp_path)
    found = run("list", "my jobs", "--folder", folder)
    assert "'my jobs' is a folder. Next: evertick list --folder 'my jobs'" in found.stderr
    assert "is a folder" not in run("list", "nosuch", "--folder", folder).stderr


def test_list_filters_by_status_and_names_those_there_are(folder):
    paused = json.loads(run("list", "--folder", folder, "--status", "paused", "-o", "json").stdout)
    assert (paused["items"], paused["statuses"]) == ([], {"idle": 2})
    assert "No jobs match that status" in run("list", "--folder", folder, "--status", "paused").stderr
    assert code_of(run("list", "--folder", folder, "--status", "asleep")) == 2


def test_list_without_a_ledger_shows_the_folder_and_says_what_to_do(tmp_path):
    (tmp_path / "a.yaml").write_text("schedule: '* * * * *'\ncommand: x\n", encoding="utf-8")
    result = run("list", "--folder", tmp_path)
    assert "a" in result.stdout
    assert "Next: evertick serve" in result.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "a.yaml"]


@pytest.mark.parametrize("command", [["list"], ["upcoming"], ["history"]], ids=" ".join)
def test_a_named_ledger_that_does_not_exist_is_not_taken_for_an_empty_one(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    result = run(*command, "--store", f"sqlite:///{tmp_path}/no.db")
    assert (code_of(result), "does not exist" in str(result.exception)) == (5, True)


def test_list_of_files_that_are_all_wrong_leads_to_them_and_not_to_a_first_job(tmp_path):
    (tmp_path / "bad.yaml").write_text("comand: x\n", encoding="utf-8")
    told = run("list", "--folder", tmp_path).stderr
    assert "Next: evertick validate" in told
    assert "init" not in told


def test_a_file_cannot_be_served_as_a_folder(tmp_path):
    (tmp_path / "job.yaml").write_text("command: x\n", encoding="utf-8")
    result = run("serve", tmp_path / "job.yaml")
    assert (code_of(result), f"evertick run {tmp_path}/job.yaml" in str(result.exception)) == (3, True)


def test_list_of_nothing_offers_init(tmp_path):
    result = run("list", "--folder", tmp_path)
    assert (result.exit_code, result.stdout, "evertick init" in result.stderr) == (0, "", True)


def test_status_without_a_job_shows_an_overview(folder):
    data = json.loads(run("status", "--folder", folder, "-o", "json").stdout)
    assert data["jobs"]["total"] == 2
    result = run("status", "--folder", folder)
    assert "jobs: 2 (2 idle)" in result.stdout
    assert "Next: evertick serve" in result.stderr


def test_status_shows_the_facts_and_the_last_runs(folder):
    data = json.loads(run("status", "etl", "--folder", folder, "-o", "json").stdout)
    assert [row["state"] for row in data["runs"]] == ["planned", "skipped", "failed"]
    assert data["is_scheduler_running"] is False
    result = run("status", "etl", "--folder", folder)
    assert "0 * * * * (UTC)" in result.stdout
    assert "skipped: overlap" in result.stdout
    assert "No scheduler is running" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        *([name, "elt"] for name in ("status", "trigger", "pause", "resume", "cancel", "why", "explain", "history")),
        ["retry", "elt@2026-03-02T09:00:00Z"],
        ["catchup", "--dry-run", "elt"],
        ["backfill", "elt", "--from", "2026-03-01", "--to", "2026-03-02"],
        ["plan", "--until", "2030-01-01", "--job", "elt"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_job_that_is_not_there_is_3_and_the_nearest_is_named(folder, arguments):
    where = [folder] if arguments[0] == "plan" else ["--folder", folder]
    result = run(*arguments, *where)
    assert (code_of(result), result.stdout) == (3, "")
    assert "Did you mean 'etl'?" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        pytest.param(["trigger", "etl"], RequestKind.TRIGGER, id="trigger"),
        pytest.param(["pause", "etl", "--note", "a move"], RequestKind.PAUSE, id="pause"),
        pytest.param(["resume", "etl", "--catchup", "latest"], RequestKind.RESUME, id="resume"),
        pytest.param(["cancel", "etl"], RequestKind.CANCEL, id="cancel"),
    ],
)
def test_without_a_scheduler_the_request_is_queued_and_the_command_reports_it(folder, arguments, kind):
    result = run(*arguments, "--folder", folder, "-o", "json")
    (request,) = requests_in(folder)
    assert (result.exit_code, request.kind) == (0, kind)
    assert "No scheduler is running. The request is queued and will run when one starts." in result.stderr
    assert json.loads(result.stdout) == {
        "request": request.id,
        "job": "etl",
        "is_answered": False,
        "answer": None,
        "run": None,
        "is_scheduler_running": False,
    }
    message_of(request)


def test_a_request_is_shown_by_its_id_to_people(folder):
    result = run("trigger", "etl", "--folder", folder)
    assert result.stdout.strip() == requests_in(folder)[0].id


def test_waiting_for_a_run_that_does_not_start_times_out(folder):
    assert run("trigger", "etl", "--wait", "--folder", folder).exit_code == 124


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(
            ["trigger", "export", "-p", "FORMAT=xml"], 2, "one of csv, json", id="a value that is not allowed"
        ),
        pytest.param(["trigger", "export", "-p", "FORMAT"], 2, "Write NAME=VALUE", id="no value"),
        pytest.param(["trigger", "etl", "--timeout", "3"], 2, "needs --wait", id="a timeout without waiting"),
        pytest.param(["retry", "etl@noon"], 2, "invalid run id", id="a retry of no run"),
        pytest.param(["why", "etl", "noon"], 2, "is not a time", id="no time"),
        pytest.param(["why", "etl@2026-03-02T09:00:00Z", "now"], 2, "includes its time", id="two times"),
        pytest.param(["backfill", "etl", "--to", "2026-03-02"], 2, "--from and --to", id="half a window"),
        pytest.param(["history", "--state", "faild"], 2, "Did you mean 'failed'", id="a mistyped state"),
        pytest.param(["backfill", "etl", "--cancel", "b9"], 3, "has no backfill 'b9'", id="a backfill that never was"),
        pytest.param(["history", "--store", "sqlite:////nowhere/x.db"], 5, "does not exist", id="no ledger"),
    ],
)
def test_a_mistake_has_its_exit_code_and_writes_nothing(folder, arguments, code, words):
    result = run(*arguments, "--folder", folder)
    assert (code_of(result), result.stdout) == (code, "")
    assert words in (str(result.exception) + result.stderr)
    assert requests_in(folder) == []


def test_a_run_that_has_ended_cannot_be_cancelled_and_one_that_has_not_cannot_be_retried(folder):
    assert code_of(run("cancel", failed_run(), "--folder", folder)) == 6
    assert code_of(run("retry", RunKey("etl", hour(0)).run_id, "--folder", folder)) == 6


def test_a_retry_is_for_the_same_time(folder):
    assert run("retry", failed_run(), "--folder", folder).exit_code == 0
    message = message_of(requests_in(folder)[0])
    assert isinstance(message, TriggerJob)
    assert (message.trigger, message.submitted_at) == (Trigger.RETRY, hour(2))


def test_history_is_paged_and_says_how_to_continue(folder):
    result = run("history", "etl", "-n", "2", "--folder", folder, "-o", "json")
    data = json.loads(result.stdout)
    assert [row["state"] for row in data["items"]] == ["planned", "skipped"]
    assert f"--after {data['next']}" in result.stderr
    rest = json.loads(run("history", "etl", "--after", data["next"], "--folder", folder, "-o", "json").stdout)
    assert ([row["run"] for row in rest["items"]], rest["next"]) == ([failed_run()], None)


@pytest.mark.parametrize(
    ("options", "states"),
    [
        pytest.param(["--state", "failed"], ["failed"], id="by state"),
        pytest.param(["--reason", "overlap"], ["skipped"], id="by reason"),
        pytest.param(["--trigger", "manual"], [], id="by trigger"),
        pytest.param(["--until", "2027-01-15T06:00"], ["failed"], id="before a time"),
        pytest.param(["--since", "2027-01-15T07:00"], ["planned"], id="since a time"),
    ],
)
def test_history_is_filtered(folder, options, states):
    assert [
        row["scheduled_for"] for row in json.loads(run("history", "--folder", folder, "-o", "json").stdout)["items"]
    ] == [
        "2027-01-15T07:00:00Z",
        "2027-01-15T06:00:00Z",
        "2027-01-15T05:00:00Z",
    ]
    result = run("history", "etl", *options, "--folder", folder, "-o", "json")
    assert [row["state"] for row in json.loads(result.stdout)["items"]] == states


@pytest.mark.parametrize("time", ["-1h30m", "1h30m"])
def test_why_takes_a_relative_time_as_it_is_written_elsewhere(folder, time):
    result = run("why", "etl", time, "--folder", folder)
    assert code_of(result) == 0
    assert result.stdout.startswith("etl  2027-01-15 06:00 UTC   skipped: overlap")


def test_why_has_a_heading_and_sentences(folder):
    result = run("why", "etl", "2027-01-15T06:00", "--folder", folder)
    lines = result.stdout.splitlines()
    assert lines[0] == "etl  2027-01-15 06:00 UTC   skipped: overlap"
    assert lines[2] == "  rule: overlap: skip, from default"
    data = json.loads(run("why", failed_run(), "--folder", folder, "-o", "json").stdout)
    assert (data["outcome"], data["run"]["exit_code"], data["next_steps"][-1]) == (
        "failed",
        3,
        {"kind": "retry", "text": "to retry it", "command": f"evertick retry {failed_run()}"},
    )


def test_a_dry_backfill_is_a_table_and_asks_for_nothing(folder):
    window = ["--from", "2027-01-15T05:00", "--to", "2027-01-15T08:00"]
    result = run("backfill", "etl", *window, "--dry-run", "--folder", folder, "-o", "json")
    assert [(row["is_chosen"], row["why"]) for row in json.loads(result.stdout)["candidates"]] == [
        (True, "failed"),
        (True, "skipped: overlap"),
        (False, "planned (scheduler)"),
    ]
    assert "2 of 3 occurrences would run." in result.stderr
    assert requests_in(folder) == []


def test_a_backfill_is_one_request_with_its_own_rule(folder):
    window = ["--from", "2027-01-15T05:00", "--to", "2027-01-15T08:00"]
    result = run("backfill", "etl", *window, "--overlap", "parallel(2)", "--rate", "1.5", "--folder", folder)
    message = message_of(requests_in(folder)[0])
    assert result.exit_code == 0
    assert isinstance(message, BackfillJob)
    assert (message.instants, str(message.overlap), message.gap_us) == ([hour(2), hour(1)], "parallel(2)", 1_500_000)
    cancelled = run("backfill", "etl", "--cancel", message.request_id, "--folder", folder, "-o", "json")
    assert json.loads(cancelled.stdout)["cancelled"] == 2
    assert len(requests_in(folder)) == 3


def test_a_backfill_with_nothing_to_do_asks_for_nothing(folder):
    result = run("backfill", "etl", "--from", "2027-01-15T07:00", "--to", "2027-01-15T07:30", "--folder", folder)
    assert (result.exit_code, requests_in(folder)) == (0, [])
    assert "Use --all to run them again." in result.stderr


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param(
            "{skip: off}",
            "The calendar off excludes all 2 occurrences in that range. "
            "Correct the calendar off, or run the job now: evertick trigger report\n",
            id="excluded",
        ),
        pytest.param(
            "{skip: off, shift: next}",
            "The calendar off moves all 2 occurrences in that range, the first to 2026-03-04 09:00. "
            "Choose a range with that time.\n",
            id="moved",
        ),
    ],
)
def test_a_backfill_of_excluded_days_only_names_their_calendar(tmp_path, rule, text):
    settings = '[calendars]\noff = {dates = ["2026-03-02", "2026-03-03"]}\n'
    (tmp_path / "evertick.toml").write_text(settings, encoding="utf-8")
    job = f"schedule: '0 9 * * *'\ncalendar: {rule}\ncommand: x\n"
    (tmp_path / "report.yaml").write_text(job, encoding="utf-8")
    store = open_store(f"sqlite:///{tmp_path}/.evertick/ledger.db")
    store.close()
    days = ["--from", "2026-03-02", "--to", "2026-03-04"]
    result = run("backfill", "report", *days, "--folder", tmp_path)
    assert (result.exit_code, result.stderr) == (0, text)
    data = json.loads(run("backfill", "report", *days, "--folder", tmp_path, "-o", "json").stdout)
    assert (data["total"], data["excluded"]["calendars"], data["excluded"]["occurrences"]) == (0, ["off"], 2)


def test_catchup_shows_what_a_start_would_do(folder, monkeypatch):
    monkeypatch.setattr("evertick.cli.times.now", lambda: NOW + 3 * HOUR)
    data = json.loads(run("catchup", "--dry-run", "etl", "--keep", "latest", "--folder", folder, "-o", "json").stdout)
    assert (data["kept"], data["skipped"]) == (1, 3)
    result = run("catchup", "--dry-run", "etl", "--folder", folder)
    assert "0 would run and 4 would be skipped" in result.stderr


def test_catchup_in_a_blackout_shows_what_the_end_of_it_will_do(folder):
    run("blackout", "add", "--to", to_text(NOW + 3 * HOUR), "--job", "etl", "--folder", folder)
    result = run("catchup", "--dry-run", "etl", "--folder", folder)
    assert "This is what its end will do." in result.stderr
    assert "4 would be skipped at the end of the blackout" in result.stderr


def test_plan_lists_what_fires_and_that_there_is_more(folder):
    result = run("plan", folder, "--until", "2027-01-15T12:00:00Z", "-n", "2", "-o", "json")
    assert [(row["scheduled_for"], row["what"]) for row in json.loads(result.stdout)["items"]] == [
        ("2027-01-15T08:00:00Z", "run"),
        ("2027-01-15T09:00:00Z", "run"),
    ]
    assert "Only the first 2" in result.stderr


def test_explain_shows_each_rule_with_its_place(folder):
    rules = {rule["name"]: rule for rule in json.loads(run("explain", "etl", "--folder", folder, "-o", "json").stdout)}
    assert rules["start.0"]["origin"] == f"{folder}/etl.yaml:1"
    assert "RULE" in run("explain", "etl", "--folder", folder).stdout


@pytest.fixture
def defined(folder):
    """The run that failed names what its job was."""
    job = load_folder(folder, Settings()).jobs["etl"]
    store = open_store(f"sqlite:///{folder}/.evertick/ledger.db")
    key = RunKey("etl", hour(0))
    told = DefinitionLine("etl", job.definition, hour(24), definition_text(job))
    store.commit(Batch(by="a1", definitions=[told]))
    store.record([Change(key, LAUNCHING, hour(0), 1, 1, definition=job.definition)])
    store.close()
    return key.run_id


def test_explain_of_a_run_shows_the_definition_it_ran(folder, defined):
    result = run("explain", defined, "--folder", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1].strip() == "command: x"


def test_explain_of_a_run_marks_what_has_changed_since(folder, defined):
    (folder / "etl.yaml").write_text("schedule: '0 * * * *'\ntimezone: UTC\ncommand: y\n", encoding="utf-8")
    result = run("explain", defined, "--folder", folder)
    assert [line for line in result.stdout.splitlines() if line[0] in "+-"] == [
        "-       command: x",
        "+       command: y",
    ]
    assert "has changed" in result.stderr
    told = json.loads(run("explain", defined, "--folder", folder, "-o", "json").stdout)
    assert (told["is_current"], "command: x" in told["text"]) == (False, True)


def test_explain_of_a_run_without_a_definition_names_the_reason(folder):
    result = run("explain", failed_run(), "--folder", folder)
    assert code_of(result) == 3
    assert "was not recorded" in str(result.exception)


@pytest.fixture
def logs(folder):
    """Two steps of the second attempt, and one of the first."""
    for attempt, step, text in ((1, "build", "old\n"), (2, "build", "new\n"), (2, "test", "\x1b[31mred\n")):
        place = folder.joinpath(".evertick", FOLDER, *run_folder(RunKey("etl", hour(2))), str(attempt))
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{step}.log").write_text(text, encoding="utf-8")
    return folder


def test_logs_are_those_of_the_last_attempt_as_they_were_printed(logs):
    result = run("logs", failed_run(), "--folder", logs)
    assert (result.exit_code, result.stdout) == (0, "new\n\x1b[31mred\n")
    assert result.stderr.splitlines() == ["==> build (attempt 2)", "==> test (attempt 2)"]


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        pytest.param(["--step", "build"], "new\n", id="of one step"),
        pytest.param(["--attempt", "1"], "old\n", id="of one attempt"),
        pytest.param(["--step", "build", "--follow"], "old\nnew\n", id="all that comes until its end"),
    ],
)
def test_logs_may_be_chosen(logs, options, printed):
    assert run("logs", failed_run(), *options, "--folder", logs).stdout == printed


def test_logs_are_found_beside_a_ledger_that_is_named(logs):
    store = f"sqlite:///{logs}/.evertick/ledger.db"
    data = json.loads(run("logs", failed_run(), "--store", store, "-o", "json").stdout)
    assert [(log["attempt"], log["step"], log["text"]) for log in data] == [
        (1, "build", "old\n"),
        (2, "build", "new\n"),
        (2, "test", "\x1b[31mred\n"),
    ]


def test_an_attempt_that_was_not_made_is_not_found(logs):
    result = run("logs", failed_run(), "--attempt", "9", "--folder", logs)
    assert (code_of(result), "has no attempt 9; it has 2 attempts" in str(result.exception)) == (3, True)


def test_a_heading_begins_a_line_after_output_that_did_not_end_its_own(logs):
    (build,) = (logs / ".evertick").rglob("2/build.log")
    build.write_text("no newline", encoding="utf-8")
    os.utime(build, (1, 1))  # it came first
    result = run("logs", failed_run(), "--folder", logs)
    assert result.stdout == "no newline\x1b[31mred\n"
    assert result.stderr == "==> build (attempt 2)\n\n==> test (attempt 2)\n"


def test_a_step_that_printed_nothing_names_those_that_did(logs):
    result = run("logs", failed_run(), "--step", "tset", "--folder", logs)
    assert (code_of(result), "'build' or 'test'" in str(result.exception)) == (3, True)


def test_a_terminal_gets_colours_and_nothing_else_that_it_would_obey(logs, monkeypatch):
    monkeypatch.setattr("evertick.cli.live_view.is_terminal", lambda _: True)
    place = logs.joinpath(".evertick", FOLDER, *run_folder(RunKey("etl", hour(2))), "3")
    place.mkdir()
    (place / "x.log").write_bytes(b"\x1b[31mred\x1b[0m\r\n\x1b]0;title\x07 \rover \xc2\x9b2J \xc3\xa4\n")
    printed = run("logs", failed_run(), "--folder", logs).stdout
    assert printed == "\x1b[31mred\x1b[0m\n\\x1b]0;title\\x07 \\x0dover \\xc2\\x9b2J ä\n"


def test_logs_that_are_elsewhere_are_reported(folder):
    result = run("logs", failed_run(), "--folder", folder)
    assert (code_of(result), "--folder" in str(result.exception)) == (3, True)


def test_a_run_without_logs_leads_to_why(folder):
    folder.joinpath(".evertick", FOLDER).mkdir()
    assert f"Next: evertick why {failed_run()}" in run("logs", failed_run(), "--folder", folder).stderr


def test_init_writes_a_job_that_is_valid_and_never_overwrites(tmp_path):
    result = run("init", tmp_path / "jobs")
    assert result.stdout == f"{tmp_path}/jobs/hello.yaml\n"
    found = load_folder(tmp_path / "jobs", Settings())
    assert (list(found.jobs), dict(found.errors), dict(found.warnings)) == (["hello"], {}, {})
    (tmp_path / "jobs" / "hello.yaml").write_text("mine", encoding="utf-8")
    assert code_of(run("init", tmp_path / "jobs")) == 6
    assert (tmp_path / "jobs" / "hello.yaml").read_text(encoding="utf-8") == "mine"


def test_every_comment_of_the_first_job_can_be_turned_on(tmp_path):
    run("init", tmp_path)
    file = tmp_path / "hello.yaml"
    fields = ("timezone:", "catchupWindow:", "overlapPolicy:", "retryPolicy:")
    lines = file.read_text(encoding="utf-8").splitlines()
    turned = [
        line.removeprefix("# ") if line.startswith(tuple(f"# {field}" for field in fields)) else line for line in lines
    ]
    assert turned != lines
    file.write_text("\n".join(turned), encoding="utf-8")
    assert load_folder(tmp_path, Settings()).errors == {}


def test_the_ledger_of_the_present_folder_is_found(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert len(json.loads(run("list", "-o", "json").stdout)["items"]) == 2
    assert run("history").exit_code == 0


def test_without_any_ledger_the_way_to_one_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("history")
    assert (code_of(result), "has no ledger" in str(result.exception)) == (5, True)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_named_by_the_environment_does_not_make_the_files_here_its_jobs(folder, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "stranger.yaml").write_text("command: x\n", encoding="utf-8")
    monkeypatch.chdir(elsewhere)
    rows = json.loads(run("list", "-o", "json", EVERTICK_STORE=f"sqlite:///{folder}/.evertick/ledger.db").stdout)
    assert [row["job"] for row in rows["items"]] == ["etl", "export"]


def test_a_folder_of_files_that_a_scheduler_has_open_is_a_conflict(tmp_path):
    url = f"files://{tmp_path}/pipelines"
    store = open_store(url)
    result = run("history", "--store", url)
    store.close()
    assert code_of(result) == 6


@pytest.mark.parametrize("command", ["trigger", "pause", "why"])
def test_the_result_is_on_stdout_and_nothing_else_is(folder, command):
    result = run(command, "etl", "--folder", folder, "-o", "json")
    assert json.loads(result.stdout)["job"] == "etl"


def test_every_command_has_its_place_in_the_docs():
    from evertick.cli.app import COMMANDS

    page = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"\n## evertick {name}\n" not in page] == []


def test_explain_shows_the_user_and_the_sandbox_of_a_job(folder):
    text = "command: x\nuser: nobody\nsandbox: {kind: bwrap, writable: [/srv/out], network: true}\n"
    (folder / "apart.yaml").write_text(text, encoding="utf-8")
    rules = {
        rule["name"]: (rule["value"], rule["origin"])
        for rule in json.loads(run("explain", "apart", "--folder", folder, "-o", "json").stdout)
    }
    assert rules["user"] == ("nobody", f"{folder}/apart.yaml:2")
    assert rules["sandbox"] == ("bwrap, network, writable: /srv/out", f"{folder}/apart.yaml:3")
    assert "sandbox: bwrap, network, writable: /srv/out" in definition_text(
        load_folder(folder, Settings()).jobs["apart"]
    )


def test_a_command_caches_parsed_files_unless_a_scheduler_runs(tmp_path):
    """After an upgrade the cache counts for nothing, and commands parse every file until somebody writes it."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "report.yaml").write_text("schedule: '0 9 * * *'\ncommand: one\n")
    cache = folder / ".evertick" / "definitions.cache"
    assert run("list", "--folder", str(folder)).exit_code == 0
    assert not cache.parent.exists()
    cache.parent.mkdir(mode=0o700)
    url = own_ledger_url(cache.parent)
    open_store(url).close()
    lock = lock_path(url)
    assert lock is not None
    held = FolderLock(lock)
    held.acquire(NOW)
    assert run("list", "--folder", str(folder)).exit_code == 0
    assert not cache.exists()
    held.release()
    assert run("list", "--folder", str(folder)).exit_code == 0
    assert cache.exists()
