"""Are long responses compressed for clients that accept it, and never one that holds a secret?"""

from __future__ import annotations

import gzip
import re
import zlib

import pytest
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from evertick.api.app import make_routes
from evertick.api.compression import LEAST, SECRET, Compressing, accepts_gzip
from evertick.api.openapi import describe
from evertick.operations.tokens import Role
from tests.api.http_client import TestClient

LONG = b'{"job": "report"}' * LEAST
SECRET_FIELD = re.compile(r"^(csrf|token|secret|password|path)$")


async def long_answer(_):
    return Response(LONG, media_type="application/json")


async def short_answer(_):
    return Response(b"{}", media_type="application/json")


async def picture(_):
    return Response(LONG, media_type="image/png")


async def file_of_the_page(_):
    return Response(LONG, media_type="text/javascript", headers={"etag": '"1a"'})


async def events(_):
    return StreamingResponse(iter([LONG, LONG]), media_type="text/event-stream")


@pytest.fixture
def client():
    answers = {
        "/long": long_answer,
        "/short": short_answer,
        "/picture": picture,
        "/file": file_of_the_page,
        "/events": events,
        "/api/v1/session": long_answer,
        "/api/v1/tokens": long_answer,
        "/api/v1/jobs/report/badge": long_answer,
    }
    routes = [Route(path, answer, methods=["GET", "POST"]) for path, answer in answers.items()]
    return TestClient(Compressing(Starlette(routes=routes)))


def test_a_long_answer_is_compressed_and_says_so(client):
    with client.stream("GET", "/long", headers={"accept-encoding": "gzip, br"}) as answer:
        packed = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["vary"] == "Accept-Encoding"
    assert int(answer.headers["content-length"]) == len(packed) < len(LONG) // 10
    assert gzip.decompress(packed) == LONG


@pytest.mark.parametrize(
    ("method", "path", "accepts"),
    [
        pytest.param("GET", "/long", "identity", id="who does not know how"),
        pytest.param("GET", "/long", "gzip;q=0", id="who does not want it"),
        pytest.param("GET", "/short", "gzip", id="what fits into a packet"),
        pytest.param("GET", "/picture", "gzip", id="what is compressed already"),
        pytest.param("GET", "/events", "gzip", id="a stream"),
        pytest.param("POST", "/long", "gzip", id="the answer to an action"),
        pytest.param("GET", "/api/v1/session", "gzip", id="the key of a session"),
        pytest.param("GET", "/api/v1/tokens", "gzip", id="tokens"),
        pytest.param("GET", "/api/v1/jobs/report/badge", "gzip", id="the address of a badge"),
    ],
)
def test_what_is_left_as_it_is(client, method, path, accepts):
    answer = client.request(method, path, headers={"accept-encoding": accepts})
    assert (answer.status_code, "content-encoding" in answer.headers) == (200, False)


def test_a_compressed_file_has_a_weak_tag(client):
    assert client.get("/file", headers={"accept-encoding": "gzip"}).headers["etag"] == 'W/"1a"'
    assert client.get("/file", headers={"accept-encoding": "identity"}).headers["etag"] == '"1a"'


@pytest.mark.parametrize(
    ("written", "does"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("*", True),
        ("", False),
        ("br", False),
        ("gzip; q=0", False),
        ("gzip;q=0.000, br", False),
    ],
)
def test_gzip_is_read_from_the_header_of_a_browser(written, does):
    assert accepts_gzip(written) is does


def test_every_answer_with_a_secret_in_it_is_one_that_is_left_as_it_is():
    """Derived from the description of the API: a new route with such a field is found here."""
    told = describe(make_routes(is_described=True))
    found = {
        path
        for path, methods in told["paths"].items()
        for answer in methods.get("get", {}).get("responses", {}).values()
        if any(map(SECRET_FIELD.match, _fields(answer, told, set())))
    }
    open_to_read = {path for path in found if not SECRET.match(path.replace("{job}", "report"))}
    assert {"/api/v1/session", "/api/v1/jobs/{job}/badge"} <= found
    assert open_to_read == set(), f"compressed, and a secret in it: {sorted(open_to_read)}"


def _fields(part, told, seen):
    """The names of all fields of a schema, and of those it refers to."""
    if isinstance(part, list):
        for one in part:
            yield from _fields(one, told, seen)
    if not isinstance(part, dict):
        return
    name = part.get("$ref", "").removeprefix("#/components/schemas/")
    if name in told["components"]["schemas"] and name not in seen:
        seen.add(name)
        yield from _fields(told["components"]["schemas"][name], told, seen)
    yield from part.get("properties", {})
    for one in part.values():
        yield from _fields(one, told, seen)


def test_the_api_itself_compresses(as_role):
    with as_role(Role.VIEWER).stream("GET", "/api/v1/openapi.json", headers={"accept-encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
    assert (answer.status_code, answer.headers.get("content-encoding")) == (200, "gzip")
    assert answer.headers["cache-control"] == "no-store"
    assert zlib.decompress(packed, wbits=31).startswith(b'{"openapi"')
