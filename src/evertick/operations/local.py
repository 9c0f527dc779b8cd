"""All operations, on a ledger that this process can open."""

from __future__ import annotations

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
from evertick.operations.context import Context
from evertick.operations.protocol import Operations


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
