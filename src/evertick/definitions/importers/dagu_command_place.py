"""What a container or another machine of a Dagu workflow is as `docker` or `ssh` of ours."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from evertick.definitions.nodes import Node, plain_data
from evertick.model.variable_text import escape_references

Tell: TypeAlias = Callable[[Node, str], None]
Logins: TypeAlias = Mapping[str, Mapping[str, object]]
"""The fields of `registry` by the name of the registry."""

_NAME: Final = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")


class CommandPlace(NamedTuple):
    """Fields of `docker` or `ssh`, and the variables that belong to them there."""

    fields: dict[str, object]
    env: Mapping[str, object]


Place: TypeAlias = CommandPlace | None


def docker_of(data: object, node: Node, tell: Tell, logins: Logins) -> Place:
    """`container` of a workflow or a step, or the configuration of the executor `docker`; None: it cannot be one here.

    The executor has the parts of Docker's own API: `container`, `host` and `network`.
    """
    if not isinstance(data, dict):
        tell(node, f"the container '{str(data)[:60]}': a step that runs in an existing container.")
        return None
    known = {camel(str(name)): value for name, value in data.items()}
    inner = {camel(str(name)): value for name, value in _map(known.pop("container", None)).items()}
    host = {camel(str(name)): value for name, value in _map(known.pop("host", None)).items()}
    image = known.pop("image", None) or inner.pop("image", None)
    if not image:
        tell(node, "a container without an image: a step that runs in an existing container.")
        return None
    fields: dict[str, object] = {"image": str(image)}
    for theirs, ours in (("workingDir", "workingDir"), ("user", "user"), ("network", "network")):
        value = known.pop(theirs, None) or inner.pop(theirs, None)
        if isinstance(value, str | int):
            fields[ours] = str(value)
        elif value:
            tell(node, f"'{theirs}' of a container as it is written.")
    pull = known.pop("pullPolicy", None) if "pullPolicy" in known else known.pop("pull", None)
    if pull is not None:
        fields["pull"] = {"true": "always", "false": "never"}.get(str(pull).lower(), str(pull).lower())
    volumes = [*_list(known.pop("volumes", None)), *_list(host.pop("binds", None))]
    if volumes:
        fields["mounts"] = [_mount(str(one)) for one in volumes]
        tell(node, "its folders may be mounted only if the operator allows them: 'docker.mounts' in evertick.toml.")
    host_name = str(image).partition("/")[0]
    login = logins.get(host_name if "." in host_name or ":" in host_name else "docker.io")
    if login is not None:
        fields["registry"] = login
    env = _env_map([*_list(known.pop("env", None)), *_list(inner.pop("env", None))])
    for name in ("autoRemove", "name", "containerName"):
        known.pop(name, None)  # a container is always removed here, and has a name of its own
    for name in (*known, *(f"container.{one}" for one in inner), *(f"host.{one}" for one in host)):
        tell(node, f"'{name}' of a container.")
    return CommandPlace(fields, escaped_env(env, node, tell))


def ssh_of(data: object, node: Node, tell: Tell) -> Place:
    """`ssh` of a workflow, or the configuration of the executor `ssh`."""
    known = {camel(str(name)): value for name, value in _map(data).items()}
    fields: dict[str, object] = {}
    names = {"host": "host", "ip": "host", "user": "user", "key": "key", "knownHostFile": "knownHosts"}
    for theirs, ours in names.items():
        value = known.pop(theirs, None)
        if value:
            fields[ours] = str(value)
    port, timeout = known.pop("port", None), known.pop("timeout", None)
    if str(port or "").isdigit():
        fields["port"] = int(str(port))
    if timeout:
        fields["connectTimeout"] = f"{timeout}s" if isinstance(timeout, int) else str(timeout)
    if known.pop("password", None):
        tell(node, "the password of 'ssh': create a key, and write it as 'key'.")
    if known.pop("strictHostKey", True) in (False, "false"):
        tell(node, "'strictHostKey: false' of 'ssh': the key of the host is always checked; add it to known_hosts.")
    if known.pop("bastion", None):
        tell(node, "'bastion' of 'ssh': write ProxyJump for the host in ~/.ssh/config.")
    for name in known:
        tell(node, f"'{name}' of 'ssh'.")
    if "host" not in fields:
        tell(node, "'ssh' without a host.")
        return None
    return CommandPlace(fields, {})


def logins_of(node: Node, tell: Tell) -> Logins:
    """`registryAuths`: a login by the name of its registry, if its password is a variable."""
    found: dict[str, dict[str, object]] = {}
    for name, login in _map(plain_data(node)).items():
        data = _map(login)
        password = _NAME.fullmatch(str(data.get("password", "")))
        if not data.get("username") or password is None:
            tell(node, f"the login of the registry '{name}': write 'registry' with a secret in 'docker'.")
            continue
        user = _NAME.fullmatch(str(data["username"]))
        username: object = {"env": user[1]} if user is not None else str(data["username"])
        found[str(name)] = {"username": username, "password": {"env": password[1]}}
    return found


def container_words(command: object) -> list[str] | None:
    """A command of a container as arguments of its image; None: it names variables, which a shell has to replace."""
    if isinstance(command, list):
        return [str(word) for word in command]
    try:
        words = shlex.split(str(command))
    except ValueError:
        return None
    is_shell = len(words) > 2 and words[1] == "-c"
    return words if is_shell or not re.search(r"[$`]", str(command)) else None


def escaped_env(found: Mapping[str, str], node: Node, tell: Tell) -> dict[str, object]:
    """Variables whose values are taken as they are written, except `${NAME}`, which means the same here."""
    kept: dict[str, object] = {}
    for name, value in found.items():
        kept[name] = value
        if re.search(r"\$(?!\{[A-Za-z_][A-Za-z0-9_]*\})|`", value):
            kept[name] = escape_references(value)
            tell(node, f"the variable '{name}' is set to '{value[:60]}' as it is written; nothing in it is replaced.")
    return kept


def _env_map(data: object) -> dict[str, str]:
    """Variables as a map, from a map or a list of `NAME=value` and small maps."""
    if isinstance(data, dict):
        return {str(name): str(value) for name, value in data.items()}
    found: dict[str, str] = {}
    for one in _list(data):
        if isinstance(one, dict):
            found |= _env_map(one)
        else:
            name, _, value = str(one).partition("=")
            found[name.strip()] = value
    return found


def _mount(text: str) -> str:
    """Writable unless it says otherwise, which is the opposite here."""
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    return f"{source}:{target}" if "ro" in mode.split(",") else f"{source}:{target}:rw"


def _map(data: object) -> dict[str, object]:
    return {str(name): value for name, value in data.items()} if isinstance(data, dict) else {}


def _list(data: object) -> list[object]:
    return data if isinstance(data, list) else [data] if data else []


def camel(name: str) -> str:
    """`catchup_window` is `catchupWindow`."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)
