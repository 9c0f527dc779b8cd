"""Which resources jobs require of members, in files, in Python, and in the example."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

from evertick import DefinitionError, RunContext, Scheduler
from evertick.executors.fleet.settings import LEASE_US
from evertick.executors.logs import Logs
from evertick.operations.submission import read_run_id
from evertick.settings import Settings
from tests.fleet.local_fleet import ROOT, LocalFleet, Process, wait_for
from tests.library.programs import run
from tests.present import present

OFFERS = ("--label", "disk=ssd", "--cpu", "2", "--memory", "1GiB", "--gpus", "0", "--resource", "licenses=1")
CODE = """
import os

def total(name: str = "nobody") -> None:
    print("for", name, "on", os.environ["EVERTICK_RUN_MEMBER"])
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """One member with little to offer."""
    here = LocalFleet(tmp_path_factory.mktemp("fleet"))
    try:
        here.start()
        here.join("ex-a", *OFFERS, lease_us=LEASE_US)
        here.wait_for_all()
        yield here
    finally:
        here.close()


def evertick(*words):
    line = [sys.executable, "-m", "evertick", *words]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180)


def named(context: RunContext) -> None:
    pass


def counted(count: int = 1) -> None:
    pass


def plain() -> None:
    pass


class TestInPython:
    def test_a_function_asks_for_what_a_job_file_asks_for(self, tmp_path):
        scheduler = Scheduler(store=f"sqlite:///{tmp_path}/ledger.db")
        options: dict[str, Any] = {
            "resources": {"cpu": 0.5, "memory": "512MiB", "licenses": 1},
            "runs_on": {"disk": "ssd"},
        }
        scheduler.job(name="in-code", bundle="code", routing="FIRST", **options)(plain)
        from evertick.definitions.parser import parse_definition

        text = "resources: {cpu: 0.5, memory: 512MiB, licenses: 1}\nrunsOn: {disk: ssd}\nbundle: code\nrouting: FIRST\n"
        parsed = parse_definition(f"command: x\n{text}", "x.yaml", Settings(), folder=str(ROOT / "tests" / "fleet"))
        assert scheduler._registry.jobs()["in-code"].routing == present(parsed.job).routing

    @pytest.mark.parametrize(
        ("call", "options", "wrong"),
        [
            pytest.param(plain, {"resources": {"cpu": 0}}, "'resources.cpu' cannot be '0'", id="nothing"),
            pytest.param(plain, {"resources": {"memory": "much"}}, "'resources.memory' cannot be 'much'", id="a word"),
            pytest.param(plain, {"resources": {"CPU": 1}}, "'CPU' cannot be the name", id="a name"),
            pytest.param(plain, {"resources": {"cpu": 1}, "executor": "local"}, "executor", id="on this machine"),
            pytest.param(plain, {"executor": "kubernetes"}, "which container", id="on a cluster"),
            pytest.param(lambda: None, {"executor": "fleet", "name": "x"}, "cannot import it", id="without a name"),
            pytest.param(named, {"executor": "fleet"}, "from_environment", id="with a context"),
            pytest.param(counted, {"executor": "fleet"}, "'count' is not annotated", id="with a number"),
            pytest.param(plain, {"executor": "fleet", "isolation": "thread"}, "'isolation'", id="with a thread"),
        ],
    )
    def test_what_cannot_be_is_reported_where_it_is_decorated(self, tmp_path, call, options, wrong):
        scheduler = Scheduler(store=f"sqlite:///{tmp_path}/ledger.db")
        with pytest.raises(DefinitionError, match=wrong):
            scheduler.job(**options)(call)

    @pytest.mark.slow
    def test_a_function_runs_on_the_member_that_has_room(self, fleet, tmp_path, monkeypatch):
        code = tmp_path / "code"
        code.mkdir()
        (code / "figures.py").write_text(CODE)
        monkeypatch.syspath_prepend(str(code))
        figures = importlib.import_module("figures")
        settings = Settings.load(tmp_path, overrides={"fleet.url": fleet.url})
        scheduler = Scheduler(store=f"sqlite:///{tmp_path}/ledger.db", settings=settings)
        scheduler.job(resources={"cpu": 2, "licenses": 1}, runs_on={"disk": "ssd"}, bundle=code)(figures.total)

        async def main():
            async with scheduler:
                return await scheduler.trigger_now("total", params={"name": "us"})

        ended = run(main)
        assert (ended.state, ended.executor) == ("succeeded", "fleet:ex-a")
        key = read_run_id(ended.run)
        kept = Logs(fleet.folder / "ex-a").read_log(key, 1, "total")
        assert kept.data == b"for us on ex-a\n"


@pytest.mark.slow
class TestInFiles:
    @pytest.fixture
    def jobs(self, tmp_path, fleet):
        folder = tmp_path / "jobs"
        folder.mkdir()
        (folder / "evertick.toml").write_text(f'[fleet]\nurl = "{fleet.url}"\n')
        return folder

    def test_a_request_that_no_member_can_satisfy_is_a_warning_on_its_line(self, jobs):
        (jobs / "fits.yaml").write_text("command: x\nresources: {cpu: 2, licenses: 1}\nrunsOn: {disk: ssd}\n")
        (jobs / "much.yaml").write_text("command: x\nresources: {gpus: 4}\n")
        (jobs / "other.yaml").write_text("command: x\n\nrunsOn: {disk: tape}\n")
        said = evertick("validate", str(jobs), "-o", "json")
        assert said.returncode == 0, said.stderr
        found = {one["file"].rpartition("/")[2]: one for one in json.loads(said.stdout)["warnings"]}
        assert sorted(found) == ["much.yaml", "other.yaml"]
        assert (found["much.yaml"]["line"], found["much.yaml"]["field"]) == (2, "resources")
        assert found["much.yaml"]["reason"] == (
            "no member of the fleet can run the job 'much': of 1 member: none offers gpus=4."
        )
        assert (found["other.yaml"]["line"], found["other.yaml"]["field"]) == (3, "runs_on")

    def test_a_fleet_that_is_away_is_reported_and_changes_nothing(self, jobs):
        (jobs / "evertick.toml").write_text('[fleet]\nurl = "tcp://127.0.0.1:9"\n')
        (jobs / "much.yaml").write_text("command: x\nresources: {gpus: 4}\n")
        said = evertick("validate", str(jobs))
        assert said.returncode == 0
        assert "The requirements of fleet jobs were not checked" in said.stderr
        assert "1 file, 1 job: no errors." in said.stderr

    def test_the_example_runs_on_a_member_that_is_as_it_asks(self, jobs, tmp_path):
        shutil.copy(ROOT / "examples" / "nightly-training.yaml", jobs)
        shutil.copytree(ROOT / "examples" / "nightly-training", jobs / "nightly-training")
        assert "no errors." in evertick("validate", str(jobs)).stderr
        scheduler = Process("serve", str(jobs), "--no-web", "--patience", "1", log=tmp_path / "serve.log")
        try:
            wait_for(lambda: (jobs / ".evertick" / "ledger.db").exists(), "the ledger")
            done = evertick("trigger", "nightly-training", "--wait", "--folder", str(jobs))
            assert done.returncode == 0, done.stderr
            said = evertick("logs", "nightly-training", "--folder", str(jobs))
            assert said.stdout == 'training on ex-a with the labels {"disk": "ssd"}\n'
        finally:
            assert scheduler.stop() == 0
