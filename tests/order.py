"""In which order the workers take the files of the suite, and which files one worker takes together.

The files that take longest come first and those without a slow test last. Half of the workers begin at the end: the
long files mostly wait for processes and leases, the short ones compute, and so there is always some of both. What a
file has in common (a server, a browser, a fleet) is made once: one worker runs all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# By what they took, from three and a half minutes down to ten seconds.
LONG = (
    "tests/processes/test_takeover",
    "tests/test_bench",
    "tests/fleet/test_faults",
    "tests/test_docs",
    "tests/stores/test_contract",
    "tests/processes/test_runs_kept",
    "tests/web/test_actions",
    "tests/processes/test_rolling_upgrade",
    "tests/processes/test_machine_faults",
    "tests/web/test_slow_line",
    "tests/api/test_server",
    "tests/test_packaging",
    "tests/web/test_timeline",
    "tests/simulator/test_seeds",
    "tests/processes/test_kills",
    "tests/fleet/test_members",
    "tests/simulator/test_checker",
    "tests/executors/test_local",
    "tests/library/test_servers",
    "tests/stores/test_sql_servers",
    "tests/crash/test_crash_points",
    "tests/processes/test_memory_limit",
    "tests/library/test_survival",
    "tests/test_forecast",
    "tests/stores/test_sql_faults",
    "tests/kinds/test_ssh",
    "tests/web/test_keyboard",
    "tests/library/test_stored_jobs",
    "tests/kinds/test_docker",
    "tests/api/test_openapi",
    "tests/stores/test_sql_counts",
    "tests/loop/test_delivery",
    "tests/stores/test_migrations",
    "tests/api/test_routes",
    "tests/cli/test_both_ways",
    "tests/fleet/test_items",
    "tests/fleet/test_certificates",
    "tests/definitions/test_watch",
    "tests/stores/test_files_damage",
    "tests/cli/test_run",
    "tests/processes/test_queues",
    "tests/cli/test_serve",
    "tests/stores/test_sqlite",
    "tests/fleet/test_nodes",
    "tests/planning/test_cron_peers",
    "tests/test_services",
    "tests/processes/test_power_loss",
    "tests/fleet/test_storm",
    "tests/cli/test_top_page",
    "tests/soak/test_soak",
    "tests/web/test_fleet",
    "tests/fleet/test_member_logs",
    "tests/test_isolated_processes",
    "tests/planning/test_cron_laws",
    "tests/cli/test_ledger_commands",
    "tests/executors/test_hung_keeper",
    "tests/definitions/test_fuzz",
    "tests/planning/test_cron_zones",
    "tests/executors/test_keeper_faults",
    "tests/executors/kubernetes/test_executor",
    "tests/fleet/test_resources",
    "tests/fleet/test_serve",
    "tests/cli/test_with_a_scheduler",
    "tests/processes/test_storm_nodes",
    "tests/cli/test_terminal",
)
TOGETHER = {
    "tests/web/test_pages": "tests/web/test_timeline",
    "tests/web/test_pictures": "tests/web/test_timeline",
    "tests/web/test_shell": "tests/web/test_actions",
    "tests/web/test_site": "tests/web/test_actions",
}
"""Files that one worker runs after another: they use one and the same server."""


class Sortable(Protocol):
    """What the order is decided by, of a test."""

    @property
    def nodeid(self) -> str: ...
    def get_closest_marker(self, name: str) -> object: ...


Item = TypeVar("Item", bound=Sortable)


class FilesTogether(LoadScopeScheduling):
    """Gives a worker a whole file, or several that go together, from the beginning or from the end of all of them."""

    def _split_scope(self, nodeid: str) -> str:
        file = _file_of(nodeid)
        return TOGETHER.get(file, file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        last = next(reversed(self.workqueue))
        # Only long files are left in the end: of those the longest is always next, so that all workers end together.
        if self.nodes.index(node) % 2 and last not in LONG:
            self.workqueue.move_to_end(last, last=False)
        super()._assign_work_unit(node)


def in_order(items: Sequence[Item]) -> list[Item]:
    """The items of the longest files first, then those of files with slow tests."""
    slow = {_file_of(item.nodeid) for item in items if item.get_closest_marker("slow") is not None}

    def place(item: Item) -> int:
        file = _file_of(item.nodeid)
        leader = TOGETHER.get(file, file)
        return LONG.index(leader) if leader in LONG else len(LONG) + (leader not in slow)

    return sorted(items, key=place)


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].removesuffix(".py")
