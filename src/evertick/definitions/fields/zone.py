"""Which time zone a schedule is read in, and who said so."""

from __future__ import annotations

from dataclasses import dataclass

from evertick.definitions.fields.values import attempt, text_of
from evertick.definitions.nodes import Node
from evertick.definitions.report import Report
from evertick.planning.zones import find_zone


@dataclass(frozen=True, slots=True)
class Zone:
    name: str
    origin: str


def zone_of(name: str, node: Node, field: str, report: Report) -> Zone | None:
    """The zone that a file names; an unknown one is reported with the nearest that exists."""
    found = attempt(lambda: find_zone(name), node, field, report)
    return None if found is None else Zone(name, report.origin(node))


def read_zone(node: Node, field: str, report: Report) -> Zone | None:
    """The value of a `timezone` field."""
    name = text_of(node, field, report)
    return None if name is None else zone_of(name, node, field, report)
