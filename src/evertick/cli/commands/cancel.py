"""`evertick cancel`: end what has not ended."""

from __future__ import annotations

import click

from evertick.cli.output import note, output_option, show, show_text
from evertick.cli.place import Place, place_options
from evertick.cli.times import now


@click.command()
@click.argument("target", metavar="JOB|RUN_ID")
@place_options
@output_option
def cancel(target: str, place: Place, output: str) -> None:
    """Cancel a run, or every run of a job that has not ended.

    What has not started ends at once; what runs is asked to end, and killed when it does not. The ids of the runs are
    on stdout. A run that has ended cannot be cancelled (exit code 6).

    \b
    Examples:
      evertick cancel report
      evertick cancel report@2026-03-02T09:00:00Z
    """
    from evertick.cli.asking import ask, new_id, whoami
    from evertick.errors import Conflict
    from evertick.model.lifecycle import TERMINAL
    from evertick.operations import cancel_request, find_record, read_run_id, require_run

    key = read_run_id(target) if "@" in target else None
    job_id = key.job_id if key else target
    with place.open() as store:
        find_record(store, job_id, place.jobs())
        if key is not None:
            row = require_run(store, key)
            if row.state in TERMINAL:
                raise Conflict(f"the run {target} has ended: {row.state}. Nothing was changed.")
        run_id = key.run_id if key else None
        asked = ask(place, store, cancel_request(new_id(), job_id, now(), run_id=run_id, by=whoami()))
    ended = [asked.request_id] if asked.answer is None else asked.answer["runs"]
    if output == "name":
        _tell(ended)
    else:
        show(output, asked.data(), lambda: _tell(ended))
    if not ended:
        note(f"Nothing of '{job_id}' is open.")


def _tell(names: list[str]) -> None:
    for name in names:
        show_text(name)
