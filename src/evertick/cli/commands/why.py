"""`evertick why`: what became of an occurrence, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from evertick.cli.output import output_option, show, show_text
from evertick.cli.place import Place, place_options
from evertick.cli.times import now

if TYPE_CHECKING:
    from evertick.operations import Why


@click.command()
@click.argument("job", metavar="JOB|RUN_ID")
@click.argument("time", required=False)
@place_options
@output_option
def why(job: str, time: str | None, place: Place, output: str) -> None:
    """Say what became of an occurrence of a job, and why.

    A time without an offset is on the clocks of the job's zone. Without a time, the newest occurrence is meant. The
    exit code is 0 whatever became of it.

    \b
    Examples:
      evertick why hourly-etl 2026-03-02T03:00
      evertick why hourly-etl@2026-03-02T02:00:00Z -o json
    """
    from evertick import operations

    when: Any = time
    if "@" in job:
        if time is not None:
            raise click.UsageError("the id of a run names its time already. Leave the second one out.")
        when = operations.read_run_id(job)
        job = when.job_id
    with place.open() as store:
        answer = operations.why(store, job, when, place.jobs(), now())
    data = _data(answer)
    show(output, data, lambda: _tell(data), name=lambda row: row["run"]["run"] if row["run"] else row["job"])


def _tell(answer: dict[str, Any]) -> None:
    from evertick.model.instant import from_text
    from evertick.operations import moment_text

    zone, at = answer["timezone"], from_text(answer["scheduled_for"])
    shown, in_utc = moment_text(at, zone), moment_text(at, "UTC")
    day, _, clock = in_utc.partition(" ")
    utc = "" if shown == in_utc else f" ({clock if shown.startswith(day) else in_utc} UTC)"
    verdict = f"{answer['outcome']}: {answer['reason']}" if answer["reason"] else answer["outcome"]
    show_text(f"{answer['job']}  {shown} {zone}{utc}   {verdict}", bold=True)
    for sentence in answer["sentences"]:
        show_text(f"  {sentence}")


def _data(answer: Why) -> dict[str, Any]:
    from evertick.operations import run_data
    from evertick.operations.data import text_or_none

    return {
        "job": answer.job_id,
        "scheduled_for": text_or_none(answer.at),
        "timezone": answer.zone,
        "outcome": answer.outcome,
        "reason": None if answer.reason is None else str(answer.reason),
        "sentences": list(answer.sentences),
        "run": None if answer.row is None else run_data(answer.row),
        "other_run": None if answer.other is None else run_data(answer.other),
        "policy": answer.ruling.rule or None,
        "policy_from": answer.ruling.origin or None,
        "advice": answer.ruling.advice or None,
        "nearest_before": text_or_none(answer.before),
        "nearest_after": text_or_none(answer.after),
    }
