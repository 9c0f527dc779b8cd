"""Converts a workflow file of Dagu to a job; its fields may be in snake_case or in camelCase."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final

from evertick.definitions.fields.values import job_id_of
from evertick.definitions.importers.dagu_command_place import CommandPlace, camel, docker_of, logins_of, ssh_of
from evertick.definitions.importers.dagu_step import (
    DaguStep,
    WorkflowDefaults,
    conditions_of,
    env_of,
    name_source,
    plain_retry,
)
from evertick.definitions.importers.imported import Draft, Imported, Note, finish
from evertick.definitions.nodes import ListNode, MapNode, Node, ScalarNode, plain_data
from evertick.definitions.yaml import read_yaml
from evertick.errors import DefinitionError
from evertick.model.template import escape_braces

_HANDLERS: Final = {
    "success": "onSuccess",
    "failure": "onFailure",
    "cancel": "onCancel",
    "abort": "onCancel",
    "exit": "onExit",
}
_KEPT: Final = {
    "description": "description",
    "catchupWindow": "catchupWindow",
    "overlapPolicy": "overlapPolicy",
    "skipIfSuccessful": "skipIfSuccessful",
    "maxActiveSteps": "maxActiveSteps",
    "workingDir": "workingDir",
    "dotenv": "dotenv",
}
_HINTS: Final = {
    "mailOn": "write 'notify' with 'on_failure' or 'on_success'.",
    "errorMail": "write 'notify' with 'on_failure'.",
    "infoMail": "write 'notify' with 'on_success'.",
    "smtp": "write [notifications.smtp] into evertick.toml.",
    "secrets": "write {env: NAME} or {file: PATH} as a value of 'env'.",
    "delaySec": "write 'jitter' to spread starts, or a later 'schedule'.",
}
"""What to write instead of a field."""
_CHAINED: Final = "its steps run one after another, as they are written."


def read_dagu(text: str, source: str, *, timezone: str | None = None) -> Imported:
    return finish([_draft(text, source)], (), source, timezone)


def read_dagu_folder(files: Mapping[str, str], *, timezone: str | None = None) -> Imported:
    """The workflows of several files by their paths; a file that is not a workflow is reported and left out."""
    drafts: list[Draft] = []
    notes: list[Note] = []
    for source, text in files.items():
        try:
            drafts.append(replace(_draft(text, source), source=source))
        except DefinitionError as error:
            notes.append(Note(error.line, f"this file is not converted: {error.reason} {error.hint or ''}", source))
    # A workflow is called by the name of its file, a job by the id that its name gives.
    ids = {job_id_of(PurePath(draft.source).stem): job_id_of(draft.name) for draft in drafts}
    return finish([_calling(draft, ids) for draft in drafts], notes, "", timezone)


def _calling(draft: Draft, ids: Mapping[str, str]) -> Draft:
    steps = [
        {**step, "job": ids.get(step["job"], step["job"])} if "job" in step else step
        for step in draft.fields.get("steps", ())
    ]
    return replace(draft, fields={**draft.fields, "steps": steps} if steps else draft.fields)


def _draft(text: str, source: str) -> Draft:
    document = read_yaml(text)
    if document.root is None or document.problems or not isinstance(document.root, MapNode):
        problem = document.problems[0] if document.problems else None
        reason = problem.reason if problem else "a workflow must be a map of fields."
        hint = problem.hint if problem else "Name a workflow file of Dagu."
        raise DefinitionError(reason, hint=hint, file=source, line=problem.line if problem else 1, column=1)
    reader = _Workflow(document.root)
    fields = reader.read()
    name = reader.name or PurePath(source).stem
    return Draft(name, fields, None, tuple(reader.notes))


class _Workflow:
    def __init__(self, root: MapNode) -> None:
        self.notes: list[Note] = []
        self.name = ""
        self._fields: dict[str, Any] = {}
        self._steps: list[dict[str, object]] = []
        self._around = WorkflowDefaults({}, {}, has_container=False)
        self._entries = {camel(key.text): (key, value) for key, value in root.entries}

    def read(self) -> dict[str, object]:
        readers: dict[str, Callable[[Node], None]] = {
            "name": self._name,
            "schedule": self._schedule,
            "env": lambda node: self._set("env", {**self._fields.get("env", {}), **env_of(node, self.note)}),
            "params": self._params,
            "tags": self._tags,
            "labels": self._tags,
            "preconditions": lambda node: self._set("preconditions", conditions_of(node, self.note)),
            "precondition": lambda node: self._set("preconditions", conditions_of(node, self.note)),
            "timeoutSec": lambda node: self._seconds("timeout", node),
            "histRetentionDays": self._retention,
            "maxActiveRuns": self._active_runs,
            "retryPolicy": lambda node: self._set("retryPolicy", plain_retry(node, self.note)),
            "queue": self._queue,
            "handlerOn": self._handlers,
            "steps": self._read_steps,
            "type": lambda _node: None,
            "registryAuths": lambda _node: None,
            "container": lambda node: self._place("docker", self._container(node)),
            "ssh": lambda node: self._place("ssh", ssh_of(plain_data(node), node, self.note)),
        }
        self._around = self._surroundings()
        for name, (key, node) in self._entries.items():
            if isinstance(node, ScalarNode) and node.value is None:
                continue
            if name in _KEPT:
                self._set(_KEPT[name], plain_data(node))
            elif name in readers:
                readers[name](node)
            else:
                self.note(key, f"'{key.text}' is not converted: {_HINTS.get(name, 'it has no counterpart here.')}")
        self._share_container()
        self._order()
        if self._steps:
            self._fields["steps"] = self._steps
        return self._fields

    def note(self, node: Node, text: str) -> None:
        self.notes.append(Note(node.line, text))

    def _set(self, name: str, value: object) -> None:
        if value not in (None, "", [], {}):
            self._fields[name] = value

    def _surroundings(self) -> WorkflowDefaults:
        logins = self._entries.get("registryAuths")
        ssh = plain_data(self._entries["ssh"][1]) if "ssh" in self._entries else None
        return WorkflowDefaults(
            logins_of(logins[1], self.note) if logins is not None else {},
            ssh if isinstance(ssh, dict) else {},
            "container" in self._entries,
        )

    def _container(self, node: Node) -> CommandPlace | None:
        return docker_of(plain_data(node), node, self.note, self._around.logins)

    def _place(self, name: str, place: CommandPlace | None) -> None:
        """Where the commands of all steps run; without it the job is not written: they would run on this machine."""
        self._fields[name] = place.fields if place is not None else {}
        if place is not None and place.env:
            self._fields["env"] = {**place.env, **self._fields.get("env", {})}

    def _share_container(self) -> None:
        if "docker" in self._fields and len(self._steps) > 1:
            told = "its steps share one container there; here each has its own, so they share only what is mounted."
            self.note(self._entries["container"][0], told)

    def _name(self, node: Node) -> None:
        self.name = str(plain_data(node))
        self._set("name", self.name)

    def _schedule(self, node: Node) -> None:
        if isinstance(node, MapNode) and not any(key.text in ("kind", "expression", "at") for key, _v in node.entries):
            parts = {key.text: self._times(value) for key, value in node.entries}
            self._set("schedule", {name: times for name, times in parts.items() if times})
        else:
            self._set("schedule", self._times(node))

    def _times(self, node: Node) -> list[object]:
        found: list[object] = []
        for item in node.items if isinstance(node, ListNode) else (node,):
            if not isinstance(item, MapNode):
                text = str(plain_data(item))
                found.append(text.replace("TZ=", "CRON_TZ=", 1) if text.startswith("TZ=") else text)
                continue
            data = {key.text: plain_data(value) for key, value in item.entries}
            if data.get("at"):
                found.append({"at": str(data["at"])})
            elif data.get("expression") or data.get("cron"):
                found.append(str(data.get("expression") or data["cron"]))
            for name in sorted(set(data) - {"kind", "at", "expression", "cron"}):
                self.note(item, f"'{name}' of a schedule.")
        return found

    def _params(self, node: Node) -> None:
        """A text of words, a list, or a map; what has no name cannot become a variable."""
        params: dict[str, object] = {}
        items = node.items if isinstance(node, ListNode) else (node,)
        for item in items:
            if isinstance(item, MapNode):
                params |= {key.text: plain_data(value) for key, value in item.entries}
                continue
            for word in _words(str(plain_data(item))):
                name, is_named, value = word.partition("=")
                if is_named and name.isidentifier():
                    params[name] = value
                else:
                    self.note(item, f"the parameter '{word}' has no name, so '$1' and the like are not set.")
        self._set("params", {name: _scalar(value) for name, value in params.items()})

    def _tags(self, node: Node) -> None:
        data = plain_data(node)
        if isinstance(data, dict):
            found = [f"{name}={value}" for name, value in data.items()]
        elif isinstance(data, list):
            found = [str(tag) for tag in data]
        else:
            found = [tag.strip() for tag in str(data).split(",") if tag.strip()]
        self._set("tags", [*self._fields.get("tags", []), *found])

    def _seconds(self, name: str, node: Node) -> None:
        count = plain_data(node)
        if isinstance(count, int) and count > 0:
            self._fields[name] = f"{count}s"
        elif count != 0:
            self.note(node, f"'{name}: {count}' is not a number of seconds.")

    def _retention(self, node: Node) -> None:
        days = plain_data(node)
        if isinstance(days, int) and days > 0:
            self._fields |= {"historyRetention": f"{days}d", "logRetention": f"{days}d"}
        else:
            self.note(node, f"'histRetentionDays: {days}': write 'historyRetention' and 'logRetention'.")

    def _active_runs(self, node: Node) -> None:
        count = plain_data(node)
        if isinstance(count, int) and count > 1:
            if "overlapPolicy" in self._entries:
                self.note(node, "'maxActiveRuns': the overlap rule decides instead.")
            else:
                self._fields["overlap"] = f"parallel({count})"
        elif count != 1:
            self.note(node, f"'maxActiveRuns: {count}': write 'overlap: parallel(n)' with the most that may run.")

    def _queue(self, node: Node) -> None:
        name = re.sub(r"[^a-z0-9_.-]+", "-", str(plain_data(node)).lower()).strip("-._")
        self._set("queue", name)
        if name:
            self.note(node, f"the limit of its queue: add '{name} = 2' below [queues] in evertick.toml.")

    def _handlers(self, node: Node) -> None:
        if not isinstance(node, MapNode):
            self.note(node, "the handlers are not a map.")
            return
        found: dict[str, object] = {}
        for key, value in node.entries:
            name = _HANDLERS.get(key.text)
            step = DaguStep(value, self.note, self._around).read() if name and isinstance(value, MapNode) else None
            if name is None or step is None:
                self.note(key, f"the handler '{key.text}'.")
                continue
            for extra in ("name", "depends", "output", "continueOn", "preconditions", "repeat"):
                step.pop(extra, None)
            found[name] = step
        self._set("handlers", found)

    def _read_steps(self, node: Node) -> None:
        """A list of steps, or a map of names to steps."""
        if isinstance(node, MapNode):
            items: list[tuple[str, Node]] = [(key.text, value) for key, value in node.entries]
        else:
            items = [("", item) for item in node.items] if isinstance(node, ListNode) else []
        for number, (name, item) in enumerate(items, 1):
            if not isinstance(item, ListNode):
                self._read_step(name or f"step-{number}", item)
            else:
                self.note(item, "steps in an inner list run one after another.")
                for place, part in enumerate(item.items, 1):
                    self._read_step(f"step-{number}-{place}", part)

        name_source(self._steps)

    def _read_step(self, name: str, node: Node) -> None:
        """A map of fields, or only its command."""
        if isinstance(node, ScalarNode):
            self._steps.append({"name": name, "command": node.text})
        elif isinstance(node, MapNode):
            self._steps.append(DaguStep(node, self.note, self._around).read(name))
        else:
            self.note(node, f"the step '{name}' is a list in a list.")

    def _order(self) -> None:
        """Without dependencies, steps of the newer versions run as a chain."""
        kind = str(plain_data(self._entries["type"][1])) if "type" in self._entries else ""
        if kind == "graph" or len(self._steps) < 2 or any("depends" in step for step in self._steps):
            return
        for before, step in zip(self._steps, self._steps[1:], strict=False):
            step["depends"] = [before["name"]]
        if not kind:
            self.note(self._entries["steps"][0], f"no 'type' is written: {_CHAINED}")


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _scalar(value: object) -> object:
    text = str(value) if isinstance(value, dict | list) else value
    return escape_braces(text) if isinstance(text, str) else text
