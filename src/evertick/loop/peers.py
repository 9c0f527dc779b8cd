"""What happens to runs on other nodes when these report, leave or are forgotten?"""

from __future__ import annotations

from evertick.loop.delivery import answer_known, take
from evertick.loop.effects import ReadReports, Reconcile
from evertick.loop.messages import ForwardedReport, NodesSeen, ReportsRead
from evertick.loop.reports import finished
from evertick.loop.run_end import lose
from evertick.loop.runs import OpenRun
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.answer import TAKEN
from evertick.model.ledger import bucket_of
from evertick.model.lifecycle import LAUNCHING
from evertick.model.loss import LossReason
from evertick.model.run import RunKey
from evertick.routing.placement import is_shared


def forwarded(state: State, turn: Turn, message: ForwardedReport) -> None:
    """The node that owned the job before reports how a run ended that this node waits for."""
    job_id = message.report.key.job_id
    if answer_known(state, message.request_id) is not None or not state.owns(job_id):
        return
    having = state.foreign.get(message.report.key)
    is_of_fleet = having is None and is_shared(message.report.executor)
    if having is None and not is_of_fleet and message.node == state.node and _is_asked(state, message.report.key):
        # This node's executor is asked how it ended. If the job moves before it has answered, the next owner needs
        # this.
        state.unused_reports.setdefault(message.report.key, set()).add(message.request_id)
        return
    state.unused_reports.pop(message.report.key, None)
    take(state, message.request_id, job_id, TAKEN)
    if having is not None and message.node in ("", having):
        finished(state, turn, message.report, having)
    elif is_of_fleet and _is_asked(state, message.report.key):
        # A member reported it to another node, and may be away when this one asks: only this report says how the
        # attempt ended, and which of its shards succeeded.
        finished(state, turn, message.report)
    # Otherwise this node's executor has been asked, or has the run now: its report is newer.
    turn.answer(message.request_id, job_id, TAKEN)


def _is_asked(state: State, key: RunKey) -> bool:
    """Whether the executor of a run was asked for its state and has not answered yet."""
    job = state.jobs.get(key.job_id)
    run = job.find(key) if job else None
    return run is not None and run.was_asked


def seen(state: State, turn: Turn, message: NodesSeen) -> None:
    """Runs on nodes that are gone are lost, once they cannot be active there.

    A node that leaves forwards the outcomes of its runs through the ledger before it goes. The news that it is gone
    takes another way and may arrive first, so its reports are read from the ledger before its runs are given up.
    """
    state.lapsed = (state.lapsed | state.holding.keys()) - message.holding.keys() - message.nodes
    state.live_nodes, state.holding, state.forgotten = message
    gone = [key for key, node in state.foreign.items() if not _may_go_on(state, node)]
    asked = {key: state.doubted[key] for key in gone if key in state.doubted}
    news = [key for key in gone if key not in asked]
    if news:
        state.reports_number += 1
        asked |= dict.fromkeys(news, state.reports_number)
        turn.do(ReadReports(state.reports_number, sorted({bucket_of(key.job_id) for key in news})))
    state.doubted = asked


def reports_read(state: State, turn: Turn, message: ReportsRead) -> None:
    """Every earlier report is processed: ask the executors, and give up runs on nodes that are gone."""
    waiting = state.to_reconcile.pop(message.number, [])
    for run, _ in waiting:
        if run is not None:
            run.is_to_be_asked = False
    asked = [one for run, one in waiting if run is not None and _is_open_question(run) and _is_held(state, run)]
    if asked:
        turn.do(Reconcile(asked))
    for key in [key for key, number in state.doubted.items() if number == message.number]:
        del state.doubted[key]
        node = state.foreign.pop(key, None)
        job = state.jobs.get(key.job_id)
        run = job.active_run(key) if job else None
        if node is not None and job is not None and run is not None:
            reason = _why_gone(state, node)
            by = f": reported by {state.forgotten[node]}" if reason is LossReason.NODE_FORGOTTEN else ""
            lose(state, turn, job, run, reason, f"the node {node!r} that had it is gone{by}")


def _is_open_question(run: OpenRun) -> bool:
    """Whether nothing has reported the state of the run yet; a late report about its steps does not count."""
    return run.was_asked or run.state is LAUNCHING


def _is_held(state: State, run: OpenRun) -> bool:
    """Whether a run is still the one that the loop has under its key."""
    job = state.jobs.get(run.key.job_id)
    return job is not None and job.find(run.key) is run


def _why_gone(state: State, node: str) -> LossReason:
    if node in state.forgotten:
        return LossReason.NODE_FORGOTTEN
    return LossReason.LEASE_EXPIRED if node in state.lapsed else LossReason.NODE_GONE


def _may_go_on(state: State, node: str) -> bool:
    """Whether runs of a node may still be active there, whether or not it would report them."""
    is_there = node != state.node and state.live_nodes is not None and node in state.live_nodes
    return is_there or node in state.holding
