"""`evertick completion`: the completion script of a shell."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for bash, zsh or fish.

    The script completes commands, options and job names.

    \b
    bash, in ~/.bashrc:   eval "$(evertick completion bash)"
    zsh, in ~/.zshrc:     eval "$(evertick completion zsh)"
    fish, once:           evertick completion fish > ~/.config/fish/completions/evertick.fish

    \b
    Example:
      eval "$(evertick completion bash)"
    """
    from click.shell_completion import get_completion_class

    from evertick.cli.app import evertick

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(evertick, {}, "evertick", "_EVERTICK_COMPLETE").source())
