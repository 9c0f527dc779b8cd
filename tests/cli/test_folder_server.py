"""Which server a command uses: the one that is named, the folder's own, or none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from evertick.cli.target import find_folder_server
from tests.cli.invoke import code_of, run
from tests.client.scripted import server

__all__ = ["server"]


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
    server.will(200, {"items": [], "next": None, "total": 0, "statuses": {}, "tags": [], "problems": []})
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
    assert find_folder_server(folder / ".evertick") is None


def write_note(state: Path, url: str, pid: int | None = None) -> None:
    (state / "server.json").write_text(json.dumps({"url": url, "pid": pid or os.getpid(), "node": "a1"}))
    (state / "token").write_text("evt_first\n")
