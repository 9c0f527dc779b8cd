"""The filter phase: selects the items to map."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from evertick.kinds.pipeline.filter_definition import AskFilter, Filter, Rule, RuleFilter
from evertick.kinds.pipeline.invoker import Caller, Question, TimedOut, in_order
from evertick.kinds.pipeline.items import RawItem, written
from evertick.kinds.pipeline.lenient_json import strict
from evertick.kinds.pipeline.prompts import render
from evertick.kinds.pipeline.values import as_text
from evertick.model.pattern import UserPattern

_CONSENT: Final = re.compile(r"\b(yes|true|include|pass)\b", re.I)
_MISSING: Final = object()


class Verdict(NamedTuple):
    keeps: bool
    error: str = ""


def apply_filter(
    wanted: Filter, items: Sequence[RawItem], caller: Caller, directory: str
) -> tuple[list[RawItem], tuple[str, ...]]:
    """The items that pass, in order, and the errors of those without a usable answer."""
    # With rules, ask only about the items that the rules do not decide.
    passed = [wanted.rule is not None and passes(item, wanted.rule) for item in items]
    if wanted.ask is None:
        return [item for item, keeps in zip(items, passed, strict=True) if keeps], ()
    if wanted.rule is None:
        asked = list(range(len(items)))
    else:
        asked = [place for place, keeps in enumerate(passed) if keeps is wanted.needs_both]
    ask = wanted.ask
    verdicts = dict(
        zip(
            asked,
            in_order(lambda index: _ask(items[index], ask, caller, directory), asked, ask.parallel),
            strict=True,
        )
    )
    kept = [item for place, item in enumerate(items) if (verdicts[place].keeps if place in verdicts else passed[place])]
    return kept, tuple(f"filter: {verdict.error}" for verdict in verdicts.values() if verdict.error)


def passes(item: RawItem, filter_: RuleFilter) -> bool:
    decisions = (_holds(item, rule) for rule in filter_.rules)
    return all(decisions) if filter_.needs_all else any(decisions)


def _holds(item: RawItem, rule: Rule) -> bool:
    value = _field(item, rule.field)
    if value is _MISSING or value is None:
        return False
    match rule.operator:
        case "equals":
            return _same(value, rule.value)
        case "not_equals":
            return not _same(value, rule.value)
        case "in" | "not_in":
            assert isinstance(rule.value, tuple)
            return any(_same(value, one) for one in rule.value) is (rule.operator == "in")
        case "contains" | "not_contains":
            return (as_text(rule.value).lower() in as_text(value).lower()) is (rule.operator == "contains")
        case "matches":
            assert isinstance(rule.value, UserPattern)
            return rule.value.matches_part(as_text(value))
    left, right = _number(value), _number(rule.value)
    if left is None or right is None:
        return False
    match rule.operator:
        case "greater_than":
            return left > right
        case "less_than":
            return left < right
        case "gte":
            return left >= right
        case _:
            return left <= right


def _field(item: RawItem, name: str) -> object:
    """A field of that name, else a path into nested ones: `owner.team`."""
    if name in item:
        return item[name]
    value: object = item
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value


def _same(left: object, right: object) -> bool:
    """5 and "5" differ, and so do 1 and true."""
    if isinstance(left, bool) or isinstance(right, bool) or isinstance(left, str) or isinstance(right, str):
        return type(left) is type(right) and left == right
    return left == right


def _number(value: object) -> float | None:
    try:
        number = float(as_text(value).strip() or "0") if not isinstance(value, bool) else float(value)
    except ValueError:
        return None
    return number if number == number else None


def _ask(item: RawItem, ask: AskFilter, caller: Caller, directory: str) -> Verdict:
    """An item without a usable answer is left out and counts as an error."""
    texts = written(item)
    question = Question(render(ask.prompt, texts), ask.fields, model=ask.model, directory=directory)
    try:
        answer = caller.ask(question, ask.timeout_ms, tries_again=False)
    except TimedOut as error:
        return Verdict(False, str(error))
    if not answer.success:
        return Verdict(False, answer.error or "AI invocation failed")
    if not ask.fields:
        return Verdict(_CONSENT.search(answer.response) is not None)
    try:
        found = strict(answer.response)
    except ValueError as error:
        return Verdict(False, f"the answer is not JSON: {error}")
    include = found.get("include") if isinstance(found, dict) else None
    if not isinstance(include, bool):
        return Verdict(False, "the answer has no 'include' that is true or false")
    return Verdict(include)
