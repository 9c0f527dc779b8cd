"""Queries about nodes: which schedule, which the others wait for, and how an operator ends that wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from evertick.errors import Conflict, NotFound
from evertick.loop.reports import LOSSES_MAX
from evertick.model.attempts import read_attempts
from evertick.model.instant import MINUTE, to_text
from evertick.model.ledger import (
    BUCKET_PREFIX,
    FORGOTTEN_PREFIX,
    NODE_PREFIX,
    RUNS_PREFIX,
    STOPPED_PREFIX,
    Lease,
    runs_held,
)
from evertick.model.lifecycle import LAUNCHING, LOST, RETRYING, RUNNING
from evertick.model.policy import OnExecutorLost
from evertick.model.run import LedgerRow
from evertick.operations.context import Context
from evertick.operations.shapes import Data

SHOWN = 20
FORGOTTEN_US = 10 * MINUTE
"""How long the schedulers know that an operator said it; the lease itself is given up for good."""
ENDLESS_US = 10**15
"""A lease that is longer was taken without an end."""


class NodeQueries(Context):
    def nodes(self) -> Data:
        """The nodes that gave a sign of life, with their share of the jobs, and those that are waited for."""
        now = self.now()
        leases = self.store.lease((), "", 0, now)
        held = runs_held(leases)
        buckets: dict[str, int] = defaultdict(int)
        alive = {}
        for lease in leases:
            holder = lease.holder.partition("/")[0]
            if lease.name.startswith(NODE_PREFIX):
                alive[holder] = lease.expires_at
            elif lease.name.startswith(BUCKET_PREFIX):
                buckets[holder] += 1
        is_running, told = self.is_scheduler_running(), self.status() or {}
        here, runs = str(told.get("node", "")), self._runs_by_node()
        items = []
        for name in sorted({*alive, *buckets, *held}):
            # A node that owns everything holds its leases without end: it is there if anybody is.
            is_alive = name in alive and is_running
            awaited = None if is_alive else held.get(name)
            items.append(
                {
                    "node": name,
                    "is_here": name == here,
                    "buckets": buckets[name],
                    "is_alive": is_alive,
                    "lease_until": to_text(alive[name]) if name in alive and alive[name] < now + ENDLESS_US else None,
                    "awaited_until": None if awaited is None else to_text(awaited.until),
                    "is_expected_back": awaited is not None and awaited.is_stopped,
                    "active": len(runs[name]),
                    "runs": [self._run_data(row) for row in runs[name][:SHOWN]],
                    **_of_node(told if name == here else {}),
                }
            )
        return {"is_scheduler_running": is_running, "items": items}

    def forget_node(self, node: str, force: bool = False, *, by: str = "") -> Data:
        """Say that a node does not come back: its runs are retried or lost now, and not when its lease is over.

        With `force` also of a node that is alive: it ends what it runs on its machine, and goes on.
        """
        now = self.now()
        leases = self.store.lease((), "", 0, now)
        known = {one["node"]: one for one in self.nodes()["items"]}
        runs = self._runs_by_node()[node]
        held = [lease for lease in leases if _node_of_runs(lease) == node]
        if node not in known and not runs:
            near = tuple(get_close_matches(node, sorted(known), n=3, cutoff=0.5))
            raise NotFound(f"there is no node '{node}'. Next: evertick nodes list shows those there are.", near)
        is_alive = node in known and known[node]["is_alive"]
        if is_alive and not force:
            raise Conflict(
                f"the node '{node}' is alive. Next: stop it, or use force: it then ends all of its local runs."
            )
        if not held:
            raise Conflict(f"the node '{node}' holds no lease on runs: no scheduler waits for it. Nothing was changed.")
        # First the mark: a scheduler that finds the lease gone must find out why.
        self.store.lease([FORGOTTEN_PREFIX + node], by or self.by or "an operator", FORGOTTEN_US, now)
        for lease in held:
            self.store.lease([lease.name], lease.holder, 0, now)
        self.forget()
        return {
            "node": node,
            "was_alive": is_alive,
            "is_scheduler_running": self.is_scheduler_running(),
            "active": len(runs),
            "runs": [self._run_data(row) for row in runs[:SHOWN]],
        }

    def _runs_by_node(self) -> defaultdict[str, list[LedgerRow]]:
        """What nodes run on their own machines, by the ledger."""
        found: defaultdict[str, list[LedgerRow]] = defaultdict(list)
        for row in self.store.load().open_runs:
            node = row.executor.partition("@")[2]
            if node and row.state in (LAUNCHING, RUNNING):
                found[node].append(row)
        return found

    def _run_data(self, row: LedgerRow) -> Data:
        job = self.jobs.get(row.key.job_id)
        losses = 1 + sum(one.state == LOST for one in read_attempts(row.earlier))
        is_retried = job is not None and job.policy.on_executor_lost is OnExecutorLost.RETRY and losses < LOSSES_MAX
        return {
            "run": row.key.run_id,
            "job": row.key.job_id,
            "job_name": self.name_of(row.key.job_id),
            "state": str(row.state),
            "if_lost": str(RETRYING if is_retried else LOST),
        }


def _node_of_runs(lease: Lease) -> str | None:
    """The node whose runs a lease is about; None: it is about something else."""
    for prefix in (RUNS_PREFIX, STOPPED_PREFIX):
        if lease.name.startswith(prefix):
            return lease.name.removeprefix(prefix).rpartition("/")[0]
    return None


def _of_node(told: Mapping[str, Any]) -> Data:
    """What a node tells about itself; of other nodes only the ledger tells."""
    return {
        "version": told.get("version"),
        "started_at": told.get("started_at"),
        "lag_seconds": (told.get("planner") or {}).get("lag_seconds"),
        "jobs": (told.get("jobs") or {}).get("owned"),
    }
