"""The client's HTTP: what it sends, how it reads an error, and where it never sends a token."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from evertick import errors
from evertick.api.problems import of_error
from evertick.cli.exits import exit_code
from evertick.client import Client
from evertick.http_connection import HttpConnection, find_token
from evertick.model.lifecycle import RunState
from evertick.operations.protocol import RunQuery
from evertick.settings.exposure import is_loopback
from tests.cli.invoke import code_of, run
from tests.client.scripted import server

__all__ = ["server"]


@pytest.fixture
def client(server) -> Iterator[Client]:
    with Client(server.url, "evt_secret") as found:
        yield found


NODES = {"is_scheduler_running": True, "items": []}
STATUS = {
    "request": "r",
    "job": "report",
    "is_answered": False,
    "answer": None,
    "run": None,
    "is_scheduler_running": True,
}


def test_a_question_carries_the_token_and_what_is_asked_for(server, client):
    server.will(200, {"items": [], "next": None})
    query = RunQuery("a/b", [RunState.FAILED], since="2026-03-01")
    client.list_runs(query, limit=5, after="x@2026-03-01T00:00:00Z")
    (asked,) = server.asked
    assert (asked.method, asked.headers["authorization"]) == ("GET", "Bearer evt_secret")
    assert (
        asked.path == "/api/v1/runs?job=a%2Fb&state=failed&from=2026-03-01&limit=5&cursor=x%402026-03-01T00%3A00%3A00Z"
    )


def test_a_name_never_leads_to_another_path(server, client):
    server.will(404, {"status": 404, "detail": "no such job"}, "application/problem+json")
    with pytest.raises(errors.NotFound):
        client.job("../../x?y#z")
    assert server.asked[0].path == "/api/v1/jobs/..%2F..%2Fx%3Fy%23z"
    with pytest.raises(errors.InvalidArgument):
        client.job("..")


def test_a_request_has_a_key_so_that_asking_twice_does_it_once(server, client):
    server.will(200, STATUS)
    client.trigger("report", {"A": "1"}, request_id="cli-1", wait_seconds=90)
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == (
        "POST",
        "/api/v1/jobs/report/trigger?wait=60.0",
        {"params": {"A": "1"}, "trigger": "manual"},
    )
    assert asked.headers["idempotency-key"] == "cli-1"


def test_a_connection_that_was_closed_meanwhile_is_made_again(server, client):
    server.closes_after_each = True
    for _ in range(3):
        server.will(200, NODES)
        assert client.nodes().items == ()
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        pytest.param(400, errors.InvalidArgument, 2, id="a bad request"),
        pytest.param(401, errors.AccessDenied, 4, id="an unknown token"),
        pytest.param(403, errors.AccessDenied, 4, id="too small a role"),
        pytest.param(404, errors.NotFound, 3, id="no such thing"),
        pytest.param(409, errors.Conflict, 6, id="a conflict"),
        pytest.param(421, errors.SettingsError, 2, id="another name than its own"),
        pytest.param(422, errors.InvalidArgument, 2, id="a parameter that is wrong"),
        pytest.param(429, errors.ServerUnavailable, 5, id="too often"),
        pytest.param(500, errors.ServerUnavailable, 5, id="a fault of the server"),
        pytest.param(503, errors.ServerUnavailable, 5, id="a server that is busy"),
    ],
)
def test_a_refusal_has_its_error_and_its_exit_code(server, client, status, kind, code):
    server.will(status, {"status": status, "detail": "because"}, "application/problem+json")
    with pytest.raises(kind, match="because") as raised:
        client.nodes()
    assert exit_code(raised.value) == code


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(errors.InvalidArgument("the limit is 0.", hint="Write 1.", field="limit"), id="an argument"),
        pytest.param(errors.InvalidArgument("Write 1. Write 1.", hint="Write 1."), id="a reason that ends as its hint"),
        pytest.param(
            errors.DefinitionError("a.yaml: no", hint="Fix it.", field="cron", file="a.yaml", line=7, column=1),
            id="a definition whose reason begins with its file",
        ),
        pytest.param(errors.NotFound("unknown job 'biuld'.", ("build",)), id="a name with suggestions"),
        pytest.param(errors.NotFound("unknown node 'x'."), id="a name without suggestions"),
        pytest.param(errors.Conflict("it runs."), id="a conflict"),
    ],
)
def test_an_error_of_the_server_is_the_same_error_here(server, client, error):
    response = of_error(error)
    server.answers.append((response.status_code, "application/problem+json", bytes(response.body)))
    with pytest.raises(type(error)) as raised:
        client.nodes()
    assert (str(raised.value), vars(raised.value)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        pytest.param(200, b"<html>hello</html>", "text/html", id="a page"),
        pytest.param(302, b"", "text/html", id="a redirect, which is not followed"),
        pytest.param(404, b"<html>nothing</html>", "text/html", id="somebody else's server"),
        pytest.param(200, b"{", "application/json", id="half an answer"),
    ],
)
def test_another_server_is_recognised_as_not_evertick(server, client, status, body, kind):
    server.answers.append((status, kind, body))
    with pytest.raises(errors.ServerUnavailable, match="is not an Evertick server"):
        client.nodes()
    assert len(server.asked) == 1


def test_a_server_that_is_away_is_unreachable():
    result = run("list", "--server", "http://127.0.0.1:1", EVERTICK_TOKEN="evt_x")
    assert (code_of(result), "does not answer" in str(result.exception)) == (5, True)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        pytest.param("http://evertick.example", "unencrypted", id="plain text to another machine"),
        pytest.param("ftp://evertick.example", "is not a server URL", id="another protocol"),
        pytest.param("https://me:secret@evertick.example", "must not contain a password", id="a password"),
        pytest.param("https://", "is not a server URL", id="no name"),
        pytest.param("https://host:99999", "is not a server URL", id="no port"),
        pytest.param("https://host:x", "is not a server URL", id="a port that is no number"),
        pytest.param("https://[::1", "is not a server URL", id="half an address"),
        pytest.param("https://" + "a" * 70 + ".example", "is not a server URL", id="a name that cannot be"),
    ],
)
def test_an_address_that_cannot_be_used(url, words):
    with pytest.raises(errors.SettingsError, match=words):
        HttpConnection(url, "evt_x")


@pytest.mark.parametrize("token", ["evt_a\nb", "evt a", "ä", "\x00"])
def test_a_token_that_is_none_is_not_sent(token):
    with pytest.raises(errors.SettingsError, match="contains invalid characters"):
        HttpConnection("https://evertick.example", token)


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("localhost", True), ("127.0.0.1", True), ("::1", True), ("10.0.0.1", False), ("localhost.example", False)],
)
def test_which_addresses_stay_on_this_machine(host, is_here):
    assert is_loopback(host) is is_here


def test_a_certificate_of_an_unknown_authority_is_refused():
    http = HttpConnection("https://evertick.example", "evt_x")
    context = getattr(http._connection, "_context")  # noqa: B009
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_a_token_comes_from_a_file_that_only_its_owner_reads(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERTICK_TOKEN", "evt_env")
    assert find_token(None) == "evt_env"
    file = tmp_path / "token"
    file.write_text("evt_file\n")
    file.chmod(0o600)
    assert find_token(file) == "evt_file"
    file.chmod(0o644)
    with pytest.raises(errors.SettingsError, match="chmod 600"):
        find_token(file)
    with pytest.raises(errors.SettingsError, match="cannot read"):
        find_token(tmp_path / "nothing")


def page_of(following: str | None) -> dict[str, object]:
    return {"items": [], "next": following, "total": 0, "statuses": {}, "tags": [], "problems": []}


def test_a_client_that_reads_ahead_asks_for_the_next_page_before_it_is_wanted_and_once(server):
    for following in ("one", "two", None):
        server.will(200, page_of(following))
    with Client(server.url, reads_ahead=True) as client:
        first = client.list_jobs(limit=5)
        second = client.list_jobs(limit=5, after=first.next)
        third = client.list_jobs(limit=5, after=second.next)
    assert [first.next, second.next, third.next] == ["one", "two", None]
    assert [asked.path for asked in server.asked] == [
        "/api/v1/jobs?limit=5",
        "/api/v1/jobs?limit=5&cursor=one",
        "/api/v1/jobs?limit=5&cursor=two",
    ]


def test_a_page_that_was_read_ahead_and_is_not_wanted_is_dropped(server):
    for following in ("one", None, None):
        server.will(200, page_of(following))
    with Client(server.url, reads_ahead=True) as client:
        client.list_jobs(limit=5)
        assert client.list_jobs("other", limit=5).next is None
    assert "/api/v1/jobs?search=other&limit=5" in [asked.path for asked in server.asked]


def test_an_error_of_a_page_that_was_read_ahead_is_raised_when_the_page_is_wanted(server):
    server.will(200, page_of("one"))
    server.will(403, {"detail": "no"}, "application/problem+json")
    with Client(server.url, reads_ahead=True) as client:
        first = client.list_jobs(limit=5)
        with pytest.raises(errors.AccessDenied):
            client.list_jobs(limit=5, after=first.next)


def test_a_client_reads_nothing_ahead_unless_it_is_to(server):
    for _ in range(2):
        server.will(200, page_of("one"))
    with Client(server.url) as client:
        client.list_jobs(limit=5)
        client.list_jobs(limit=5, after="two")
    assert [asked.path for asked in server.asked] == ["/api/v1/jobs?limit=5", "/api/v1/jobs?limit=5&cursor=two"]
