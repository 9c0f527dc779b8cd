"""The kind of a step: a command, a script, a function, an HTTP request, another job, a container, or an SSH command."""

from __future__ import annotations

import json
import re
import shlex
from typing import Final

from evertick.definitions.catalogue.words import METHODS
from evertick.definitions.catalogue.work import HTTP, KINDS
from evertick.definitions.fields.command_place import CommandPlace, move_kind
from evertick.definitions.fields.docker import read_container
from evertick.definitions.fields.environment import read_value
from evertick.definitions.fields.kubernetes import read_pod
from evertick.definitions.fields.ssh import read_ssh
from evertick.definitions.fields.templates import check_data, check_shell_text, check_template
from evertick.definitions.fields.values import (
    choice_of,
    flag_of,
    integer_of,
    job_of,
    line_of,
    read_command,
    text_of,
    url_of,
)
from evertick.definitions.nodes import ListNode, MapNode, Node, ScalarNode, kind_of, plain_data
from evertick.definitions.report import Report, Section
from evertick.model.work import FUNCTION, Env, HttpCall, Kind, PythonCall, Script, SubJob

SCRIPT_MAX = 200_000
BODY_MAX = 200_000

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# The fields that each kind may have, and no other kind.
_BELONGS: Final = {"shell": "script", "interpreter": "script", "with": "python", "params": "job", "wait": "job"}

# Kinds with their own working folder, which is not on this machine.
_ELSEWHERE: Final = ("ssh", "docker")


def read_kind(section: Section, owner: str, report: Report, place: CommandPlace | None = None) -> Kind | None:
    """The one kind of a step; a field of another kind is an error. `place` is where the commands of its job run."""
    written = [name for name in KINDS if name in section]
    if not written:
        reason = f"{owner} has no command."
        hint = f"Add 'command', or one of {', '.join(name for name in KINDS if name != 'command')}."
        report.error(section.node, section.field("command"), reason, hint)
    for other in written[1:]:
        section.contradict(written[0], other, "a step is one thing")
    for name, kind in _BELONGS.items():
        if name in section and kind not in section:
            reason = f"'{section.field(name)}' belongs to '{kind}', and {owner} has none."
            section.refuse(name, reason, f"Write '{kind}', or remove it.")
    for name in _ELSEWHERE:
        if name in section and "workingDir" in section:
            reason = f"'{section.field('workingDir')}' is a folder of this machine, and {owner} does not run in one."
            section.refuse("workingDir", reason, f"Write 'workingDir' in '{name}'.")
    taken = {name: section.take(name) for name in (*KINDS, *_BELONGS)}
    command, script, python, http, job, kubernetes, docker, ssh = (taken[name] for name in KINDS)
    # Each is read, and so checked, although only one can be used.
    found: list[Kind | None] = [
        read_command(command, section.field("command"), report) if command else None,
        _script(script, section, taken, report) if script else None,
        _python(python, section, taken["with"], report) if python else None,
        _http(http, section.field("http"), report) if http else None,
        _sub_job(job, section, taken["params"], taken["wait"], report) if job else None,
        read_pod(kubernetes, section.field("kubernetes"), report) if kubernetes else None,
        read_container(docker, section.field("docker"), report) if docker else None,
        read_ssh(ssh, section.field("ssh"), report) if ssh else None,
    ]
    return move_kind(next((kind for kind in found if kind is not None), None), section, place, report)


def _script(node: Node, section: Section, taken: dict[str, Node | None], report: Report) -> Script | None:
    text = text_of(node, section.field("script"), report, longest=SCRIPT_MAX)
    section.contradict("shell", "interpreter", "both say what reads the script")
    interpreter: tuple[str, ...] | None = None
    for name in ("shell", "interpreter"):
        place = taken[name]
        if place is not None:
            interpreter = _words(place, section.field(name), report)
    if text is None:
        return None
    check_shell_text(node, text, section.field("script"), report)
    return Script(text) if interpreter is None else Script(text, interpreter)


def _words(node: Node, field: str, report: Report) -> tuple[str, ...] | None:
    """A program and its arguments: a list, or a text that is split at its spaces as a shell would."""
    if isinstance(node, ListNode):
        command = read_command(node, field, report)
        return command.words if command else None
    text = line_of(node, field, report, longest=1_000)
    if text is None:
        return None
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        report.error(node, field, f"'{field}' cannot be split into words: {error}.", "Write a list of words.")
        return None
    if not words or not words[0]:
        report.error(node, field, f"the program of '{field}' is empty.", "Write for example bash.")
        return None
    return words


def _python(node: Node, section: Section, place: Node | None, report: Report) -> PythonCall | None:
    field = section.field("python")
    target = line_of(node, field, report, longest=500)
    if target is not None and not FUNCTION.fullmatch(target):
        report.error(node, field, f"'{target[:60]}' is not a function.", "Write package.module:function.")
        target = None
    arguments: dict[str, object] = {}
    if isinstance(place, MapNode):
        for key, value in place.entries:
            if not key.text.isidentifier():
                reason = f"'{key.text[:60]}' cannot be the name of an argument."
                report.error(key, section.field("with"), reason, "Use letters, digits and _.")
            check_data(value, section.field("with"), report)
            arguments[key.text] = plain_data(value)
    elif place is not None:
        hint = "Write with: {name: value}."
        report.error(place, section.field("with"), f"'with' must be a map, not {kind_of(place)}.", hint)
    return None if target is None else PythonCall(target, arguments)


def _sub_job(node: Node, section: Section, place: Node | None, wait: Node | None, report: Report) -> SubJob | None:
    job_id = job_of(node, section.field("job"), report)
    field = section.field("params")
    params: list[tuple[str, str]] = []
    if isinstance(place, MapNode):
        for key, value in place.entries:
            if isinstance(value, ScalarNode) and value.value is not None:
                check_template(value, value.text, f"{field}.{key.text[:60]}", report)
                params.append((key.text, value.text))
            else:
                report.error(value, field, f"the parameter '{key.text[:60]}' must be a text, not {kind_of(value)}.")
    elif place is not None:
        report.error(place, field, f"'{field}' must be a map, not {kind_of(place)}.", "Write params: {NAME: value}.")
    waits = flag_of(wait, section.field("wait"), report) if wait else None
    return None if job_id is None else SubJob(job_id, tuple(params), waits is not False)


def _http(node: Node, field: str, report: Report) -> HttpCall | None:
    if not isinstance(node, MapNode):
        url = url_of(node, field, report)
        return None if url is None else HttpCall(url)
    call = Section(node, field, report, HTTP)
    place, method, headers, body, expect = (call.take(name) for name in HTTP)
    if place is None and "url" not in call:
        report.error(node, call.field("url"), f"'{field}' has no address.", "Add 'url'.")
    url = url_of(place, call.field("url"), report) if place else None
    verb = (choice_of(method, call.field("method"), report, METHODS) or "GET") if method else "GET"
    sent = read_headers(headers, call.field("headers"), report) if headers else ()
    text, is_json = _body(body, call.field("body"), report) if body else (None, False)
    if is_json and not any(name.lower() == "content-type" for name, _value in sent):
        sent = (*sent, ("Content-Type", "application/json"))
    items = expect.items if isinstance(expect, ListNode) else (expect,) if expect else ()
    statuses = [integer_of(item, call.field("expect"), report, 100, 599) for item in items]
    call.finish(f"'{field}'")
    if url is None:
        return None
    return HttpCall(url, verb, sent, text, tuple(status for status in statuses if status is not None), is_json)


def read_headers(node: Node, field: str, report: Report) -> Env:
    if not isinstance(node, MapNode):
        report.error(node, field, f"'{field}' must be a map, not {kind_of(node)}.", "Write {Accept: text/plain}.")
        return ()
    found = []
    for key, value in node.entries:
        read = read_value(value, f"{field}.{key.text[:60]}", report)
        if not _HEADER.fullmatch(key.text):
            report.error(key, field, f"'{key.text[:60]}' is not the name of a header.", "Write for example Accept.")
        elif isinstance(read, str) and not read.isprintable():
            report.error(value, field, f"the header '{key.text}' holds a line break or a control character.")
        elif isinstance(read, str) and not check_template(value, read, f"{field}.{key.text}", report):
            continue
        elif read is not None:
            found.append((key.text, read))
    return tuple(found)


def _body(node: Node, field: str, report: Report) -> tuple[str | None, bool]:
    check_data(node, field, report)
    if isinstance(node, ScalarNode):
        return text_of(node, field, report, longest=BODY_MAX), False
    return json.dumps(plain_data(node), ensure_ascii=False), True
