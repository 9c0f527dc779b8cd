"""Reads the filter of a pipeline: rules, a question to the invoker, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from evertick.kinds.pipeline.values import Plain, list_in, map_in, names_in, refuse, text_in, whole_in
from evertick.model.pattern import PatternError, compile_pattern

FILTER_TIMEOUT_MS: Final = 30_000
RULES_MAX: Final = 1_000
OPERATORS: Final = {
    "equals": "value",
    "not_equals": "value",
    "in": "values",
    "not_in": "values",
    "contains": "value",
    "not_contains": "value",
    "greater_than": "value",
    "less_than": "value",
    "gte": "value",
    "lte": "value",
    "matches": "pattern",
}
"""Each operator and the key of its operand."""


@dataclass(frozen=True, slots=True)
class Rule:
    field: str
    operator: str
    value: object = None
    """A tuple for `in` and `not_in`, a compiled pattern for `matches`."""


@dataclass(frozen=True, slots=True)
class RuleFilter:
    rules: tuple[Rule, ...]
    needs_all: bool = True


@dataclass(frozen=True, slots=True)
class AskFilter:
    """A question about each item; without `fields`, a yes in the answer decides."""

    prompt: str
    fields: tuple[str, ...] = ()
    parallel: int = 5
    timeout_ms: int = FILTER_TIMEOUT_MS
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    type: str
    rule: RuleFilter | None = None
    ask: AskFilter | None = None
    needs_both: bool = True
    """For a hybrid filter: whether both must accept an item, or one is enough."""


def read_filter(data: Plain) -> Filter | None:
    part = map_in(data, "filter", "filter")
    if part is None:
        return None
    kind = part.get("type")
    if kind not in ("rule", "ai", "hybrid"):
        refuse("filter.type", f"is {kind!r}", "Use one of: rule, ai, hybrid.")
    if kind == "rule":
        return Filter("rule", rule=_read_rules(part))
    if kind == "ai":
        return Filter("ai", ask=_read_ask(part))
    combine = part.get("combineMode", "and")
    if combine not in ("and", "or"):
        refuse("filter.combineMode", f"is {combine!r}", "Use `and` or `or`.")
    for name in ("rule", "ai"):
        if part.get(name) is None:
            refuse(f"filter.{name}", "is missing", "A hybrid filter has rule and ai.")
    return Filter("hybrid", _read_rules(part), _read_ask(part), needs_both=combine == "and")


def _read_rules(part: Plain) -> RuleFilter:
    """Under `rule`, or directly in the filter."""
    nested = map_in(part, "rule", "filter.rule")
    place, field = (part, "filter") if nested is None else (nested, "filter.rule")
    rules = list_in(place, "rules", f"{field}.rules")
    if not rules:
        refuse(f"{field}.rules", "has no rule", "Write - {field: severity, operator: equals, value: high}.")
    if len(rules) > RULES_MAX:
        refuse(f"{field}.rules", f"has {len(rules):,} rules; {RULES_MAX:,} are allowed")
    mode = place.get("mode", "all")
    if mode not in ("all", "any"):
        refuse(f"{field}.mode", f"is {mode!r}", "Write all or any.")
    read = tuple(_read_rule(rule, f"{field}.rules[{number}]") for number, rule in enumerate(rules))
    return RuleFilter(read, needs_all=mode == "all")


def _read_rule(rule: object, field: str) -> Rule:
    if not isinstance(rule, Mapping):
        refuse(field, "must be a map", "Write {field: severity, operator: equals, value: high}.")
    name, operator = text_in(rule, "field", f"{field}.field"), rule.get("operator")
    if name is None:
        refuse(field, "names no field")
    if operator not in OPERATORS:
        refuse(f"{field}.operator", f"is {operator!r}", f"Use one of: {', '.join(OPERATORS)}.")
    key = OPERATORS[operator]
    if key not in rule:
        refuse(field, f"has the operator {operator} but no {key}")
    value = rule[key]
    if key == "values":
        return Rule(name, operator, tuple(list_in(rule, key, f"{field}.values")))
    if key == "pattern":
        try:
            return Rule(name, operator, compile_pattern(str(value)))
        except PatternError as error:
            refuse(f"{field}.pattern", f"cannot be read: {error}")
    return Rule(name, operator, value)


def _read_ask(part: Plain) -> AskFilter:
    nested = map_in(part, "ai", "filter.ai")
    place, field = (part, "filter") if nested is None else (nested, "filter.ai")
    prompt = text_in(place, "prompt", f"{field}.prompt")
    if prompt is None:
        refuse(field, "has no prompt")
    fields = names_in(place, "output", f"{field}.output")
    if fields and "include" not in fields:
        refuse(f"{field}.output", "does not name 'include', which decides", "Write output: [include, reason].")
    parallel = whole_in(place, "parallel", f"{field}.parallel", least=1, most=100)
    timeout = whole_in(place, "timeoutMs", f"{field}.timeoutMs", least=1, most=24 * 3_600_000)
    return AskFilter(
        prompt,
        fields,
        5 if parallel is None else parallel,
        FILTER_TIMEOUT_MS if timeout is None else timeout,
        text_in(place, "model", f"{field}.model"),
    )
