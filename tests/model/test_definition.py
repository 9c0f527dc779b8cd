"""What does the ledger keep of a job, and what must it never keep?"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.definitions.parser import parse_definition
from evertick.model.definition import TEXT_MAX, definition_digest, definition_text
from evertick.model.work import Command, Step, Work
from evertick.settings import Settings

SECRET = "hunter2-do-not-keep"
PLAIN = "schedule: '0 9 * * *'\ncommand: echo hello\n"


def job(text):
    parsed = parse_definition(text, "jobs/report.yaml", Settings(timezone="UTC", queues=(("db", 2),)))
    assert parsed.job is not None, parsed.errors
    return parsed.job


def test_a_small_job_is_a_few_lines():
    assert definition_text(job(PLAIN)).splitlines() == [
        "name: report",
        "schedule:",
        "  - 0 9 * * * (UTC)",
        f"working_dir: {os.path.abspath('jobs')}",
        "steps:",
        "  - main:",
        "      command: echo hello",
    ]


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(PLAIN.replace("9", "10"), id="its schedule"),
        pytest.param(PLAIN.replace("hello", "bye"), id="its command"),
        pytest.param(PLAIN + "timezone: Europe/Berlin\n", id="its zone"),
        pytest.param(PLAIN + "catchupWindow: 1h\n", id="its policy"),
        pytest.param(PLAIN + "retryPolicy: {limit: 2, interval: 5s}\n", id="its retries"),
        pytest.param(PLAIN + "enabled: false\n", id="whether it is enabled"),
        pytest.param(PLAIN + "tags: [a]\n", id="its tags"),
        pytest.param(PLAIN + "params: {A: b}\n", id="its parameters"),
        pytest.param(PLAIN + "env: {A: b}\n", id="a variable"),
        pytest.param(PLAIN + "timeout: 5m\n", id="its timeout"),
        pytest.param(PLAIN + "queue: db\n", id="its queue"),
        pytest.param(PLAIN + "handlers: {onExit: echo over}\n", id="a handler"),
        pytest.param(PLAIN + "logRetention: 5d\n", id="how long its logs are kept"),
    ],
)
def test_a_change_of_what_it_does_is_a_change_of_the_digest(edit):
    before, after = job(PLAIN), job(edit)
    assert before.definition != after.definition
    assert definition_text(before) != definition_text(after)
    assert after.definition == definition_digest(after)


def test_a_comment_and_the_order_of_fields_change_nothing():
    assert job("# why\ncommand: echo hello\nschedule: '0 9 * * *'\n").definition == job(PLAIN).definition


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"env: {{PASSWORD: {SECRET}}}\n", id="of the environment"),
        pytest.param(
            f"steps: [{{name: a, http: {{url: 'https://x/?key={SECRET}'}}}}]\n", id="behind the question mark"
        ),
        pytest.param(f"steps: [{{name: a, http: {{url: 'https://ann:{SECRET}@x/'}}}}]\n", id="of whoever signs in"),
        pytest.param(
            f"steps: [{{name: a, http: {{url: 'https://x/', headers: {{Auth: {SECRET}}}}}}}]\n",
            id="of a header",
        ),
        pytest.param(f"steps: [{{name: a, command: x, env: {{A: {SECRET}}}}}]\n", id="of a step's environment"),
        pytest.param(
            f"notify: {{on_failure: {{webhook: 'https://x/{SECRET}'}}}}\n", id="in an address that people are told by"
        ),
    ],
)
def test_values_that_may_be_secrets_are_not_kept(text):
    command = "" if "steps:" in text else "command: x\n"
    found = definition_text(job(f"schedule: '0 9 * * *'\n{command}{text}"))
    assert SECRET not in found
    assert len(found.splitlines()) > 4


@given(st.text(min_size=1, max_size=60).filter(lambda text: text.strip()))
def test_any_command_makes_a_text_and_a_digest(command):
    other = replace(job(PLAIN), work=Work((Step("a", Command((command,), is_shell=True)),)))
    assert definition_text(other).startswith("name: report\n")
    assert len(definition_digest(other)) == 16


def test_a_very_long_definition_is_cut_and_marked():
    text = definition_text(job("steps:\n  - name: a\n    script: |\n" + "      echo word\n" * 10_000))
    assert len(text) < TEXT_MAX + 100
    assert "cut: it has" in text
