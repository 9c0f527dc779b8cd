"""What every test can ask for."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.services"]

# A suite that a shell runs in the background is told to ignore Ctrl-C, and so would be every program that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: a busy machine is not a defect, and timings belong in bench/.
settings.register_profile("evertick", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("evertick")

# Real processes and servers, in most of their tests: part of `make test`, not of `make check`.
SLOW = ("tests/executors/test_keeper_faults", "tests/executors/test_local", "tests/executors/test_logs")
SLOW += ("tests/kinds/test_local_kinds", "tests/kinds/pipeline/test_process", "tests/test_services")
SLOW += ("tests/executors/test_hooks", "tests/executors/test_sub_jobs", "tests/executors/test_inprocess", "tests/web")
SLOW += ("tests/library", "tests/api/test_routes", "tests/fleet/test_desk", "tests/dispatch/test_control")
SLOW += ("tests/cli/test_forms", "tests/cli/test_ledger_commands", "tests/operations/test_desk")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
