"""The fixtures of all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests import order
from tests.costs import Meter
from tests.share import share

pytest_plugins = ["tests.services"]

# A suite that a shell runs in the background is told to ignore Ctrl-C, and so would be every program that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The suite starts hundreds of Pythons: each would compile Evertick anew where the environment forbids to keep it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

ROOT = Path(__file__).parent.parent

WORKERS_PER_CORE = 3.5
"""Much of the suite waits for processes, leases and browsers: more workers than cores keep the cores busy meanwhile."""
FAST_WORKERS_PER_CORE = 1.5
"""The fast tests wait little, and each worker more collects all of them once more."""
MEMORY_FOLDER, MEMORY_FOLDER_BYTES = "/dev/shm", 2 << 30
"""The files of the fast tests are there, if that much is free: on a disk they wait for it most of the time."""

# No deadline: a busy machine is not a defect, and timings belong in bench/.
settings.register_profile(
    "evertick", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=share(50, 1_000)
)
# A push is judged by what it changes, not by a case that was drawn in that moment; people's own runs go on exploring.
settings.register_profile("ci", settings.get_profile("evertick"), derandomize=True)
# For `make check`: fewer cases of each kind; `make test` tries more, and `make seeds` a thousand.
settings.register_profile("quick", settings.get_profile("evertick"), max_examples=20)
settings.load_profile("ci" if os.environ.get("CI") else "evertick")

# Mostly tests with real processes and servers, or that take seconds: part of `make test`, not of `make check`.
SLOW: tuple[str, ...] = (
    "tests/executors/test_keeper_faults",
    "tests/executors/test_local",
    "tests/executors/test_logs",
)
SLOW += ("tests/kinds/test_local_kinds", "tests/kinds/pipeline/test_process", "tests/test_services")
SLOW += ("tests/executors/test_hooks", "tests/executors/test_sub_jobs", "tests/executors/test_inprocess", "tests/web")
SLOW += ("tests/library", "tests/api/test_routes", "tests/fleet/test_assignments", "tests/dispatch/test_control")
SLOW += ("tests/cli/test_forms", "tests/cli/test_ledger_commands", "tests/operations/test_upcoming")
SLOW += ("tests/operations/test_run_definitions", "tests/operations/test_members", "tests/operations/test_sql_servers")
SLOW += ("tests/operations/test_local", "tests/operations/test_node_queries", "tests/executors/test_confinement")
SLOW += ("tests/executors/test_items", "tests/definitions/test_watch_events", "tests/loop/test_delivery")
SLOW += ("tests/stores/test_sqlite_reader", "tests/api/test_live_objects", "tests/api/test_tracing_sent")


SHOWN = 3_000
"""Characters of a failure that are shown at once: its end, which names the line."""


class FailurePrinter:
    """Says at once what failed: a suite that is stopped half-way never comes to its summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            text = report.longreprtext
            # A long message (the logs of all nodes) would push out the line that says what was waited for.
            crash = getattr(report.longrepr, "reprcrash", None)
            said = f"{crash.message[:500]}\n...\n" if crash is not None and len(text) > SHOWN else ""
            terminal.write_line(f"\nFAILED {report.nodeid} ({report.when})\n{said}{text[-SHOWN:]}")


def is_fast_only(config: pytest.Config) -> bool:
    """Whether this is `make check`."""
    return config.option.markexpr == "not slow"


def has_memory_folder() -> bool:
    """Whether there is a file system in memory with enough room, on which programs may be started."""
    try:
        found = os.statvfs(MEMORY_FOLDER)
    except OSError:
        return False
    is_usable = os.access(MEMORY_FOLDER, os.W_OK) and not found.f_flag & os.ST_NOEXEC
    return is_usable and found.f_bavail * found.f_frsize >= MEMORY_FOLDER_BYTES


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(FailurePrinter(config))
    config.pluginmanager.register(Meter())
    if is_fast_only(config) and has_memory_folder():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY_FOLDER)
    gc.disable()  # what is collected stays: there is nothing to be found in it


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    per_core = FAST_WORKERS_PER_CORE if is_fast_only(config) else WORKERS_PER_CORE
    return max(2, int(len(os.sched_getaffinity(0)) * per_core))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each worker begin with other files: what one has compiled the others read, and a fresh clone has nothing."""
    config = session.config
    workers = getattr(config, "workerinput", None)
    if workers is None or config.args != config.getini("testpaths"):
        return
    number, count = int(workers["workerid"].removeprefix("gw")), workers["workercount"]
    elsewhere = tuple(config.getini("norecursedirs")) + (SLOW if is_fast_only(config) else ())
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
    for file in [file for file in files if not file.startswith(elsewhere)][number::count]:
        with contextlib.suppress(Exception):  # whoever collects it says what is wrong with it
            importlib.import_module(file.removesuffix(".py").replace("/", "."))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    # All of their tests would be left out; to import them takes seconds.
    is_slow = collection_path.relative_to(ROOT).as_posix().startswith(SLOW)
    return True if is_slow and is_fast_only(config) else None


def pytest_collection_finish() -> None:
    # Thousands of tests and all that was imported stay: the collector need not look through them, now or later.
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items[:] = order.in_order(items)


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.nodeid.startswith(SLOW):
        item.add_marker(pytest.mark.slow)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    if config.option.dist != "loadfile":
        return None
    config.option.loadscopereorder = False  # by the number of their tests, which says little
    return order.FilesTogether(config, log)
