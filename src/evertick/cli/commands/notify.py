"""`evertick notify`: whether those who are to be told can be."""

from __future__ import annotations

from pathlib import Path

import click

from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import note, output_option, show, show_text
from evertick.cli.times import now


@click.group(cls=SuggestingGroup)
def notify() -> None:
    """Try out whom the settings name as receivers of messages.

    \b
    Example:
      evertick notify test ops
    """


@notify.command()
@click.argument("channel")
@click.option("--folder", type=click.Path(path_type=Path), default=Path(), help="The folder of the jobs and settings.")
@click.option("--config", metavar="FILE", help="The settings; default: EVERTICK_CONFIG, else the folder's own.")
@output_option
def test(channel: str, folder: Path, config: str | None, output: str) -> None:
    """Send one message to a channel of the settings, and tell what came of it.

    It is tried once. The exit code is 1 when it was not taken.

    \b
    Example:
      evertick notify test ops --folder jobs
    """
    from evertick.operations.notify import send_trial
    from evertick.settings import Settings

    outcome = send_trial(Settings.load(folder, overrides={"config": config}), channel, now())
    data = {"channel": channel, "is_delivered": outcome.is_delivered, "detail": outcome.detail}
    words = f"{'delivered' if outcome.is_delivered else 'not delivered'}: {outcome.detail}"
    show(output, data, lambda: show_text(words), name="channel")
    if not outcome.is_delivered:
        note("Next: evertick settings --changed shows what the settings say.")
        raise SystemExit(1)
