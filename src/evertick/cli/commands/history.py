"""`evertick history`: what ran, and what was skipped."""

from __future__ import annotations

import click

from evertick.cli.output import note, output_option, show
from evertick.cli.place import Place, place_options
from evertick.cli.runs import runs_table


@click.command()
@click.argument("job", required=False)
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only runs in this state; may be repeated.")
@click.option("--trigger", "triggers", multiple=True, metavar="TRIGGER", help="Only of this trigger; may be repeated.")
@click.option("--reason", "reasons", multiple=True, metavar="REASON", help="Only skips for it; may be repeated.")
@click.option("--since", metavar="TIME", help="Due at this time or later.")
@click.option("--until", metavar="TIME", help="Due before this time.")
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many.")
@click.option("--after", metavar="RUN_ID", help="Go on behind this run, as the page before says.")
@place_options
@output_option
def history(
    job: str | None,
    states: tuple[str, ...],
    triggers: tuple[str, ...],
    reasons: tuple[str, ...],
    since: str | None,
    until: str | None,
    limit: int,
    after: str | None,
    place: Place,
    output: str,
) -> None:
    """Show what ran and what was skipped, newest first.

    Times without an offset are on the clocks of the job's zone; without a job, in UTC.

    \b
    Examples:
      evertick history report --state failed --limit 50
      evertick history --trigger catchup --since 2026-03-01 -o json
    """
    from evertick import operations
    from evertick.model.lifecycle import RunState, SkipReason, Trigger

    with place.open() as store:
        jobs = place.jobs()
        zone = "UTC"
        if job is not None:
            operations.find_record(store, job, jobs)
            zone = operations.zone_of(jobs.get(job), operations.specs_of(store, job, jobs))
        page = operations.history(
            store,
            job,
            states=[RunState(_one_of("state", word, list(RunState))) for word in states],
            triggers=[Trigger(_one_of("trigger", word, list(Trigger))) for word in triggers],
            reasons=[SkipReason(_one_of("reason", word, list(SkipReason))) for word in reasons],
            since=operations.read_moment(since, zone) if since else None,
            until=operations.read_moment(until, zone) if until else None,
            limit=limit,
            after=operations.read_run_id(after) if after else None,
        )
    runs = [operations.run_data(row) for row in page.rows]
    table = runs_table(runs, zone if job else None)
    show(output, {"runs": runs, "after": page.after}, table, rows=runs, name="run")
    if not page.rows:
        note("Nothing of that kind is in the ledger. Next: evertick list shows what will run.")
    elif page.after:
        note(f"There is more: --after {page.after}")


def _one_of(what: str, word: str, known: list[str]) -> str:
    from evertick.cli.lazy import unknown

    if word not in known:
        raise click.UsageError(unknown(what, word, [str(one) for one in known]))
    return word
