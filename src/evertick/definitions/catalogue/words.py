"""Which words a field accepts, and what each of them means."""

from __future__ import annotations

from typing import Final

from evertick.model.constraint import ActionKind, KillTarget
from evertick.model.policy import Backoff, Missed, OnExecutorLost, Overlap, OverlapKind, Scope
from evertick.model.routing import FLEET, KUBERNETES, LOCAL, Strategy
from evertick.model.work import Pull

# overlapPolicy answers both questions at once, for a job that catches up.
OVERLAP_POLICIES: Final = {
    "skip": (Missed.FIRST, Overlap(OverlapKind.SKIP)),
    "all": (Missed.ALL, Overlap(OverlapKind.WAIT)),
    "latest": (Missed.LATEST, Overlap(OverlapKind.LATEST)),
}
MISSED: Final = {str(word): word for word in Missed}
MISFIRES: Final = {"DO_NOTHING": Missed.NONE, "FIRE_ONCE_NOW": Missed.LATEST}
MISSED_EXECUTIONS: Final = {"run": Missed.LATEST, "skip": Missed.NONE}
OVERLAPS: Final = {str(kind): kind for kind in OverlapKind}
BLOCK_STRATEGIES: Final = {
    "SERIAL": OverlapKind.WAIT,
    "DISCARD": OverlapKind.SKIP,
    "COVER": OverlapKind.REPLACE,
    "CONCURRENT": OverlapKind.PARALLEL,
}
BLOCK_STRATEGY_ALIASES: Final = {"SERIAL_EXECUTION": "SERIAL", "DISCARD_LATER": "DISCARD", "COVER_EARLY": "COVER"}
"""What XXL-JOB calls them."""
SCOPES: Final = {str(word): word for word in Scope}
EXECUTORS: Final = {LOCAL: LOCAL, FLEET: FLEET, KUBERNETES: KUBERNETES}
STRATEGIES: Final = {str(word): word for word in Strategy}
STRATEGY_ALIASES: Final = {
    "LEAST_FREQUENTLY_USED": Strategy.LFU,
    "LEAST_RECENTLY_USED": Strategy.LRU,
}
"""What XXL-JOB calls them."""
BACKOFFS: Final = {str(word): word for word in Backoff}
ON_EXECUTOR_LOST: Final = {str(word): word for word in OnExecutorLost}

PULLS: Final = {str(word): word for word in Pull}
PARAM_TYPES: Final = ("string", "integer", "number", "boolean")
METHODS: Final = {word: word for word in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")}
ACTIONS: Final = {str(kind): kind for kind in ActionKind}
KILL_TARGETS: Final = {str(word): word for word in KillTarget}
