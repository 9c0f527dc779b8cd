"""The reference pages of the command line, from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from evertick.cli.app import COMMANDS, evertick
from evertick.cli.exits import EXIT_CODES, MEANINGS


def every_command(group: click.Group = evertick, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command and every group with its whole name, in the order of the alphabet."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from every_command(command, f"{path}{name} ")


def commands_page() -> str:
    parts = [
        "# Commands",
        "Every command with its options and examples. [Command line](../cli.md) explains what the commands have in "
        "common.",
        ", ".join(f"[`{name}`](#evertick-{name})" for name in sorted(COMMANDS)),
        *(_command(name, command) for name, command in every_command()),
    ]
    return "\n\n".join(parts) + "\n"


def exit_codes_page() -> str:
    errors: dict[int, list[str]] = {}
    for kind, code in EXIT_CODES:
        errors.setdefault(code, []).append(f"`{kind.__name__}`")
    rows = [
        f"| {code} | {name} | {meaning} | {', '.join(errors.get(code, []))} |"
        for code, (name, meaning) in MEANINGS.items()
    ]
    return "\n".join(
        [
            "# Exit codes",
            "",
            "The exit codes of all commands, for scripts. The error message is on stderr, with the next step.",
            "",
            "| code | name | meaning | errors |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _command(name: str, command: click.Command) -> str:
    if (first := _first_name(name, command)) != name:
        return f"## evertick {name}\n\nThe same as [`evertick {first}`](#evertick-{first.replace(' ', '-')})."
    context = click.Context(command, info_name=f"evertick {name}")
    text, _, examples = inspect.cleandoc(command.help or "").partition("\b\nExample")
    paragraphs = [_prose(part) for part in text.strip().split("\n\n")]
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## evertick {name}", f"`evertick {name} {usage}`", *paragraphs]
    rows = [row for parameter in command.params for row in _option(parameter, context)]
    if rows:
        parts.append("\n".join(["| option | meaning | default |", "|---|---|---|", *rows]))
    shown = "\n".join(line.strip() for line in examples.partition("\n")[2].splitlines())
    parts.append(f"```text\n{shown.strip()}\n```")
    return "\n\n".join(parts)


def _first_name(name: str, command: click.Command) -> str:
    """The name under which a command is described: that of another with the same function, if this one is its alias."""
    same = [other for other, one in every_command() if one.callback is command.callback and one.callback is not None]
    return min(same, key=lambda other: (other.startswith("scheduler "), other)) if same else name


def _prose(part: str) -> str:
    if not part.startswith("\b\n"):
        return part
    lines = "\n".join(line.strip() for line in part.removeprefix("\b\n").splitlines())
    return f"```text\n{lines}\n```"


def _option(parameter: click.Parameter, context: click.Context) -> Iterator[str]:
    if not isinstance(parameter, click.Option) or parameter.hidden:
        return
    found = parameter.get_help_record(context)
    assert found is not None
    names, _ = found
    default = ""
    if parameter.show_default and parameter.default is not None and not parameter.is_flag:
        default = f"`{parameter.default}`"
    elif parameter.show_default and parameter.is_flag and parameter.secondary_opts:
        default = f"`{(parameter.opts if parameter.default else parameter.secondary_opts)[-1]}`"
    # A pipe would end the cell of a table.
    cells = (f"`{names.replace('|', ', ')}`", (parameter.help or "").replace("|", ", "), default)
    yield f"| {' | '.join(cells)} |"
