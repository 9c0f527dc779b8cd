"""Does the application match its own OpenAPI document, whatever is sent to it?"""

from __future__ import annotations

import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from evertick.api.app import make_app, make_routes
from evertick.api.openapi import describe
from evertick.operations.tokens import Role
from tests.api.conftest import ORIGIN
from tests.api.http_client import TestClient

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
LEFT_OUT = ("/api/v1/events", "/readyz")
"""The first has no end, and the second says 503 because nobody schedules here."""
EXAMPLES = 12


def test_every_operation_has_a_name_a_role_and_says_what_it_does():
    described = describe(make_routes(is_described=True))
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert described["openapi"].startswith("3.1")
    assert all(one["summary"] and one["x-role"] for one in operations)
    ids = [one["operationId"] for one in operations]
    assert len(ids) == len(set(ids))


def test_every_parameter_says_what_it_means():
    described = describe(make_routes(is_described=True))
    operations = [one for path in described["paths"].values() for one in path.values()]
    parameters = [one for operation in operations for one in operation.get("parameters", ())]
    assert len(parameters) > 100
    assert [one["name"] for one in parameters if not one.get("description")] == []


def test_what_is_served_builds_no_schema_of_a_result():
    served, described = (
        [one for one in make_routes(is_described=is_described).routes if isinstance(one, APIRoute)]
        for is_described in (False, True)
    )
    assert [one.path for one in served] == [one.path for one in described]
    assert [one.path for one in served if one.response_field is not None] == []
    assert len([one for one in described if one.response_field is not None]) > 50


@pytest.mark.slow
def test_whatever_is_sent_the_answer_is_one_of_those_described(app_state, tokens, control):
    control.told = None  # nobody is there to answer, so nothing is waited for
    schema = schemathesis.openapi.from_dict(describe(make_routes(is_described=True)))
    with TestClient(make_app(app_state), base_url=ORIGIN, raise_server_exceptions=False) as client:
        client.headers["authorization"] = f"Bearer {tokens[Role.ADMIN]}"
        found = [one for one in schema.get_all_operations() if isinstance(one, Ok)]
        seen = [_send(client, one.ok()) for one in found]
    assert sum(seen) > 500
    assert app_state.audit.verify().is_whole


def _send(client, operation):
    """Send an operation what it describes; answers how often. A failure names the call that led to it."""
    if operation.path in LEFT_OUT:
        return 0
    sent = 0

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
        deadline=None,
    )
    @given(case=operation.as_strategy())
    def check(case):
        nonlocal sent
        sent += 1
        call = case.as_transport_kwargs(base_url=ORIGIN)
        known = {name: call[name] for name in ("params", "json", "content") if call.get(name) is not None}
        headers = {
            name: value
            for name, value in (call.get("headers") or {}).items()
            if name.lower() not in ("authorization", "host")
        }
        answer = client.request(call["method"], call["url"], headers=headers, **known)
        case.validate_response(answer, checks=CHECKS)

    check()
    return sent
