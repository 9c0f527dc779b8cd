"""All operations, on a ledger that this process can open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evertick.operations.context import Context
from evertick.operations.deferred import DeferredModule
from evertick.operations.protocol import Operations

if TYPE_CHECKING:
    from evertick.operations import attention as attention_query
    from evertick.operations import blackouts as blackout_operations
    from evertick.operations import bulk as bulk_command
    from evertick.operations import (
        calendar_days,
        commands,
        executor_queries,
        job_queries,
        log_queries,
        node_queries,
        run_queries,
        time_queries,
        verification,
    )
    from evertick.operations import overview as overview_query
    from evertick.operations import step_history as step_history_query
    from evertick.operations import timeline as timeline_query
    from evertick.operations import why as why_queries
else:
    attention_query = DeferredModule("evertick.operations.attention")
    blackout_operations = DeferredModule("evertick.operations.blackouts")
    bulk_command = DeferredModule("evertick.operations.bulk")
    calendar_days = DeferredModule("evertick.operations.calendar_days")
    commands = DeferredModule("evertick.operations.commands")
    executor_queries = DeferredModule("evertick.operations.executor_queries")
    job_queries = DeferredModule("evertick.operations.job_queries")
    log_queries = DeferredModule("evertick.operations.log_queries")
    node_queries = DeferredModule("evertick.operations.node_queries")
    overview_query = DeferredModule("evertick.operations.overview")
    run_queries = DeferredModule("evertick.operations.run_queries")
    step_history_query = DeferredModule("evertick.operations.step_history")
    time_queries = DeferredModule("evertick.operations.time_queries")
    timeline_query = DeferredModule("evertick.operations.timeline")
    verification = DeferredModule("evertick.operations.verification")
    why_queries = DeferredModule("evertick.operations.why")


class LocalOperations(Context):
    """Implements `Operations`. One per process; any thread may call it.

    Each operation is a function of its subject's module that takes the context first.
    """

    list_jobs = job_queries.list_jobs
    job = job_queries.job
    explain = job_queries.explain
    graph = job_queries.graph
    durations = job_queries.durations
    step_history = step_history_query.step_history
    catchup = job_queries.catchup
    why = why_queries.why
    why_run = why_queries.why_run

    list_runs = run_queries.list_runs
    gaps = run_queries.gaps
    run = run_queries.run
    run_definition = run_queries.run_definition

    list_logs = log_queries.list_logs
    read_log = log_queries.read_log
    log_bytes = log_queries.log_bytes
    log_times = log_queries.log_times
    search_log = log_queries.search_log

    attention = attention_query.attention
    overview = overview_query.overview
    timeline = timeline_query.timeline
    upcoming = time_queries.upcoming
    job_upcoming = time_queries.job_upcoming
    plan = time_queries.plan
    load = time_queries.load
    cron = time_queries.cron
    calendar = calendar_days.calendar

    blackouts = blackout_operations.blackouts
    add_blackout = blackout_operations.add_blackout
    remove_blackout = blackout_operations.remove_blackout

    status = executor_queries.status
    executors = executor_queries.executors
    queues = executor_queries.queues
    nodes = node_queries.nodes
    forget_node = node_queries.forget_node
    verify = verification.verify

    trigger = commands.trigger
    cancel = commands.cancel
    cancel_run = commands.cancel_run
    bulk = bulk_command.bulk
    retry = commands.retry
    pause = commands.pause
    resume = commands.resume
    backfill = commands.backfill
    backfills = commands.backfills
    backfill_progress = commands.backfill_progress
    cancel_backfill = commands.cancel_backfill
    answer = commands.answer


_: type[Operations] = LocalOperations
