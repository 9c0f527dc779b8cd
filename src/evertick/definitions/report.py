"""What is wrong in one file: all of it, in the order of its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from evertick.definitions.catalogue.field import Fields
from evertick.definitions.nodes import MapNode, Node, ScalarNode, kind_of
from evertick.errors import DefinitionError
from evertick.model.job import Origin

CLOSE = 0.6
"""How alike two names must be for one to be suggested instead of the other."""
NAMES_MAX = 5
"""Names that an error lists where none is near enough to be meant."""
ERRORS_MAX = 1_000
"""Per file; the rest is counted."""
SUGGESTIONS_MAX = 50
"""Per file: to look for the nearest name takes time, and a file of nonsense must not take minutes."""


class Report:
    """Collects what the readers of fields find, so that one bad field does not hide the next."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.has_part: Callable[[str], bool] | None = None
        """Whether the item of the step that is read has a part of that name; None: what is read has no item."""
        self._errors: list[DefinitionError] = []
        self._warnings: list[DefinitionError] = []
        self._suggestions = 0

    @property
    def errors(self) -> tuple[DefinitionError, ...]:
        told = sorted(self._errors, key=_place)
        if len(told) <= ERRORS_MAX:
            return tuple(told)
        rest = self._located(None, "", f"{len(told) - ERRORS_MAX:,} more errors are not shown.", "Fix these first.")
        return (*told[:ERRORS_MAX], rest)

    @property
    def count(self) -> int:
        """How many errors there are by now."""
        return len(self._errors)

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
        """An error that a deeper part raised about a value, reported at the value's place."""
        self.error(node, field, f"{field}: {error.reason}", error.hint)

    def suggest(self, name: str, known: Iterable[str]) -> str | None:
        """`Did you mean 'catchupWindow'?`, where a known name is near enough."""
        self._suggestions += 1
        if self._suggestions > SUGGESTIONS_MAX:
            return None
        near = nearest(name, known)
        return f"Did you mean '{near}'?" if near else None

    def similar(self, name: str, known: Iterable[str]) -> str:
        """`Similar fields: …`, if none is near enough for a suggestion; fifty names would not help."""
        names = list(known)
        if len(names) <= NAMES_MAX:
            return f"Known fields: {', '.join(names)}."
        if self._suggestions > SUGGESTIONS_MAX:
            return "The reference of job files lists all fields."
        return f"Similar fields: {', '.join(_by_likeness(name, names)[:NAMES_MAX])}."

    def origin(self, node: Node) -> Origin:
        """Where a value was written, in the form of `Job.origins`."""
        return Origin(self.file, node.line)

    def _located(self, node: Node | None, field: str, reason: str, hint: str | None) -> DefinitionError:
        line, column = (node.line, node.column) if node else (1, 1)
        return DefinitionError(reason, hint=hint, field=field, file=self.file, line=line, column=column)


class Section:
    """The fields of one map: each is taken once, and `finish` reports those that were not taken.

    Only fields of its table can be taken, so that the schema and the pages, which are made from the tables, name every
    field that is read.
    """

    def __init__(self, node: MapNode, path: str, report: Report, fields: Fields) -> None:
        self.node = node
        self.path = path
        self.report = report
        self._fields = fields
        self._entries = {key.text: (key, value) for key, value in node.entries}
        self._left = dict(self._entries)

    def field(self, name: str) -> str:
        """The name as errors show it: `schedule.cron`."""
        return f"{self.path}.{name}" if self.path else name

    def take(self, name: str) -> Node | None:
        """The value of a field; None when it is absent, or empty, which is an error."""
        assert name in self._fields, f"'{name}' is read and not in its table"
        found = self._left.pop(name, None)
        if found is None:
            return None
        key, value = found
        if isinstance(value, ScalarNode) and value.value is None:
            hint = "Write one, or remove the field."
            if value.text == "~":
                hint = f'In YAML a bare ~ is nothing. Write {name}: "~" for the home folder.'
            self.report.error(key, self.field(name), f"'{self.field(name)}' has no value.", hint)
            return None
        return value

    def key(self, name: str) -> ScalarNode:
        """The place where a field's name stands."""
        return self._entries[name][0]

    def words(self, name: str) -> str:
        """A field as it is written, `name: value`; of one that is no plain value, its name."""
        key, value = self._entries[name]
        return f"{key.text}: {value.text.strip()}" if isinstance(value, ScalarNode) else key.text

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def contradict(self, first: str, second: str, why: str) -> bool:
        """Report two fields that cannot both be written, with both lines; whether they were."""
        if first not in self or second not in self:
            return False
        contradiction(self.key(first), self.key(second), self.field, why, self.report)
        return True

    def refuse(self, name: str, reason: str, hint: str) -> None:
        """A field that is understood and cannot be honoured here."""
        found = self._left.pop(name, None)
        if found is not None:
            self.report.error(found[0], self.field(name), reason, hint)

    def finish(self, owner: str) -> None:
        """Report every unknown field, with the known names that are nearest to it."""
        for name, (key, _value) in self._left.items():
            hint = self.report.suggest(name, self._fields) or self.report.similar(name, self._fields)
            self.report.error(key, self.field(name), f"unknown field '{name[:60]}' in {owner}.", hint)


def contradiction(one: ScalarNode, two: ScalarNode, named: Callable[[str], str], why: str, report: Report) -> None:
    """Two fields that answer the same question, reported at the later one."""
    early, late = sorted((one, two), key=lambda key: (key.line, key.column))
    told = f": {why}." if why else "."
    reason = f"'{early.text}' on line {early.line} and '{late.text}' on line {late.line} contradict each other{told}"
    report.error(late, named(late.text), reason, "Remove one of them.")


def section_of(node: Node, path: str, report: Report, fields: Fields, shape: str) -> Section | None:
    """The fields of a value that has to be a map."""
    if isinstance(node, MapNode):
        return Section(node, path, report, fields)
    report.error(node, path, f"'{path}' must be a map, not {kind_of(node)}.", f"Write {shape}.")
    return None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like a mistyped one; letter case, `-` and `_` do not matter."""
    from difflib import get_close_matches  # only people who mistype pay for it

    plain = {_folded(candidate): candidate for candidate in known}
    near = get_close_matches(_folded(name[:60]), plain, n=1, cutoff=CLOSE)
    return plain[near[0]] if near else None


def _by_likeness(name: str, known: list[str]) -> list[str]:
    """The likest first; equally like ones in the order of the reference."""
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(b=_folded(name[:60]))

    def likeness(candidate: str) -> float:
        matcher.set_seq1(_folded(candidate))
        return matcher.ratio()

    return sorted(known, key=likeness, reverse=True)


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _place(error: DefinitionError) -> tuple[int, int]:
    return error.line or 0, error.column or 0
