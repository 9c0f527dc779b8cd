"""Can it be reached over TLS, and is everything that a browser needs to stay safe there then?"""

from __future__ import annotations

import http.client
import json
import ssl

import pytest

from evertick.api.server import ApiServer
from evertick.executors.fleet.authority import Authority
from evertick.executors.fleet.identity import Role as FleetRole
from evertick.operations.tokens import Role

pytestmark = pytest.mark.slow


@pytest.fixture
def certificates(tmp_path):
    folder = tmp_path / "certs"
    authority = Authority(folder)
    authority.create()
    return authority.issue(folder / "server", FleetRole.HUB, "server", ["localhost", "127.0.0.1"])


@pytest.fixture
def server(make_office, certificates):
    office = make_office(**{"api.tls_cert": certificates.cert, "api.tls_key": certificates.key, "port": "0"})
    server = ApiServer(office)
    server.start(lambda _: None)
    yield server.url.removeprefix("https://"), office
    server.stop()


def ask(server, certificates, method, path, body=None, **headers):
    trusted = ssl.create_default_context(cafile=certificates.ca)
    connection = http.client.HTTPSConnection(server, timeout=60, context=trusted)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_a_page_signs_in_over_tls_with_a_cookie_that_never_leaves_it(server, certificates):
    place, office = server
    token = office.tokens.create("ann", Role.VIEWER)[1]
    kind = {"content-type": "application/json"}
    answer = ask(place, certificates, "POST", "/api/v1/session", json.dumps({"token": token}), **kind)
    assert answer.status == 200
    assert "secure" in answer.headers["set-cookie"].lower()
    assert answer.headers["strict-transport-security"]


def test_who_speaks_no_tls_is_not_answered(server):
    place, _ = server
    connection = http.client.HTTPConnection(place, timeout=60)
    connection.request("GET", "/healthz")
    with pytest.raises((http.client.HTTPException, OSError)):
        connection.getresponse()
    connection.close()
