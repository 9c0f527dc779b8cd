"""Who may use the API, from the command line."""

from __future__ import annotations

import json
import re

import pytest

from evertick.operations.tokens import Role, Tokens
from tests.cli.invoke import code_of, run
from tests.present import present


def test_a_token_is_shown_once_listed_and_revoked(folder):
    made = json.loads(run("token", "create", "grafana", "--role", "viewer", "--folder", folder, "-o", "json").stdout)
    tokens = Tokens(folder / ".evertick")
    known = present(tokens.check(made["token"]))
    assert (known.name, known.role) == ("grafana", Role.VIEWER)
    listed = run("token", "list", "--folder", folder)
    assert "grafana" in listed.stdout
    assert re.search(r"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d +", listed.stdout)
    assert made["token"] not in run("token", "list", "--folder", folder, "-o", "json").stdout
    assert run("token", "revoke", "grafana", "--folder", folder).stdout == "Revoked grafana.\n"
    assert tokens.check(made["token"]) is None


def test_a_token_for_a_file_is_alone_on_stdout(folder):
    result = run("token", "create", "deploy", "--role", "operator", "--folder", folder, "-o", "name")
    assert result.stdout.startswith("evt_")
    assert len(result.stdout.splitlines()) == 1
    assert "cannot be shown again" in result.stderr


def test_the_first_token_is_shown_to_the_owner_of_the_folder(folder):
    assert code_of(run("token", "show", "--folder", folder)) == 3
    first = Tokens(folder / ".evertick").ensure_first()
    assert run("token", "show", "--folder", folder).stdout == f"{first}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["create", "a", "--role", "root"], 2, "'root' is not one of", id="a role that is none"),
        pytest.param(["create", "-", "--role", "admin"], 2, "invalid token name", id="a name that is none"),
        pytest.param(
            ["create", "a", "--role", "admin", "--expires", "2001-01-01"],
            2,
            "expiry is in the past",
            id="a time that was",
        ),
        pytest.param(["revoke", "nobody"], 3, "unknown token 'nobody'", id="nobody's"),
        pytest.param(["lst"], 2, "Did you mean 'list'", id="a mistyped command"),
    ],
)
def test_a_mistake(folder, arguments, code, words):
    where = ["--folder", folder] if arguments != ["lst"] else []
    result = run("token", *arguments, *where)
    assert (code_of(result), result.stdout) == (code, "")
    assert words in str(result.exception) + result.stderr


def test_without_a_state_folder_there_is_nothing_to_keep_tokens_in(tmp_path):
    assert code_of(run("token", "list", "--folder", tmp_path)) == 3
    assert list(tmp_path.iterdir()) == []


def test_where_there_are_no_tokens_yet_the_way_to_one_is_reported(folder):
    result = run("token", "list", "--folder", folder)
    assert (result.stdout, "evertick serve" in result.stderr) == ("", True)
