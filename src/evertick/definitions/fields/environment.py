"""The environment variables of a run, the folder of a command, and where secrets are stored."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache

from evertick.definitions.catalogue.limits import DOTENV_MAX, ENV_MAX, PATH_MAX
from evertick.definitions.catalogue.work import SECRET
from evertick.definitions.fields.templates import check_template
from evertick.definitions.fields.values import line_of, name_of, path_of, texts_of
from evertick.definitions.nodes import ListNode, MapNode, Node, ScalarNode, kind_of
from evertick.definitions.report import Report, Section
from evertick.model.variable_text import problem_with_references
from evertick.model.work import Env, Secret, Value, Work

_SHAPE = "Write {NAME: value}, or a list of NAME=value."


def read_env(node: Node, field: str, report: Report) -> Env:
    """A map, or a list whose items are `NAME=value` or small maps."""
    found: dict[str, tuple[Node, Value]] = {}
    for place, name, value in _pairs(node, field, report):
        known = name_of(place, name, field, report)
        if known is None or value is None:
            continue
        if known in found:
            reason = f"'{known}' is set twice: on line {found[known][0].line} and on line {place.line}."
            report.error(place, field, reason, "Remove one of them.")
            continue
        if isinstance(value, str) and not check_template(place, value, f"{field}.{known}", report):
            continue
        problem = problem_with_references(value) if isinstance(value, str) else None
        if problem is not None:
            hint = "Write ${NAME} for the value of a variable, and $$ for a dollar sign."
            report.error(place, f"{field}.{known}", f"the value of '{field}.{known}': {problem}.", hint)
            continue
        found[known] = (place, value)
    if len(found) > ENV_MAX:
        report.error(node, field, f"'{field}' has {len(found):,} variables; {ENV_MAX} are allowed.", "Use a file.")
    return tuple((name, value) for name, (_place, value) in found.items())


def read_dotenv(section: Section, report: Report) -> tuple[str, ...]:
    """Paths of dotenv files, as they are written."""
    node = section.take("dotenv")
    found = (texts_of(node, "dotenv", report) or ()) if node else ()
    paths = [path_of(place, "dotenv", report, longest=PATH_MAX) for place, _text in found]
    if node and len(paths) > DOTENV_MAX:
        report.error(node, "dotenv", f"'dotenv' names {len(paths)} files; {DOTENV_MAX} are allowed.")
    return tuple(dict.fromkeys(path for path in paths if path is not None))


def placed(work: Work, folder: str) -> Work:
    """The work of a job file in that folder: its commands start there, and relative paths are relative to it.

    A sandbox shows only what a job names, so without `workingDir` its folder stays empty.
    """
    folder = _absolute(folder)
    working_dir = work.working_dir
    if working_dir is not None or work.sandbox is None:
        working_dir = _below(folder, working_dir or "")
    return replace(work, working_dir=working_dir, dotenv=tuple(_below(folder, path) for path in work.dotenv))


def _below(folder: str, path: str) -> str:
    # The keeper expands `~`: it depends on the account.
    return path if path.startswith("~") else os.path.normpath(os.path.join(folder, path)) if path else folder


_absolute = lru_cache(maxsize=1_024)(os.path.abspath)
"""One text for all jobs of a folder."""


def read_value(node: Node, field: str, report: Report) -> Value | None:
    """A text as it is written, or where its value is stored: `{env: NAME}`, `{file: PATH}`."""
    if isinstance(node, MapNode):
        return read_secret(Section(node, field, report, SECRET), report)
    if isinstance(node, ScalarNode) and node.value is not None:
        return node.text
    hint = "Write '' for an empty text, or {env: NAME} for a secret."
    report.error(node, field, f"the value of '{field}' must be a text, not {kind_of(node)}.", hint)
    return None


def read_secret(section: Section, report: Report) -> Secret | None:
    env, file = section.take("env"), section.take("file")
    section.contradict("env", "file", "a secret is in one place")
    section.finish(f"the secret '{section.path}'")
    if env is not None:
        name = line_of(env, section.field("env"), report, longest=200)
        # A secret may come from a reserved variable: it is read there, and not set.
        return None if name is None else Secret("env", name)
    if file is not None:
        path = path_of(file, section.field("file"), report, longest=PATH_MAX)
        return None if path is None else Secret("file", path)
    if not section.node.entries:
        hint = "Write {env: NAME} or {file: PATH}."
        report.error(section.node, section.path, f"'{section.path}' does not say where its value is.", hint)
    return None


def _pairs(node: Node, field: str, report: Report) -> list[tuple[Node, str, Value | None]]:
    match node:
        case MapNode(entries=entries):
            return [(key, key.text, read_value(value, f"{field}.{key.text[:60]}", report)) for key, value in entries]
        case ListNode(items=items):
            return [pair for item in items for pair in _item_pairs(item, field, report)]
        case _:
            report.error(node, field, f"'{field}' must be a map or a list, not {kind_of(node)}.", _SHAPE)
            return []


def _item_pairs(item: Node, field: str, report: Report) -> list[tuple[Node, str, Value | None]]:
    if isinstance(item, MapNode):
        return _pairs(item, field, report)
    if isinstance(item, ScalarNode) and "=" in item.text:
        name, _, value = item.text.partition("=")
        return [(item, name.strip(), value)]
    report.error(item, field, f"an item of '{field}' must be NAME=value, not {kind_of(item)}.", _SHAPE)
    return []
