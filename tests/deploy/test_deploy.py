"""Whether deploy/ matches the settings, the command line, the locks and systemd."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from configparser import RawConfigParser
from pathlib import Path

import click
import pytest
import yaml

from evertick.api.factory import names_of
from evertick.cli.app import evertick
from evertick.definitions.parser import parse_definition
from evertick.dispatch.dispatcher import ENDING_SECONDS
from evertick.model.duration import parse_duration
from evertick.model.instant import SECOND
from evertick.settings import Settings
from evertick.settings.catalogue import catalogue
from evertick.settings.exposure import check_exposure

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "evertick.service"
DROP_INS = ROOT / "deploy" / "evertick.service.d"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
CLUSTER = ROOT / "deploy" / "kubernetes" / "base" / "evertick.yaml"
COMPOSE = ROOT / "deploy" / "compose.yaml"
CHART = ROOT / "deploy" / "helm" / "evertick"
STOP_SECONDS = Settings().stop.patience_us / SECOND + ENDING_SECONDS
"""How long a stop may take with the settings as they are."""


def unit(path: Path = UNIT) -> RawConfigParser:
    parser = RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string(path.read_text())
    return parser


def variables_of(text: str) -> set[str]:
    return set(re.findall(r"\bEVERTICK_[A-Z_]+(?=[=:])", text))


@pytest.mark.parametrize("file", [UNIT, CONTAINERFILE, COMPOSE], ids=lambda file: file.name)
def test_every_variable_that_is_set_is_a_setting(file):
    known = {setting.variable for setting in catalogue().values()}
    assert variables_of(file.read_text()) - known - {"EVERTICK_DB_PASSWORD"} == set()


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(unit()["Service"]["ExecStart"].split(), id="the unit"),
        pytest.param(["evertick", "serve", "/jobs"], id="the container"),
    ],
)
def test_what_is_started_is_a_command_with_its_options(command):
    assert command[0].endswith("evertick")
    serve = evertick.get_command(click.Context(evertick), command[1])
    assert serve is not None
    serve.make_parser(click.Context(serve)).parse_args(command[2:])


class TestTheUnit:
    def test_the_unit_waits_for_readiness_and_watches_the_loop(self):
        service = unit()["Service"]
        assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
        assert parse_duration(service["WatchdogSec"]) >= 10 * SECOND

    def test_runs_survive_a_restart_and_a_stop_has_the_time_it_may_take(self):
        service = unit()["Service"]
        assert service["KillMode"] == "process"
        assert parse_duration(service["TimeoutStopSec"]) > STOP_SECONDS * SECOND

    @pytest.mark.parametrize(
        ("setting", "value"),
        [
            ("NoNewPrivileges", "yes"),
            ("ProtectSystem", "strict"),
            ("ProtectHome", "yes"),
            ("PrivateTmp", "yes"),
            ("CapabilityBoundingSet", ""),
            ("SystemCallFilter", "@system-service"),
            ("User", "evertick"),
        ],
    )
    def test_the_unit_is_sandboxed(self, setting, value):
        assert unit()["Service"][setting] == value

    @pytest.mark.parametrize("drop_ins", [(), ("user",), ("bwrap",), ("user", "bwrap")], ids="+".join)
    def test_systemd_itself_finds_nothing_wrong_with_it(self, tmp_path, drop_ins):
        analyze = shutil.which("systemd-analyze")
        if analyze is None:
            # Only machines that run it have it; what it would say is checked above by hand.
            assert set(unit().sections()) == {"Unit", "Service", "Install"}
            return
        # With a program and a user that are there.
        text = UNIT.read_text().replace("/opt/evertick/bin/evertick", sys.executable)
        text = re.sub(r"^(User|Group)=.*$", r"\1=root", text, flags=re.M)
        (tmp_path / "evertick.service").write_text(text)
        (tmp_path / DROP_INS.name).mkdir()
        for name in drop_ins:
            shutil.copy(DROP_INS / f"{name}.conf", tmp_path / DROP_INS.name)
        found = subprocess.run(
            [analyze, "verify", "--man=no", str(tmp_path / "evertick.service")],
            capture_output=True,
            text=True,
            check=False,
        )
        # It looks at the units of the machine too; only what it says of ours counts.
        assert [line for line in found.stderr.splitlines() if "evertick" in line] == []

    def test_a_drop_in_opens_what_its_field_needs_and_nothing_else(self):
        assert {path.stem: dict(unit(path)["Service"]) for path in DROP_INS.iterdir()} == {
            "user": {
                "User": "root",
                "Group": "root",
                "CapabilityBoundingSet": "CAP_SETUID CAP_SETGID CAP_DAC_READ_SEARCH CAP_KILL CAP_SYS_PTRACE "
                "CAP_SYS_RESOURCE",
            },
            "bwrap": {"RestrictNamespaces": "no", "SystemCallFilter": "@mount"},
        }


@pytest.mark.parametrize("folder", ["deploy", "examples"])
def test_no_sample_holds_a_password_token_or_key(folder):
    """Samples are copied as they are, and what is the same everywhere is no secret."""
    named = re.compile(r"(?:password|passwd|token|secret|api_?key)\w*[\"']?\s*[:=]\s*[\"']?([^\s\"']+)", re.I)
    in_url = re.compile(r"://[^\s/:@]+:([^\s@]+)@")
    files = [
        path for path in (ROOT / folder).rglob("*") if path.suffix in (".yaml", ".toml", ".service", ".conf", ".py")
    ]
    assert len(files) > 5
    for path in files:
        lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
        assert "kind: Secret" not in lines, path
        values = [value for line in lines for value in (*named.findall(line), *in_url.findall(line))]
        # A reference, a name of a Secret, a switch, or nothing.
        refers = re.compile(r"\$\{|\{\{|evertick-store$|(true|false|\[\])$|\{|env:|file:")
        assert [value for value in values if not refers.match(value)] == [], path


class TestTheContainer:
    def test_what_is_copied_is_there_and_reaches_the_build(self):
        let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
        copied = re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE.read_text(), re.M)
        for path in {path for line in copied for path in line.split()}:
            assert (ROOT / path).exists(), path
            assert path.split("/")[0] in let_in or path in let_in, path

    def test_it_runs_as_an_ordinary_user_and_its_health_check_uses_an_existing_module(self):
        text = CONTAINERFILE.read_text()
        assert text.rindex("USER evertick") > text.rindex("FROM ")
        module = re.search(r'HEALTHCHECK .*?"-m", "([\w.]+)"', text, re.S)
        assert module is not None
        ended = subprocess.run(
            [sys.executable, "-m", module[1], "/nowhere"], capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stdout) == (1, "no scheduler answers in /nowhere\n")

    def test_its_page_and_api_may_listen_on_the_configured_address(self):
        told = dict(re.findall(r"(EVERTICK_[A-Z_]+)=(\S+)", CONTAINERFILE.read_text()))
        settings = Settings.load(None, environ=told)
        assert settings.host == "0.0.0.0"
        check_exposure(settings)

    def test_on_a_cluster_it_answers_to_the_names_of_its_service(self):
        (scheduler,) = [one for one in yaml.safe_load_all(CLUSTER.read_text()) if one["kind"] == "StatefulSet"]
        env = {
            one["name"]: one.get("value", "") for one in scheduler["spec"]["template"]["spec"]["containers"][0]["env"]
        }
        told = env["EVERTICK_API_ALLOWED_HOSTS"].replace("$(NAMESPACE)", "jobs")
        names = names_of(Settings.load(None, environ={"EVERTICK_API_ALLOWED_HOSTS": told, "EVERTICK_HOST": "0.0.0.0"}))
        assert {"evertick", "evertick.jobs", "evertick.jobs.svc"} <= names

    def test_its_lock_is_that_of_the_program_with_some_of_its_extras(self):
        run, dev, container = (entries(ROOT / "requirements" / f"{name}.lock") for name in ("run", "dev", "container"))
        assert {"psycopg", "psycopg-binary", "pymysql"} <= container.keys()
        assert run.items() <= container.items()
        assert container.items() <= dev.items()

    def test_the_container_is_installed_by_hashes_only(self):
        assert "--require-hashes -r requirements/container.lock" in CONTAINERFILE.read_text()
        for lock in (ROOT / "requirements").glob("*.lock"):
            without = [name for name, found in entries(lock).items() if not any("sha256:" in one for one in found)]
            assert without == [], lock.name


class TestTheComposition:
    def test_the_scheduler_has_the_time_a_stop_may_take_and_no_rights(self):
        scheduler = yaml.safe_load(COMPOSE.read_text())["services"]["evertick"]
        assert parse_duration(scheduler["stop_grace_period"]) > STOP_SECONDS * SECOND
        assert (scheduler["read_only"], scheduler["cap_drop"]) == (True, ["ALL"])
        assert all(port.startswith("127.0.0.1:") for port in scheduler["ports"])

    def test_no_password_is_written_down(self):
        text = COMPOSE.read_text()
        assert re.findall(r"PASSWORD: (?!\$\{EVERTICK_DB_PASSWORD:\?)", text) == []


class TestTheChart:
    """What holds without Helm; `make test-kubernetes` renders it and asks a real API server."""

    def test_the_chart_has_the_version_of_the_program(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        assert (chart["version"], chart["appVersion"]) == (version, version)

    def test_its_templates_use_each_of_its_values_and_no_other(self):
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        text = "".join(path.read_text() for path in (CHART / "templates").iterdir())
        used = set(re.findall(r"\.Values\.([\w.]+)", text))
        for path in used:
            found = values
            for word in path.split("."):
                assert word in found, path
                found = found[word]
        assert values.keys() == {path.split(".")[0] for path in used}

    def test_its_values_have_a_schema(self):
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        schema = json.loads((CHART / "values.schema.json").read_text())
        assert schema["properties"].keys() - {"global"} == values.keys()
        for name, value in values.items():
            inner = schema["properties"][name].get("properties")
            assert inner is None or inner.keys() == value.keys(), name

    def test_its_jobs_are_valid(self):
        for name, text in yaml.safe_load((CHART / "values.yaml").read_text())["jobs"].items():
            parsed = parse_definition(text, name)
            assert (parsed.errors, parsed.warnings) == ((), ())

    def test_its_variables_are_settings(self):
        known = {setting.variable for setting in catalogue().values()}
        text = (CHART / "templates" / "evertick.yaml").read_text()
        assert set(re.findall(r"name: (EVERTICK_\w+)", text)) <= known


def entries(path: Path) -> dict[str, tuple[str, ...]]:
    """The packages of a lock, each with its version and its hashes."""
    found: dict[str, tuple[str, ...]] = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", path.read_text()):
        name = re.match(r"[\w.-]+", block)
        assert name is not None
        found[name[0]] = tuple(re.findall(r"==[^ ;]+|sha256:[0-9a-f]+", block))
    return found
