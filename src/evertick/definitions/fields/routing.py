"""Where a job runs: on this machine, or on the members of the fleet that have its labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from evertick.definitions.catalogue.limits import LABEL_MAX, LABELS_MAX, PATH_MAX
from evertick.definitions.catalogue.words import EXECUTORS, STRATEGIES, STRATEGY_ALIASES
from evertick.definitions.fields.values import choice_of, line_of
from evertick.definitions.nodes import ListNode, MapNode, Node, kind_of
from evertick.definitions.report import Report, Section
from evertick.model.job import Origin
from evertick.model.member import Labels
from evertick.model.policy import Policy, Scope
from evertick.model.resources import Resources, is_resource_name, parse_amount, resources_of
from evertick.model.routing import FLEET, KUBERNETES, LOCAL, Routing, Strategy
from evertick.model.work import NO_HANDLERS, Work

SELECTORS: Final = ("runsOn", "labels")
_FIELDS: Final = ("executor", "routing", "resources", "bundle")
_SHAPE: Final = "Write {gpu: true}, or a list of gpu=true."
_AMOUNTS: Final = "Write for example {cpu: 2, memory: 4GiB, gpus: 1}."


def read_routing(job: Section, policy: Policy, folder: str, report: Report) -> tuple[Routing, dict[str, Origin]]:
    """A job that says how or on which members it runs, but not where, runs on the fleet."""
    executor_node, strategy_node = job.take("executor"), job.take("routing")
    executor = choice_of(executor_node, "executor", report, EXECUTORS) if executor_node else None
    strategy = choice_of(strategy_node, "routing", report, STRATEGIES, STRATEGY_ALIASES) if strategy_node else None
    job.contradict("runsOn", "labels", "both say which members match")
    labels: Labels = ()
    for name in SELECTORS:
        node = job.take(name)
        if node is not None:
            labels = read_labels(node, name, report)
    resources_node = job.take("resources")
    resources = read_resources(resources_node, report) if resources_node else ()
    bundle_node = job.take("bundle")
    bundle = line_of(bundle_node, "bundle", report, longest=PATH_MAX) if bundle_node else None
    if bundle:
        # Relative to the job's file, wherever the scheduler was started.
        bundle = os.path.abspath(os.path.join(folder, os.path.expanduser(bundle)))
    says = [name for name in ("routing", *SELECTORS, "resources", "bundle") if name in job]
    if executor == LOCAL:
        for name in says:
            job.contradict("executor", name, "there is only one machine to choose")
    if "kubernetes" in job:
        return _on_the_cluster(job, executor, says, report)
    if executor == KUBERNETES:
        reason = "'executor: kubernetes' does not say which container."
        report.error(job.key("executor"), "executor", reason, "Add kubernetes: {image: ghcr.io/acme/report:1.4}.")
    where = executor or (FLEET if says else LOCAL)
    if policy.overlap.scope is Scope.EXECUTOR and where == LOCAL:
        reason = "'scope: executor' has no effect on a job that runs on this machine only."
        report.warn(job.key("scope"), "scope", reason, "Add 'executor: fleet', or remove it.")
    origins = {
        name: report.origin(job.key(field))
        for name, field in (*((one, one) for one in _FIELDS), *(("runs_on", one) for one in SELECTORS))
        if field in job
    }
    if executor is None and says:
        origins["executor"] = Origin(note=f"because of '{says[0]}'")
    return Routing(where, strategy or Strategy.ROUND, labels, resources, bundle or ""), origins


def _on_the_cluster(
    job: Section, executor: str | None, says: Sequence[str], report: Report
) -> tuple[Routing, dict[str, Origin]]:
    """A container job need not say that it runs on the cluster, and cannot run elsewhere."""
    if executor not in (None, KUBERNETES):
        job.contradict("kubernetes", "executor", "a container runs on the cluster")
    for name in says:
        job.contradict("kubernetes", name, "the cluster chooses among its nodes itself")
    origin = report.origin(job.key("executor")) if executor else Origin(note="because of 'kubernetes'")
    return Routing(KUBERNETES), {"executor": origin}


def attended(routing: Routing, origins: dict[str, Origin], work: Work) -> tuple[Routing, dict[str, Origin]]:
    """A container with preconditions, hooks or handlers is watched from here, by a process that runs them."""
    around = {
        "its conditions": work.preconditions,
        "its hooks": work.pre_run_hooks or work.post_run_hooks,
        "its handlers": work.handlers != NO_HANDLERS,
    }
    if routing.executor != KUBERNETES or not any(around.values()):
        return routing, origins
    named = " and ".join(name for name, is_there in around.items() if is_there)
    note = f"because of {named}, which this machine runs before and after its container"
    return Routing(LOCAL), {"executor": Origin(note=note)}


def read_resources(node: Node, report: Report) -> Resources:
    """A map of names and amounts."""
    if not isinstance(node, MapNode):
        report.error(node, "resources", f"'resources' must be a map, not {kind_of(node)}.", _AMOUNTS)
        return ()
    found: dict[str, int] = {}
    for key, value in node.entries:
        field = f"resources.{key.text[:60]}"
        if not is_resource_name(key.text):
            hint = "Write it in small letters, as cpu, memory, gpus or licenses."
            report.error(key, "resources", f"'{key.text[:60]}' cannot be the name of a resource.", hint)
            continue
        text = line_of(value, field, report, longest=LABEL_MAX)
        if text is None:
            continue
        try:
            found[key.text] = parse_amount(key.text, text)
        except ValueError as error:
            report.error(value, field, f"'{field}' cannot be '{text}': {error}.", _AMOUNTS)
    if len(found) > LABELS_MAX:
        report.error(node, "resources", f"'resources' has {len(found)} names; {LABELS_MAX} are allowed.")
    return resources_of(found)


def read_labels(node: Node, field: str, report: Report) -> Labels:
    """A map of names and values, `name=value`, or a list of those."""
    found: dict[str, str] = {}
    for place, name, value in _pairs(node, field, report):
        if name in found:
            report.error(place, field, f"the label '{name}' is written twice.", "Remove one of them.")
        found[name] = value
    if len(found) > LABELS_MAX:
        report.error(node, field, f"'{field}' has {len(found)} labels; {LABELS_MAX} are allowed.")
    return tuple(sorted(found.items()))


def _pairs(node: Node, field: str, report: Report) -> list[tuple[Node, str, str]]:
    pairs: list[tuple[Node, str, str]] = []
    if isinstance(node, MapNode):
        for key, of_key in node.entries:
            text = line_of(of_key, f"{field}.{key.text[:60]}", report, longest=LABEL_MAX)
            if text is not None and _is_name(key.text, key, field, report):
                pairs.append((key, key.text, text))
        return pairs
    for item in node.items if isinstance(node, ListNode) else (node,):
        written = line_of(item, field, report, longest=2 * LABEL_MAX)
        if written is None:
            continue
        name, equals, value = written.partition("=")
        if not equals or not value.strip():
            report.error(item, field, f"'{written[:60]}' is not a label.", _SHAPE)
        elif _is_name(name.strip(), item, field, report):
            pairs.append((item, name.strip(), value.strip()))
    return pairs


def _is_name(name: str, node: Node, field: str, report: Report) -> bool:
    if name and len(name) <= LABEL_MAX and name.isprintable() and not set(name) & set("=, "):
        return True
    report.error(node, field, f"'{name[:60]}' cannot be the name of a label.", _SHAPE)
    return False
