"""What a reader of `why` can do next, as data: the page offers a button, the command line prints a command."""

from __future__ import annotations

from evertick.model.instant import SECOND, Instant, to_text
from evertick.model.run import LedgerRow
from evertick.operations.results.requests import NextStep, NextStepKind
from evertick.operations.time_text import moment_text, read_moment


def run_occurrence(job_id: str, at: Instant, zone: str) -> NextStep:
    return NextStep(NextStepKind.RUN_OCCURRENCE, "to run it now", backfill_command(job_id, at, at + 1, zone))


def run_again(row: LedgerRow) -> NextStep:
    """Run a skip again: a requested run is not an occurrence of the schedule, so a backfill would not find it."""
    return NextStep(NextStepKind.RETRY, "to run it now", f"evertick retry {row.key.run_id}")


def retry(row: LedgerRow) -> NextStep:
    return NextStep(NextStepKind.RETRY, "to retry it", f"evertick retry {row.key.run_id}")


def read_log(row: LedgerRow) -> NextStep:
    return NextStep(NextStepKind.READ_LOG, "output", f"evertick logs {row.key.run_id}")


def resume(job_id: str) -> NextStep:
    return NextStep(NextStepKind.RESUME, "to let it run", f"evertick resume {job_id}")


def resume_all(job_id: str) -> NextStep:
    command = f"evertick resume {job_id} --catchup all"
    return NextStep(NextStepKind.RESUME, "to catch up on the next resume", command)


def preview_catchup(job_id: str) -> NextStep:
    return NextStep(NextStepKind.PREVIEW_CATCHUP, "preview", f"evertick catchup --dry-run {job_id}")


def show_job(job_id: str) -> NextStep:
    return NextStep(NextStepKind.SHOW_JOB, "to see why", f"evertick status {job_id}")


def forget_node(node: str) -> NextStep:
    return NextStep(NextStepKind.FORGET_NODE, "if the node does not come back", f"evertick nodes forget {node}")


def verify() -> NextStep:
    return NextStep(NextStepKind.VERIFY, "copy the ledger, then run", "evertick verify")


def name_folder(job_id: str) -> NextStep:
    return NextStep(NextStepKind.NAME_FOLDER, "if the job file exists", f"evertick why {job_id} --folder FOLDER")


def backfill_command(job_id: str, start: Instant, end: Instant, zone: str) -> str:
    """The command that runs the occurrences of a window; its end is the next whole second."""
    until = -(-end // SECOND) * SECOND
    local = [moment_text(at, zone).replace(" ", "T") for at in (start, until)]
    # A local time that comes twice in a night would be read as the first.
    is_clear = [read_moment(text, zone) for text in local] == [start, until]
    first, last = local if is_clear else (to_text(at) for at in (start, until))
    return f"evertick backfill {job_id} --from {first} --to {last}"
