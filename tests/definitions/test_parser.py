"""Whether each way to write a job gives the intended job."""

from __future__ import annotations

import os

import pytest

from evertick.definitions.catalogue.job import PIPELINE
from evertick.definitions.nodes import plain_data
from evertick.definitions.parsed_file import Parsed
from evertick.definitions.parser import parse_definition
from evertick.definitions.schema import job_schema
from evertick.definitions.source import warnings_at
from evertick.definitions.yaml import read_yaml
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, from_text
from evertick.model.policy import Backoff, Missed, OnExecutorLost, Overlap, OverlapKind, Policy, Retry, Scope
from evertick.model.schedule import AtSpec, CronSpec, EverySpec
from evertick.model.work import Command, ContinueOn, Pipeline, Secret, Step, Work
from evertick.settings import Settings
from tests.definitions.mini_schema import misfits

SCHEMA = job_schema()


def parsed(text: str, file: str = "jobs/report.yaml", settings: Settings | None = None) -> Parsed:
    return parse_definition(text, file, settings)


def job_of(text: str, file: str = "jobs/report.yaml", settings: Settings | None = None):
    result = parsed(text, file, settings)
    assert [str(error) for error in result.errors] == []
    assert result.job is not None
    # What the parser takes, an editor must not underline.
    root = read_yaml(text).root
    assert root is not None
    assert list(misfits(plain_data(root), SCHEMA, SCHEMA)) == []
    return result.job


class TestWholeFiles:
    def test_a_daily_report_that_catches_up(self):
        job = job_of(
            """
name: daily-report
schedule: "0 9 * * *"
catchupWindow: "12h"
overlapPolicy: skip
steps:
  - name: generate
    command: python report.py
"""
        )
        assert job.schedules == (CronSpec("0 9 * * *", "UTC", "daily-report"),)
        assert job.policy == Policy(missed=Missed.FIRST, catchup_window_us=12 * HOUR)
        assert job.steps == (Step("generate", Command(("python report.py",), is_shell=True)),)

    def test_several_schedules_under_one_policy_and_nothing_to_run_yet(self):
        result = parsed(
            """
name: multi-schedule
schedule:
  - "0 * * * *"
  - "30 9 * * *"
catchupWindow: "6h"
overlapPolicy: all
command: x
"""
        )
        assert result.job is not None
        assert [spec.text for spec in result.job.schedules if isinstance(spec, CronSpec)] == ["0 * * * *", "30 9 * * *"]
        assert result.job.policy.missed is Missed.ALL
        assert result.job.policy.overlap == Overlap(OverlapKind.WAIT)
        assert result.warnings == ()

    def test_a_pipeline_with_every_field_of_the_schedule_block(self):
        job = job_of(
            """
name: "Daily Bug Report"
description: "Generate daily bug triage report"
schedule:
  cron: "0 9 * * 1-5"
  timezone: "America/New_York"
  enabled: true
  retryPolicy:
    maxRetries: 5
    retryDelayMs: 300000
  missedExecution: "skip"
  window:
    maxDelayMinutes: 30
input:
  from: { type: csv, path: "bugs.csv" }
map:
  prompt: "Analyze bug: {{title}}"
  output: [severity, category]
reduce:
  type: json
""",
            "pipelines/daily-report/pipeline.yaml",
        )
        assert (job.id, job.name) == ("daily-report", "Daily Bug Report")
        assert job.schedules == (CronSpec("0 9 * * 1-5", "America/New_York", "daily-report"),)
        assert job.policy.retry == Retry(5, 5 * MINUTE)
        assert job.policy.missed is Missed.NONE
        assert job.policy.max_delay_us == 30 * MINUTE
        data = {
            "input": {"from": {"type": "csv", "path": "bugs.csv"}},
            "map": {"prompt": "Analyze bug: {{title}}", "output": ["severity", "category"]},
            "reduce": {"type": "json"},
        }
        step = Step("pipeline", Pipeline(data), output="PIPELINE_RESULT")
        assert job.work == Work((step,), working_dir=os.path.abspath("pipelines/daily-report"))

    def test_a_pipeline_may_use_every_field_that_pipelines_have(self):
        text = "input: {items: [{a: 1}]}\nfilter: {type: rule}\njob: {prompt: x}\nparameters: [{name: a, value: b}]\n"
        text += "workingDirectory: ..\nmap: {prompt: x}\nreduce: {type: list}\n"
        text += "invoker: {http: {url: https://x, keyEnv: MODEL_KEY}}\nfailWhen: 10%\nresultFile: out.json\n"
        job = job_of(text, "p/sync/pipeline.yml")
        (step,) = job.steps
        assert set(step.kind.data) == set(PIPELINE)
        assert job.work.env == (("MODEL_KEY", Secret("env", "MODEL_KEY")),)

    def test_a_job_can_be_hashed_and_compared(self):
        text = "schedule: '@daily'\ncommand: x\n"
        assert job_of(text) == job_of(text)
        assert hash(job_of("input: {}\nmap: {}\n", "a/pipeline.yaml")) == hash(job_of("input: {}\n", "a/pipeline.yaml"))

    def test_every_field_beside_the_schedule(self):
        job = job_of(
            """
name: Everything
description: |
  Two
  lines.
timezone: Asia/Tokyo
enabled: false
priority: -5
tags: [a, b, a]
schedule: {every: 250ms}
missed: all
catchupWindow: 2d12h
overlap: parallel(3)
scope: executor
grace: 90s
window: {maxDelayMinutes: 5}
skipIfSuccessful: true
retryPolicy: {maxRetries: 2, retryDelay: 5s, backoff: exponential, maxDelay: 1m, jitter: 0.25}
onExecutorLost: fail
command: [python, -m, report, 7, "", true]
"""
        )
        assert job.id == "everything"
        assert (job.description, job.timezone, job.enabled, job.priority) == ("Two\nlines.\n", "Asia/Tokyo", False, -5)
        assert job.tags == ("a", "b")
        assert job.schedules == (EverySpec(250_000),)
        assert job.policy == Policy(
            missed=Missed.ALL,
            catchup_window_us=2 * DAY + 12 * HOUR,
            overlap=Overlap(OverlapKind.PARALLEL, 3, Scope.EXECUTOR),
            grace_us=90 * SECOND,
            max_delay_us=5 * MINUTE,
            skip_if_successful=True,
            retry=Retry(2, 5 * SECOND, Backoff.EXPONENTIAL, MINUTE, 0.25),
            on_executor_lost=OnExecutorLost.FAIL,
        )
        assert job.steps == (Step("main", Command(("python", "-m", "report", "7", "", "true"))),)


@pytest.mark.parametrize(
    ("written", "starts"),
    [
        pytest.param("'0 9 * * *'", [CronSpec("0 9 * * *", "UTC", "report")], id="a text"),
        pytest.param(
            "['0 9 * * *', '@daily']",
            [CronSpec("0 9 * * *", "UTC", "report"), CronSpec("@daily", "UTC", "report")],
            id="a list",
        ),
        pytest.param("['@daily', '@daily']", [CronSpec("@daily", "UTC", "report")], id="the same twice is once"),
        pytest.param("{start: '0 9 * * *'}", [CronSpec("0 9 * * *", "UTC", "report")], id="a map with start"),
        pytest.param("{cron: '0 9 * * *'}", [CronSpec("0 9 * * *", "UTC", "report")], id="a block"),
        pytest.param(
            "{cron: ['0 9 * * *', '@daily']}",
            [CronSpec("0 9 * * *", "UTC", "report"), CronSpec("@daily", "UTC", "report")],
            id="a block with two expressions",
        ),
        pytest.param("{every: 10s}", [EverySpec(10 * SECOND)], id="an interval"),
        pytest.param(
            "[{every: 10s}, '@daily']",
            [EverySpec(10 * SECOND), CronSpec("@daily", "UTC", "report")],
            id="a list of mixed kinds",
        ),
        pytest.param(
            "{at: '2027-03-01T09:00:00+01:00'}",
            [AtSpec(from_text("2027-03-01T08:00:00Z"))],
            id="a moment with an offset",
        ),
        pytest.param(
            "{at: 2027-03-01T09:00:00Z}", [AtSpec(from_text("2027-03-01T09:00:00Z"))], id="a moment without quotes"
        ),
        pytest.param(
            "{at: '2027-07-01 09:00', timezone: Europe/Berlin}",
            [AtSpec(from_text("2027-07-01T07:00:00Z"))],
            id="a local moment of a zone",
        ),
        pytest.param(
            "'CRON_TZ=Asia/Tokyo 0 9 * * *'",
            [CronSpec("0 9 * * *", "Asia/Tokyo", "report")],
            id="a zone before the expression",
        ),
        pytest.param(
            "{cron: 'CRON_TZ=Asia/Tokyo @daily', timezone: Asia/Tokyo}",
            [CronSpec("@daily", "Asia/Tokyo", "report")],
            id="the same zone twice",
        ),
        pytest.param("'H 3 * * *'", [CronSpec("H 3 * * *", "UTC", "report")], id="a hashed minute"),
        pytest.param("'30 0 9 * * *'", [CronSpec("30 0 9 * * *", "UTC", "report")], id="six fields"),
    ],
)
def test_a_schedule_may_be_written_as(written, starts):
    assert list(job_of(f"schedule: {written}\ncommand: x\n").schedules) == starts


def test_stop_and_restart_schedules_stand_beside_the_starts():
    job = job_of(
        "timezone: Europe/Paris\nschedule:\n  start: ['0 9 * * *', '0 14 * * *']\n  stop: '0 12 * * *'\n"
        "  restart: {every: 1h}\ncommand: x\n"
    )
    assert [spec.text for spec in job.schedules] == ["0 9 * * *", "0 14 * * *"]
    assert job.stops == (CronSpec("0 12 * * *", "Europe/Paris", "report"),)
    assert job.restarts == (EverySpec(HOUR),)


def test_a_job_without_schedule_runs_when_asked():
    job = job_of("command: x\n")
    assert job.schedules == ()
    assert str(job.origins["schedule"]) == "not written"


@pytest.mark.parametrize(
    ("text", "zone", "origin"),
    [
        pytest.param(
            "timezone: Europe/Berlin\nschedule: CRON_TZ=Asia/Tokyo @daily\n",
            "Asia/Tokyo",
            "jobs/report.yaml:2",
            id="the prefix goes first",
        ),
        pytest.param(
            "timezone: Europe/Berlin\nschedule:\n  cron: '@daily'\n  timezone: Asia/Tokyo\n",
            "Asia/Tokyo",
            "jobs/report.yaml:4",
            id="the block's own goes first",
        ),
        pytest.param(
            "timezone: Europe/Berlin\nschedule: '@daily'\n", "Europe/Berlin", "jobs/report.yaml:1", id="then the job's"
        ),
        pytest.param("schedule: '@daily'\n", "America/Lima", "setting EVERTICK_TIMEZONE", id="then the setting"),
    ],
)
def test_the_zone_of_a_schedule_comes_from(text, zone, origin):
    job = job_of(text + "command: x\n", settings=Settings.from_environment({"EVERTICK_TIMEZONE": "America/Lima"}))
    assert job.schedules[0].timezone == zone
    assert str(job.origins["schedules.0.timezone"]) == origin


def test_without_a_setting_the_zone_is_the_systems():
    job = job_of("schedule: '@daily'\ncommand: x\n", settings=Settings.from_environment({"TZ": "Asia/Seoul"}))
    assert job.schedules[0].timezone == "Asia/Seoul"
    assert str(job.origins["timezone"]) == "system (TZ)"


@pytest.mark.parametrize(
    ("name", "job_id"),
    [
        pytest.param("daily-report", "daily-report", id="stays as it is"),
        pytest.param("Daily Bug Report", "daily-bug-report", id="is lower case with dashes"),
        pytest.param("a  &  b", "a-b", id="has one dash for a run of others"),
        pytest.param("--x__", "x", id="has no dashes or underscores at the ends"),
        pytest.param("v1.2_final", "v1.2_final", id="keeps dots and underscores inside"),
        pytest.param("Übung", "bung", id="drops letters beyond a to z"),
        pytest.param("x" * 100, "x" * 64, id="has at most 64 characters"),
        pytest.param("x" * 63 + "-y", "x" * 63, id="does not end in a dash when it is cut"),
        pytest.param("2026", "2026", id="may be a number"),
    ],
)
def test_the_id_of_a_job_is_made_from_its_name(name, job_id):
    job = job_of(f"name: '{name}'\ncommand: x\n")
    assert (job.id, job.name) == (job_id, name)


@pytest.mark.parametrize(
    ("file", "text", "job_id", "shown"),
    [
        pytest.param("jobs/My Report.yaml", "command: x\n", "my-report", "My Report", id="the file without a name"),
        pytest.param("jobs/a.b.yml", "command: x\n", "a.b", "a.b", id="a file with two dots"),
        pytest.param("jobs/Sync/pipeline.yaml", "input: {}\n", "sync", "Sync", id="the folder of a pipeline"),
        pytest.param(
            "jobs/Sync/pipeline.yaml",
            "name: Other\ninput: {}\n",
            "sync",
            "Other",
            id="the folder although a name is written",
        ),
    ],
)
def test_the_id_of_a_job_is_made_from(file, text, job_id, shown):
    job = job_of(text, file)
    assert (job.id, job.name) == (job_id, shown)


def test_the_folder_of_a_pipeline_can_be_told_apart_from_its_path():
    result = parse_definition("input: {}\n", "pipeline.yaml", folder="sync")
    assert result.job is not None
    assert result.job.id == "sync"


def test_steps_keep_their_order_and_what_they_depend_on():
    job = job_of(
        """
steps:
  - name: a
    command: one
  - name: b
    command: [two, "2"]
    depends: a
    continueOnFailure: true
  - name: c
    command: three
    depends: [a, b, a]
"""
    )
    assert job.steps == (
        Step("a", Command(("one",), is_shell=True)),
        Step("b", Command(("two", "2")), depends=("a",), continue_on=ContinueOn(failure=True)),
        Step("c", Command(("three",), is_shell=True), depends=("a", "b")),
    )


@pytest.mark.parametrize(
    ("queues", "said"),
    [
        pytest.param((), ["Add 'warehouse = 2' below [queues] in evertick.toml."], id="no queue is known"),
        pytest.param((("warehouse", 2),), [], id="it is known"),
        pytest.param(
            (("warehouses", 2),),
            ["Did you mean 'warehouses'? Otherwise add 'warehouse = 2' below [queues] in evertick.toml."],
            id="another is, of nearly that name",
        ),
    ],
)
def test_a_queue_that_the_settings_do_not_know_is_an_error(queues, said):
    result = parse_definition("queue: warehouse\ncommand: x", "a.yaml", Settings(queues=queues))
    assert [error.hint for error in result.errors] == said


@pytest.mark.parametrize(
    "text",
    [
        "schedule: '@daily'\n",
        "schedule: '@daily'\nsteps: []\n",
        "name: report\n",
        "schedule: {every: 1h}\nenv: {A: b}\n",
    ],
)
@pytest.mark.parametrize("file", ["jobs/a.yaml", "nightly/pipeline.yaml"])
def test_a_job_with_nothing_to_run_is_an_error(file, text):
    result = parse_definition(text, file)
    assert result.job is None
    assert len(result.errors) == 1


@pytest.mark.parametrize(
    ("late_us", "is_past"), [(-SECOND, False), (30 * SECOND, False), (30 * SECOND + 1, True), (DAY, True)]
)
def test_a_one_off_that_is_past_is_warned_of(late_us, is_past):
    job = job_of("schedule:\n  - '@daily'\n  - {at: 2026-03-01T09:00:00Z}\ncommand: x\n")
    found = warnings_at(job, from_text("2026-03-01T09:00:00Z") + late_us)
    assert [("2026-03-01T09:00:00Z" in warning.reason, warning.line) for warning in found] == [(True, 2)] * is_past


def test_how_long_its_history_is_kept():
    assert job_of("historyRetention: 365d\ncommand: x").history_retention_us == 365 * DAY
