"""Whether a container is read as written, at a job and at a step."""

from __future__ import annotations

import pytest

from evertick.definitions.parser import parse_definition
from evertick.model.work import Pod, SecretKey, Step

WHOLE = """
schedule: "0 3 * * *"
timeout: 1h
kubernetes:
  image: ghcr.io/acme/report:1.4
  command: [python, report.py]
  env: {MODE: full, LEVEL: 3}
  secrets:
    PASSWORD: database/password
    TOKEN: {name: api.acme, key: token}
  resources:
    requests: {cpu: 500m, memory: 256Mi}
    limits: {memory: 1Gi}
  serviceAccount: reporter
  namespace: batch
  podSpec:
    nodeSelector: {disk: ssd}
"""
POD = Pod(
    "ghcr.io/acme/report:1.4",
    ("python", "report.py"),
    env=(("MODE", "full"), ("LEVEL", "3")),
    secrets=(("PASSWORD", SecretKey("database", "password")), ("TOKEN", SecretKey("api.acme", "token"))),
    requests=(("cpu", "500m"), ("memory", "256Mi")),
    limits=(("memory", "1Gi"),),
    service_account="reporter",
    namespace="batch",
    pod_spec={"nodeSelector": {"disk": "ssd"}},
)


def parsed(text: str):
    result = parse_definition(text, "report.yaml")
    assert (result.errors, result.warnings) == ((), ())
    assert result.job is not None
    return result.job


def test_a_job_that_is_a_container_runs_on_the_cluster():
    job = parsed(WHOLE)
    assert job.work.steps == (Step("main", POD),)
    assert job.routing.executor == "kubernetes"
    assert str(job.origins["executor"]) == "because of 'kubernetes'"


def test_a_step_that_is_a_container_belongs_to_a_job_that_runs_here():
    job = parsed("steps:\n- {name: a, command: x}\n- {name: b, kubernetes: {image: i, command: echo $X}, depends: a}\n")
    assert job.work.steps[1].kind == Pod("i", ("echo $X",), is_shell=True)
    assert job.routing.executor == "local"


@pytest.mark.parametrize(
    ("around", "named"),
    [
        pytest.param("condition: {command: x}", "its conditions", id="a condition"),
        pytest.param("preconditions: [{command: x}]", "its conditions", id="preconditions"),
        pytest.param("constraints: {preRunHook: 'https://a.example/'}", "its hooks", id="a hook before it"),
        pytest.param("constraints: {postRunHook: 'https://a.example/'}", "its hooks", id="a hook after it"),
        pytest.param("onExit: echo x", "its handlers", id="a handler"),
        pytest.param("onFailure: echo x\nexecutor: kubernetes", "its handlers", id="a handler, and named"),
        pytest.param("condition: {command: x}\nonExit: echo x", "its conditions and its handlers", id="two of them"),
    ],
)
def test_a_container_with_something_around_it_is_attended_to_here(around, named):
    job = parsed(f"schedule: '@daily'\nkubernetes: {{image: i}}\n{around}\n")
    assert job.work.steps == (Step("main", Pod("i")),)
    assert job.routing.executor == "local"
    assert str(job.origins["executor"]) == f"because of {named}, which this machine runs before and after its container"


@pytest.mark.parametrize(
    ("other", "field"),
    [
        pytest.param("command: x", "command", id="a command"),
        pytest.param("steps: [{name: a, command: x}]", "steps", id="steps"),
        pytest.param("executor: fleet", "executor", id="the fleet"),
        pytest.param("routing: ROUND", "routing", id="a routing"),
        pytest.param("runsOn: {gpu: 1}", "runsOn", id="labels"),
    ],
)
def test_what_a_container_cannot_be_too_is_reported_with_both_lines(other, field):
    (error, *_) = parse_definition(f"kubernetes: {{image: i}}\n{other}\n", "a.yaml").errors
    assert "kubernetes" in error.reason
    assert field in error.reason
    assert "line 1" in str(error)
