"""Queries about nodes: which schedule, which the others wait for, and the end of that wait by an operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from evertick.errors import Conflict, NotFound
from evertick.loop.run_end import LOSSES_MAX
from evertick.model.attempts import read_attempts
from evertick.model.instant import MINUTE, to_datetime
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
from evertick.operations.ledger_rows import moment
from evertick.operations.results.system import ForgottenNode, NodeRun, Nodes, NodeState

SHOWN = 20
FORGOTTEN_US = 10 * MINUTE
"""How long the schedulers remember the operator's decision; the lease itself is released for good."""
ENDLESS_US = 10**15
"""A lease that is longer has no end."""


def nodes(context: Context) -> Nodes:
    return nodes_with(context, context.store.load().open_runs)


def nodes_with(context: Context, open_runs: Iterable[LedgerRow]) -> Nodes:
    """The nodes, with those of some open runs that are on each."""
    now = context.now()
    leases = context.store.lease((), "", 0, now)
    held = runs_held(leases)
    buckets: dict[str, int] = defaultdict(int)
    alive = {}
    for lease in leases:
        holder = lease.holder.partition("/")[0]
        if lease.name.startswith(NODE_PREFIX):
            alive[holder] = lease.expires_at
        elif lease.name.startswith(BUCKET_PREFIX):
            buckets[holder] += 1
    is_running, report = context.is_scheduler_running(), context.report()
    runs = _by_node(open_runs)
    items = []
    for name in sorted({*alive, *buckets, *held}):
        # A node that owns everything holds its leases without end: it is alive if any scheduler runs.
        is_alive = name in alive and is_running
        awaited = None if is_alive else held.get(name)
        here = report if report is not None and report.node == name else None
        items.append(
            NodeState(
                node=name,
                buckets=buckets[name],
                is_alive=is_alive,
                is_here=here is not None,
                lease_until=moment(alive[name]) if name in alive and alive[name] < now + ENDLESS_US else None,
                awaited_until=None if awaited is None else to_datetime(awaited.until),
                is_expected_back=awaited is not None and awaited.is_stopped,
                active=len(runs[name]),
                runs=_shown(context, runs[name]),
                # A node reports these about itself only; the ledger does not have them.
                lag_seconds=None if here is None else here.lag_seconds,
                version=None if here is None else here.version,
                started_at=None if here is None else here.started_at,
                jobs=None if here is None else here.owned_jobs,
            )
        )
    return Nodes(is_running, tuple(items))


def forget_node(context: Context, node: str, force: bool = False, *, by: str = "") -> ForgottenNode:
    """With `force` also a node that is alive: it ends its local runs, and continues to schedule."""
    now = context.now()
    leases = context.store.lease((), "", 0, now)
    open_runs = context.store.load().open_runs
    known = {one.node: one for one in nodes_with(context, open_runs).items}
    runs = _by_node(open_runs)[node]
    held = [lease for lease in leases if _node_of_runs(lease) == node]
    if node not in known and not runs:
        near = tuple(get_close_matches(node, sorted(known), n=3, cutoff=0.5))
        raise NotFound(f"unknown node '{node}'. Next: list the nodes", near)
    is_alive = node in known and known[node].is_alive
    if is_alive and not force:
        raise Conflict(f"the node '{node}' is alive. Next: stop it, or use force: it then ends all of its local runs.")
    if not held:
        raise Conflict(f"the node '{node}' holds no lease on runs: no scheduler waits for it. Nothing was changed.")
    # First the mark: a scheduler that finds the lease gone must be able to find out why.
    context.store.lease([FORGOTTEN_PREFIX + node], by or context.by or "an operator", FORGOTTEN_US, now)
    for lease in held:
        context.store.lease([lease.name], lease.holder, 0, now)
    context.forget()
    return ForgottenNode(
        node=node,
        was_alive=is_alive,
        is_scheduler_running=context.is_scheduler_running(),
        active=len(runs),
        runs=_shown(context, runs),
    )


def _by_node(open_runs: Iterable[LedgerRow]) -> defaultdict[str, list[LedgerRow]]:
    """Runs of nodes on their own machines, according to the ledger."""
    found: defaultdict[str, list[LedgerRow]] = defaultdict(list)
    for row in open_runs:
        node = row.executor.partition("@")[2]
        if node and row.state in (LAUNCHING, RUNNING):
            found[node].append(row)
    return found


def _shown(context: Context, rows: Sequence[LedgerRow]) -> tuple[NodeRun, ...]:
    return tuple(_run(context, row) for row in rows[:SHOWN])


def _run(context: Context, row: LedgerRow) -> NodeRun:
    job = context.jobs.get(row.key.job_id)
    losses = 1 + sum(one.state == LOST for one in read_attempts(row.earlier))
    is_retried = job is not None and job.policy.on_executor_lost is OnExecutorLost.RETRY and losses < LOSSES_MAX
    return NodeRun(
        run=row.key.run_id,
        job=row.key.job_id,
        job_name=context.name_of(row.key.job_id),
        state=row.state,
        if_lost=RETRYING if is_retried else LOST,
    )


def _node_of_runs(lease: Lease) -> str | None:
    """The node whose runs a lease is about; None: it is another kind of lease."""
    for prefix in (RUNS_PREFIX, STOPPED_PREFIX):
        if lease.name.startswith(prefix):
            return lease.name.removeprefix(prefix).rpartition("/")[0]
    return None
