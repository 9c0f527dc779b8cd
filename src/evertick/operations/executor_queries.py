"""Queries about executors, members, queues and what runs are blocked by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from evertick.model.lifecycle import ACTIVE, WAITING
from evertick.model.member import Closed
from evertick.model.run import LedgerRow
from evertick.operations.context import Context
from evertick.operations.shapes import Data
from evertick.routing.placement import executor_of, parse_placement

SHOWN = 20


class ExecutorQueries(Context):
    def status(self) -> Data | None:
        """What the scheduler tells about itself; None where there is none to ask."""
        told = super().status()
        return None if told is None else dict(told)

    def executors(self) -> Data:
        """The places that run attempts, as the scheduler knows them, and what runs there now.

        Those with members of their own, such as a fleet, are one place.
        """
        told = self.status()
        known = _places(_named(None if told is None else told.get("executors")))
        running: dict[str, list[LedgerRow]] = defaultdict(list)
        for row in self.view().snapshot.open_runs:
            if row.state in ACTIVE and row.executor:
                running[_place_of(row.executor, known)].append(row)
        return {
            "is_scheduler_running": self.is_scheduler_running(),
            "items": [self._place(name, known.get(name), running[name]) for name in sorted({*known, *running})],
        }

    def _place(self, name: str, told: Data | None, running: Sequence[LedgerRow]) -> Data:
        members = self._members((told or {}).get("members", {}), running)
        return {
            **(told or {}),
            "members": members,
            "health": _health(told, members),
            "ready": sum(one["is_healthy"] and one["is_open"] for one in members),
            "executor": name,
            "is_known": told is not None,
            "active": len(running),
            "runs": self.run_rows(running[:SHOWN]),
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

    def _members(self, told: Mapping[str, Data], rows: Sequence[LedgerRow]) -> list[Data]:
        """The members of a place; one that is gone and that runs still name is told of too."""
        runs: dict[str, list[LedgerRow]] = defaultdict(list)
        for row in rows:
            for member in parse_placement(row.executor).members:
                runs[member].append(row)
        return [
            {
                "name": name,
                "is_healthy": bool(one.get("is_healthy")),
                "is_open": bool(one.get("is_open")),
                "closed": one.get("closed"),
                "running": one.get("running"),
                "slots": one.get("slots"),
                "labels": dict(one.get("labels") or {}),
                "is_expected": bool(one.get("is_expected")),
                "offers": dict(one.get("offers") or {}),
                "used": dict(one.get("used") or {}),
                "version": one.get("version"),
                "address": one.get("address"),
                "seen_at": one.get("seen_at"),
                "runs": [
                    {"run": row.key.run_id, "job": row.key.job_id, "job_name": self.name_of(row.key.job_id)}
                    for row in runs[name][:SHOWN]
                ],
            }
            for name in sorted({*told, *runs})
            for one in [told.get(name, {})]
        ]

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


def _places(told: Mapping[str, Data]) -> dict[str, Data]:
    """What the scheduler tells, by place: what belongs to a node stands for itself, members stand together."""
    found: dict[str, Data] = {}
    for name, one in told.items():
        kind, member = one.get("kind"), one.get("member")
        if kind is None or member in (None, kind):
            found[name] = one
            continue
        place = found.setdefault(kind, {"kind": kind, "is_healthy": False, "members": {}})
        place["members"][member] = one
        place["is_healthy"] = place["is_healthy"] or bool(one.get("is_healthy"))
    return found


def _place_of(executor: str, known: Mapping[str, Data]) -> str:
    """The place that a run is at: `local@a1` as it is, `fleet:ex-a` with the fleet, a cluster with who reaches it."""
    kind = executor_of(executor)
    same = [executor, kind, *(name for name, one in known.items() if one.get("kind") == kind and "@" not in executor)]
    return next((name for name in same if name in known), executor if "@" in executor else kind)


def _health(told: Data | None, members: Sequence[Data]) -> str:
    """Of a place with members: all take runs or were drained on purpose, some cannot, or none takes runs."""
    if told is None:
        return "unknown"
    if not members:
        is_healthy = told.get("is_healthy")
        return "unknown" if is_healthy is None else "healthy" if is_healthy else "down"
    if not any(one["is_healthy"] and one["is_open"] for one in members):
        return "down"
    is_well = all(one["is_healthy"] and one["closed"] != Closed.LEASE_TOO_LONG for one in members)
    return "healthy" if is_well else "degraded"


def _named(told: Any) -> dict[str, Data]:
    """What the scheduler tells of its executors, by their names."""
    if isinstance(told, Mapping):
        return {str(name): dict(one) if isinstance(one, Mapping) else {"state": one} for name, one in told.items()}
    return {str(one["name"]): dict(one) for one in told or () if isinstance(one, Mapping) and "name" in one}
