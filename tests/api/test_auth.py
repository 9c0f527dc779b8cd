"""Does the API reject every caller without valid credentials, and every action above the caller's role?"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import re

import pytest
from starlette.routing import Route
from starlette.websockets import WebSocketDisconnect

from evertick.api.app import make_app, make_routes
from evertick.api.app_state import FAILURES_MAX
from evertick.api.auth import BODY_MAX, OPEN, role_of
from evertick.api.server import ApiServer
from evertick.api.sessions import COOKIE, PER_TOKEN_MAX
from evertick.errors import SettingsError
from evertick.operations.tokens import Role
from evertick.settings import Settings
from evertick.settings.exposure import callers_of
from tests.api.conftest import ORIGIN
from tests.api.http_client import TestClient, WebSocketDenialResponse

ALL_ROUTES = [route for route in make_routes().router.routes if isinstance(route, Route)]
ROUTES = [
    (method, route.path_format, role)
    for route in ALL_ROUTES
    if (role := role_of(route)) is not None
    for method in sorted(route.methods or ())
]
GUARDED = [one for one in ROUTES if one[2] != OPEN]
OPEN_PATHS = {"/healthz", "/readyz", "/api/v1/session", "/api/v1/hooks/{job}", "/badges/{job}.svg"}


def filled(path):
    return re.sub(r"\{attempt\}", "1", re.sub(r"\{(?!attempt)\w+\}", "etl", path))


def test_only_these_routes_ask_for_no_role():
    assert {path for _, path, role in ROUTES if role == OPEN} == OPEN_PATHS


def test_every_route_but_the_page_has_a_role():
    without = [route.path for route in ALL_ROUTES if role_of(route) is None]
    assert without == ["/{path:path}"]


def test_without_a_token_there_is_nothing(anonymous):
    answers = {(method, path): anonymous.request(method, filled(path)) for method, path, _ in GUARDED}
    assert len(answers) > 50
    assert {place: answer.status_code for place, answer in answers.items() if answer.status_code != 401} == {}
    assert {answer.headers["content-type"] for answer in answers.values()} == {"application/problem+json"}


def test_with_too_small_a_role_it_is_refused_and_noted(app_state, as_role):
    for method, path, role in GUARDED:
        if isinstance(role, Role) and role is not Role.VIEWER:
            answer = as_role(Role(role - 1)).request(method, filled(path))
            assert (answer.status_code, answer.json()["needs"]) == (403, str(role)), path
            (line, *_), _ = app_state.audit.page(limit=1)
            assert (line["by"], line["action"], line["outcome"]) == (str(Role(role - 1)), f"{method} {path}", "403")


def test_the_role_that_is_asked_for_is_enough(as_role):
    for method, path, role in GUARDED:
        if path not in ("/api/v1/events", "/api/v1/ledger/verify"):
            answer = as_role(role).request(method, filled(path))
            assert answer.status_code not in (401, 403), path


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api", "/api/v2/jobs", "/api/v1/jobs/etl/../../tokens"])
def test_unknown_paths_are_not_revealed_without_credentials(anonymous, client, path):
    client.headers.pop("authorization")
    assert anonymous.get(path).status_code == 401


def test_unknown_paths_are_reported_to_known_users(client):
    assert client.get("/api/v1/nothing").status_code == 404
    assert client.post("/anything").status_code == 405


@pytest.mark.parametrize(
    "written",
    ["Bearer evt_000000000000_" + "a" * 43, "Bearer x", "Bearer", "Basic YTpi", "", "Bearer \x7f" * 100],
)
def test_a_wrong_token_opens_nothing(anonymous, written):
    assert anonymous.get("/api/v1/jobs", headers={"authorization": written}).status_code == 401


def test_a_revoked_token_opens_nothing_from_then_on(app_state, as_role):
    client = as_role(Role.VIEWER)
    assert client.get("/api/v1/jobs").status_code == 200
    app_state.tokens.revoke("viewer")
    assert client.get("/api/v1/jobs").status_code == 401


def test_unreadable_tokens_admit_no_caller(app_state, client, tmp_path):
    (tmp_path / "tokens.json").write_text("{")
    assert client.get("/api/v1/jobs").status_code == 503


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[x"])
def test_another_name_for_this_server_is_refused(client, host):
    assert client.get("/api/v1/jobs", headers={"host": host}).status_code == 421
    assert client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "[::1]:8765", "LOCALHOST", "cron.example"])
def test_its_own_names_are_answered(make_app_state, tokens, host):
    app = make_app(make_app_state(**{"api.allowed_hosts": "cron.example"}))
    with TestClient(app, base_url="http://localhost", headers={"authorization": f"Bearer {tokens[1]}"}) as client:
        assert client.get("/api/v1/jobs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"origin": "http://evil.example"}, id="another origin"),
        pytest.param({"origin": "null"}, id="no origin at all"),
        pytest.param({"origin": "http://localhost:9999"}, id="another port"),
        pytest.param({"sec-fetch-site": "cross-site"}, id="another site"),
        pytest.param({"sec-fetch-site": "same-site"}, id="a neighbour"),
    ],
)
def test_pages_of_others_may_ask_for_nothing(client, anonymous, headers):
    assert client.post("/api/v1/jobs/etl/pause", headers=headers).status_code == 403
    client.headers.pop("authorization")
    assert anonymous.post("/api/v1/session", json={"token": "x"}, headers=headers).status_code == 403


def test_no_other_origin_is_allowed(client):
    answer = client.options("/api/v1/jobs", headers={"origin": "http://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


class TestSession:
    @pytest.fixture
    def signed_in(self, anonymous, tokens):
        answer = anonymous.post("/api/v1/session", json={"token": tokens[Role.OPERATOR]})
        assert answer.status_code == 200
        return anonymous, answer

    def test_a_token_becomes_a_cookie_that_scripts_cannot_read(self, signed_in):
        _, answer = signed_in
        cookie = answer.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/", "max-age=43200"))
        assert (answer.json()["role"], answer.json()["user"]) == ("operator", "operator")

    def test_over_tls_the_cookie_is_for_tls_only(self, app_state, tokens):
        with TestClient(make_app(app_state), base_url="https://localhost") as client:
            answer = client.post("/api/v1/session", json={"token": tokens[Role.VIEWER]})
        assert "secure" in answer.headers["set-cookie"].lower()
        assert "strict-transport-security" in answer.headers

    def test_with_the_cookie_one_may_look_and_with_the_header_too_do_something(self, signed_in):
        client, _ = signed_in
        assert client.get("/api/v1/jobs").status_code == 200
        for wrong in ({}, {"x-csrf-token": "x"}):
            assert client.post("/api/v1/jobs/etl/pause", headers=wrong).status_code == 403
        good = {"x-csrf-token": client.get("/api/v1/session").json()["csrf"]}
        assert client.post("/api/v1/jobs/etl/pause", headers=good).status_code == 200

    def test_a_role_holds_for_the_page_too(self, signed_in):
        client, answer = signed_in
        headers = {"x-csrf-token": answer.json()["csrf"]}
        body = {"name": "x", "role": "admin"}
        assert client.post("/api/v1/tokens", json=body, headers=headers).status_code == 403

    def test_signing_out_ends_it_for_every_copy_of_the_cookie(self, signed_in):
        client, answer = signed_in
        kept = client.cookies[COOKIE]
        gone = client.delete("/api/v1/session", headers={"x-csrf-token": answer.json()["csrf"]})
        assert gone.status_code == 204
        assert client.get("/api/v1/jobs", headers={"cookie": f"{COOKIE}={kept}"}).status_code == 401

    def test_a_session_survives_a_restart_and_not_its_token(self, signed_in, make_app_state):
        client, _ = signed_in
        again = make_app_state()
        with TestClient(make_app(again), base_url="http://localhost", cookies=dict(client.cookies)) as other:
            assert other.get("/api/v1/jobs").status_code == 200
            again.tokens.revoke("operator")
            assert other.get("/api/v1/jobs").status_code == 401

    def test_a_token_goes_before_a_cookie(self, signed_in, tokens):
        client, _ = signed_in
        viewer = {"authorization": f"Bearer {tokens[Role.VIEWER]}"}
        assert client.get("/api/v1/session", headers=viewer).json()["role"] == "viewer"
        assert client.get("/api/v1/jobs", headers={"authorization": "Bearer wrong"}).status_code == 401

    def test_only_hashes_are_kept(self, signed_in, tmp_path, tokens):
        client, _ = signed_in
        kept = (tmp_path / "sessions.json").read_text() + (tmp_path / "tokens.json").read_text()
        assert client.cookies[COOKIE] not in kept
        assert not any(token in kept for token in tokens.values())
        for name in ("sessions.json", "tokens.json", "api.key", "audit.log"):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_failed_attempts_are_limited_and_noted(anonymous, app_state, tokens):
    for _ in range(FAILURES_MAX):
        assert anonymous.post("/api/v1/session", json={"token": "wrong"}).status_code == 401
    answer = anonymous.post("/api/v1/session", json={"token": "wrong"})
    assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (429, True)
    # A good token is not kept out by failures from the same address, neither in a header nor to sign in.
    assert anonymous.post("/api/v1/session", json={"token": tokens[Role.VIEWER]}).status_code == 200
    anonymous.cookies.clear()
    good = {"authorization": f"Bearer {tokens[Role.VIEWER]}"}
    assert anonymous.get("/api/v1/jobs", headers=good).status_code == 200
    lines, _ = app_state.audit.page()
    assert [line["outcome"] for line in lines] == ["200", *["401"] * FAILURES_MAX]


def test_sign_ins_of_one_token_end_no_session_of_another(anonymous, app_state, tokens):
    admin = app_state.tokens.check(tokens[Role.ADMIN])
    viewer = app_state.tokens.check(tokens[Role.VIEWER])
    name, _ = app_state.sessions.begin(admin)
    begun = [app_state.sessions.begin(viewer)[0] for _ in range(PER_TOKEN_MAX + 5)]
    assert app_state.sessions.find(name) is not None
    assert [app_state.sessions.find(one) is not None for one in begun] == [False] * 5 + [True] * PER_TOKEN_MAX


def test_every_method_of_a_path_is_reported(client):
    answer = client.request("PATCH", "/api/v1/session")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, POST")


def test_a_body_that_is_too_large_is_not_read(client):
    answer = client.post("/api/v1/jobs/etl/trigger", content=b"x" * (BODY_MAX + 1))
    assert answer.status_code == 413


def test_a_body_without_a_length_is_cut_off(client):
    def pieces():
        for _ in range(BODY_MAX // 65_536 + 2):
            yield b"x" * 65_536

    for path in ("/api/v1/jobs/etl/trigger", "/api/v1/hooks/etl", "/api/v1/session"):
        assert client.post(path, content=pieces()).status_code == 413


@pytest.mark.parametrize("path", ["/", "/api/v1/events", "/ws", "/api/v1/jobs"])
def test_no_websocket_is_opened(client, path):
    with pytest.raises((WebSocketDisconnect, WebSocketDenialResponse)), client.websocket_connect(path):
        pass


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/", "/api/v1/jobs", "/api/v1/nothing"])
def test_a_head_request_has_the_headers_of_the_whole_answer(anonymous, tokens, path):
    for headers in ({}, {"authorization": f"Bearer {tokens[Role.VIEWER]}"}):
        alone, whole = anonymous.head(path, headers=headers), anonymous.get(path, headers=headers)
        assert (alone.status_code, alone.content) == (whole.status_code, b"")
        assert alone.headers["content-type"] == whole.headers["content-type"]


def test_the_headers_of_a_stream_end_where_the_stream_would_begin(anonymous, as_role):
    assert anonymous.head("/api/v1/events").status_code == 401
    client = as_role(Role.VIEWER)
    answer = client.head("/api/v1/events")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        pytest.param("/api/v1/jobs", {"authorization": "Bearer {token}"}, id="a token"),
        pytest.param("/api/v1/jobs", {"authorization": "Bearer evt_0123456789ab_{secret}"}, id="an unknown token"),
        pytest.param("/api/v1/hooks/etl", {"x-evertick-token": "{secret}"}, id="the secret of a hook"),
    ],
)
def test_secrets_are_compared_in_constant_time(make_app_state, tokens, monkeypatch, path, headers):
    compared = list[object]()

    def compare(one: bytes | str, other: bytes | str) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setenv("ETL_HOOK", "a-secret-that-is-long")
    words = {"token": tokens[Role.VIEWER], "secret": "0" * 43}
    with TestClient(make_app(make_app_state(**{"api.hooks": "etl=env:ETL_HOOK"})), base_url=ORIGIN) as client:
        monkeypatch.setattr(hmac, "compare_digest", compare)
        method = "POST" if "hooks" in path else "GET"
        client.request(method, path, headers={name: text.format(**words) for name, text in headers.items()})
    assert compared


def test_every_answer_carries_the_headers_that_keep_a_browser_safe(client):
    for path in ("/api/v1/jobs", "/", "/healthz", "/api/v1/nothing"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert headers["referrer-policy"] == "no-referrer"
    assert client.get("/api/v1/jobs").headers["cache-control"] == "no-store"


def test_it_listens_on_the_loopback_address_unless_it_is_told_otherwise(make_app_state):
    assert Settings().host == "127.0.0.1"
    assert make_app_state().settings.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [
        pytest.param({"host": "0.0.0.0"}, True, id="everywhere in the clear"),
        pytest.param({"host": "192.0.2.7"}, True, id="elsewhere in the clear"),
        pytest.param({"host": "cron.example"}, True, id="a name that may be anywhere"),
        pytest.param({"host": "0.0.0.0", "api.behind_proxy": "true"}, True, id="behind some proxy"),
        pytest.param(
            {"host": "0.0.0.0", "api.behind_proxy": "true", "api.proxies": "10.0.0.5"}, False, id="behind a proxy"
        ),
        pytest.param({"host": "127.0.0.1", "api.tls_cert": "c.pem"}, True, id="half of TLS"),
        pytest.param({"host": "127.0.0.1", "api.proxies": "a proxy"}, True, id="a proxy that is no address"),
        pytest.param({"host": "0.0.0.0", "api.tls_cert": "c.pem", "api.tls_key": "k.pem"}, False, id="with TLS"),
        pytest.param({"host": "127.0.0.2"}, False, id="this machine"),
        pytest.param({"host": "::1"}, False, id="this machine, newer"),
        pytest.param({"host": "localhost"}, False, id="this machine by name"),
    ],
)
def test_it_listens_elsewhere_only_where_something_protects_the_connection(make_app_state, settings, is_refused):
    if is_refused:
        with pytest.raises(SettingsError, match=r"tls_cert|api\.proxies"):
            make_app_state(**settings)
    else:
        assert make_app_state(**settings).hosts >= {"localhost"}


def test_what_was_done_is_noted_with_who_and_from_where(client, app_state):
    client.post("/api/v1/jobs/etl/trigger", json={"params": {"FORMAT": "json"}})
    client.get("/api/v1/jobs")
    (line,), _ = app_state.audit.page()
    assert (line["by"], line["action"], line["target"], line["outcome"], line["detail"]) == (
        "admin",
        "POST /api/v1/jobs/{job}/trigger",
        "/api/v1/jobs/etl/trigger",
        "200",
        {"params": ["FORMAT"]},
    )
    assert line["from"] == "testclient"
    assert app_state.audit.verify().is_whole


@pytest.mark.parametrize(
    ("address", "is_let_in"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.5", True),
        ("10.0.0.6", False),
        ("", False),
    ],
)
def test_in_clear_text_only_this_machine_and_the_proxy_may_connect(address, is_let_in):
    settings = Settings.load(None, {}, {"host": "0.0.0.0", "api.behind_proxy": "true", "api.proxies": "10.0.0.5"})
    assert callers_of(settings)(address) is is_let_in


@pytest.mark.parametrize(("proxies", "shown"), [(None, "127.0.0.1"), ("127.0.0.1", "203.0.113.9")])
def test_only_a_named_proxy_is_believed_who_calls(make_app_state, proxies, shown):
    app_state = make_app_state(port=0, **{"api.behind_proxy": "true", "api.proxies": proxies})
    server = ApiServer(app_state)
    server.start(lambda _: None)
    try:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=180)
        with contextlib.closing(connection):
            headers = {"x-forwarded-for": "203.0.113.9", "content-type": "application/json"}
            connection.request("POST", "/api/v1/session", json.dumps({"token": "wrong"}), headers)
            assert connection.getresponse().status == 401
    finally:
        server.stop()
    (line,), _ = app_state.audit.page()
    assert line["from"] == shown


class TestAnAuditLogThatCannotBeWritten:
    def break_it(self, app_state):
        app_state.audit.path.unlink(missing_ok=True)
        app_state.audit.path.symlink_to("/nowhere/at/all")

    def test_nothing_is_done_that_would_leave_no_trace(self, client, app_state, store):
        self.break_it(app_state)
        answer = client.post("/api/v1/jobs/etl/trigger", json={})
        assert (answer.status_code, "audit log" in answer.json()["detail"]) == (503, True)
        assert not store.claim(None, 10)
        assert client.get("/api/v1/jobs").status_code == 200

    def test_the_settings_can_allow_it(self, make_app_state, store):
        app_state = make_app_state(**{"api.require_audit": "false"})
        _, token = app_state.tokens.create("ann", Role.ADMIN)
        self.break_it(app_state)
        with TestClient(make_app(app_state), base_url="http://localhost") as client:
            headers = {"authorization": f"Bearer {token}"}
            assert client.post("/api/v1/jobs/etl/trigger", json={}, headers=headers).status_code == 200
        assert store.claim(None, 10)


def test_a_fault_of_ours_is_a_line_too(app_state, as_role, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(type(app_state.operations), "trigger", fail)
    with contextlib.suppress(RuntimeError):
        as_role(Role.ADMIN).post("/api/v1/jobs/etl/trigger", json={})
    (line,), _ = app_state.audit.page()
    assert (line["action"], line["outcome"]) == ("POST /api/v1/jobs/{job}/trigger", "500")
