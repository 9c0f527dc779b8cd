"""What every test can ask for."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.services"]

# No deadline: a busy machine is not a defect, and timings belong in bench/.
settings.register_profile("evertick", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("evertick")

# Real processes and servers, in most of their tests: part of `make test`, not of `make check`.
SLOW = ("tests/executors/test_keeper_faults", "tests/executors/test_local", "tests/executors/test_logs")
SLOW += ("tests/kinds/test_local_kinds", "tests/kinds/pipeline/test_process", "tests/test_services")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
