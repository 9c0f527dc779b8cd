"""Do `sandbox: systemd-run`, and the unit with its drop-ins, hold under a real systemd?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from evertick.executors.keeper.procfs import is_alive
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED, TIMED_OUT
from evertick.model.work import Param, Sandbox, SandboxKind
from tests.executors.contract import KEY
from tests.executors.local_runs import Place, job_of, kill, launch, sh, until, written
from tests.systemd.boot import UNITS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder():
    """One that every user may enter and write to, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="evertick-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place(folder):
    place = Place(folder / "state")
    place.folder.mkdir(mode=0o700)
    (place.folder / "token").write_text("the token\n")
    (folder / "out").mkdir()
    (folder / "out").chmod(0o777)
    yield place
    place.close()


def confined(place, *steps, network=False, **known):
    folder = place.folder.parent
    sandbox = Sandbox(SandboxKind.SYSTEMD_RUN, writable=(str(folder / "out"),), network=network)
    return job_of(*steps, user="nobody", sandbox=sandbox, working_dir=str(folder), **known)


def services() -> str:
    """Those that `systemd-run` has made and that are still there."""
    listed = subprocess.run(["systemctl", "list-units", "--no-legend", "run-*"], capture_output=True, text=True)
    return listed.stdout


def test_a_run_sees_nothing_of_the_scheduler_and_changes_only_what_it_may(place):
    tries = f"cat {place.folder}/token; ls {place.folder}; touch here out/made /usr/made; grep CapEff /proc/self/status"
    assert place.run(confined(place, sh(f"id -un; {tries}; ls -d /proc/[0-9]* | wc -l"))).state == SUCCEEDED
    shown = place.log().decode()
    assert shown.startswith("nobody\n")
    assert "the token" not in shown
    assert shown.count("Permission denied") == 2
    assert "CapEff:\t0000000000000000" in shown
    assert int(shown.split()[-1]) < 8, "its own processes"
    assert [path.name for path in (place.folder.parent / "out").iterdir()] == ["made"]
    assert not (place.folder.parent / "here").exists()


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_there_only_where_it_is_asked_for(place, network):
    place.run(confined(place, sh("readlink /proc/self/ns/net"), network=network))
    assert (place.log().decode().strip() == os.readlink("/proc/self/ns/net")) is network


def test_exit_codes_output_and_parameters_arrive_as_they_are(place):
    value = "$(id); ${X} %n $HOME"
    job = confined(place, sh('printf "%s" "$P"; echo err >&2; exit 3'), params=(Param("P", value),))
    end = place.run(job)
    assert (end.state, end.exit_code, place.log().decode()) == (FAILED, 3, f"{value}err\n")


def test_a_run_is_ended_with_all_that_it_started(place):
    out = place.folder.parent / "out"
    text = f"setsid sleep 600 & echo $! > {out}/pid; while :; do sleep 0.05; done"
    assert place.run(confined(place, sh(text), timeout_us=2 * SECOND)).state == TIMED_OUT
    until(lambda: not is_alive(int(written(out / "pid"))), "what it started to be gone")
    assert services() == ""


def test_a_confined_run_ends_by_itself_within_its_grace(place):
    executor = place.open()
    executor.launch(
        launch(confined(place, sh("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done")))
    )
    until(lambda: b"ready" in place.log(), "the program to run")
    executor.stop(KEY, 1, "enough")
    end = place.end_of(KEY)
    assert (end.state, end.exit_code) == (CANCELLED, 7)


def test_a_confined_run_outlives_its_keeper_and_is_stopped_by_the_next(place):
    executor = place.open()
    executor.launch(launch(confined(place, sh("echo $$ > out/pid; sleep 600"))))
    pid = int(written(place.folder.parent / "out" / "pid"))
    place.start_of(KEY)
    kill(place.keepers()[0])
    until(lambda: len(place.keepers()) == 1, "another keeper")
    assert is_alive(pid)
    executor.stop(KEY, 1, "enough")
    place.loss_of(KEY)
    assert not is_alive(pid)
    assert services() == ""


JOBS = {
    "plain": "command: id -un",
    "other": "command: id -un; ls {state}/ledger.db\nuser: nobody",
    "boxed": "command: id -un; ls {state}/ledger.db\nuser: nobody\nsandbox: bwrap",
    "unit": "command: id -un; ls {state}/ledger.db\nuser: nobody\nsandbox: systemd-run",
}


def test_the_unit_runs_jobs_of_other_users_and_in_sandboxes_with_its_drop_ins(folder):
    jobs, state = folder / "jobs", Path("/var/lib/evertick/state")
    jobs.mkdir()
    for name, text in JOBS.items():
        (jobs / f"{name}.yaml").write_text(f"schedule: {{every: 1s}}\n{text.format(state=state)}\n")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/lib"], check=True)
    shutil.copy(ROOT / "deploy" / "evertick.service", UNITS)
    shutil.copytree(ROOT / "deploy" / "evertick.service.d", UNITS / "evertick.service.d")
    # This Python and this checkout, wherever they are.
    start = f"{sys.executable} -P -m evertick serve {jobs} --port 0"
    here = f"[Service]\nExecStart=\nExecStart={start}\nProtectHome=no\nPrivateTmp=no\n"
    (UNITS / "evertick.service.d" / "zz-here.conf").write_text(here)
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    subprocess.run(["systemctl", "start", "evertick"], check=True)
    try:
        for name in JOBS:
            until(partial(has_logs, state, name), f"{name} to run")
        shown = {name: logs_of(state, name) for name in JOBS}
    finally:
        subprocess.run(["systemctl", "stop", "evertick"], check=True)
        subprocess.run(["systemctl", "kill", "evertick"], check=False)
    assert shown["plain"] == "root\n"
    for name in ("other", "boxed", "unit"):
        assert shown[name].startswith("nobody\n"), shown
        assert "Permission denied" in shown[name] or "No such file" in shown[name]
        assert "ledger.db\n" not in shown[name]


def has_logs(state: Path, job: str) -> bool:
    return bool(logs_of(state, job))


def logs_of(state: Path, job: str) -> str:
    """What the job printed first, once it has ended its line."""
    found = sorted((state / "logs" / job).rglob("*.log")) if (state / "logs" / job).is_dir() else []
    texts = [text for path in found if (text := path.read_text()).endswith("\n")]
    return texts[0] if texts else ""
