"""Whether the work of a definition, and what surrounds it, is read as intended."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from evertick.definitions.nodes import plain_data
from evertick.definitions.parser import parse_definition
from evertick.definitions.schema import job_schema
from evertick.definitions.yaml import read_yaml
from evertick.model.constraint import (
    Action,
    ActionKind,
    KillTarget,
    MaxAllowedRunTime,
    MaxConcurrentRuns,
    MaxExpectedRunTime,
    PostRunHook,
    PreRunHook,
    RequirePreviousSuccess,
)
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND
from evertick.model.job import After, AfterEnd, AfterMode, Job
from evertick.model.notify import Mail, NotifyEvent, Route, Slack, Webhook
from evertick.model.policy import Backoff, Overlap, OverlapKind, Retry
from evertick.model.work import (
    NO_HANDLERS,
    NO_RETRY,
    NOTHING,
    STOP_ON_FAILURE,
    Command,
    Condition,
    ConditionKind,
    Container,
    ContinueOn,
    Handlers,
    HttpCall,
    Mount,
    Param,
    PythonCall,
    Repeat,
    Sandbox,
    SandboxKind,
    Script,
    Secret,
    SshCommand,
    Step,
    SubJob,
)
from evertick.settings import Settings
from tests.definitions.mini_schema import misfits

SCHEMA = job_schema()

HOOK = "https://example.org/hook"


def job_of(text: str, file: str = "jobs/report.yaml", settings: Settings | None = None) -> Job:
    result = parse_definition(text, file, settings)
    assert [str(error) for error in result.errors] == []
    assert result.job is not None
    # What the parser takes, an editor must not underline.
    root = read_yaml(text).root
    assert root is not None
    assert list(misfits(plain_data(root), SCHEMA, SCHEMA)) == []
    return result.job


def step_of(text: str) -> Step:
    (step,) = job_of(f"steps:\n  - {{name: a, {text}}}\n").steps
    return step


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        pytest.param("command: echo one", Command(("echo one",), is_shell=True), id="a line for the shell"),
        pytest.param("command: [echo, 1]", Command(("echo", "1")), id="a program"),
        pytest.param('script: "a\\nb\\n"', Script("a\nb\n"), id="a script"),
        pytest.param("script: a, shell: bash", Script("a", ("bash",)), id="a script for a shell"),
        pytest.param("script: a, shell: bash -eu", Script("a", ("bash", "-eu")), id="a shell with an option"),
        pytest.param("script: a, interpreter: [python3, -u]", Script("a", ("python3", "-u")), id="an interpreter"),
        pytest.param("python: 'etl.load:main'", PythonCall("etl.load:main"), id="a function"),
        pytest.param(
            "python: 'etl:main', with: {day: 3, parts: [a, {b: null}]}",
            PythonCall("etl:main", {"day": 3, "parts": ["a", {"b": None}]}),
            id="a function with arguments",
        ),
        pytest.param(f"http: '{HOOK}'", HttpCall(HOOK), id="an address"),
        pytest.param(
            f"http: {{url: '{HOOK}', method: POST, headers: {{Token: {{env: TOKEN}}}}, body: hello, expect: 202}}",
            HttpCall(HOOK, "POST", (("Token", Secret("env", "TOKEN")),), "hello", (202,)),
            id="a call with everything",
        ),
        pytest.param(
            f"http: {{url: '{HOOK}', method: PUT, body: {{day: 1}}, expect: [200, 204]}}",
            HttpCall(HOOK, "PUT", (("Content-Type", "application/json"),), '{"day": 1}', (200, 204), is_json=True),
            id="a call with JSON",
        ),
        pytest.param(
            f"http: {{url: '{HOOK}', headers: {{content-type: text/x}}, body: [1]}}",
            HttpCall(HOOK, "GET", (("content-type", "text/x"),), "[1]", is_json=True),
            id="a call with JSON and a type of its own",
        ),
        pytest.param("job: Data Fetch", SubJob("data-fetch"), id="another job by its name"),
        pytest.param("job: fetch, params: {DAY: 1}", SubJob("fetch", (("DAY", "1"),)), id="a job with parameters"),
        pytest.param("job: fetch, wait: false", SubJob("fetch", waits=False), id="a job that is not waited for"),
    ],
)
def test_a_step_may_be(written, kind):
    assert step_of(written) == Step("a", kind)


X = Command(("x",), is_shell=True)


@pytest.mark.parametrize(
    ("written", "step"),
    [
        pytest.param("env: {A: 1, B: ''}", Step("a", X, env=(("A", "1"), ("B", ""))), id="variables"),
        pytest.param("env: [A=b=c, B=]", Step("a", X, env=(("A", "b=c"), ("B", ""))), id="variables in a list"),
        pytest.param("env: [{A: b}, C=d]", Step("a", X, env=(("A", "b"), ("C", "d"))), id="small maps in a list"),
        pytest.param("env: {A: {file: /run/a}}", Step("a", X, env=(("A", Secret("file", "/run/a")),)), id="a secret"),
        pytest.param("workingDir: /srv/etl", Step("a", X, working_dir="/srv/etl"), id="a folder"),
        pytest.param("user: nobody", Step("a", X, user="nobody"), id="a user"),
        pytest.param("sandbox: bwrap", Step("a", X, sandbox=Sandbox(SandboxKind.BWRAP)), id="a sandbox by its name"),
        pytest.param(
            "sandbox: {kind: systemd-run, readable: /srv, writable: [out, out], network: true}",
            Step("a", X, sandbox=Sandbox(SandboxKind.SYSTEMD_RUN, ("/srv",), ("out",), network=True)),
            id="a sandbox with what it lets through",
        ),
        pytest.param("timeout: 1h30m", Step("a", X, timeout_us=90 * MINUTE), id="a timeout"),
        pytest.param(
            "retryPolicy: {limit: 2, interval: 5s, backoff: fixed}",
            Step("a", X, retry=Retry(2, 5 * SECOND, Backoff.FIXED)),
            id="retries",
        ),
        pytest.param("retryPolicy: {maxRetries: 1}", Step("a", X, retry=Retry(1)), id="retries in our words"),
        pytest.param("repeat: {interval: 10s}", Step("a", X, repeat=Repeat(10 * SECOND)), id="a repetition"),
        pytest.param(
            "repeat: {every: 250ms, limit: 3, until: {file_exists: done}}",
            Step("a", X, repeat=Repeat(250_000, 3, Condition(ConditionKind.FILE_EXISTS, "done"))),
            id="a repetition that ends",
        ),
        pytest.param("continueOnFailure: true", Step("a", X, continue_on=ContinueOn(failure=True)), id="a failure"),
        pytest.param("continueOnFailure: false", Step("a", X), id="no failure"),
        pytest.param(
            "continueOn: {failure: true, skipped: true, exitCodes: [3, 4, 3], markSuccess: true}",
            Step("a", X, continue_on=ContinueOn(True, True, (3, 4), True)),
            id="all that can be passed over",
        ),
        pytest.param("continueOn: {exitCodes: 3}", Step("a", X, continue_on=ContinueOn(exit_codes=(3,))), id="a code"),
        pytest.param(
            "preconditions: [{command: date, expected: 're:Mon.*'}, {http: 'http://localhost:80/ok'}]",
            Step(
                "a",
                X,
                preconditions=(
                    Condition(ConditionKind.COMMAND, "date", "re:Mon.*"),
                    Condition(ConditionKind.HTTP, "http://localhost:80/ok"),
                ),
            ),
            id="conditions",
        ),
        pytest.param("output: TOTAL", Step("a", X, output="TOTAL"), id="an output"),
    ],
)
def test_a_step_may_have(written, step):
    assert step_of(f"command: x, {written}") == step


@pytest.mark.parametrize(
    ("written", "params"),
    [
        pytest.param("{DAY: today}", (Param("DAY", "today"),), id="a default"),
        pytest.param("{DAY: 007}", (Param("DAY", "007"),), id="a default as it is written"),
        pytest.param("{DAY: }", (Param("DAY"),), id="a value that must be given"),
        pytest.param("[DAY=today, {SIZE: 3}]", (Param("DAY", "today"), Param("SIZE", "3")), id="a list"),
        pytest.param(
            "{SIZE: {type: integer, default: 3, minimum: 1, maximum: 9, description: How many}}",
            (Param("SIZE", "3", {"type": "integer", "minimum": 1, "maximum": 9}, "How many"),),
            id="a number in bounds",
        ),
        pytest.param(
            "{SIZE: {enum: [small, large], default: small}}",
            (Param("SIZE", "small", {"enum": ["small", "large"]}),),
            id="one of some words",
        ),
        pytest.param(
            "{DAY: {pattern: '[0-9]{8}', required: true}}",
            (Param("DAY", None, {"pattern": "[0-9]{8}"}),),
            id="a pattern",
        ),
        pytest.param(
            "{ALL: {type: boolean, default: false}}", (Param("ALL", "false", {"type": "boolean"}),), id="true or false"
        ),
    ],
)
def test_parameters_may_be_written_as(written, params):
    assert job_of(f"command: x\nparams: {written}\n").work.params == params


def test_what_surrounds_the_steps():
    work = job_of(
        """
command: x
env: {A: b}
workingDir: ../data
timeout: 2h
maxActiveSteps: 4
preconditions: {file_exists: a}
condition: {file_exists: b}
onFailure: echo failed
handlers:
  onExit: {http: "https://example.org/hook", timeout: 5s, env: {A: c}, retryPolicy: {limit: 1}}
  onSuccess: [echo, done]
"""
    ).work
    assert (work.env, work.working_dir, work.timeout_us, work.max_active_steps) == (
        (("A", "b"),),
        os.path.abspath("data"),
        2 * HOUR,
        4,
    )
    assert [condition.value for condition in work.preconditions] == ["a", "b"]
    assert work.handlers == Handlers(
        on_success=Step("onSuccess", Command(("echo", "done"))),
        on_failure=Step("onFailure", Command(("echo failed",), is_shell=True)),
        on_exit=Step("onExit", HttpCall(HOOK), env=(("A", "c"),), timeout_us=5 * SECOND, retry=Retry(1)),
    )


def test_what_is_not_written_is_shared_between_all_jobs():
    second = job_of("command: x\n", "jobs/other.yaml")
    assert Job("a").work is NOTHING
    assert second.work.handlers is NO_HANDLERS
    assert second.steps[0].retry is NO_RETRY
    assert second.steps[0].continue_on is STOP_ON_FAILURE
    assert Job("a").policy is Job("b").policy


@pytest.mark.parametrize(
    ("written", "after"),
    [
        pytest.param("after: fetch", After(("fetch",)), id="one job"),
        pytest.param("after: [fetch, Other Job, fetch]", After(("fetch", "other-job")), id="several, by name"),
        pytest.param("after: {jobs: [a, b], mode: any}", After(("a", "b"), AfterMode.ANY), id="any of several"),
        pytest.param(
            "after: {jobs: [a, b], mode: any, on: failure}",
            After(("a", "b"), AfterMode.ANY, AfterEnd.FAILURE),
            id="after a failure",
        ),
        pytest.param("after: {jobs: a, on: end}", After(("a",), on=AfterEnd.END), id="after any end"),
        pytest.param("schedule: {cron: '@daily', after: fetch}", After(("fetch",)), id="in the block"),
    ],
)
def test_a_job_may_come_after_others(written, after):
    assert job_of(f"command: x\n{written}\n").after == after


def test_a_job_that_only_comes_after_another_needs_no_start():
    assert parse_definition("command: x\nafter: other\n", "a.yaml").warnings == ()


SLACK = "https://hooks.slack.com/services/T/B/x"


@pytest.mark.parametrize(
    ("written", "routes"),
    [
        pytest.param(f"on_failure: {HOOK}", [(NotifyEvent.FAILURE, (Webhook(HOOK),))], id="an address"),
        pytest.param(f"on_failure: '{SLACK}'", [(NotifyEvent.FAILURE, (Slack(SLACK),))], id="an address of Slack"),
        pytest.param(f"onSuccess: {HOOK}", [(NotifyEvent.SUCCESS, (Webhook(HOOK),))], id="the other spelling"),
        pytest.param(
            f"on_missed: [{HOOK}, {{smtp: [a@b.org, c@d.org]}}]",
            [(NotifyEvent.MISSED, (Webhook(HOOK), Mail(("a@b.org", "c@d.org"))))],
            id="a list of channels",
        ),
        pytest.param(
            "on_late: {slack: {env: SLACK_URL}, webhook: {file: /run/url}}",
            [(NotifyEvent.LATE, (Webhook(Secret("file", "/run/url")), Slack(Secret("env", "SLACK_URL"))))],
            id="addresses that are secrets",
        ),
        pytest.param(
            f"on_recovered: {{webhook: {{url: {HOOK}, headers: {{Token: {{env: T}}}}}}}}",
            [(NotifyEvent.RECOVERED, (Webhook(HOOK, (("Token", Secret("env", "T")),)),))],
            id="headers",
        ),
        pytest.param(
            f"on_skipped_streak: {HOOK}\n  onFailure: {HOOK}",
            [(NotifyEvent.FAILURE, (Webhook(HOOK),)), (NotifyEvent.SKIPPED_STREAK, (Webhook(HOOK),))],
            id="several events",
        ),
    ],
)
def test_notification_routes_are_read(written, routes):
    assert job_of(f"command: x\nnotify:\n  {written}\n").notify == tuple(Route(*route) for route in routes)


def test_notifications_may_be_inside_the_schedule_block():
    job = job_of(f"command: x\nschedule: {{cron: '@daily', notify: {{on_failure: '{HOOK}'}}}}\n")
    assert [route.event for route in job.notify] == [NotifyEvent.FAILURE]


@pytest.mark.parametrize(
    ("written", "constraint"),
    [
        pytest.param("maxConcurrentRuns: 1", MaxConcurrentRuns(1), id="a number of runs"),
        pytest.param(f"preRunHook: {HOOK}", PreRunHook(HOOK), id="a hook before"),
        pytest.param("postRunHook: {env: HOOK_URL}", PostRunHook(Secret("env", "HOOK_URL")), id="a hook after"),
        pytest.param("maxExpectedRunTime: 30m", MaxExpectedRunTime(30 * MINUTE), id="an expected time"),
        pytest.param("maxAllowedRunTime: 2h", MaxAllowedRunTime(2 * HOUR), id="an allowed time"),
        pytest.param("requirePreviousSuccess: true", RequirePreviousSuccess(), id="its own success"),
        pytest.param("requirePreviousSuccess: report", RequirePreviousSuccess(), id="its own success by name"),
        pytest.param("requirePreviousSuccess: [a, b]", RequirePreviousSuccess(("a", "b")), id="the success of others"),
        pytest.param(
            f"preRunHook: {{url: {HOOK}, onViolation: [retry, skipNext, kill]}}",
            PreRunHook(HOOK, (Action(ActionKind.RETRY), Action(ActionKind.SKIP_NEXT), Action(ActionKind.KILL))),
            id="actions that are words",
        ),
        pytest.param(
            f"maxExpectedRunTime: {{value: 1h, onViolation: [startJob: Other, webhook: {HOOK}, kill: all]}}",
            MaxExpectedRunTime(
                HOUR,
                (
                    Action(ActionKind.START_JOB, job_id="other"),
                    Action(ActionKind.WEBHOOK, url=HOOK),
                    Action(ActionKind.KILL, target=KillTarget.ALL),
                ),
            ),
            id="actions that say more",
        ),
        pytest.param(
            "requirePreviousSuccess: {jobs: a, onViolation: retry}",
            RequirePreviousSuccess(("a",), (Action(ActionKind.RETRY),)),
            id="one action",
        ),
    ],
)
def test_a_constraint_may_be(written, constraint):
    assert job_of(f"command: x\nconstraints: {{{written}}}\n").constraints == (constraint,)


@pytest.mark.parametrize(
    ("written", "overlap"),
    [
        pytest.param("constraints: {maxConcurrentRuns: 1}", Overlap(), id="one is what the default says"),
        pytest.param("constraints: {maxConcurrentRuns: 3}", Overlap(OverlapKind.PARALLEL, 3), id="three are parallel"),
        pytest.param(
            "overlap: wait\nconstraints: {maxConcurrentRuns: 1}",
            Overlap(OverlapKind.WAIT),
            id="one may wait for the other",
        ),
        pytest.param(
            "overlap: parallel(3)\nconstraints: {maxConcurrentRuns: 3}",
            Overlap(OverlapKind.PARALLEL, 3),
            id="said twice",
        ),
    ],
)
def test_a_limit_of_runs_is_an_overlap_policy(written, overlap):
    assert job_of(f"command: x\n{written}\n").policy.overlap == overlap


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("constraints: {maxAllowedRunTime: 2h}", id="alone"),
        pytest.param("timeout: 120m\nconstraints: {maxAllowedRunTime: 2h}", id="said twice"),
    ],
)
def test_an_allowed_run_time_is_a_timeout(written):
    assert job_of(f"command: x\n{written}\n").work.timeout_us == 2 * HOUR


def test_a_job_may_share_a_limit_and_keep_its_logs():
    job = job_of("command: x\nqueue: batch\nlogRetention: 30d\n", settings=Settings(queues=(("batch", 2),)))
    assert (job.queue, job.log_retention_us) == ("batch", 30 * DAY)


class TestWhereCommandsRun:
    def test_the_commands_of_a_job_run_in_its_container(self):
        job = job_of(
            "docker: {image: 'a:1', mounts: [./in:/in], workingDir: /srv}\n"
            "steps:\n"
            "  - {name: list, command: [ls, '{{ date }}'], workingDir: /in}\n"
            "  - {name: text, script: 'echo {{ x }}'}\n"
            "  - {name: own, docker: {image: b}}\n"
            "  - {name: call, http: 'http://127.0.0.1/'}\n"
            "onFailure: echo failed\n"
            "onExit: {command: echo over}\n"
        )
        place = Container("a:1", mounts=(Mount("./in", "/in"),), working_dir="/srv")
        listed, text, own, call = (step.kind for step in job.steps)
        assert listed == replace(place, command=("ls", "{{ date }}"), working_dir="/in")
        assert text == replace(place, command=("set -e\necho {{ x }}",), is_shell=True)
        assert own == Container("b")
        assert isinstance(call, HttpCall)
        handlers = job.work.handler_steps
        assert handlers["on_failure"].kind == replace(place, command=("echo failed",), is_shell=True)
        assert handlers["on_exit"].kind == replace(place, command=("echo over",), is_shell=True)
        assert [step.working_dir for step in job.steps] == [None] * 4

    def test_the_commands_of_a_job_run_on_its_host(self):
        job = job_of("ssh: {host: db1, user: backup}\ncommand: [pg_dump, shop]\n")
        assert job.steps[0].kind == SshCommand("db1", ("pg_dump", "shop"), user="backup")

    @pytest.mark.parametrize("inner", ["", ", command: x", ", args: [x]"])
    def test_a_container_without_steps_is_the_job(self, inner):
        (step,) = job_of(f"docker: {{image: a{inner}}}\n").steps
        assert isinstance(step.kind, Container)
        assert step.name == "main"
