"""Which fleet a command uses: the given address, or the one in the environment."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from evertick.cli.commands import fleet as commands
from evertick.executors.fleet import admin
from evertick.model.member import Member

HERE = "tcp://127.0.0.1:8786"
THERE = "tcp://127.0.0.1:9999"


@pytest.fixture
def asked(monkeypatch):
    """The addresses that were asked, by a fleet that has one member."""
    found = []

    def answer(settings, *_, **__):
        found.append(settings.url)
        return [Member("ex-a", True, 0)]

    monkeypatch.setattr(admin, "list_members", answer)
    monkeypatch.setattr(admin, "set_cordon", lambda *args, **known: answer(*args, **known)[0])
    return found


def run(*words: str, url: str = ""):
    return CliRunner().invoke(commands.fleet, words, env={"EVERTICK_FLEET_URL": url})


@pytest.mark.parametrize("command", [("list",), ("members",), ("cordon", "ex-a"), ("uncordon", "ex-a")], ids=" ".join)
@pytest.mark.parametrize(
    ("written", "known", "meant"),
    [
        pytest.param((HERE,), "", HERE, id="written"),
        pytest.param((), HERE, HERE, id="in the environment"),
        pytest.param((THERE,), HERE, THERE, id="both, and what is written counts"),
    ],
)
def test_the_fleet_that_is_meant_is_asked(asked, command, written, known, meant):
    name, *rest = command
    done = run(name, *written, *rest, "-o", "name", url=known)
    assert (done.exit_code, done.stdout) == (0, "ex-a\n")
    assert asked == [meant]


@pytest.mark.parametrize(
    "command",
    [
        *[("list",), ("cordon", "ex-a"), ("drain", "ex-a"), ("remove", "ex-a")],
        ("join", "--name", "ex-a", "--label", "docs=http://x"),
    ],
    ids=" ".join,
)
def test_a_command_without_a_fleet_says_how_to_name_one(asked, command):
    done = run(*command)
    assert done.exit_code == 2
    assert "Write it first, for example tls://127.0.0.1:8786, or set EVERTICK_FLEET_URL." in done.stderr
    assert asked == []


def test_help_needs_no_fleet():
    assert run("cordon", "--help").exit_code == 0
