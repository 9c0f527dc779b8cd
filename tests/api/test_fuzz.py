"""Whether the API answers hostile requests without an internal error, and does nothing that the role does not allow."""

from __future__ import annotations

import re
from typing import Any

import pytest

from evertick.api.app import make_app, make_routes
from evertick.api.openapi import describe
from evertick.api.revalidation import MANIPULATION
from evertick.operations.tokens import Role
from tests.api.conftest import ORIGIN
from tests.api.http_client import TestClient
from tests.fuzz import drawing
from tests.fuzz.calls import NO_TOKEN, Call, Drawer
from tests.fuzz.harness import PARTS, fuzz

pytestmark = pytest.mark.slow

OPEN = "open"
PROVES = re.compile(r"/(hooks/|session)")
# 400: a control character in the path is refused before the caller is asked for.
REFUSED = {None: {400, 401}, NO_TOKEN: {400, 401, 429}}


@pytest.mark.parametrize("part", range(PARTS))
def test_requests_of_every_role(app_state, tokens, control, part):
    control.told = None  # no scheduler runs, so that no request waits for one
    tags: dict[str, str] = {}
    """The entity tag of the last answer from each route."""

    with TestClient(make_app(app_state), base_url=ORIGIN, raise_server_exceptions=False) as client:

        def send(call: Call) -> str:
            answer = client.request(call.method, call.url, params=call.query, **_content(call, tokens, tags))
            # Without a scheduler it is not ready. Any other 5xx is a bug.
            is_unready = call.operation.path == "/readyz" and answer.status_code == 503
            assert answer.status_code < 500 or is_unready, (answer.status_code, answer.text)
            # Who fails to authenticate again and again has to wait. A token opens everything but a hook and a sign-in,
            # which have proofs of their own, so a caller who has one never waits elsewhere.
            assert answer.status_code != 429 or not isinstance(call.caller, Role) or PROVES.search(call.url), (
                answer.text
            )
            if "etag" in answer.headers:
                tags[call.operation.path] = answer.headers["etag"]
            role = call.operation.role
            # A slash or dots in a part of the path can lead to another route, or to none; the client decodes %25 twice.
            is_elsewhere = re.search(r"%2F|%25|/\.+(/|$)", call.url) or call.method != call.operation.method
            if role != OPEN and not is_elsewhere:
                if not isinstance(call.caller, Role):
                    assert answer.status_code in REFUSED[call.caller], answer.status_code
                elif str(call.caller) != role and call.caller < Role[role.upper()]:
                    assert answer.status_code in {400, 403}, answer.status_code
            return f"{answer.status_code} not ready" if is_unready else str(answer.status_code)

        drawer = Drawer(describe(make_routes(is_described=True)))
        fuzz("request of the API", drawer.call, send, few=400, part=part)
    assert app_state.audit.verify().is_whole


def _content(call: Call, tokens: dict[Role, str], tags: dict[str, str]) -> dict[str, Any]:
    """The headers and the body of a call."""
    headers = dict(call.headers)
    if call.caller is not None:
        token = tokens[call.caller] if isinstance(call.caller, Role) else call.caller
        headers["authorization"] = f"Bearer {token}"
    if call.names_an_answer:
        headers["if-none-match"] = tags.get(call.operation.path, '"none"')
        headers["a-im"] = MANIPULATION
    if isinstance(call.body, bytes):
        return {"headers": headers, "content": call.body}
    if call.body is not None:
        return {"headers": {**headers, "content-type": "application/json"}, "content": drawing.as_json(call.body)}
    return {"headers": headers}
