"""Whether the command line finds its commands, ends with the right code, and starts fast."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from evertick import errors
from evertick.cli.app import COMMANDS, SECTIONS, SUMMARIES, evertick
from evertick.cli.exits import exit_code
from evertick.stores import open_store
from tests.ledgers import new_ledger

HEAVY = (
    *("yaml", "sqlalchemy", "alembic", "rich", "fastapi", "pydantic", "uvicorn", "zoneinfo"),
    *("evertick.planning", "evertick.definitions", "evertick.operations", "evertick.service"),
)
DATABASE = ("sqlalchemy", "alembic", "fastapi", "pydantic", "uvicorn", "rich", "evertick.stores", "evertick.service")

WEB = ("fastapi", "pydantic", "uvicorn", "prometheus_client", "opentelemetry")
ENGINES = ("dask", "distributed", "psycopg", "pymysql", "sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.mysql")


def run(*arguments: str):
    return CliRunner().invoke(evertick, arguments, prog_name="evertick")


def commands():
    context = click.Context(evertick)
    for name in COMMANDS:
        command = evertick.get_command(context, name)
        yield name, command
        for inner in getattr(command, "commands", {}).values():
            yield f"{name} {inner.name}", inner


def test_help_lists_every_command_with_its_summary():
    result = run("--help")
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)
    assert all(SUMMARIES[name] in " ".join(result.output.split()) for name in SUMMARIES)


def test_every_command_has_its_place_under_a_heading():
    placed = [name for names in SECTIONS.values() for name in names]
    assert sorted(placed) == sorted(COMMANDS)


def test_the_summaries_are_the_first_lines_of_the_commands_own_help():
    found = {name: str(command.help).split("\n")[0] for name, command in commands() if " " not in name}
    assert {name: found[name] for name in SUMMARIES} == SUMMARIES


@pytest.mark.parametrize("name", [name for name, _command in commands()])
def test_the_help_of_every_command_has_an_example(name):
    result = run(*name.split(), "--help")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"evertick {name.split()[0]}" in result.output.partition("Example")[2]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_the_outermost_options_import_nothing_heavy(arguments):
    code = (
        "import sys, runpy\n"
        f"sys.argv = ['evertick', *{arguments!r}]\n"
        "try:\n    runpy.run_module('evertick', run_name='__main__')\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "evertick" in result.stdout
    assert not set(HEAVY) & set(result.stderr.split())


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("for name in app.COMMANDS: app.evertick.get_command(None, name)", id="the help of all commands"),
        pytest.param("sys.argv[1:] = ['list', '--server', 'http://127.0.0.1:1']; app.run()", id="asking a server"),
    ],
)
def test_no_database_is_imported_for(code):
    text = (
        "import sys\nfrom evertick.cli import app\n"
        f"try:\n    exec({code!r})\nexcept SystemExit:\n    pass\n"
        "print('modules', *sys.modules, file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert not set(DATABASE) & set(result.stderr.partition("modules ")[2].split())


@pytest.mark.parametrize("command", ["list", "status", "history", "upcoming", "doctor"])
def test_a_ledger_in_a_file_is_read_without(tmp_path, command):
    (tmp_path / "report.yaml").write_text("schedule: '0 9 * * *'\ncommand: x\n")
    open_store(new_ledger(tmp_path / "ledger.db")).close()
    text = (
        "import sys\nfrom evertick.cli import app\n"
        f"sys.argv[1:] = [{command!r}, '--folder', {str(tmp_path)!r}, '--store', 'sqlite:///{tmp_path}/ledger.db']\n"
        "try:\n    app.run()\nexcept SystemExit:\n    pass\n"
        "print('modules', *sys.modules, file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert "report" in result.stdout or command in ("history", "doctor", "status"), result.stderr
    loaded = result.stderr.partition("modules ")[2].split()
    assert "evertick.stores.sql.sqlite_reader" in loaded
    assert not {"sqlalchemy", "alembic", "asyncio"} & set(loaded)


@pytest.mark.parametrize(
    ("modules", "spared"),
    [
        pytest.param("evertick.cli.commands.serve, evertick.service", (*WEB, *ENGINES, "alembic"), id="the scheduler"),
        pytest.param(
            "evertick.executors.keeper.__main__",
            (*WEB, *ENGINES, "alembic", "sqlalchemy", "sqlite3", "yaml", "click"),
            id="the keeper",
        ),
        pytest.param(
            "evertick.api.__main__, evertick.api.server",
            (*ENGINES, "alembic", "rich"),
            id="the API server",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_each_process_of_a_scheduler_imports_only_what_it_uses(modules, spared):
    code = f"import sys\nimport {modules}\nprint(*sys.modules)"
    told = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not set(spared) & set(told.stdout.split())


def test_the_version_is_shown():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.startswith("evertick 0.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["upcomng"], "Unknown command 'upcomng'. Did you mean 'upcoming'?", id="a mistyped command"),
        pytest.param(
            ["cron", "nxt"], "Unknown command 'nxt'. Did you mean 'next'?", id="a mistyped command of a group"
        ),
        pytest.param(["qqq"], f"Choose one of: {', '.join(sorted(COMMANDS))}.", id="a command like no other"),
        pytest.param(["upcoming", "--cuont", "3"], "--count", id="a mistyped option"),
    ],
)
def test_a_mistake_ends_with_2_and_names_the_nearest(arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(errors.DefinitionError("x"), 2, id="a definition"),
        pytest.param(errors.InvalidArgument("x"), 2, id="an argument"),
        pytest.param(errors.CronError("x"), 2, id="a cron expression"),
        pytest.param(errors.SettingsError("x"), 2, id="a setting"),
        pytest.param(errors.NotFound("x"), 3, id="nothing of that name"),
        pytest.param(errors.StoreUnavailable("x"), 5, id="the store is away"),
        pytest.param(errors.Conflict("x"), 6, id="a conflict"),
        pytest.param(errors.EvertickError("x"), 1, id="anything else"),
    ],
)
def test_an_error_has_its_exit_code(error, code):
    assert exit_code(error) == code


def test_a_full_disk_is_one_line_on_stderr():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "evertick", "settings"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (
        1,
        "evertick: cannot write the output: No space left on device. Free some space.\n",
    )


def test_an_error_is_one_line_on_stderr():
    result = subprocess.run(
        [sys.executable, "-m", "evertick", "upcoming", "no\x1b[31mwhere"], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr == "evertick: the folder 'no\\x1b[31mwhere' does not exist. Name a folder of job files.\n"
