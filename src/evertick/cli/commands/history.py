"""`evertick history`: what ran, and what was skipped."""

from __future__ import annotations

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.complete import words as one_of
from evertick.cli.output import note, output_option, show
from evertick.cli.runs import runs_table
from evertick.cli.target import Target, place_options


def _states() -> list[str]:
    from evertick.model.lifecycle import RunState

    return list(RunState)


def _triggers() -> list[str]:
    from evertick.model.lifecycle import Trigger

    return list(Trigger)


def _reasons() -> list[str]:
    from evertick.model.lifecycle import SkipReason

    return list(SkipReason)


@click.command()
@click.argument("job", required=False, shell_complete=complete_jobs)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    shell_complete=one_of(_states),
    help="Only runs in this state; may be repeated.",
)
@click.option(
    "--trigger",
    "triggers",
    multiple=True,
    metavar="TRIGGER",
    shell_complete=one_of(_triggers),
    help="Only of this trigger; may be repeated.",
)
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    metavar="REASON",
    shell_complete=one_of(_reasons),
    help="Only skips for it; may be repeated.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only of jobs with this tag; may be repeated.")
@click.option("--executor", metavar="NAME", help="Only what ran there.")
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
    tags: tuple[str, ...],
    executor: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    after: str | None,
    place: Target,
    output: str,
) -> None:
    """Show what ran and what was skipped, newest first.

    Times without an offset are on the clocks of the job's zone; without a job, in UTC.

    \b
    Examples:
      evertick history report --state failed --limit 50
      evertick history --trigger catchup --since 2026-03-01 -o json
    """
    from evertick.cli.requests import all_pages
    from evertick.model.lifecycle import RunState, SkipReason, Trigger

    for what, words, known in (
        ("state", states, RunState),
        ("trigger", triggers, Trigger),
        ("reason", reasons, SkipReason),
    ):
        for word in words:
            _one_of(what, word, list(known))
    with place.operations() as operations:
        page = all_pages(
            lambda size, mark: operations.list_runs(
                job, states, triggers, reasons, tags, since, until, executor, limit=size, after=mark
            ),
            limit,
            after,
        )
    runs = page["items"]
    show(output, page, runs_table(runs), rows=runs, name="run")
    if not runs:
        note("Nothing of that kind is in the ledger. Next: evertick list shows what will run.")
    elif page["next"]:
        note(f"There is more: --after {page['next']}")


def _one_of(what: str, word: str, known: list[str]) -> None:
    from evertick.cli.lazy import unknown

    if word not in known:
        raise click.UsageError(unknown(what, word, [str(one) for one in known]))
