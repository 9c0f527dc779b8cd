"""The reduce phase: turns the results into one text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from evertick.kinds.pipeline.prompts import to_json
from evertick.kinds.pipeline.result import ItemResult, Summary

LIST_INPUT_MAX: Final = 30
TABLE_INPUT_MAX: Final = 20
OUTPUT_MAX: Final = 50


def summarise(results: Sequence[ItemResult], fields: tuple[str, ...]) -> Summary:
    good = sum(result.success for result in results)
    return Summary(len(results), good, len(results) - good, fields)


def as_list(results: Sequence[ItemResult], summary: Summary) -> str:
    lines = [f"## Results ({summary.total_items} items)", ""]
    if summary.failed_items:
        lines += [f"**Warning: {summary.failed_items} items failed**", ""]
    for number, result in enumerate(results, 1):
        given = ", ".join(f"{name}={cut(value, LIST_INPUT_MAX)}" for name, value in result.item.items())
        lines += [f"### Item {number}", f"**Input:** {given}"]
        if result.success:
            lines.append("**Output:** " + ", ".join(f"{name}={shown(value)}" for name, value in result.output.items()))
        else:
            lines.append(f"**Error:** {result.error or 'Unknown error'}")
        lines.append("")
    lines += ["---", f"**Stats:** {summary.successful_items} succeeded, {summary.failed_items} failed"]
    return "\n".join(lines)


def as_table(results: Sequence[ItemResult], _summary: Summary) -> str:
    if not results:
        return "No results to display."
    inputs, outputs = _names(result.item for result in results), _names(result.output for result in results)
    heads = ["#", *(f"[in] {name}" for name in inputs), *(f"[out] {name}" for name in outputs), "Status"]
    rows = [heads, ["---"] * len(heads)]
    for number, result in enumerate(results, 1):
        rows.append(
            [
                str(number),
                *(cut(result.item.get(name, ""), TABLE_INPUT_MAX) for name in inputs),
                *(shown(result.output.get(name)) for name in outputs),
                "OK" if result.success else "FAIL",
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def as_json(results: Sequence[ItemResult], _summary: Summary) -> str:
    return to_json(
        [
            {
                "input": dict(result.item),
                "output": dict(result.output),
                "success": result.success,
                **({"error": result.error} if result.error else {}),
            }
            for result in results
        ]
    )


def as_csv(results: Sequence[ItemResult], _summary: Summary) -> str:
    if not results:
        return ""
    inputs, outputs = _names(result.item for result in results), _names(result.output for result in results)
    rows = [[*inputs, *(f"out_{name}" for name in outputs), "success"]]
    for result in results:
        rows.append(
            [
                *(result.item.get(name, "") for name in inputs),
                *(shown(result.output.get(name)) for name in outputs),
                "true" if result.success else "false",
            ]
        )
    return "\n".join(",".join(map(_cell, row)) for row in rows)


def as_text(results: Sequence[ItemResult], _summary: Summary) -> str:
    texts = [result.raw_text or to_json(dict(result.output)) for result in results if result.success]
    if not texts:
        return "No successful results."
    if len(texts) == 1:
        return texts[0]
    return "\n\n".join(f"--- Item {number} ---\n{text}" for number, text in enumerate(texts, 1))


FORMATS: Final[Mapping[str, Callable[[Sequence[ItemResult], Summary], str]]] = {
    "list": as_list,
    "table": as_table,
    "json": as_json,
    "csv": as_csv,
    "text": as_text,
}


def reduce_values(results: Sequence[ItemResult], summary: Summary, parameters: Mapping[str, str]) -> dict[str, str]:
    """The variables of an AI reduce prompt. Those of the pipeline override parameters of the same name."""
    good = [
        result.raw_text if result.raw_text is not None else dict(result.output) for result in results if result.success
    ]
    return {
        **parameters,
        "RESULTS": to_json(good),
        "COUNT": str(summary.total_items),
        "SUCCESS_COUNT": str(summary.successful_items),
        "FAILURE_COUNT": str(summary.failed_items),
    }


def shown(value: object) -> str:
    """A value in a table cell, shortened; the JSON output has all of it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return cut(value, OUTPUT_MAX)
        case list():
            return f"[{len(value)} items]"
        case dict():
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _names(maps: Iterable[Mapping[str, object]]) -> list[str]:
    """All names, in order of first appearance."""
    return list(dict.fromkeys(name for one in maps for name in one))


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text
