"""Whether Helm renders the chart, a real API server takes all of it, and it equals the kustomization."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubernetes.binaries import KUBERNETES, helm
from tests.kubernetes.test_deployment import PATHS, ROOT, objects

CHART = ROOT.parent / "helm" / "evertick"
PATHS = {**PATHS, "Ingress": "/apis/networking.k8s.io/v1/namespaces/default/ingresses"}
EVERYTHING: dict[str, Any] = {
    "image": {"repository": "registry.example.org/evertick", "tag": "1.2.3"},
    "imagePullSecrets": [{"name": "registry"}],
    "replicas": 3,
    "jobsClaim": "jobs",
    "settings": {"EVERTICK_RETENTION_HISTORY": "90d", "EVERTICK_LOGS_STORE": "file:///mnt/logs"},
    "allowedHosts": ["evertick.internal"],
    "state": {"size": "20Gi", "storageClass": "fast"},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "host": "evertick.example.org",
        "tlsSecret": "evertick-tls",
        "annotations": {"example.org/owner": "data"},
    },
    "nodeSelector": {"pool": "batch"},
    "tolerations": [{"key": "batch", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
}


def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(helm()), *words], capture_output=True, text=True, check=False)


def template(release: str, values: Path) -> subprocess.CompletedProcess[str]:
    # A Helm that is built from its module takes the cluster for version 1.20.
    return call("template", release, str(CHART), "--values", str(values), "--kube-version", KUBERNETES)


def render(folder: Path, values: dict[str, Any], release: str = "evertick") -> list[dict[str, Any]]:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = template(release, file)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def test_helm_finds_nothing_wrong_with_it():
    done = call("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("values", "release"),
    [
        pytest.param({}, "evertick", id="as it is"),
        pytest.param(EVERYTHING, "nightly", id="with every value"),
    ],
)
def test_a_cluster_takes_every_object_of_it(real_cluster, instance, tmp_path, values, release):
    # What other tests have made stays in theirs: a name that is taken would be refused.
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": instance}}
    real_cluster.ask("POST", "/api/v1/namespaces", space)
    for found in render(tmp_path, values, release):
        path = PATHS[found["kind"]].replace("/default/", f"/{instance}/")
        strictly = f"{path}?dryRun=All&fieldValidation=Strict"
        assert real_cluster.ask("POST", strictly, found)["metadata"]["name"] == found["metadata"]["name"]


def test_the_chart_starts_what_the_kustomization_starts(tmp_path):
    rendered = {one["kind"]: one for one in render(tmp_path, {})}
    based = {one["kind"]: one for path in ROOT.glob("base/*.yaml") for one in objects(path)}
    ours, theirs = (one["StatefulSet"]["spec"] for one in (rendered, based))
    ours["template"]["spec"]["containers"][0].pop("imagePullPolicy")
    theirs["template"]["spec"]["containers"][0]["image"] = "evertick:0.2.0"
    for spec in (ours, theirs):
        # The chart has the name of the release in its labels.
        del spec["selector"], spec["template"]["metadata"], spec["template"]["spec"]["topologySpreadConstraints"]
    assert ours == theirs
    assert rendered["Role"]["rules"] == based["Role"]["rules"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        pytest.param({"replica": 3}, "replica", id="a value that it does not have"),
        pytest.param({"settings": {"TIMEZONE": "UTC"}}, "TIMEZONE", id="a variable that is no setting"),
        pytest.param({"ingress": {"enabled": True, "host": "a.example.org"}}, "TLS", id="an ingress without TLS"),
    ],
)
def test_the_chart_refuses_wrong_values(tmp_path, values, told):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = template("evertick", file)
    assert done.returncode != 0
    assert told in done.stderr
