"""What a step of a Dagu workflow is as a step of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from evertick.definitions.fields.values import job_id_of
from evertick.definitions.importers.dagu_command_place import (
    CommandPlace,
    Logins,
    Tell,
    camel,
    container_words,
    docker_of,
    escaped_env,
    ssh_of,
)
from evertick.definitions.nodes import ListNode, MapNode, Node, ScalarNode, plain_data
from evertick.model.template import escape_braces

_HTTP: Final = re.compile(r"\s*(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)\s+(\S+)\s*")
_ITEM: Final = re.compile(r"\$\{ITEM(?:\.([A-Za-z_]\w*))?\}|\$ITEM\b")
_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_CONTAINERS: Final = frozenset({"docker", "container"})
_PLAIN_EXECUTORS: Final = frozenset({"", "command", "shell", "exec"})
_HINTS: Final = {
    "foreach": "write 'each'.",
    "mailOnError": "write 'notify' of the job with 'on_failure'.",
    "stdout": "the log of the step has its output; redirect it in the command.",
    "stderr": "the log of the step has its output; redirect it in the command.",
}
"""What to write instead of a field."""


class WorkflowDefaults(NamedTuple):
    """What the workflow says for its steps."""

    logins: Logins
    ssh: Mapping[str, object]
    has_container: bool


class DaguStep:
    def __init__(self, node: MapNode, tell: Tell, surroundings: WorkflowDefaults) -> None:
        self._node, self._tell = node, tell
        self._surroundings = surroundings
        self._env: Mapping[str, object] = {}
        """The variables of its container, which has those of the step here."""
        self._entries = {camel(key.text): (key, value) for key, value in node.entries}

    def read(self, name: str = "") -> dict[str, object]:
        taken = self._take("name") or self._take("id") or name
        step: dict[str, object] = {"name": str(taken)}
        self._take("id")
        step |= self._kind()
        for theirs, ours in (("dir", "workingDir"), ("workingDir", "workingDir"), ("depends", "depends")):
            value = self._take(theirs)
            if value:
                step[ours] = value
        output = self._take("output")
        if output:
            step["output"] = output.get("name") if isinstance(output, dict) else str(output).lstrip("$").strip("{}")
        timeout = self._take("timeoutSec") or self._take("timeout")
        if isinstance(timeout, int) and timeout > 0:
            step["timeout"] = f"{timeout}s"
        elif timeout:
            self._tell(self._node, f"the timeout '{timeout}' of step '{step['name']}' is not a number of seconds.")
        for theirs, read in (
            ("env", env_of),
            ("retryPolicy", plain_retry),
            ("repeatPolicy", _repeat),
            ("continueOn", _continue_on),
            ("preconditions", conditions_of),
            ("precondition", conditions_of),
        ):
            found = self._entries.pop(theirs, None)
            value = read(found[1], self._tell) if found else None
            if value:
                step[{"repeatPolicy": "repeat", "precondition": "preconditions"}.get(theirs, theirs)] = value
        if self._env:
            own = step.get("env")
            step["env"] = {**self._env, **(own if isinstance(own, dict) else {})}
        if "parallel" in self._entries:
            step |= self._parallel(step)
        self._entries.pop("description", None)
        for key, _value in self._entries.values():
            hint = _HINTS.get(camel(key.text), "it has no counterpart here.")
            self._tell(key, f"'{key.text}' of step '{step['name']}' is not converted: {hint}")
        return step

    def _parallel(self, step: dict[str, object]) -> dict[str, object]:
        """`parallel`: a list, a variable that is a list, or a map with `items`; all run, whether or not one fails."""
        key, node = self._entries.pop("parallel")
        data = plain_data(node)
        options = (
            {camel(str(name)): value for name, value in data.items()} if isinstance(data, dict) else {"items": data}
        )
        items, limit = options.pop("items", None), options.pop("maxConcurrent", None)
        each: dict[str, object] = {"continueOnFailure": True}
        if isinstance(limit, int):
            each["maxParallel"] = limit
        variable = _VARIABLE.fullmatch(items) if isinstance(items, str) else None
        if isinstance(items, list):
            each["values"] = items
        elif variable is not None:
            each["from"] = items  # the step is named when all are known
        if options or not {"values", "from"} & each.keys():
            self._tell(key, f"'{key.text}' of step '{step['name']}' as it is written.")
            return {}
        found: dict[str, object] = {"each": each}
        params = step.get("params")
        if isinstance(params, dict):
            found["params"] = {name: _ITEM.sub(_item, value) for name, value in params.items()}
        return found

    def _take(self, name: str) -> Any:
        found = self._entries.pop(name, None)
        return plain_data(found[1]) if found else None

    def _kind(self) -> dict[str, object]:
        executor, config = self._executor()
        command, script, shell = self._take("command"), self._take("script"), self._take("shell")
        child = self._take("call") or self._take("run")
        params = self._take("params")
        if child:
            given = params if isinstance(params, dict) else dict(_named(str(params or "")))
            # Named as its file is, with or without its ending and its folder.
            name = re.sub(r"\.ya?ml$", "", PurePath(str(child)).name)
            return {
                "job": job_id_of(name) or str(child),
                **({"params": {k: escape_braces(str(v)) for k, v in given.items()}} if given else {}),
            }
        arguments = self._take("args")
        if isinstance(command, list):
            command = [str(word) for word in command]
        if arguments:
            words = arguments if isinstance(arguments, list) else str(arguments).split()
            command = [str(command or ""), *(str(word) for word in words)]
        if executor == "http":
            return self._http(str(command), config)
        container = self._entries.pop("container", None)
        if container is not None or executor in _CONTAINERS:
            written = container[1] if container is not None else self._node
            described = plain_data(container[1]) if container is not None else config
            if described or not self._surroundings.has_container:
                place = docker_of(described, written, self._tell, self._surroundings.logins)
                return self._elsewhere("docker", place, command, script, shell)
            executor = ""  # it runs where the commands of the workflow do
        elif executor == "ssh" and (config or not self._surroundings.ssh):
            place = ssh_of({**self._surroundings.ssh, **config}, self._node, self._tell)
            return self._elsewhere("ssh", place, command, script, shell)
        elif executor == "ssh":
            executor = ""
        if executor not in _PLAIN_EXECUTORS:
            # Left without a kind, so that the job as a whole is not written: half of a workflow is worse than none.
            self._tell(self._node, f"the executor '{executor}'.")
            return {}
        if script:
            # A command beside a script is the program that reads it.
            reader = shell or command
            return {"script": str(script), **({"interpreter": reader} if reader else {})}
        if command and shell:
            return {"script": command if isinstance(command, str) else " ".join(command), "shell": shell}
        return {"command": command} if command else {}

    def _elsewhere(
        self, kind: str, place: CommandPlace | None, command: object, script: object, shell: object
    ) -> dict[str, object]:
        """A container or another machine, and what the step runs there."""
        if place is None:
            return {}
        self._env = place.env
        folder = self._take("workingDir") or self._take("dir")
        fields = {**place.fields, **({"workingDir": folder} if folder else {})}
        if shell:
            self._tell(self._node, f"'shell' of a step with '{kind}': /bin/sh reads its text.")
        if script:
            return {kind: {**fields, "command": f"set -e\n{script}"}}
        words = container_words(command) if command and kind == "docker" and not shell else None
        if words:
            return {kind: {**fields, "args": words}}
        if command and kind == "docker":
            self._tell(self._node, "its command is a text for /bin/sh of the image, which replaces the entrypoint.")
        return {kind: {**fields, **({"command": command} if command else {})}}

    def _executor(self) -> tuple[str, dict[str, object]]:
        written = self._take("executor") or self._take("type") or ""
        config = self._take("config") or self._take("with") or {}
        if isinstance(written, dict):
            written, config = written.get("type", ""), written.get("config")
        return str(written), config if isinstance(config, dict) else {}

    def _http(self, command: str, config: dict[str, object]) -> dict[str, object]:
        found = _HTTP.fullmatch(command)
        if found is None:
            self._tell(self._node, f"the call '{command[:60]}'.")
            return {}
        call: dict[str, object] = {"url": found[2], "method": found[1]}
        for name in ("headers", "body"):
            if config.get(name):
                call[name] = config[name]
        for name in sorted(set(config) - {"headers", "body"}):
            self._tell(self._node, f"'{name}' of a call.")
        return {"http": call}


def _item(found: re.Match[str]) -> str:
    return f'{{{{ item("{found[1]}") }}}}' if found[1] else "{{ item }}"


def name_source(steps: list[dict[str, object]]) -> None:
    """Name the step whose output is the list of another, which its variable stood for."""
    outputs = {step["output"]: step["name"] for step in steps if "output" in step}
    for step in steps:
        each = step.get("each")
        if isinstance(each, dict) and "from" in each:
            each["from"] = outputs.get(str(each["from"]).strip("${}"), each["from"])


def env_of(node: Node, tell: Tell) -> dict[str, object]:
    """A map, a list of small maps, or a list of `NAME=value`."""
    found: dict[str, str] = {}
    for item in node.items if isinstance(node, ListNode) else (node,):
        if isinstance(item, MapNode):
            found |= {key.text: _text(value) for key, value in item.entries}
        elif isinstance(item, ScalarNode) and "=" in item.text:
            name, _, value = item.text.partition("=")
            found[name.strip()] = value
        else:
            tell(item, "a variable without a value.")
    return escaped_env(found, node, tell)


def plain_retry(node: Node, tell: Tell) -> dict[str, object]:
    data = _data(node)
    retry: dict[str, object] = {}
    limit, interval = data.pop("limit", None), data.pop("intervalSec", None)
    backoff, longest = data.pop("backoff", None), data.pop("maxIntervalSec", None)
    if isinstance(limit, int):
        retry["limit"] = limit
    elif limit:
        tell(node, f"the limit '{limit}' of a retry policy is not a number.")
    if isinstance(interval, int) and interval > 0:
        retry["interval"] = f"{interval}s"
    retry["backoff"] = "exponential" if backoff else "fixed"
    if isinstance(longest, int) and longest > 0:
        retry["maxDelay"] = f"{longest}s"
    for name in data:
        tell(node, f"'{name}' of a retry policy.")
    return retry if isinstance(limit, int) and limit else {}


def conditions_of(node: Node, tell: Tell) -> list[dict[str, str]]:
    found = []
    for item in node.items if isinstance(node, ListNode) else (node,):
        if not isinstance(item, MapNode):
            found.append({"command": _command(_text(item))})
            continue
        data = _data(item)
        if data.get("negate"):
            tell(item, "a condition that must not hold.")
        condition = {"command": _command(str(data.get("condition") or data.get("command") or "true"))}
        expected = data.get("expected")
        if expected is not None:
            if not str(data.get("condition", "")).startswith("`"):
                # A condition that is a value, and not a command, is compared with what is expected.
                condition["command"] = f'printf "%s" "{data.get("condition")}"'
            condition["expected"] = str(expected)
        found.append(condition)
    return found


def _command(text: str) -> str:
    return text.strip("`") if text.startswith("`") else text


def _repeat(node: Node, tell: Tell) -> dict[str, object]:
    data = _data(node)
    kind, interval, limit = data.pop("repeat", None), data.pop("intervalSec", None), data.pop("limit", None)
    if kind in (None, False):
        return {}
    repeat: dict[str, object] = {"interval": f"{interval}s" if isinstance(interval, int) and interval > 0 else "1s"}
    if isinstance(limit, int):
        repeat["limit"] = limit
    has_condition = bool(data.pop("condition", None))
    data.pop("expected", None)
    if kind == "while":
        tell(node, "a repetition while a condition holds; write 'until' with the opposite.")
    elif has_condition:
        repeat["until"] = conditions_of(node, tell)[0]
    for name in data:
        tell(node, f"'{name}' of a repetition.")
    return repeat


def _continue_on(node: Node, tell: Tell) -> dict[str, object]:
    data = plain_data(node)
    if not isinstance(data, dict):
        words = data if isinstance(data, list) else [data]
        names = {"failed": "failure", "failure": "failure", "skipped": "skipped"}
        for word in words:
            if str(word) not in names:
                tell(node, f"'{word}' of 'continueOn'.")
        return {names[str(word)]: True for word in words if str(word) in names}
    data = _data(node)
    found: dict[str, object] = {}
    for theirs, ours in (("failure", "failure"), ("failed", "failure"), ("skipped", "skipped")):
        if data.pop(theirs, None):
            found[ours] = True
    if data.pop("markSuccess", None):
        found["markSuccess"] = True
    codes = data.pop("exitCode", None) or data.pop("exitCodes", None)
    if codes is not None:
        found["exitCodes"] = codes
    for name in data:
        tell(node, f"'{name}' of 'continueOn'.")
    return found


def _named(text: str) -> list[tuple[str, str]]:
    return [(name, value) for name, found, value in (word.partition("=") for word in text.split()) if found]


def _data(node: Node) -> dict[str, object]:
    if not isinstance(node, MapNode):
        return {}
    return {camel(key.text): plain_data(value) for key, value in node.entries}


def _text(node: Node) -> str:
    return node.text if isinstance(node, ScalarNode) else str(plain_data(node))
