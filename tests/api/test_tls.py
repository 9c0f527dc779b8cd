"""Does the API accept TLS connections, and send the headers that a browser needs over TLS?"""

from __future__ import annotations

import http.client
import json
import ssl

import pytest

from evertick.api.connections import ConnectionLimits
from evertick.api.server import ApiServer
from evertick.errors import SettingsError
from evertick.executors.fleet.authority import Authority
from evertick.executors.fleet.identity import Role as FleetRole
from evertick.operations.tokens import Role
from tests.api.test_connections import LIMITS, LONG, connected, is_closed

pytestmark = pytest.mark.slow


@pytest.fixture
def certificates(tmp_path):
    folder = tmp_path / "certs"
    authority = Authority(folder)
    authority.create()
    return authority.issue(folder / "server", FleetRole.HUB, "server", ["localhost", "127.0.0.1"])


@pytest.fixture
def server(make_app_state, certificates):
    app_state = make_app_state(**{"api.tls_cert": certificates.cert, "api.tls_key": certificates.key, "port": "0"})
    server = ApiServer(app_state)
    server.start(lambda _: None)
    yield server.url.removeprefix("https://"), app_state
    server.stop()


@pytest.fixture
def serve_tls(make_app_state, certificates):
    started: list[ApiServer] = []

    def serve(limits: ConnectionLimits) -> tuple[str, int]:
        app_state = make_app_state(**{"api.tls_cert": certificates.cert, "api.tls_key": certificates.key, "port": "0"})
        started.append(ApiServer(app_state, limits))
        started[-1].start(lambda _: None)
        host, _, port = started[-1].url.removeprefix("https://").partition(":")
        return host, int(port)

    yield serve
    for server in started:
        server.stop()


def ask(server, certificates, method, path, body=None, **headers):
    trusted = ssl.create_default_context(cafile=certificates.ca)
    connection = http.client.HTTPSConnection(server, timeout=180, context=trusted)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_a_page_signs_in_over_tls_with_a_cookie_that_never_leaves_it(server, certificates):
    place, app_state = server
    token = app_state.tokens.create("ann", Role.VIEWER)[1]
    kind = {"content-type": "application/json"}
    answer = ask(place, certificates, "POST", "/api/v1/session", json.dumps({"token": token}), **kind)
    assert answer.status == 200
    assert "secure" in answer.headers["set-cookie"].lower()
    assert answer.headers["strict-transport-security"]


def test_a_client_without_tls_is_not_answered(server):
    place, _ = server
    connection = http.client.HTTPConnection(place, timeout=180)
    connection.request("GET", "/healthz")
    with pytest.raises((http.client.HTTPException, OSError)):
        connection.getresponse()
    connection.close()


@pytest.mark.parametrize(
    "sends", [pytest.param(b"", id="nothing"), pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", id="half a hello")]
)
def test_a_handshake_that_stalls_is_dropped_at_the_deadline_of_headers(serve_tls, certificates, sends):
    place = serve_tls(LIMITS)
    with connected(place, 5, sends) as stalled:
        assert ask(":".join(map(str, place)), certificates, "GET", "/healthz").status == 200
        assert all(map(is_closed, stalled))


def test_handshakes_that_stall_make_room(serve_tls, certificates):
    """Three times as many as there is room for, and nobody is turned away."""
    place = serve_tls(LONG)
    with connected(place, 3 * LONG.total):
        for _ in range(3):
            assert ask(":".join(map(str, place)), certificates, "GET", "/healthz").status == 200


def test_a_certificate_that_cannot_be_used_is_refused_at_once(make_app_state, certificates, tmp_path):
    (tmp_path / "key.pem").write_text("no key")
    app_state = make_app_state(
        **{"api.tls_cert": certificates.cert, "api.tls_key": str(tmp_path / "key.pem"), "port": "0"}
    )
    with pytest.raises(SettingsError, match="cannot be used"):
        ApiServer(app_state)
