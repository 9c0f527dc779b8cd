"""`evertick pause`: nothing more is planned for a job."""

from __future__ import annotations

import click

from evertick.cli.output import note, output_option, show, show_text
from evertick.cli.place import Place, place_options
from evertick.cli.times import now


@click.command()
@click.argument("job")
@click.option("--note", "reason", default="", metavar="TEXT", help="Why, for those who find it paused.")
@place_options
@output_option
def pause(job: str, reason: str, place: Place, output: str) -> None:
    """Stop planning a job until it is resumed.

    What runs goes on, and what is asked for by hand still runs. Occurrences of the time in between are settled on
    resume. A job that is paused already stays so.

    \b
    Example:
      evertick pause report --note "the database moves"
    """
    from evertick.cli.asking import ask, new_id, whoami
    from evertick.model.instant import to_text
    from evertick.operations import find_record, pause_request

    with place.open() as store:
        find_record(store, job, place.jobs())
        asked = ask(place, store, pause_request(new_id(), job, now(), note=reason, by=whoami()))
    paused = None if asked.answer is None else f"{job} is paused since {to_text(asked.answer['paused_at'])}"
    show(output, asked.data(), lambda: show_text(paused or asked.request_id))
    if paused:
        note(f"Next: evertick resume {job}")
