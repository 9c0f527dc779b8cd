"""`evertick backfill`: run past occurrences of a job."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from evertick.cli.exits import FAILED, OK, TIMEOUT
from evertick.cli.output import Column, Table, note, output_option, show, show_text
from evertick.cli.place import Place, place_options
from evertick.cli.times import local_text, now

if TYPE_CHECKING:
    from evertick.model.ledger import Request
    from evertick.operations import Store
    from evertick.operations.backfill import Candidate

POLL_SECONDS = 0.5


@click.command()
@click.argument("job")
@click.option("--from", "start", metavar="TIME", help="From this time on, included.")
@click.option("--to", "end", metavar="TIME", help="Up to this time, not included.")
@click.option("--dry-run", is_flag=True, help="Show what would run, and change nothing.")
@click.option(
    "--only-missing/--all",
    "only_missing",
    default=True,
    show_default=True,
    help="Leave out those for which a run succeeded or has not ended.",
)
@click.option("--overlap", default="wait", show_default=True, metavar="RULE", help="wait, or parallel(n).")
@click.option("--rate", type=click.FloatRange(0, 86_400), default=0.0, metavar="SECONDS", help="Between two starts.")
@click.option("--wait/--no-wait", "wait", default=None, help="Wait for all of them; default: on a terminal.")
@click.option("--cancel", "cancelled", metavar="REQUEST", help="Cancel what is left of this backfill.")
@place_options
@output_option
@click.pass_context
def backfill(
    ctx: click.Context,
    job: str,
    start: str | None,
    end: str | None,
    dry_run: bool,
    only_missing: bool,
    overlap: str,
    rate: float,
    wait: bool | None,
    cancelled: str | None,
    place: Place,
    output: str,
) -> None:
    """Run past occurrences of a job, from a time up to another.

    The occurrences are those of the schedule as it is now; times without an offset are on the clocks of the job's zone.
    They run beside the job's live runs, one after another unless --overlap says otherwise. Ctrl-C ends the waiting, not
    the backfill.

    \b
    Examples:
      evertick backfill report --from 2026-03-01 --to 2026-03-02 --dry-run
      evertick backfill report --from 2026-03-01 --to 2026-04-01 --overlap "parallel(2)" --rate 5
      evertick backfill report --cancel cli-0f3a9c21d4e5
    """
    from evertick import operations
    from evertick.cli.asking import ask, new_id, whoami
    from evertick.planning.schedules import compile_all

    if cancelled is not None:
        _cancel(place, job, cancelled, output)
        return
    if start is None or end is None:
        raise click.UsageError("a backfill needs --from and --to.")
    rule = operations.read_overlap(overlap)
    with place.open() as store:
        jobs = place.jobs()
        operations.find_record(store, job, jobs)
        specs = operations.specs_of(store, job, jobs)
        zone, schedules = operations.zone_of(jobs.get(job), specs), compile_all(specs)
        first, last = (operations.read_moment(text, zone, schedules) for text in (start, end))
        found = operations.plan_backfill(store, job, jobs, first, last, now(), only_missing=only_missing)
        chosen = [candidate.at for candidate in found if candidate.is_chosen]
        if dry_run or not chosen:
            _show(found, zone, output, is_dry=dry_run)
            return
        request = operations.backfill_request(
            new_id(), job, now(), chosen, overlap=rule, gap_us=round(rate * 1_000_000), by=whoami()
        )
        asked = ask(place, store, request)
        data = {**asked.data(), "runs": len(chosen)}
        show(output, data, lambda: show_text(asked.request_id), name="request")
        note(
            f"{len(chosen):,} of {len(found):,} occurrences. To stop it: evertick backfill {job} --cancel {request.id}"
        )
        if asked.answer is not None and (sys.stderr.isatty() if wait is None else wait):
            ctx.exit(_watch(store, request))
        if wait:
            ctx.exit(TIMEOUT)


def _show(found: list[Candidate], zone: str, output: str, *, is_dry: bool) -> None:
    from evertick.model.instant import to_text

    rows = [
        {
            "scheduled_for": to_text(one.at),
            "local": local_text(one.at, zone),
            "what": "run" if one.is_chosen else "leave",
            "why": one.why,
        }
        for one in found
    ]
    columns = (
        Column("Local time", "local", "bold"),
        Column("What", "what"),
        Column("Now in the ledger", "why", wrap=True),
        Column("UTC", "scheduled_for", "dim", optional=True),
    )
    show(output, rows, Table(columns, rows), name="scheduled_for")
    if not rows:
        note("Nothing was due in that window.")
    else:
        runs = sum(one.is_chosen for one in found)
        note(f"{runs:,} of {len(found):,} would run." if is_dry else "There is nothing to run; --all runs them again.")


def _cancel(place: Place, job: str, request_id: str, output: str) -> None:
    from evertick.cli.asking import ask, new_id, whoami
    from evertick.operations import cancel_backfill, find_backfill, find_record, submit

    with place.open() as store:
        find_record(store, job, place.jobs())
        found = find_backfill(store, job, request_id)
        requests = cancel_backfill(store, found, new_id(), now(), by=whoami())
        runs = len(requests)
        if requests:
            *others, last = requests
            submit(store, *others)
            ask(place, store, last)
    told = f"{runs:,} runs of {request_id} are cancelled" if runs else f"nothing of {request_id} is left to run"
    show(output, {"request": request_id, "job": job, "cancelled": runs}, lambda: show_text(told), name="request")


def _watch(store: Store, request: Request) -> int:
    """Show how far it is until it is over; the exit code tells whether all of it succeeded."""
    from evertick.cli.asking import interruptible
    from evertick.operations import progress_of

    farewell = f"The backfill goes on. To stop it: evertick backfill {request.job_id} --cancel {request.id}"
    with interruptible(farewell):
        progress = progress_of(store, request)
        with click.progressbar(length=progress.total, label="backfill", file=sys.stderr) as bar:
            shown = 0
            while True:
                bar.update(progress.ended - shown)
                shown = progress.ended
                if progress.is_over:
                    break
                time.sleep(POLL_SECONDS)
                progress = progress_of(store, request)
    note(", ".join(f"{count:,} {state}" for state, count in sorted(progress.states.items())) + ".")
    return OK if progress.succeeded == progress.total else FAILED
