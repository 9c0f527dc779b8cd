"""How a server is asked: what it answers, what it refuses, and where a token never goes."""

from __future__ import annotations

import json
import os
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from evertick import errors
from evertick.cli.connection import Http
from evertick.cli.exits import exit_code
from evertick.cli.remote import RemoteOperations, find_neighbour, find_token
from evertick.settings.exposure import is_loopback
from tests.cli.desk import code_of, run


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Scripted:
    """A server that gives the answers it was told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str, bytes]] = []
        self.asked: list[Asked] = []
        self.closes_after_each = False
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                return

            def answer(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                script.asked.append(Asked(self.command, self.path, headers, body))
                status, kind, content = script.answers.pop(0) if script.answers else (200, "application/json", b"{}")
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                if status == 302:
                    self.send_header("location", "http://127.0.0.1:1/")
                self.end_headers()
                self.wfile.write(content)
                # Without a word to the other side, as a proxy that has waited long enough does.
                self.close_connection = script.closes_after_each

            do_GET = do_POST = do_DELETE = answer  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def will(self, status: int, body: object, kind: str = "application/json") -> None:
        self.answers.append((status, kind, json.dumps(body).encode() if not isinstance(body, bytes) else body))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.close()


@pytest.fixture
def desk(server) -> Iterator[RemoteOperations]:
    http = Http(server.url, "evt_secret")
    yield RemoteOperations(http)
    http.close()


def test_a_question_carries_the_token_and_what_is_asked_for(server, desk):
    desk.list_runs("a/b", ["failed"], since="2026-03-01", limit=5, after="x@2026-03-01T00:00:00Z")
    (asked,) = server.asked
    assert (asked.method, asked.headers["authorization"]) == ("GET", "Bearer evt_secret")
    assert (
        asked.path == "/api/v1/runs?state=failed&job=a%2Fb&from=2026-03-01&limit=5&cursor=x%402026-03-01T00%3A00%3A00Z"
    )


def test_a_name_never_leads_to_another_path(server, desk):
    desk.job("../../x?y#z")
    assert server.asked[0].path == "/api/v1/jobs/..%2F..%2Fx%3Fy%23z"
    with pytest.raises(errors.InvalidArgument):
        desk.job("..")


def test_a_request_has_a_key_so_that_asking_twice_does_it_once(server, desk):
    desk.trigger("report", {"A": "1"}, request_id="cli-1", wait_seconds=90)
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == (
        "POST",
        "/api/v1/jobs/report/trigger?wait=60.0",
        {"params": {"A": "1"}, "trigger": "manual"},
    )
    assert asked.headers["idempotency-key"] == "cli-1"


def test_a_connection_that_was_closed_meanwhile_is_made_again(server, desk):
    server.closes_after_each = True
    assert [desk.nodes(), desk.nodes(), desk.nodes()] == [{}, {}, {}]
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
def test_a_refusal_has_its_error_and_its_exit_code(server, desk, status, kind, code):
    server.will(status, {"status": status, "detail": "because"}, "application/problem+json")
    with pytest.raises(kind, match="because") as raised:
        desk.nodes()
    assert exit_code(raised.value) == code


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        pytest.param({"field": "limit"}, errors.InvalidArgument, id="a parameter"),
        pytest.param({"field": "limit", "file": "jobs/report.yaml"}, errors.DefinitionError, id="a definition"),
    ],
)
def test_a_wrong_definition_and_a_wrong_argument_are_told_apart(server, desk, told, kind):
    server.will(422, {"status": 422, "detail": "because", **told}, "application/problem+json")
    with pytest.raises(kind, match="because") as raised:
        desk.nodes()
    assert raised.value.field == "limit"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        pytest.param(200, b"<html>hello</html>", "text/html", id="a page"),
        pytest.param(302, b"", "text/html", id="a redirect, which is not followed"),
        pytest.param(404, b"<html>nothing</html>", "text/html", id="somebody else's server"),
        pytest.param(200, b"{", "application/json", id="half an answer"),
    ],
)
def test_what_is_no_evertick_is_said_to_be_none(server, desk, status, body, kind):
    server.answers.append((status, kind, body))
    with pytest.raises(errors.ServerUnavailable, match="is not an Evertick server"):
        desk.nodes()
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
        Http(url, "evt_x")


@pytest.mark.parametrize("token", ["evt_a\nb", "evt a", "ä", "\x00"])
def test_a_token_that_is_none_is_not_sent(token):
    with pytest.raises(errors.SettingsError, match="contains invalid characters"):
        Http("https://evertick.example", token)


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("localhost", True), ("127.0.0.1", True), ("::1", True), ("10.0.0.1", False), ("localhost.example", False)],
)
def test_which_addresses_stay_on_this_machine(host, is_here):
    assert is_loopback(host) is is_here


def test_a_certificate_that_nobody_vouches_for_is_refused():
    http = Http("https://evertick.example", "evt_x")
    context = http._connection._context
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
    with pytest.raises(errors.SettingsError, match="Cannot read"):
        find_token(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ["--server", "http://127.0.0.1:1", "--folder", "."],
            "cannot be combined with --store",
            id="a server and a folder",
        ),
        pytest.param(["--token-file", "x"], "needs --server", id="a token for nobody"),
    ],
)
def test_options_that_do_not_go_together(arguments, words):
    result = run("list", *arguments)
    assert (code_of(result), words in result.stderr) == (2, True)


def test_what_is_written_goes_before_the_environment(folder):
    result = run("list", "--folder", folder, "-o", "name", EVERTICK_SERVER="http://127.0.0.1:1")
    assert (result.exit_code, result.stdout.split()) == (0, ["etl", "export"])


def test_the_server_of_the_folder_is_asked_when_it_is_there(folder, server):
    state = folder / ".evertick"
    write_note(state, server.url)
    server.will(200, {"user": "first", "role": "admin"})
    server.will(200, {"items": [], "next": None, "statuses": {}, "problems": []})
    assert "There are no jobs" in run("list", "--folder", folder).stderr
    assert [asked.path for asked in server.asked] == ["/api/v1/session", "/api/v1/jobs?limit=1000"]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda _, server: server.will(401, {"detail": "no"}), id="that does not know the token"),
        pytest.param(lambda state, _: write_note(state, "http://127.0.0.1:1"), id="that is gone"),
        pytest.param(lambda state, _: (state / "server.json").write_text("{"), id="whose note is broken"),
        pytest.param(lambda state, _: (state / "token").unlink(), id="whose token is away"),
        pytest.param(lambda state, _: (state / "token").write_bytes(b"\xff\n\n"), id="whose token is broken"),
        pytest.param(lambda state, _: write_note(state, "http://0.0.0.0:1"), id="that listens for everybody"),
        pytest.param(lambda state, _: write_note(state, "nonsense://"), id="whose address is none"),
    ],
)
def test_without_a_server_the_ledger_is_as_good(folder, server, spoil):
    state = folder / ".evertick"
    write_note(state, server.url)
    spoil(state, server)
    assert run("list", "--folder", folder, "-o", "name").stdout.split() == ["etl", "export"]


def test_a_note_of_a_process_that_ended_is_passed_over(folder):
    write_note(folder / ".evertick", "http://127.0.0.1:1", pid=2**22 + 1)
    assert find_neighbour(folder / ".evertick") is None


def write_note(state: Path, url: str, pid: int | None = None) -> None:
    (state / "server.json").write_text(json.dumps({"url": url, "pid": pid or os.getpid(), "node": "a1"}))
    (state / "token").write_text("evt_first\n")
