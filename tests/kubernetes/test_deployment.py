"""Does a real cluster accept Evertick's own manifests, and has its account exactly the rights it needs?"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from evertick.definitions.parser import parse_definition
from evertick.kinds.kubernetes.cluster import ApiError
from evertick.model.lifecycle import CANCELLED, SUCCEEDED
from tests.executors.contract import KEY
from tests.executors.kubernetes.pods import PodPlace
from tests.kubernetes.binaries import kustomize
from tests.kubernetes.images import SHELL

ROOT = Path(__file__).parents[2] / "deploy" / "kubernetes"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
    "Service": "/api/v1/namespaces/default/services",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": "/api/v1/namespaces/default/configmaps",
    "Secret": "/api/v1/namespaces/default/secrets",
}


def objects(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def manifests() -> list[Path]:
    found = sorted(ROOT.glob("*/*.yaml"))
    return [path for path in found if path.name != "kustomization.yaml"]


@pytest.mark.parametrize("path", manifests(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_cluster_takes_every_object_without_a_field_it_does_not_know(real_cluster, path):
    for found in objects(path):
        strictly = f"{PATHS[found['kind']]}?dryRun=All&fieldValidation=Strict"
        assert real_cluster.ask("POST", strictly, found)["metadata"]["name"] == found["metadata"]["name"]


@pytest.fixture(scope="module")
def namespace(real_cluster):
    """As docs/kubernetes.md has it made, with the marks of the one that comes with a database."""
    (made,) = objects(ROOT / "with-postgres" / "namespace.yaml")
    real_cluster.ask("POST", PATHS["Namespace"], made)
    return made["metadata"]["name"]


@pytest.mark.parametrize(
    ("folder", "kinds"),
    [
        pytest.param(
            "base",
            {"ConfigMap", "PodDisruptionBudget", "Role", "RoleBinding", "Service", "ServiceAccount", "StatefulSet"},
            id="with a database of yours",
        ),
        pytest.param("with-postgres", {"Namespace", "Secret", "StatefulSet"}, id="with one of its own"),
    ],
)
def test_a_cluster_accepts_the_output_of_kustomize(real_cluster, namespace, tmp_path, folder, kinds):
    shutil.copytree(ROOT, tmp_path / "deploy")
    here = tmp_path / "deploy" / folder
    (tmp_path / "deploy" / "with-postgres" / "password.env").write_text("password=geheim\n")
    (tmp_path / "deploy" / "with-postgres" / "store.env").write_text("url=postgresql://evertick:geheim@db/evertick\n")
    built = subprocess.run([str(kustomize()), "build", str(here)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    made = [one for one in yaml.safe_load_all(built.stdout) if one]
    assert kinds <= {one["kind"] for one in made}
    for found in made:
        if found["kind"] == "Namespace":
            continue  # it is there: we work in it
        found["metadata"].setdefault("namespace", namespace)  # kubectl -n
        path = PATHS[found["kind"]].replace("/default/", f"/{namespace}/")
        answer = real_cluster.ask("POST", f"{path}?dryRun=All&fieldValidation=Strict", found)
        assert answer["metadata"]["name"] == found["metadata"]["name"]


def test_the_kustomizations_name_all_there_is():
    for folder in (ROOT / "base", ROOT / "with-postgres"):
        (listed,) = objects(folder / "kustomization.yaml")
        there = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
        assert {name for name in listed["resources"] if not name.startswith("..")} == there


def test_the_job_that_comes_with_it_is_one():
    for path in (ROOT / "base" / "jobs").glob("*.yaml"):
        parsed = parse_definition(path.read_text(), path.name)
        assert (parsed.errors, parsed.warnings) == ((), ())


@pytest.fixture(scope="module")
def token(real_cluster):
    """Of the account that the manifests make."""
    for found in objects(ROOT / "base" / "account.yaml"):
        real_cluster.ask("POST", PATHS[found["kind"]], found)
    path = f"{PATHS['ServiceAccount']}/evertick/token"
    answer = real_cluster.ask("POST", path, {"spec": {"expirationSeconds": 3600}})
    return answer["status"]["token"]


def test_its_account_may_run_jobs_from_their_beginning_to_their_end(real_cluster, token, instance, tmp_path):
    place = PodPlace(lambda: real_cluster.connect(token), tmp_path, SHELL, instance)
    try:
        assert place.run("echo well").state is SUCCEEDED
        assert place.log() == (b"well\n", True)
        place.start("echo up; sleep 60", attempt=2)
        place.start_of(attempt=2)
        place.executor.stop(KEY, 2, "enough")
        assert place.end_of(attempt=2).state is CANCELLED
        assert place.executor.members()[0].is_healthy
        assert list(real_cluster.connect(token).warnings_about("default", "nothing")) == []
    finally:
        place.close()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "/api/v1/namespaces/default/secrets", id="read Secrets"),
        pytest.param("GET", "/apis/batch/v1/namespaces/kube-system/jobs", id="look at Jobs elsewhere"),
        pytest.param("GET", "/api/v1/nodes", id="look at nodes"),
        pytest.param("POST", "/api/v1/namespaces/default/pods", id="make pods by itself"),
        pytest.param("POST", "/api/v1/namespaces/default/configmaps", id="write settings"),
    ],
)
def test_its_account_may_not(real_cluster, token, method, path):
    cluster = real_cluster.connect(token)
    with pytest.raises(ApiError) as refused:
        cluster._ask(method, path, None, {} if method == "POST" else None)
    assert refused.value.status == 403
