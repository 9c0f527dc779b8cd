"""Which container of a cluster a job or a step is."""

from __future__ import annotations

import re
from typing import Final

from evertick.definitions.catalogue.work import CLUSTER_RESOURCES, CLUSTER_SECRET, KUBERNETES
from evertick.definitions.fields.environment import read_env
from evertick.definitions.fields.values import line_of, name_of, read_command
from evertick.definitions.nodes import MapNode, Node, ScalarNode, kind_of, plain_data
from evertick.definitions.report import Report, Section
from evertick.model.work import Env, Pod, Secret, SecretKey

IMAGE_MAX: Final = 1_000
_EXAMPLE: Final = "kubernetes: {image: ghcr.io/acme/report:1.4}"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_QUANTITY: Final = re.compile(r"[0-9]+(\.[0-9]+)?([eE][0-9]+|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")


def read_pod(node: Node, field: str, report: Report) -> Pod | None:
    if not isinstance(node, MapNode):
        report.error(node, field, f"'{field}' must be a map, not {kind_of(node)}.", f"Write {_EXAMPLE}.")
        return None
    section = Section(node, field, report, KUBERNETES)
    image_node, command_node, env_node = (section.take(name) for name in ("image", "command", "env"))
    if image_node is None and "image" not in section:
        report.error(node, section.field("image"), f"'{field}' has no image.", f"Write {_EXAMPLE}.")
    image = _read_image(image_node, section.field("image"), report) if image_node else None
    command = read_command(command_node, section.field("command"), report) if command_node else None
    env = read_env(env_node, section.field("env"), report) if env_node else ()
    report_secrets(env, section.key("env") if "env" in section else node, section.field("env"), report)
    requests, limits = _read_resources(section, report)
    pod = Pod(
        image=image or "",
        command=command.words if command else (),
        is_shell=bool(command and command.is_shell),
        env=tuple((name, value) for name, value in env if isinstance(value, str)),
        secrets=_read_secrets(section, report),
        requests=requests,
        limits=limits,
        service_account=_read_name(section, "serviceAccount", _SUBDOMAIN, report),
        namespace=_read_name(section, "namespace", _LABEL, report),
        pod_spec=_read_pod_spec(section, report),
    )
    section.finish(f"'{field}'")
    return None if image is None else pod


def report_secrets(env: Env, node: Node, field: str, report: Report) -> None:
    """A secret of the scheduler must not be written into a pod, where others can read it."""
    for name, value in env:
        if isinstance(value, Secret):
            reason = f"'{name}' is a secret of the scheduler, and everyone who can see the pod could read it."
            hint = f"Put it into a Secret of the cluster, and write secrets: {{{name}: my-secret/{name.lower()}}}."
            report.error(node, field, reason, hint)


def _read_image(node: Node, field: str, report: Report) -> str | None:
    image = line_of(node, field, report, longest=IMAGE_MAX)
    if image is not None and any(character.isspace() for character in image):
        report.error(node, field, f"'{image[:60]}' is not the name of an image.", f"Write {_EXAMPLE}.")
        return None
    return image


def _read_name(section: Section, name: str, shape: re.Pattern[str], report: Report) -> str | None:
    node = section.take(name)
    text = line_of(node, section.field(name), report, longest=253) if node else None
    if node is not None and text is not None and not shape.fullmatch(text):
        reason = f"'{section.field(name)}' cannot be '{text[:60]}', which is not a valid name on a cluster."
        report.error(node, section.field(name), reason, "Use a-z, 0-9 and '-'.")
        return None
    return text


def _read_resources(section: Section, report: Report) -> tuple[tuple[tuple[str, str], ...], ...]:
    """What is asked for, and what is allowed."""
    node = section.take("resources")
    if node is None:
        return (), ()
    path = section.field("resources")
    if not isinstance(node, MapNode):
        hint = "Write {requests: {cpu: 500m}, limits: {memory: 1Gi}}."
        report.error(node, path, f"'{path}' must be a map, not {kind_of(node)}.", hint)
        return (), ()
    resources = Section(node, path, report, CLUSTER_RESOURCES)
    found = tuple(_read_quantities(resources, name, report) for name in ("requests", "limits"))
    resources.finish(f"'{path}'")
    return found


def _read_quantities(section: Section, name: str, report: Report) -> tuple[tuple[str, str], ...]:
    node, field = section.take(name), section.field(name)
    if node is None:
        return ()
    if not isinstance(node, MapNode):
        report.error(node, field, f"'{field}' must be a map, not {kind_of(node)}.", "Write {cpu: 500m, memory: 1Gi}.")
        return ()
    found = []
    for key, value in node.entries:
        if isinstance(value, ScalarNode) and _QUANTITY.fullmatch(value.text):
            found.append((key.text, value.text))
        else:
            reason = f"'{field}.{key.text[:60]}' is not a quantity: {kind_of(value)}."
            report.error(value, field, reason, "Write for example 500m, 2 or 1Gi.")
    return tuple(found)


def _read_secrets(section: Section, report: Report) -> tuple[tuple[str, SecretKey], ...]:
    node, field = section.take("secrets"), section.field("secrets")
    if node is None:
        return ()
    if not isinstance(node, MapNode):
        hint = "Write {PASSWORD: my-secret/password}."
        report.error(node, field, f"'{field}' must be a map, not {kind_of(node)}.", hint)
        return ()
    found = []
    for key, value in node.entries:
        name = name_of(key, key.text, field, report)
        secret = _read_secret(value, f"{field}.{key.text[:60]}", report)
        if name is not None and secret is not None:
            found.append((name, secret))
    return tuple(found)


def _read_secret(node: Node, field: str, report: Report) -> SecretKey | None:
    """`secret/key`, or both by name."""
    if isinstance(node, MapNode):
        section = Section(node, field, report, CLUSTER_SECRET)
        parts = [section.take(part) for part in ("name", "key")]
        section.finish(f"'{field}'")
        texts = [line_of(part, field, report, longest=253) if part else None for part in parts]
        secret, key = texts[0] or "", texts[1] or ""
    else:
        text = line_of(node, field, report, longest=520)
        if text is None:
            return None
        secret, _, key = text.partition("/")
    if not _SUBDOMAIN.fullmatch(secret) or not _KEY.fullmatch(key):
        reason = f"'{field}' does not name a Secret of the cluster and a key in it."
        report.error(node, field, reason, "Write my-secret/password.")
        return None
    return SecretKey(secret, key)


def _read_pod_spec(section: Section, report: Report) -> dict[str, object]:
    node, field = section.take("podSpec"), section.field("podSpec")
    if node is None:
        return {}
    if not isinstance(node, MapNode):
        hint = "Write podSpec: {nodeSelector: {disk: ssd}}."
        report.error(node, field, f"'{field}' must be a map, not {kind_of(node)}.", hint)
        return {}
    for key, _value in node.entries:
        if key.text == "restartPolicy":
            reason = "'restartPolicy' is always Never: the ledger would not know of a restart by the cluster."
            report.error(key, field, reason, "Remove it, and write 'maxRetries' in the job.")
    plain = plain_data(node)
    assert isinstance(plain, dict)
    return plain
