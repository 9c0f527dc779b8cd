"""What `{{ }}` in a definition stands for: dates and items, in a language without loops, attributes or code.

    {{ date }}   {{ date(-1d, "%Y%m%d") }}   {{ scheduled_for(-2h) }}   {{ previous_success("%F") }}   {{ "{{" }}
    {{ item }}   {{ item("region") }}

A text is parsed when its job is loaded, so that a wrong name, offset or format is an error in the definition. It is
rendered where a run starts. Values become variables, arguments, JSON or parts of an address, never shell text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from evertick.errors import DefinitionError, DurationError
from evertick.model import run_variables as variables
from evertick.model.duration import parse_duration
from evertick.model.instant import DAY

OPEN: Final = "{{"
EXPRESSION_MAX: Final = 200
FORMAT_MAX: Final = 64

NAMES: Final[dict[str, tuple[str, str]]] = {
    "date": (variables.DATE, "The date of the occurrence, `2026-03-02`."),
    "hour": (variables.HOUR, "Its hour, `00` to `23`."),
    "scheduled_for": (variables.SCHEDULED_FOR, "The time the run is due, as RFC 3339 in UTC."),
    "previous": (variables.PREVIOUS, "The occurrence before it; empty if there is none."),
    "next": (variables.NEXT, "The occurrence after it; empty if there is none."),
    "previous_success": (
        variables.PREVIOUS_SUCCESS,
        "The due time of the last success; empty if there is none.",
    ),
    "timezone": (variables.TIMEZONE, "The zone of the job."),
    "job": (variables.JOB, "The id of the job."),
    "item": (
        variables.ITEM,
        'In a step with `each`: the value of the item; `item("region")` is one part of it.',
    ),
}
"""Each with the variable of the same content, and its meaning."""
ITEM: Final = "item"
_CONSTANT: Final = frozenset({"timezone", "job"})
"""Names that are not times, and so take no offset and no format."""
DIRECTIVES: Final = "YymdHMSjGVuFTsz%"
"""What may follow `%` in a format; none of them depends on a language."""

_TOKEN: Final = re.compile(r'\s*(?:([A-Za-z_]\w*)|([-+]\s*[0-9][0-9a-z]*)|"([^"]*)"|(\S))')
_NAMED: Final = re.compile(r"\{\{\s*([a-z_]+)\b")


@dataclass(frozen=True, slots=True)
class Expression:
    name: str
    """One of `NAMES`; empty: `text` is literal."""
    text: str = ""
    """Of an item, which part of its value is meant; empty: all of it."""
    offset_days: int = 0
    """Whole days, counted on the calendar of the job's zone."""
    offset_us: int = 0
    """The rest, counted on the clock."""
    form: str | None = None


Part: TypeAlias = str | Expression


@lru_cache(maxsize=4_096)
def parse_template(text: str) -> tuple[Part, ...]:
    """Literal parts and expressions in order; `DefinitionError` names what cannot be read."""
    parts: list[Part] = []
    at = 0
    while (begin := text.find(OPEN, at)) >= 0:
        expression, end = _parse_expression(text, begin)
        parts += [text[at:begin], expression]
        at = end
    return tuple(part for part in (*parts, text[at:]) if part != "")


def render_template(text: str, value_of: Callable[[Expression], str], quote: Callable[[str], str] = str) -> str:
    """The text with its values, each quoted for the place that it goes to."""
    if OPEN not in text:
        return text
    parts = parse_template(text)
    return "".join(part if isinstance(part, str) else _quoted(part, value_of, quote) for part in parts)


def escape_braces(text: str) -> str:
    """The text, written so that it is read as itself."""
    return text.replace(OPEN, '{{ "{{" }}')


def _quoted(part: Expression, value_of: Callable[[Expression], str], quote: Callable[[str], str]) -> str:
    return quote(value_of(part)) if part.name else part.text


def shell_variable_for(text: str, *, has_item: bool = True) -> tuple[str, str] | None:
    """The first of our names between `{{ }}` in shell text, and the variable to use there; None: there is none.

    Other uses of `{{` in commands, such as `docker ps --format '{{.Names}}'`, are theirs.
    """
    named = (found[1] for found in _NAMED.finditer(text))
    return next(((name, NAMES[name][0]) for name in named if name in NAMES and (has_item or name != ITEM)), None)


def _parse_expression(text: str, begin: int) -> tuple[Expression, int]:
    tokens, at = [], begin + len(OPEN)
    while not text.startswith("}}", (at := _past_blanks(text, at))):
        token = _TOKEN.match(text, at)
        if token is None or at - begin > EXPRESSION_MAX:
            raise _refused(text, begin, "has no closing '}}'", 'Write {{ "{{" }} for two braces.')
        tokens.append(token)
        at = token.end()
    return _build(text[begin : at + 2], tokens), at + 2


def _past_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    return at


def _build(written: str, tokens: list[re.Match[str]]) -> Expression:
    hint = 'Write for example {{ date }} or {{ date(-1d, "%Y%m%d") }}.'
    if len(tokens) == 1 and tokens[0][3] is not None:
        return Expression("", tokens[0][3])
    if not tokens or tokens[0][1] is None:
        raise _refused(written, 0, "does not begin with a name", f'{hint} {{{{ "{{{{" }}}} is two braces.')
    name = tokens[0][1]
    if name not in NAMES:
        raise DefinitionError(f"'{written[:60]}': unknown name '{name[:40]}'.", field=name)
    rest = tokens[1:]
    if not rest:
        return Expression(name)
    if rest[0][4] != "(" or rest[-1][4] != ")":
        raise _refused(written, 0, "has something behind its name that is not an argument list", hint)
    if name == ITEM:
        return Expression(name, _part(written, rest))
    if name in _CONSTANT:
        raise _refused(written, 0, f"'{name}' takes no arguments", f"Write {{{{ {name} }}}}.")
    days, offset_us, form = 0, 0, None
    arguments = rest[1:-1]
    if arguments and arguments[0][2] is not None:
        days, offset_us = _offset(written, arguments[0][2])
        arguments = arguments[1:]
        if arguments:
            has_comma = arguments[0][4] == "," and len(arguments) > 1
            arguments = arguments[1:] if has_comma else [tokens[0]]
    if arguments and arguments[0][3] is not None:
        form = _form(written, arguments[0][3])
        arguments = arguments[1:]
    if arguments:
        raise _refused(written, 0, "has arguments that are not an offset and a format, in this order", hint)
    return Expression(name, "", days, offset_us, form)


def _part(written: str, tokens: list[re.Match[str]]) -> str:
    if len(tokens) != 3 or not tokens[1][3]:
        raise _refused(written, 0, "does not name a part of the item", 'Write {{ item }} or {{ item("region") }}.')
    return tokens[1][3]


def _offset(written: str, text: str) -> tuple[int, int]:
    sign, digits = (-1 if text[0] == "-" else 1), text[1:].strip()
    try:
        total_us = parse_duration(digits)
    except DurationError as error:
        reason = f"has a wrong offset: {error.reason.rstrip('.')}"
        raise _refused(written, 0, reason, "Write for example -1d or +90m.") from None
    # Days are those of the calendar: `-1d` of a Monday at 09:00 is Sunday at 09:00, also when the clock changes.
    days, rest_us = divmod(total_us, DAY)
    return sign * days, sign * rest_us


def _form(written: str, form: str) -> str:
    if len(form) > FORMAT_MAX:
        raise _refused(written, 0, f"the format is longer than {FORMAT_MAX} characters", "Shorten it.")
    if not form.isprintable():
        raise _refused(written, 0, "the format holds a control character", "Remove it.")
    for found in re.finditer(r"%(.?)", form):
        if not found[1] or found[1] not in DIRECTIVES:
            known = ", ".join(f"%{one}" for one in DIRECTIVES)
            raise _refused(written, 0, f"'{found[0]}' is not a part of a format", f"Use {known}.")
    return form


def _refused(text: str, begin: int, reason: str, hint: str) -> DefinitionError:
    return DefinitionError(f"'{text[begin : begin + 60]}' {reason}.", hint=hint)
