"""`evertick notify`: send a test notification."""

from __future__ import annotations

from pathlib import Path

import click

from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import note, output_option, show, show_text
from evertick.cli.times import now


@click.group(cls=SuggestingGroup)
def notify() -> None:
    """Send a test notification.

    \b
    Example:
      evertick notify test ops
    """


@notify.command()
@click.argument("channel")
@click.option("--folder", type=click.Path(path_type=Path), default=Path(), help="Folder of job files.")
@click.option(
    "--config", metavar="FILE", help="Settings file; default: EVERTICK_CONFIG, else the folder's evertick.toml."
)
@output_option
def test(channel: str, folder: Path, config: str | None, output: str) -> None:
    """Send a test message to a notification channel.

    CHANNEL is a name from the settings. The message is sent once, without retries. The exit code is 1 when the delivery
    fails.

    \b
    Example:
      evertick notify test ops --folder jobs
    """
    from evertick.operations.notify import send_trial
    from evertick.settings import Settings

    outcome = send_trial(Settings.load(folder, overrides={"config": config}), channel, now())
    data = {"channel": channel, "is_delivered": outcome.is_delivered, "detail": outcome.detail}
    words = f"{'Delivered' if outcome.is_delivered else 'Not delivered'}: {outcome.detail}"
    show(output, data, lambda: show_text(words), name="channel")
    if not outcome.is_delivered:
        note("Check the channel's settings: evertick settings --changed")
        raise SystemExit(1)
