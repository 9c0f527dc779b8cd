"""What a check has found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

OK, WARN, FAIL = "ok", "warn", "fail"


class Finding(NamedTuple):
    check: str
    level: str
    finding: str
    next: str = ""
    """What to do; empty where there is nothing to do."""


Check = tuple[str, Callable[[], Iterable[tuple[str, ...]]]]
"""The name of a check, and what carries it out: it answers level, finding and next step."""


def carry_out(checks: Iterable[Check]) -> Iterator[Finding]:
    """Every check; one that breaks is a finding too, and the others go on."""
    for name, check in checks:
        try:
            found = [Finding(name, *one) for one in check()]
        except Exception as error:  # a doctor that falls over helps nobody
            found = [Finding(name, FAIL, f"{type(error).__name__}: {error}")]
        for one in found:
            yield from _in_lines(one)


def _in_lines(found: Finding) -> Iterator[Finding]:
    """A finding for each line of an error that tells several: a cell of a table is one line."""
    *before, last = [line.strip() for line in found.finding.splitlines() if line.strip()] or [""]
    for line in before:
        yield found._replace(finding=line, next="")
    yield found._replace(finding=last, next=" ".join(found.next.split()))
