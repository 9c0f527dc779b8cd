"""One cluster for all tests of a run, and a namespace for each test."""

from __future__ import annotations

import secrets

import pytest

from tests.executors.kubernetes.pods import PodPlace
from tests.kubernetes.cluster import RealCluster
from tests.kubernetes.cluster_faults import RealTroubles
from tests.kubernetes.images import SHELL


@pytest.fixture(scope="session")
def real_cluster():
    with RealCluster() as cluster:
        yield cluster


@pytest.fixture
def instance():
    """Whose Jobs these are: no test sees those of another."""
    return f"test-{secrets.token_hex(4)}"


@pytest.fixture
def place(real_cluster, instance, tmp_path):
    place = PodPlace(real_cluster.connect, tmp_path, SHELL, instance, {"terminationGracePeriodSeconds": 1})
    yield place
    place.close()


@pytest.fixture
def troubles(real_cluster, instance):
    troubles = RealTroubles(real_cluster, instance)
    yield troubles
    troubles.clean_up()


@pytest.fixture(autouse=True)
def _cleaned_up(troubles):
    """Whatever a test leaves behind goes with it."""
