"""What people ask about the machinery: who schedules, where runs go, and what holds them back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from evertick.dispatch.leadership import NODE_PREFIX
from evertick.model.instant import to_text
from evertick.model.lifecycle import ACTIVE, WAITING
from evertick.model.run import LedgerRow
from evertick.operations.desk_scene import Scene
from evertick.operations.desk_shapes import Data

SHOWN = 20


class LiveDesk(Scene):
    def status(self) -> Data | None:
        """What the scheduler tells about itself; None where there is none to ask."""
        told = super().status()
        return None if told is None else dict(told)

    def executors(self) -> Data:
        """The places that run attempts, as the scheduler knows them, and what runs there now."""
        told = self.status()
        running: dict[str, list[LedgerRow]] = defaultdict(list)
        for row in self.view().snapshot.open_runs:
            if row.state in ACTIVE and row.executor:
                running[row.executor].append(row)
        known = _named(None if told is None else told.get("executors"))
        return {
            "is_scheduler_running": self.is_scheduler_running(),
            "items": [
                {
                    **known.get(name, {}),
                    "executor": name,
                    "is_known": name in known,
                    "active": len(running[name]),
                    "runs": self.run_rows(running[name][:SHOWN]),
                }
                for name in sorted({*known, *running})
            ],
        }

    def queues(self) -> Data:
        """The named limits that jobs share: who is in, who waits."""
        told = self.status() or {}
        limits: Mapping[str, Any] = told.get("queues") or {}
        members: dict[str, list[str]] = defaultdict(list)
        for job in self.jobs.values():
            if job.queue:
                members[job.queue].append(job.id)
        rows = self.view().snapshot.open_runs
        return {
            "is_scheduler_running": self.is_scheduler_running(),
            "items": [
                self._queue(name, sorted(members[name]), limits.get(name), rows) for name in sorted({*members, *limits})
            ],
        }

    def nodes(self) -> Data:
        """The nodes that gave a sign of life, and how many of the buckets of jobs each of them has."""
        now = self.now()
        buckets: dict[str, int] = defaultdict(int)
        alive = {}
        for lease in self.store.lease((), "", 0, now):
            holder = lease.holder.partition("/")[0]
            if lease.name.startswith(NODE_PREFIX):
                alive[holder] = lease.expires_at
            else:
                buckets[holder] += 1
        is_running, told = self.is_scheduler_running(), self.status() or {}
        here = str(told.get("node", ""))
        return {
            "is_scheduler_running": is_running,
            "items": [
                {
                    "node": name,
                    "is_here": name == here,
                    "buckets": buckets[name],
                    # A node that owns everything holds its leases without end: it is there if anybody is.
                    "is_alive": name in alive and is_running,
                    "lease_until": to_text(alive[name]) if name in alive and alive[name] < now + 10**15 else None,
                    **_of_node(told if name == here else {}),
                }
                for name in sorted({*alive, *buckets})
            ],
        }

    def _queue(self, name: str, jobs: Sequence[str], limit: Any, rows: Sequence[LedgerRow]) -> Data:
        own = [row for row in rows if row.key.job_id in set(jobs)]
        active = [row for row in own if row.state in ACTIVE]
        waiting = [row for row in own if row.state is WAITING]
        return {
            "queue": name,
            "limit": limit.get("limit") if isinstance(limit, Mapping) else limit,
            "jobs": jobs,
            "active": len(active),
            "waiting": len(waiting),
            "runs": [
                {**data, "blocked_by": data["detail"] or None if data["state"] == str(WAITING) else None}
                for data in self.run_rows((*active[:SHOWN], *waiting[:SHOWN]))
            ],
        }


def _of_node(told: Mapping[str, Any]) -> Data:
    """What a node tells about itself; of other nodes only the ledger tells."""
    return {
        "version": told.get("version"),
        "started_at": told.get("started_at"),
        "lag_seconds": (told.get("planner") or {}).get("lag_seconds"),
        "jobs": (told.get("jobs") or {}).get("owned"),
    }


def _named(told: Any) -> dict[str, Data]:
    """What the scheduler tells of its executors, by their names."""
    if isinstance(told, Mapping):
        return {str(name): dict(one) if isinstance(one, Mapping) else {"state": one} for name, one in told.items()}
    return {str(one["name"]): dict(one) for one in told or () if isinstance(one, Mapping) and "name" in one}
