"""The account of a job or a step, and what it can see of its machine."""

from __future__ import annotations

import re
from typing import Final

from evertick.definitions.catalogue.limits import PATH_MAX
from evertick.definitions.catalogue.work import SANDBOX
from evertick.definitions.fields.values import choice_of, flag_of, line_of, texts_of
from evertick.definitions.nodes import MapNode, Node
from evertick.definitions.report import Report, Section
from evertick.model.work import Container, HttpCall, Kind, Pod, Sandbox, SandboxKind, SshCommand, SubJob

_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
_KINDS: Final = {str(kind): kind for kind in SandboxKind}
# Kinds that start no process on this machine on behalf of the job, and what to do instead.
_NO_PROCESS: Final[dict[type, str]] = {
    HttpCall: "Remove it: the scheduler makes the call itself.",
    SubJob: "Write it in that job.",
    Container: "Write 'user' in 'docker'; a container is a sandbox itself.",
    Pod: "Write 'podSpec' with a 'securityContext' in 'kubernetes'.",
}


def read_user(section: Section, kind: Kind | None, report: Report) -> str | None:
    node = section.take("user")
    if node is None or not _fits(section, "user", kind, report):
        return None
    field = section.field("user")
    text = line_of(node, field, report, longest=64)
    if text is not None and not _USER.fullmatch(text):
        report.error(
            node, field, f"'{text}' is not the name of an account.", "Use an account that 'getent passwd' lists."
        )
        return None
    return text


def read_sandbox(section: Section, kind: Kind | None, report: Report) -> Sandbox | None:
    """A word, or a map with what the sandbox permits."""
    node = section.take("sandbox")
    if node is None or not _fits(section, "sandbox", kind, report):
        return None
    field = section.field("sandbox")
    if not isinstance(node, MapNode):
        word = choice_of(node, field, report, _KINDS)
        return None if word is None else Sandbox(word)
    inside = Section(node, field, report, SANDBOX)
    place, network = inside.take("kind"), inside.take("network")
    if place is None and "kind" not in inside:
        report.error(node, field, f"'{field}' does not say which sandbox.", "Add 'kind: bwrap'.")
    chosen = choice_of(place, inside.field("kind"), report, _KINDS) if place else None
    sandbox = Sandbox(
        chosen or SandboxKind.BWRAP,
        _paths(inside, "readable", report),
        _paths(inside, "writable", report),
        bool(flag_of(network, inside.field("network"), report)) if network else False,
    )
    inside.finish(f"'{field}'")
    return sandbox if chosen is not None else None


def _paths(section: Section, name: str, report: Report) -> tuple[str, ...]:
    node = section.take(name)
    found: tuple[tuple[Node, str], ...] = (texts_of(node, section.field(name), report) or ()) if node else ()
    lines = (line_of(place, section.field(name), report, longest=PATH_MAX) for place, _text in found)
    return tuple(dict.fromkeys(line for line in lines if line is not None))


_NO_SANDBOX: Final[dict[type, str]] = {
    SshCommand: "Remove it: only OpenSSH runs on this machine; what the command sees is up to the other one.",
}


def _fits(section: Section, name: str, kind: Kind | None, report: Report) -> bool:
    """Whether there is a process that the field can apply to."""
    hint = _NO_PROCESS.get(type(kind)) or (_NO_SANDBOX.get(type(kind)) if name == "sandbox" else None)
    if hint is not None:
        report.error(section.key(name), section.field(name), f"'{section.field(name)}' has no effect here.", hint)
    return hint is None
