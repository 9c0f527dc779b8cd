"""`evertick nodes`: the schedulers that share a ledger."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import Column, Table, note, output_option, show, show_text
from evertick.cli.target import Target
from evertick.cli.target_options import target_options

if TYPE_CHECKING:
    from evertick.operations.protocol import Operations
    from evertick.operations.results.system import ForgottenNode, NodeState


@click.group(cls=SuggestingGroup)
def nodes() -> None:
    """List the nodes that share a ledger, or forget a dead one.

    \b
    Examples:
      evertick nodes list
      evertick nodes forget build-3
    """


@nodes.command("list")
@target_options
@output_option
def list_(target: Target, output: str) -> None:
    """List the nodes that share the ledger.

    A node that is away keeps its runs until its lease expires; until then the other nodes do not retry them.

    \b
    Example:
      evertick nodes list
    """
    with target.operations() as operations:
        found = operations.nodes()
    columns = (
        Column("Node", "node", "bold"),
        Column("State", _state_of),
        Column("Runs", "active", right=True),
        Column("Lease until", "awaited_until", optional=True),
        Column("Buckets", "buckets", right=True),
        Column("Version", "version", "dim", optional=True),
    )
    show(output, found, Table(columns, found.items), rows=found.items, name="node")
    if not found.items:
        note("No node has ever run on this ledger. Next: evertick serve")
    for one in found.items:
        if one.awaited_until is not None:
            note(f"If {one.node} will not come back: evertick nodes forget {one.node}")


@nodes.command()
@click.argument("node")
@click.option("--force", is_flag=True, help="Forget a node that is alive; it then ends all its local runs.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@target_options
@output_option
def forget(node: str, force: bool, yes: bool, target: Target, output: str) -> None:
    """Give up a dead node, so that its runs are retried now.

    The other nodes wait for a node that was killed, cut off or stopped until its lease expires. This command ends the
    wait: each of its runs is retried, or marked lost if its job has 'onExecutorLost: fail'. Make sure that its machine
    is off, otherwise its processes run twice. A node that is alive is refused (exit code 6).

    \b
    Examples:
      evertick nodes forget build-3
      evertick nodes forget build-3 --yes -o json
    """
    with target.operations() as operations:
        if not yes:
            _confirm(operations, node)
        found = operations.forget_node(node, force)
    show(output, found, lambda: show_text(f"Forgot {node}."), rows=found.runs, name="run")
    if output == "table":
        _show_runs(found, "will be")
    if not found.is_scheduler_running:
        note("No scheduler is running. The next one to start takes over the runs.")


def _state_of(node: NodeState) -> str:
    if node.is_alive:
        return "alive"
    if node.awaited_until is None:
        return "gone"
    return "stopped" if node.is_expected_back else "not responding"


def _confirm(operations: Operations, node: str) -> None:
    """Name the runs that are affected, and ask."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"This retries or gives up the runs of {node}. Add --yes to confirm.")
    known = next((one for one in operations.nodes().items if one.node == node), None)
    if known is not None:
        note(f"{node}: {_state_of(known)}.")
        _show_runs(known, "would be")
    click.confirm(f"Forget {node}? Processes that still run on its machine would run twice.", abort=True, err=True)


def _show_runs(found: NodeState | ForgottenNode, verb: str) -> None:
    for run in found.runs:
        note(f"{run.run} {verb} {'retried' if run.if_lost == 'retrying' else 'lost'}")
    if found.active > len(found.runs):
        note(f"and {found.active - len(found.runs):,} more")
    if not found.active:
        note("It has no active runs.")
