"""What `evertick doctor` checks: each check reports ok, warn or fail, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

OK, WARN, FAIL = "ok", "warn", "fail"

Results: TypeAlias = Iterator[tuple[str, str] | tuple[str, str, str]]
"""Of one check: level, finding and, where there is one, the next step."""
Check: TypeAlias = tuple[str, Callable[[], Results]]
"""The name of a check, and the function that runs it."""


class Finding(NamedTuple):
    check: str
    level: str
    finding: str
    next: str = ""
    """What to do; empty if nothing."""


def run_checks(checks: Iterable[Check]) -> Iterator[Finding]:
    """Run every check; one that raises is a finding too, and the others still run."""
    for name, check in checks:
        try:
            found = [Finding(name, *one) for one in check()]
        except Exception as error:
            found = [Finding(name, FAIL, f"{type(error).__name__}: {error}")]
        for one in found:
            yield from _split_lines(one)


def _split_lines(found: Finding) -> Iterator[Finding]:
    """One finding per line of an error that has several, because a table cell is one line."""
    *before, last = [line.strip() for line in found.finding.splitlines() if line.strip()] or [""]
    for line in before:
        yield found._replace(finding=line, next="")
    yield found._replace(finding=last, next=" ".join(found.next.split()))
