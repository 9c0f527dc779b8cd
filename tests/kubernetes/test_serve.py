"""`evertick serve` with jobs on a real cluster: killed while they run, and nothing is lost or run twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.executors.local_runs import until
from tests.kubernetes.images import SHELL

JOB = """
schedule: {every: 5s, missedExecution: skip}
overlap: parallel(20)
maxRetries: 0
kubernetes:
  image: %s
  command: 'echo "$EVERTICK_RUN_ID"; sleep 6; echo done'
  podSpec: {terminationGracePeriodSeconds: 1}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "report.yaml").write_text(JOB % SHELL)
    return tmp_path


@pytest.fixture
def env(real_cluster, instance):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVERTICK")}
    return {**kept, "KUBECONFIG": str(real_cluster.kubeconfig), "EVERTICK_KUBERNETES_INSTANCE": instance}


def serve(folder: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "evertick", "serve", str(folder), "--node", "a1", "--no-web", "--patience", "30"]
    return subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def evertick(folder: Path, env: dict[str, str], *words: str) -> str:
    command = [sys.executable, "-m", "evertick", *words, "--folder", str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def runs(folder: Path, env: dict[str, str], state: str) -> list[dict]:
    found = json.loads(evertick(folder, env, "history", "report", "-o", "json"))["items"]
    return [row for row in found if row["state"] == state]


def test_a_scheduler_that_is_killed_finds_its_runs_on_the_cluster_again(folder, env, troubles):
    first = serve(folder, env)
    try:
        until(lambda: len(troubles.jobs()) >= 2, "runs on the cluster")
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    second = serve(folder, env)
    try:
        until(lambda: len(runs(folder, env, "succeeded")) >= 4, "runs that ended well")
    finally:
        second.send_signal(signal.SIGTERM)
        second.wait()
    evertick(folder, env, "verify")
    good = runs(folder, env, "succeeded")
    assert all(row["attempt"] == 1 for row in good)
    assert {row["executor"] for row in good} == {"kubernetes"}
    assert not runs(folder, env, "lost")
    assert not runs(folder, env, "failed")
    log = evertick(folder, env, "logs", good[-1]["run"])
    assert log.splitlines()[-1] == "done"
