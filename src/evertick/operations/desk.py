"""Everything people can ask or do, as plain data in and out, the same whichever surface they use.

Keys are snake_case, times are RFC 3339 in UTC. Lists that may be long come in pages: `items`, and `next` to hand back
as `after`. What cannot be done is one of the errors of `evertick.errors`.
"""

from __future__ import annotations

from evertick.operations.desk_doing import DoingDesk
from evertick.operations.desk_live import LiveDesk
from evertick.operations.desk_nodes import NodesDesk
from evertick.operations.desk_overview import OverviewDesk
from evertick.operations.desk_ribbon import RibbonDesk
from evertick.operations.desk_runs import RunsDesk
from evertick.operations.desk_scene import Live, folder_of, now_by_the_clock
from evertick.operations.run_logs import LogsReader

__all__ = ["Desk", "Live", "LogsReader", "folder_of", "now_by_the_clock"]


class Desk(RibbonDesk, OverviewDesk, RunsDesk, LiveDesk, NodesDesk, DoingDesk):
    """One for a process: it may be asked by any thread."""
