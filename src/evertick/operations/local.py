"""All operations, on a ledger that this process can open.

Keys are snake_case, times are RFC 3339 in UTC. Lists that may be long come in pages: `items`, and `next` to hand back
as `after`. What cannot be done is one of the errors of `evertick.errors`.
"""

from __future__ import annotations

from evertick.operations.commands import Commands
from evertick.operations.context import Live, folder_of, now_by_the_clock
from evertick.operations.executor_queries import ExecutorQueries
from evertick.operations.node_queries import NodeQueries
from evertick.operations.overview import OverviewQueries
from evertick.operations.run_logs import LogsReader
from evertick.operations.run_queries import RunQueries
from evertick.operations.timeline import TimelineQueries

__all__ = ["Live", "LocalOperations", "LogsReader", "folder_of", "now_by_the_clock"]


class LocalOperations(TimelineQueries, OverviewQueries, RunQueries, ExecutorQueries, NodeQueries, Commands):
    """One for a process: it may be asked by any thread."""
