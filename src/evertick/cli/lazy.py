"""Command groups that import a command only when it is used and suggest the nearest name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class SuggestingGroup(click.Group):
    """A group that suggests the nearest name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            ctx.fail(unknown("command", name, self.list_commands(ctx)))
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    """A group that maps names to `module:attribute`, so that listing its commands imports none of them."""

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, str],
        summaries: Mapping[str, str],
        sections: Mapping[str, Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy
        self._summaries = summaries
        self._sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._lazy.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), f"{place} is not a command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        known = self.list_commands(ctx)
        placed = {name for names in (self._sections or {}).values() for name in names}
        others = [name for name in known if name not in placed]
        # One width for all sections, so that the summaries align.
        width = max(map(len, known), default=0)
        for heading, names in {**(self._sections or {}), "Commands": others}.items():
            rows = [(name.ljust(width), self._summary(ctx, name)) for name in names if name in known]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # What click does, without importing every command for its summary.
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [
            *(CompletionItem(name, help=self._summaries.get(name)) for name in names),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def _summary(self, ctx: click.Context, name: str) -> str:
        if name in self._summaries:
            return self._summaries[name]
        command = self.get_command(ctx, name)
        return command.get_short_help_str(100) if command else ""


def unknown(what: str, name: str, known: list[str]) -> str:
    """The message for an unknown name: it suggests the nearest one, else lists the choices."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"Did you mean '{near[0]}'?" if near else f"Choose one of: {', '.join(known)}."
    return f"Unknown {what} '{name}'. {hint}"
