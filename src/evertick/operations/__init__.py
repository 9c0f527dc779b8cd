"""What people can do, whichever surface they use: each is a durable request, or a question to the ledger."""

from evertick.operations.backfill import (
    cancel_backfill,
    find_backfill,
    plan_backfill,
    progress_of,
    read_overlap,
)
from evertick.operations.data import as_begun, run_data
from evertick.operations.jobs import specs_of, standing_of, zone_of
from evertick.operations.preview import fires_until, preview_catchup
from evertick.operations.reasons import Why, why
from evertick.operations.requests import (
    RequestMessage,
    backfill_request,
    cancel_request,
    message_of,
    pause_request,
    resume_request,
    retry_request,
    trigger_request,
)
from evertick.operations.rules import explain
from evertick.operations.submission import (
    answer_to,
    find_record,
    find_run,
    forwarded_reports,
    live_nodes,
    messages_of,
    no_such_job,
    params_text,
    read_run_id,
    require_run,
    submit,
)
from evertick.operations.time_text import moment_text, read_moment, span_text
from evertick.operations.verification import verify
from evertick.store import Store

__all__ = [
    "RequestMessage",
    "Store",
    "Why",
    "answer_to",
    "as_begun",
    "backfill_request",
    "cancel_backfill",
    "cancel_request",
    "explain",
    "find_backfill",
    "find_record",
    "find_run",
    "fires_until",
    "forwarded_reports",
    "live_nodes",
    "message_of",
    "messages_of",
    "moment_text",
    "no_such_job",
    "params_text",
    "pause_request",
    "plan_backfill",
    "preview_catchup",
    "progress_of",
    "read_moment",
    "read_overlap",
    "read_run_id",
    "require_run",
    "resume_request",
    "retry_request",
    "run_data",
    "span_text",
    "specs_of",
    "standing_of",
    "submit",
    "trigger_request",
    "verify",
    "why",
    "zone_of",
]
