"""How a definition says where its job runs."""

from __future__ import annotations

import os

import pytest

from evertick.definitions.parser import parse_definition
from evertick.model.policy import Scope
from evertick.model.routing import Routing, Strategy


def parsed(text: str):
    return parse_definition("command: date\n" + text, "report.yaml")


@pytest.mark.parametrize(
    ("text", "routing"),
    [
        pytest.param("", Routing(), id="this machine unless it says otherwise"),
        pytest.param("executor: local\n", Routing(), id="this machine in words"),
        pytest.param("executor: fleet\n", Routing("fleet"), id="the fleet, one member after another"),
        pytest.param("routing: lru\n", Routing("fleet", Strategy.LRU), id="a routing means the fleet"),
        pytest.param("routing: least-loaded\n", Routing("fleet", Strategy.LEAST_LOADED), id="with a dash"),
        pytest.param("routing: LEAST_RECENTLY_USED\n", Routing("fleet", Strategy.LRU), id="XXL-JOB's word"),
        pytest.param(
            "runsOn: {zone: eu, gpu: true}\n",
            Routing("fleet", labels=(("gpu", "true"), ("zone", "eu"))),
            id="labels as a map, sorted",
        ),
        pytest.param("labels: [gpu=true]\n", Routing("fleet", labels=(("gpu", "true"),)), id="labels as a list"),
        pytest.param("runsOn: gpu=true\n", Routing("fleet", labels=(("gpu", "true"),)), id="one label"),
        pytest.param(
            "resources: {cpu: 2, memory: 1GiB, licenses: 0.5}\n",
            Routing("fleet", resources=(("cpu", 2_000), ("licenses", 500), ("memory", 2**30))),
            id="resources mean the fleet",
        ),
        pytest.param("bundle: ../code\n", Routing("fleet", bundle=os.path.abspath("../code")), id="a bundle"),
        pytest.param("bundle: /srv/report.whl\n", Routing("fleet", bundle="/srv/report.whl"), id="an absolute one"),
        pytest.param(
            "routing: SHARDING_BROADCAST\n", Routing("fleet", Strategy.SHARDING_BROADCAST), id="to every member"
        ),
    ],
)
def test_where_it_runs(text, routing):
    result = parsed(text)
    assert result.errors == ()
    assert result.job.routing == routing


def test_the_origin_of_a_fleet_that_was_not_named_is_what_named_it():
    job = parsed("runsOn: gpu=true\n").job
    assert (str(job.origins["executor"]), str(job.origins["runs_on"])) == ("because of 'runsOn'", "report.yaml:2")


def test_a_scope_of_executors_is_pointless_on_one_machine():
    assert [str(warning) for warning in parsed("scope: executor\n").warnings] != []
    result = parsed("scope: executor\nexecutor: fleet\n")
    assert (result.warnings, result.job.policy.overlap.scope) == ((), Scope.EXECUTOR)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("resources: [cpu]\n", "'resources' must be a map, not a list.", id="a list"),
        pytest.param(
            "resources: {cpu: none}\n", "'resources.cpu' cannot be 'none': it must be a number", id="no number"
        ),
        pytest.param("resources: {memory: 4 apples}\n", "it must be a size, such as 512MiB or 4GiB.", id="no size"),
        pytest.param("resources: {GPU: 1}\n", "'GPU' cannot be the name of a resource.", id="a name"),
        pytest.param("executor: local\nresources: {cpu: 1}\n", "'executor' on line 2 and 'resources'", id="here"),
    ],
)
def test_resources_that_cannot_be(text, reason):
    assert any(reason in str(error) for error in parsed(text).errors), parsed(text).errors
