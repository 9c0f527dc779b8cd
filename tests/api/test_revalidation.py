"""Does a client that has a response receive 304 while it is valid, and never when it is not?"""

from __future__ import annotations

import json

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from evertick.api.compression import Compressing
from evertick.api.revalidation import KEPT_BYTES, KEPT_EACH_BYTES, Revalidating, tags_in
from evertick.operations.results.base import Result
from evertick.operations.tokens import Role
from tests.api.http_client import TestClient
from tests.api.test_delta import applied, run

DELTA = {"a-im": "evertick-delta"}


class Said:
    """What the server answers now."""

    def __init__(self):
        self.body: object = {"now": "12:00", "items": [run(number) for number in range(20)]}
        self.media_type = "application/json"
        self.status = 200

    async def answer(self, _):
        text = json.dumps(self.body, separators=(",", ":"))
        return Response(text, self.status, media_type=self.media_type)


@pytest.fixture
def said():
    return Said()


@pytest.fixture
def client(said):
    paths = ("/api/v1/runs", "/api/v1/other", "/api/v1/tokens", "/page")
    routes = [Route(path, said.answer, methods=["GET", "POST"]) for path in paths]
    return TestClient(Compressing(Revalidating(Starlette(routes=routes), b"secret")))


def ask(client, tag=None, path="/api/v1/runs", **headers):
    return client.get(path, headers={**({"if-none-match": tag} if tag else {}), **headers})


def test_the_same_answer_is_not_sent_again(client, said):
    first = ask(client)
    said.body = {**said.body, "now": "12:01"}
    again = ask(client, first.headers["etag"])
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["etag"].startswith("W/"), "two answers with one tag differ in the time"
    assert {"Authorization", "Cookie"} <= {word.strip() for word in again.headers["vary"].split(",")}


@pytest.mark.parametrize(
    "change",
    [
        lambda body: {**body, "items": body["items"][1:]},
        lambda body: {**body, "more": {"now": "12:00"}},
        lambda body: {**body, "items": [{**body["items"][0], "now": "12:01"}, *body["items"][1:]]},
    ],
)
def test_any_other_change_is_sent(client, said, change):
    first = ask(client)
    said.body = change(said.body)
    again = ask(client, first.headers["etag"])
    assert (again.status_code, again.json()) == (200, said.body)
    assert again.headers["etag"] != first.headers["etag"]


def test_a_list_of_tags_and_a_strong_form_are_understood(client):
    tag = ask(client).headers["etag"]
    assert ask(client, f'"other", {tag.removeprefix("W/")}').status_code == 304
    assert ask(client, '"other"').status_code == 200
    assert list(tags_in('W/"a", "b" , c')) == ['"a"', '"b"']


def test_only_successful_reads_of_json_have_a_tag(client, said):
    assert "etag" not in ask(client, path="/api/v1/tokens").headers, "it may hold a secret"
    assert "etag" not in ask(client, path="/page").headers
    assert "etag" not in client.post("/api/v1/runs").headers
    said.media_type = "application/problem+json"
    assert "etag" not in ask(client).headers
    said.media_type, said.status = "application/json", 404
    assert "etag" not in ask(client).headers


def test_a_client_that_asks_for_them_gets_the_changes(client, said):
    first = ask(client, **DELTA)
    said.body = {"now": "12:01", "items": [run(99), *said.body["items"][:-1]]}
    again = ask(client, first.headers["etag"], **DELTA)
    assert (again.status_code, again.headers["im"]) == (226, "evertick-delta")
    assert again.headers["delta-base"] == first.headers["etag"].removeprefix("W/")
    assert len(again.content) < len(first.content) / 5
    assert applied(first.json(), again.json()) == said.body


def test_changes_always_carry_the_time(client, said):
    """Of two answers with one tag the client may have either."""
    first = ask(client, **DELTA)
    said.body = {**said.body, "now": "12:01"}
    assert ask(client, **DELTA).headers["etag"] == first.headers["etag"]
    said.body = {"now": "12:01", "items": said.body["items"][:-1]}
    changes = ask(client, first.headers["etag"], **DELTA)
    assert changes.status_code == 226
    assert applied(first.json(), changes.json()) == said.body


def test_changes_are_found_to_the_answer_of_another_question(client, said):
    """A period that moves on has another address, and mostly the same contents."""
    tag = ask(client, **DELTA).headers["etag"]
    assert ask(client, tag, path="/api/v1/other", **DELTA).status_code == 304
    said.body = {"now": "12:01", "items": said.body["items"][1:]}
    assert ask(client, tag, path="/api/v1/other", **DELTA).status_code == 226


def test_without_the_old_answer_or_without_a_gain_the_whole_is_sent(client, said):
    first = ask(client)  # by a client that does not ask for changes: its answer is not kept
    said.body = {"now": "1", "items": [run(number, "failed") for number in range(50, 70)]}
    assert ask(client, first.headers["etag"], **DELTA).json() == said.body
    last = ask(client, **DELTA).headers["etag"]
    said.body = {"now": "1", "items": [{**run(number), "detail": str(number) * 90} for number in range(80)]}
    whole = ask(client, last, **DELTA)
    assert (whole.status_code, whole.json()) == (200, said.body)


def test_what_is_kept_is_bounded(said):
    made = Revalidating(Starlette(routes=[Route("/api/v1/runs", said.answer)]), b"secret")
    client = TestClient(made)
    tags = []
    for number in range(KEPT_BYTES // KEPT_EACH_BYTES + 4):
        said.body = {"now": "1", "text": str(number) + "x" * (KEPT_EACH_BYTES - 100)}
        tags.append(ask(client, **DELTA).headers["etag"].removeprefix("W/"))
    said.body = {"now": "1", "text": "x" * KEPT_EACH_BYTES}
    tags.append(ask(client, **DELTA).headers["etag"].removeprefix("W/"))
    kept = made._kept
    assert sum(map(len, kept.values())) == made._kept_bytes <= KEPT_BYTES
    assert (tags[-2] in kept, tags[0] in kept, tags[-1] in kept) == (True, False, False)


def test_the_time_is_the_first_field_of_every_answer_that_has_it():
    """The tag leaves the first field out where it is the time: a new answer with another order would never match."""

    def kinds(kind):
        for one in kind.__subclasses__():
            yield one
            yield from kinds(one)

    timed = [one for one in kinds(Result) if one.VOLATILE]
    assert len(timed) >= 3
    assert {one.VOLATILE[0] for one in timed} == {"now"}


def test_the_tag_holds_for_every_role_and_a_stranger_gets_none(as_role, anonymous):
    tag = as_role(Role.VIEWER).get("/api/v1/overview").headers["etag"]
    asked = {"if-none-match": tag}
    assert as_role(Role.ADMIN).get("/api/v1/overview", headers=asked).status_code == 304
    assert as_role(Role.VIEWER).get("/api/v1/audit", headers=asked).status_code == 403
    del anonymous.headers["authorization"]
    refused = anonymous.get("/api/v1/overview", headers=asked)
    assert (refused.status_code, "etag" in refused.headers) == (401, False)
