"""What is wrong in one file: all of it, in the order of its lines."""

from __future__ import annotations

from collections.abc import Iterable

from evertick.definitions.nodes import MapNode, Node, ScalarNode, kind_of
from evertick.errors import DefinitionError

CLOSE = 0.6
"""How alike two names must be for one to be suggested instead of the other."""
ERRORS_MAX = 1_000
"""Per file; the rest is counted."""
SUGGESTIONS_MAX = 50
"""Per file: to look for the nearest name takes time, and a file of nonsense must not take minutes."""


class Report:
    """Collects what the readers of fields find, so that one bad field does not hide the next."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._errors: list[DefinitionError] = []
        self._warnings: list[DefinitionError] = []
        self._suggestions = 0

    @property
    def errors(self) -> tuple[DefinitionError, ...]:
        told = sorted(self._errors, key=_place)
        if len(told) <= ERRORS_MAX:
            return tuple(told)
        rest = self._located(None, "", f"{len(told) - ERRORS_MAX:,} more errors are not shown.", "Mend these first.")
        return (*told[:ERRORS_MAX], rest)

    @property
    def warnings(self) -> tuple[DefinitionError, ...]:
        return tuple(sorted(self._warnings, key=_place))

    def error(self, node: Node | None, field: str, reason: str, hint: str | None = None) -> None:
        self._errors.append(self._located(node, field, reason, hint))

    def warn(self, node: Node | None, field: str, reason: str, hint: str | None = None) -> None:
        self._warnings.append(self._located(node, field, reason, hint))

    def add(self, error: DefinitionError) -> None:
        """An error that already knows its place."""
        self._errors.append(error)

    def adopt(self, error: DefinitionError, node: Node, field: str) -> None:
        """An error that a deeper part raised about a value, told with the value's place."""
        self.error(node, field, f"{field}: {error.reason}", error.hint)

    def suggest(self, name: str, known: Iterable[str]) -> str | None:
        """`Did you mean 'catchupWindow'?`, where a known name is near enough."""
        self._suggestions += 1
        if self._suggestions > SUGGESTIONS_MAX:
            return None
        near = nearest(name, known)
        return f"Did you mean '{near}'?" if near else None

    def origin(self, node: Node) -> str:
        """Where a value was written, as `origins` of a job tells it."""
        return f"{self.file}:{node.line}"

    def _located(self, node: Node | None, field: str, reason: str, hint: str | None) -> DefinitionError:
        line, column = (node.line, node.column) if node else (1, 1)
        return DefinitionError(reason, hint=hint, field=field, file=self.file, line=line, column=column)


class Section:
    """The fields of one map: each is taken once, and what nobody took is reported by `finish`."""

    def __init__(self, node: MapNode, path: str, report: Report) -> None:
        self.node = node
        self.path = path
        self.report = report
        self._entries = {key.text: (key, value) for key, value in node.entries}
        self._left = dict(self._entries)
        self._known: list[str] = []

    def field(self, name: str) -> str:
        """The name as errors show it: `schedule.cron`."""
        return f"{self.path}.{name}" if self.path else name

    def take(self, name: str) -> Node | None:
        """The value of a field; None when it is absent, or empty, which is an error."""
        self._known.append(name)
        found = self._left.pop(name, None)
        if found is None:
            return None
        key, value = found
        if isinstance(value, ScalarNode) and value.value is None:
            self.report.error(
                key, self.field(name), f"'{self.field(name)}' has no value.", "Write one, or remove the field."
            )
            return None
        return value

    def key(self, name: str) -> ScalarNode:
        """The place where a field's name stands."""
        return self._entries[name][0]

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def refuse(self, name: str, reason: str, hint: str) -> None:
        """A field that is understood and cannot be honoured here."""
        found = self._left.pop(name, None)
        if found is not None:
            self.report.error(found[0], self.field(name), reason, hint)

    def finish(self, owner: str) -> None:
        """Report every field that nothing here knows."""
        for name, (key, _value) in self._left.items():
            hint = self.report.suggest(name, self._known) or f"Known are: {', '.join(self._known)}."
            self.report.error(key, self.field(name), f"unknown field '{name[:60]}' in {owner}.", hint)


def section_of(node: Node, path: str, report: Report, shape: str) -> Section | None:
    """The fields of a value that has to be a map."""
    if isinstance(node, MapNode):
        return Section(node, path, report)
    report.error(node, path, f"'{path}' must be a map, not {kind_of(node)}.", f"Write {shape}.")
    return None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like a mistyped one; letter case, `-` and `_` do not matter."""
    from difflib import get_close_matches  # only people who mistype pay for it

    plain = {_folded(candidate): candidate for candidate in known}
    near = get_close_matches(_folded(name[:60]), plain, n=1, cutoff=CLOSE)
    return plain[near[0]] if near else None


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _place(error: DefinitionError) -> tuple[int, int]:
    return error.line or 0, error.column or 0
