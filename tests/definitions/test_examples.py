"""Whether the examples load, and show what they claim to show."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from evertick.definitions.source import load_folder
from evertick.model.instant import MINUTE, from_text
from evertick.model.policy import Missed, OverlapKind
from evertick.model.work import Container, SshCommand
from evertick.planning.schedules import compile_all, exclusion_of, next_of
from evertick.settings import Settings

EXAMPLES = Path(__file__).parents[2] / "examples"
NOON = from_text("2027-03-01T12:00:00Z")


@pytest.fixture(scope="module")
def examples():
    return load_folder(EXAMPLES)


def test_all_of_them_load_without_an_error_or_a_warning(examples):
    assert dict(examples.errors) == {}
    assert dict(examples.warnings) == {}
    assert len(examples.jobs) == len(examples.files) >= 7


def test_each_says_in_a_line_what_it_shows(examples):
    assert all(job.description and "\n" not in job.description for job in examples.jobs.values())


def test_two_of_them_fire_within_a_minute_of_any_time(examples):
    soon = [
        job.id
        for job in examples.jobs.values()
        if job.schedules and (next_of(compile_all(job.schedules), NOON + 1) or 0) <= NOON + 1 + MINUTE
    ]
    assert len(soon) >= 2


def test_what_they_show_is_there(examples):
    jobs = examples.jobs.values()
    assert any(len(job.steps) >= 3 and any(len(step.depends) > 1 for step in job.steps) for job in jobs), "a DAG"
    assert any(job.policy.retry.max_retries > 0 and job.steps for job in jobs), "a retry"
    assert any(job.policy.missed is Missed.ALL and job.policy.catchup_window_us for job in jobs), "a catch-up"
    assert any("overlap" in job.origins and str(job.origins["overlap"]).endswith("slow-sync.yaml:5") for job in jobs)
    assert any(job.policy.overlap.kind is OverlapKind.WAIT for job in jobs), "a queue"
    assert any(job.stops and job.restarts for job in jobs), "a stop schedule"
    assert any(job.after and job.constraints for job in jobs), "a chain"
    assert any(job.work.params and job.work.preconditions and job.work.handlers.on_exit for job in jobs), "parameters"
    assert any(step.each is not None and step.each.from_step for job in jobs for step in job.steps), "a fan-out"
    kinds = {type(step.kind) for job in jobs for step in job.steps}
    assert {Container, SshCommand} <= kinds


def test_the_pipeline_has_the_rows_that_it_asks_about(examples):
    (step,) = examples.jobs["bug-triage"].steps
    pipeline = step.kind.data
    with (EXAMPLES / "bug-triage" / pipeline["input"]["from"]["path"]).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) >= 2
    assert all("{{" + name + "}}" in pipeline["map"]["prompt"] for name in rows[0])


def test_the_example_of_calendars_skips_and_moves_the_days_it_names():
    folder = EXAMPLES / "calendars"
    found = load_folder(folder, Settings.load(folder, {}))
    assert not found.errors
    report, payments = found.jobs["support-report"].schedules, found.jobs["payments"].schedules
    excluded = {
        "2026-09-14T07:00:00Z": "Company anniversary is in the calendar company",  # a Monday, by a yearly event
        "2026-12-25T08:00:00Z": "Christmas Day is in the calendar de-BE",
        "2026-12-28T08:00:00Z": "Annual closing is in the calendar closing",
        "2027-01-02T08:00:00Z": "Saturday is in the calendar weekends",
    }
    assert {text: str(exclusion_of(report, from_text(text))) for text in excluded} == excluded
    # 15 November 2026 is a Sunday.
    moved = next_of(compile_all(payments), from_text("2026-11-01T00:00:00Z"))
    assert moved == from_text("2026-11-13T05:00:00Z")
