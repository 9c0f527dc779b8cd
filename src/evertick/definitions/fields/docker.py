"""Which container of this machine a step is."""

from __future__ import annotations

import re
from typing import Final

from evertick.definitions.catalogue.limits import PATH_MAX
from evertick.definitions.catalogue.words import PULLS
from evertick.definitions.catalogue.work import DOCKER, REGISTRY
from evertick.definitions.fields.environment import read_value
from evertick.definitions.fields.templates import check_words
from evertick.definitions.fields.values import choice_of, flag_of, line_of, path_of, read_command, texts_of
from evertick.definitions.nodes import Node, ScalarNode, kind_of
from evertick.definitions.report import Report, Section, section_of
from evertick.model.work import Container, Mount, Pull, RegistryLogin, Secret, Value

CPUS_MAX: Final = 1_024
MOUNTS_MAX: Final = 50
MEMORY_MIN: Final = 6 * 1024 * 1024
"""What Docker accepts."""
_EXAMPLE: Final = "docker: {image: ghcr.io/acme/report:1.4}"
_LOGIN: Final = "registry: {username: robot, password: {env: REGISTRY_PASSWORD}}"
_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,999}")
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,127}")
_SIZE: Final = re.compile(r"(\d{1,15})\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def read_container(node: Node, field: str, report: Report) -> Container | None:
    section = section_of(node, field, report, DOCKER, _EXAMPLE)
    if section is None:
        return None
    image = _read_shape(section, "image", _IMAGE, f"Write {_EXAMPLE}.", report)
    if "image" not in section:
        report.error(node, section.field("image"), f"'{field}' has no image.", f"Write {_EXAMPLE}.")
    command_node, pull, read_only = (section.take(name) for name in ("command", "pull", "readOnly"))
    command = read_command(command_node, section.field("command"), report) if command_node else None
    container = Container(
        image=image or "",
        command=command.words if command else (),
        is_shell=bool(command and command.is_shell),
        args=_read_args(section, report),
        mounts=_read_mounts(section, report),
        working_dir=_read_folder(section, report),
        user=_read_shape(section, "user", _USER, "Write a name or a number, for example 1000:1000.", report),
        memory_bytes=_read_memory(section, report),
        cpus=_read_cpus(section, report),
        network=_read_shape(section, "network", _NAME, "Write none, host, bridge or the name of a network.", report),
        pull=(choice_of(pull, section.field("pull"), report, PULLS) if pull else None) or Pull.MISSING,
        is_read_only=bool(flag_of(read_only, section.field("readOnly"), report)) if read_only else False,
        registry=_read_registry(section, report),
    )
    if container.is_shell and container.args:
        section.contradict("command", "args", "a command for the shell has no arguments")
    section.finish(f"'{field}'")
    return None if image is None else container


def _read_shape(section: Section, name: str, shape: re.Pattern[str], hint: str, report: Report) -> str | None:
    node, field = section.take(name), section.field(name)
    text = line_of(node, field, report, longest=1_000) if node else None
    if text is not None and not shape.fullmatch(text):
        report.error(node, field, f"'{field}' cannot be '{text[:60]}'.", hint)
        return None
    return text


def _read_args(section: Section, report: Report) -> tuple[str, ...]:
    node, field = section.take("args"), section.field("args")
    found = (texts_of(node, field, report) or ()) if node else ()
    places, words = tuple(place for place, _text in found), tuple(text for _place, text in found)
    check_words(places, words, field, report)
    return words


def _read_mounts(section: Section, report: Report) -> tuple[Mount, ...]:
    node, field = section.take("mounts"), section.field("mounts")
    found = (texts_of(node, field, report) or ()) if node else ()
    if len(found) > MOUNTS_MAX:
        report.error(node, field, f"'{field}' has {len(found):,} entries; {MOUNTS_MAX} are allowed.")
    mounts: dict[str, Mount] = {}
    for place, _text in found[:MOUNTS_MAX]:
        mount = _read_mount(place, field, report)
        if mount is not None and mount.target in mounts:
            report.error(place, field, f"'{mount.target}' is mounted twice.", "Remove one of them.")
        elif mount is not None:
            mounts[mount.target] = mount
    return tuple(mounts.values())


def _read_mount(node: Node, field: str, report: Report) -> Mount | None:
    text = path_of(node, field, report, longest=2 * PATH_MAX)
    if text is None:
        return None
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    mount = Mount(source, target, mode == "rw")
    if not source or not target.startswith("/") or mode not in ("", "ro", "rw"):
        hint = "Write source:target, or source:target:rw to write, for example ./input:/input."
        report.error(node, field, f"'{text[:60]}' is not a mount.", hint)
        return None
    if not mount.is_path and not _NAME.fullmatch(source):
        hint = f"Write ./{source} for a folder beside the job file."
        report.error(node, field, f"'{source[:60]}' is neither a path nor the name of a volume.", hint)
        return None
    return mount


def _read_folder(section: Section, report: Report) -> str | None:
    node, field = section.take("workingDir"), section.field("workingDir")
    text = path_of(node, field, report, longest=PATH_MAX) if node else None
    if text is not None and not text.startswith("/"):
        report.error(node, field, f"'{field}' is a folder in the container, and must begin with '/'.")
        return None
    return text


def _read_memory(section: Section, report: Report) -> int | None:
    node, field = section.take("memory"), section.field("memory")
    text = line_of(node, field, report, longest=20) if node else None
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    size = int(found[1]) * _UNITS[found[2].lower()] if found else 0
    if size < MEMORY_MIN:
        report.error(node, field, f"'{field}' cannot be '{text}'.", "Write 6m or more, for example 512m or 2g.")
        return None
    return size


def _read_registry(section: Section, report: Report) -> RegistryLogin | None:
    node, field = section.take("registry"), section.field("registry")
    inner = section_of(node, field, report, REGISTRY, _LOGIN) if node else None
    if inner is None:
        return None
    found: dict[str, Value | None] = {}
    for name in REGISTRY:
        place = inner.take(name)
        if place is None:
            report.error(inner.node, inner.field(name), f"'{field}' has no {name}.", f"Write {_LOGIN}.")
        found[name] = read_value(place, inner.field(name), report) if place else None
        if name == "password" and isinstance(found[name], str):
            reason = f"'{inner.field(name)}' must be a secret, not a text that everyone who sees the job can read."
            report.error(place, inner.field(name), reason, f"Write {_LOGIN}.")
    inner.finish(f"'{field}'")
    username, password = found["username"], found["password"]
    return RegistryLogin(username, password) if username is not None and isinstance(password, Secret) else None


def _read_cpus(section: Section, report: Report) -> float | None:
    node, field = section.take("cpus"), section.field("cpus")
    if node is None:
        return None
    value = node.value if isinstance(node, ScalarNode) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        report.error(node, field, f"'{field}' must be a number, not {kind_of(node)}.", "Write for example 1.5.")
        return None
    if not 0.01 <= value <= CPUS_MAX:
        report.error(node, field, f"'{field}' is {value}; it must be from 0.01 to {CPUS_MAX:,}.")
        return None
    return float(value)
