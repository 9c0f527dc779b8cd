"""Which command of another machine a step is."""

from __future__ import annotations

import re
from typing import Final

from evertick.definitions.catalogue.limits import PATH_MAX
from evertick.definitions.catalogue.work import SSH, SSH_PLACE
from evertick.definitions.fields.values import duration_of, integer_of, line_of, path_of, read_command
from evertick.definitions.nodes import Node
from evertick.definitions.report import Report, Section, section_of
from evertick.model.instant import SECOND
from evertick.model.work import SshCommand

_EXAMPLE: Final = "ssh: {host: db1, command: [backup, --full]}"
_PLACE: Final = "ssh: {host: db1, user: backup}"
_HOST: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})|[0-9A-Fa-f:]{2,45}(?:%[A-Za-z0-9_.-]{1,32})?")
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}\$?")
_UNSAFE: Final = re.compile(r'["$\\]')
_CONNECT_MAX_US: Final = 3_600 * SECOND


def read_ssh(node: Node, field: str, report: Report, *, is_place: bool = False) -> SshCommand | None:
    """A command on another machine; for a job whose commands run there (`is_place`), without a command."""
    section = section_of(node, field, report, SSH_PLACE if is_place else SSH, _PLACE if is_place else _EXAMPLE)
    if section is None:
        return None
    host = _read_name(section, "host", _HOST, "the name of a host", "Write a name such as db1, or an address.", report)
    command_node, port = (None if is_place else section.take("command")), section.take("port")
    for name in ("host",) if is_place else ("host", "command"):
        if name not in section:
            example = _PLACE if is_place else _EXAMPLE
            report.error(section.node, section.field(name), f"'{field}' has no {name}.", f"Write {example}.")
    command = read_command(command_node, section.field("command"), report) if command_node else None
    if command is not None and not command.is_shell and command.words[0].startswith("-"):
        reason = f"'{section.field('command')}' begins with '{command.words[0][:60]}', which is not a program."
        report.error(command_node, section.field("command"), reason, "Write the program first.")
    ssh = SshCommand(
        host=host or "",
        command=command.words if command else (),
        is_shell=bool(command and command.is_shell),
        user=_read_name(section, "user", _USER, "the name of an account", "Write a name such as backup.", report),
        port=integer_of(port, section.field("port"), report, 1, 65_535) if port else None,
        key=_read_path(section, "key", report),
        known_hosts=_read_path(section, "knownHosts", report),
        working_dir=_read_path(section, "workingDir", report, allows_all=True),
        connect_timeout_us=_read_connect_timeout(section, report),
    )
    section.finish(f"'{field}'")
    return None if host is None or (command is None and not is_place) else ssh


def _read_name(section: Section, name: str, shape: re.Pattern[str], what: str, hint: str, report: Report) -> str | None:
    """OpenSSH would take a name with other characters, such as a leading '-', for an option or a pattern."""
    node, field = section.take(name), section.field(name)
    text = line_of(node, field, report, longest=300) if node else None
    if text is not None and not shape.fullmatch(text):
        report.error(node, field, f"'{field}' is '{text[:60]}', which is not {what}.", hint)
        return None
    return text


def _read_path(section: Section, name: str, report: Report, *, allows_all: bool = False) -> str | None:
    node, field = section.take(name), section.field(name)
    text = path_of(node, field, report, longest=PATH_MAX) if node else None
    if text is not None and not allows_all and _UNSAFE.search(text):
        reason = f"'{field}' holds a quote, '$' or a backslash, which OpenSSH would not take as it is."
        report.error(node, field, reason, "Rename the file.")
        return None
    return text


def _read_connect_timeout(section: Section, report: Report) -> int:
    node, field = section.take("connectTimeout"), section.field("connectTimeout")
    span_us = duration_of(node, field, report) if node else None
    if span_us is not None and not SECOND <= span_us <= _CONNECT_MAX_US:
        report.error(node, field, f"'{field}' must be from 1s to 1h.", "Write for example 30s.")
    return SshCommand("", ()).connect_timeout_us if span_us is None else span_us
