"""How a text becomes nodes: a safe, bounded subset of YAML 1.2 in which every value knows its place.

The tree is built from the parser's events, and not by `compose()`, so that each limit is checked before memory is
spent: an alias costs as many nodes as what it stands for, although nothing is copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import yaml

from evertick.definitions.nodes import ListNode, MapNode, Node, Plain, ScalarNode, plain_value
from evertick.definitions.parsed_file import SIZE_MAX

DEPTH_MAX = 64
NODES_MAX = 50_000
ALIASES_MAX = 100

_NOT_TEXT: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_LINE_SEPARATORS: Final = {"\u0085": "U+0085", "\u2028": "U+2028", "\u2029": "U+2029"}

# The parser's words, and ours. The first pair whose words occur in the problem is taken.
_PROBLEMS: Final = (
    ("found a tab character", "a tab is used for indentation.", "Use spaces."),
    (
        "mapping values are not allowed",
        "a ':' is not expected here.",
        "Check the indentation, or put the text in quotes.",
    ),
    ("did not find expected key", "a field was expected here.", "Check the indentation of this line."),
    ("did not find expected '-'", "a list item was expected here.", "Check the indentation of this line."),
    ("did not find expected node content", "a value was expected here.", "Write one, or put the text in quotes."),
    ("could not find expected ':'", "a ':' is missing after the field's name.", "Write 'field: value'."),
    (
        "unknown escape character",
        "this escape is not known in double quotes.",
        "Use single quotes, or double the '\\'.",
    ),
    (
        "entries are not allowed in this context",
        "a '-' is not expected here.",
        "Put the text in quotes, or begin a line.",
    ),
    ("expected comment or line break", "a '|' or '>' begins a text on the next line.", "Put this text in quotes."),
    ("found incompatible YAML", "this version of YAML is not known.", "Remove the %YAML line."),
)

# The same, reported where the construct begins and not where its end is missing.
_BEGUN: Final = (
    ("found unexpected end of stream", "a quote is opened here and never closed.", "Close the quote."),
    ("did not find expected ',' or ']'", "a list in brackets begins here and is not closed.", "Close it with ']'."),
    ("did not find expected ',' or '}'", "a map in braces begins here and is not closed.", "Close it with '}'."),
    (
        "expected alphabetic or numeric character",
        "a text cannot begin with '*' or '&' here.",
        "Put it in quotes, for example '*/5 * * * *'.",
    ),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the text as YAML, before its meaning is read."""

    reason: str
    hint: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Document:
    root: Node | None
    """None if the text could not be read, or is empty."""
    problems: tuple[Problem, ...] = ()


class _Stop(Exception):
    """Parsing cannot continue."""

    def __init__(self, reason: str, hint: str, line: int = 1, column: int = 1) -> None:
        self.problem = Problem(reason, hint, line, column)


def read_yaml(source: str | bytes, size_max: int = SIZE_MAX) -> Document:
    """The nodes of a text, or every reason why it has none; never raises on any input."""
    composer = _Composer()
    try:
        text = _decoded(source, size_max)
        root = composer.compose(yaml.parse(text, Loader=yaml.CSafeLoader))
    except _Stop as stop:
        return Document(None, (*composer.problems, stop.problem))
    except yaml.YAMLError as error:
        return Document(None, (*composer.problems, _translated(error, text)))
    return Document(root, tuple(composer.problems))


def _decoded(source: str | bytes, size_max: int) -> str:
    """The text of a file, or the reason why it is not UTF-8 text that a person would write."""
    if len(source) > size_max:
        raise _too_large(size_max)
    if isinstance(source, bytes):
        if source.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in source[:4]:
            raise _Stop("the file is UTF-16 or UTF-32.", "Save it as UTF-8.")
        try:
            text = source.decode("utf-8")
        except UnicodeDecodeError as error:
            before = source[: error.start].decode("utf-8")
            raise _stop_at(
                before, f"byte 0x{source[error.start]:02x} is not UTF-8.", "Save the file as UTF-8."
            ) from None
    else:
        text = source
        if len(text) * 4 > size_max and len(text.encode("utf-8", "replace")) > size_max:
            raise _too_large(size_max)
    if found := _NOT_TEXT.search(text):
        raise _stop_at(text[: found.start()], *_complaint(found.group(), found.start()))
    return text


def _too_large(size_max: int) -> _Stop:
    return _Stop(f"the file has more than {size_max:,} bytes.", "Move data into a file of its own.")


def _complaint(character: str, index: int) -> tuple[str, str]:
    if character == "\0":
        return "the file contains a NUL character.", "Remove it; is this a text file?"
    if character == "\ufeff":
        where = "begins with" if index == 0 else "contains"
        return f"the file {where} a byte order mark (U+FEFF).", "Save it as UTF-8 without BOM."
    if "\ud800" <= character <= "\udfff":
        return "half of a surrogate pair is not a character.", "Save the file as UTF-8."
    if character in _LINE_SEPARATORS:
        return f"the file contains a Unicode line separator ({_LINE_SEPARATORS[character]}).", "Use a plain new line."
    return (
        f"the control character U+{ord(character):04X} is not allowed.",
        "Remove it, or write it as an escape in quotes.",
    )


def _stop_at(before: str, reason: str, hint: str) -> _Stop:
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return _Stop(reason, hint, len(lines), len(lines[-1]) + 1)


def _translated(error: yaml.YAMLError, text: str) -> Problem:
    words = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    begun = getattr(error, "context_mark", None) or mark
    for theirs, reason, hint in _BEGUN:
        if theirs in words and begun:
            return Problem(reason, hint, begun.line + 1, begun.column + 1)
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    if "cannot start any token" in words:
        found = "".join(text.splitlines()[line - 1 : line])[column - 1 : column]
        if found == "\t":
            return Problem("a tab is used for indentation.", "Use spaces.", line, column)
        return Problem(f"a value cannot start with '{found}'.", "Put the text in quotes.", line, column)
    for theirs, reason, hint in _PROBLEMS:
        if theirs in words:
            return Problem(reason, hint, line, column)
    return Problem(f"this is not YAML: {words}.", "Check this line and the one above it.", line, column)


@dataclass(slots=True)
class _Open:
    """A list or map that has begun and not yet ended."""

    is_map: bool
    line: int
    column: int
    anchor: str | None
    counted_before: int
    height: int = 1
    """Levels from here down, through aliases too."""
    children: list[Node] = field(default_factory=list)


class _Composer:
    """Turns events into nodes without recursion, and counts as it goes."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int, int]] = {}
        self._count = 0
        self._aliases = 0
        self._root: Node | None = None
        self._documents = 0

    def compose(self, events: Iterator[yaml.Event]) -> Node | None:
        for event in events:
            mark = event.start_mark
            assert mark is not None
            line, column = mark.line + 1, mark.column + 1
            match event:
                case yaml.ScalarEvent():
                    self._counted(1, line, column)
                    self._untagged(event.tag, line, column)
                    self._keep(self._scalar(event, line, column), event.anchor, 1, 0)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._counted(1, line, column)
                    self._untagged(event.tag, line, column)
                    self._shallow(1, line, column)
                    is_map = isinstance(event, yaml.MappingStartEvent)
                    self._stack.append(_Open(is_map, line, column, event.anchor, self._count - 1))
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    done = self._stack.pop()
                    self._keep(self._closed(done), done.anchor, self._count - done.counted_before, done.height)
                case yaml.AliasEvent():
                    self._expand(event.anchor or "", line, column)
                case yaml.DocumentStartEvent():
                    self._documents += 1
                    if self._documents > 1:
                        raise _Stop("a second document begins here.", "Write one job per file.", line, column)
        return self._root

    def _counted(self, nodes: int, line: int, column: int) -> None:
        self._count += nodes
        if self._count > NODES_MAX:
            raise _Stop(f"the file holds more than {NODES_MAX:,} values, aliases included.", "Split it.", line, column)

    def _shallow(self, height: int, line: int, column: int) -> None:
        if len(self._stack) + height > DEPTH_MAX:
            raise _Stop(f"the nesting is deeper than {DEPTH_MAX}, aliases included.", "Flatten it.", line, column)

    def _untagged(self, tag: str | None, line: int, column: int) -> None:
        if tag is not None:
            self._problem(f"the tag '{tag}' is not allowed.", "Remove it; quotes make a text.", line, column)

    def _expand(self, anchor: str, line: int, column: int) -> None:
        self._aliases += 1
        if self._aliases > ALIASES_MAX:
            raise _Stop(f"the file uses more than {ALIASES_MAX} aliases.", "Write the values out.", line, column)
        if any(open_.anchor == anchor for open_ in self._stack):
            raise _Stop(f"the alias '*{anchor}' stands inside its own anchor.", "Write the value out.", line, column)
        if anchor not in self._anchors:
            raise _Stop(f"the alias '*{anchor}' has no anchor above it.", f"Write '&{anchor}' first.", line, column)
        node, size, height = self._anchors[anchor]
        self._counted(size, line, column)
        self._shallow(height, line, column)
        self._keep(node, None, size, height)

    def _keep(self, node: Node, anchor: str | None, size: int, height: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (node, size, height)
        if self._stack:
            parent = self._stack[-1]
            parent.children.append(node)
            parent.height = max(parent.height, height + 1)
        else:
            self._root = node

    def _scalar(self, event: yaml.ScalarEvent, line: int, column: int) -> ScalarNode:
        text: str = event.value
        value: Plain = text
        if not event.style:
            try:
                value = plain_value(text)
            except ValueError as error:
                self._problem(str(error), "Put it in quotes to keep it as text.", line, column)
        return ScalarNode(text, value, line, column)

    def _closed(self, done: _Open) -> Node:
        if not done.is_map:
            return ListNode(tuple(done.children), done.line, done.column)
        entries: list[tuple[ScalarNode, Node]] = []
        seen: dict[str, ScalarNode] = {}
        for key, value in zip(done.children[::2], done.children[1::2], strict=True):
            if not isinstance(key, ScalarNode) or key.value is None:
                self._problem("a field's name must be a text.", "Write 'field: value'.", key.line, key.column)
            elif key.text == "<<":
                self._problem("merge keys (<<) are not supported.", "Write the fields out.", key.line, key.column)
            elif key.text in seen:
                first = seen[key.text]
                self._problem(
                    f"'{key.text[:60]}' is written twice: on line {first.line} and on line {key.line}.",
                    "Remove one of them.",
                    key.line,
                    key.column,
                )
            else:
                seen[key.text] = key
                entries.append((key, value))
        return MapNode(tuple(entries), done.line, done.column)

    def _problem(self, reason: str, hint: str, line: int, column: int) -> None:
        self.problems.append(Problem(reason, hint, line, column))
