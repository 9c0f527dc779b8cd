"""`evertick resume`: a paused job is planned again."""

from __future__ import annotations

import click

from evertick.cli.output import output_option, show, show_text
from evertick.cli.place import Place, place_options
from evertick.cli.times import now


@click.command()
@click.argument("job")
@click.option(
    "--catchup",
    "keep",
    type=click.Choice(["all", "latest", "first", "none"]),
    help="Which occurrences of the pause to run; default: as the job's policy says.",
)
@place_options
@output_option
def resume(job: str, keep: str | None, place: Place, output: str) -> None:
    """Plan a paused job again.

    What was due during the pause is settled by the job's policy, like downtime, or as --catchup says. 'evertick
    catchup --dry-run JOB' shows it before.

    \b
    Examples:
      evertick resume report
      evertick resume report --catchup latest
    """
    from evertick.cli.asking import ask, new_id, whoami
    from evertick.model.policy import Missed
    from evertick.operations import find_record, resume_request

    with place.open() as store:
        find_record(store, job, place.jobs())
        chosen = Missed(keep) if keep else None
        asked = ask(place, store, resume_request(new_id(), job, now(), keep=chosen, by=whoami()))
    told = asked.request_id if asked.answer is None else f"{job} is planned again"
    show(output, asked.data(), lambda: show_text(told))
