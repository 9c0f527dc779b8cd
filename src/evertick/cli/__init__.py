"""The command line: `evertick COMMAND`."""

from __future__ import annotations


def main() -> None:
    """The entry point of the `evertick` command."""
    from evertick.cli.app import run

    run()
