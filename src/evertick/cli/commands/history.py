"""`evertick history`: past runs and skipped occurrences."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

import click

from evertick.cli.complete import complete_jobs, complete_words
from evertick.cli.output import note, output_option, show
from evertick.cli.run_view import step_lines, steps_table
from evertick.cli.runs import runs_table
from evertick.cli.target import Target
from evertick.cli.target_options import target_options

E = TypeVar("E", bound=StrEnum)


@click.command()
@click.argument("job", required=False, shell_complete=complete_jobs)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    shell_complete=complete_words("RunState"),
    help="Only runs in this state; repeatable.",
)
@click.option(
    "--trigger",
    "triggers",
    multiple=True,
    metavar="TRIGGER",
    shell_complete=complete_words("Trigger"),
    help="Only runs with this trigger; repeatable.",
)
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    metavar="REASON",
    shell_complete=complete_words("SkipReason"),
    help="Only occurrences skipped for this reason; repeatable.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only runs of jobs with this tag; repeatable.")
@click.option("--executor", metavar="NAME", help="Only runs on this executor.")
@click.option("--since", metavar="TIME", help="Only runs due at this time or later.")
@click.option("--until", metavar="TIME", help="Only runs due before this time.")
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Maximum number.")
@click.option("--after", metavar="RUN_ID", help="Continue after this run; the previous page prints it.")
@click.option("--steps", "with_steps", is_flag=True, help="Show the steps of each run.")
@target_options
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
    with_steps: bool,
    target: Target,
    output: str,
) -> None:
    """Show past runs and skipped occurrences, newest first.

    Times without an offset are in the job's time zone; without JOB, in UTC. They may be relative: 1h, -2d, yesterday.

    \b
    Examples:
      evertick history report --state failed --limit 50
      evertick history --trigger catchup --since 2026-03-01 -o json
      evertick history report --since yesterday --steps
    """
    from evertick.cli.requests import all_pages, data_with
    from evertick.model.lifecycle import RunState, SkipReason, Trigger
    from evertick.operations.codec import to_data
    from evertick.operations.protocol import RunQuery

    query = RunQuery(
        job,
        _members("state", states, RunState),
        _members("trigger", triggers, Trigger),
        _members("reason", reasons, SkipReason),
        tags,
        since,
        until,
        executor,
    )
    with target.operations() as operations:
        page = all_pages(lambda size, mark: operations.list_runs(query, size, mark), limit, after)
        runs = page.items
        details = [operations.run(run.run) for run in runs] if with_steps else []
    is_filtered = any((job, states, triggers, reasons, tags, executor, since, until, after))
    if with_steps:
        data = data_with(page, items=[to_data(run) for run in details])
        lines = [line for run in details for line in step_lines(run)]
        show(output, data, (runs_table(runs), steps_table(lines, "Steps", with_run=True)), rows=details, name="run")
    else:
        show(output, page, runs_table(runs), rows=runs, name="run")
    if not runs:
        note("No runs match." if is_filtered else "No runs yet. Next: evertick list")
    elif page.next:
        note(f"More: --after {page.next}")


def _members(what: str, words: tuple[str, ...], kind: type[E]) -> list[E]:
    from evertick.cli.lazy import unknown

    for word in words:
        if word not in set(kind):
            raise click.UsageError(unknown(what, word, [str(one) for one in kind]))
    return [kind(word) for word in words]
