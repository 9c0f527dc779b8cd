"""Reads a pipeline definition; an error names its field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from evertick.errors import DefinitionError
from evertick.kinds.pipeline.filter_definition import Filter, read_filter
from evertick.kinds.pipeline.values import (
    Plain,
    as_text,
    boolean_in,
    list_in,
    map_in,
    names_in,
    refuse,
    text_in,
    whole_in,
)

PARALLEL_MAX: Final = 100
"""Calls at once; each has two threads, and few services allow more."""
TIMEOUT_MS: Final = 600_000
TIMEOUT_MS_MAX: Final = 24 * 3_600_000
BATCH_MAX: Final = 10_000
REDUCE_TYPES: Final = ("list", "table", "json", "csv", "text", "ai")
_PERCENT: Final = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)\s*%")


@dataclass(frozen=True, slots=True)
class CsvFile:
    path: str
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class Generate:
    """Items that the invoker generates."""

    prompt: str
    fields: tuple[str, ...]
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """Exactly one of items, csv and generate is set."""

    items: tuple[Mapping[str, object], ...] | None = None
    csv: CsvFile | None = None
    generate: Generate | None = None
    limit: int | None = None
    parameters: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text or a file, with an optional skill before it."""

    field: str
    text: str | None = None
    file: str | None = None
    skill: str | None = None


@dataclass(frozen=True, slots=True)
class Map:
    prompt: Prompt
    fields: tuple[str, ...] = ()
    """Empty: answers are kept as text."""
    parallel: int = 5
    model: str | None = None
    timeout_ms: int = TIMEOUT_MS
    batch_size: int = 1

    @property
    def is_batched(self) -> bool:
        return self.batch_size > 1


@dataclass(frozen=True, slots=True)
class Reduce:
    type: str
    prompt: Prompt | None = None
    fields: tuple[str, ...] = ()
    model: str | None = None
    timeout_ms: int = TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class Single:
    """One question instead of map and reduce."""

    prompt: Prompt
    fields: tuple[str, ...] = ()
    model: str | None = None
    timeout_ms: int = TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class FailWhen:
    """The run fails when more items failed than this; by default, when any did."""

    items: int = 0
    percent: float | None = None
    """Of all items; replaces `items`."""

    def is_broken_by(self, failed: int, total: int) -> bool:
        if self.percent is not None:
            return failed > 0 and failed * 100 > self.percent * total
        return failed > self.items


ANY_ITEM = FailWhen()


@dataclass(frozen=True, slots=True)
class Definition:
    input: Input | None = None
    map: Map | None = None
    reduce: Reduce | None = None
    filter: Filter | None = None
    single: Single | None = None
    parameters: Mapping[str, str] | None = None
    working_dir: str | None = None
    fail_when: FailWhen | None = None
    """None: the setting decides."""


def read_definition(data: Mapping[str, object]) -> Definition:
    """The pipeline of a file; keys that do not belong to a pipeline are ignored."""
    name = data.get("name")
    if name is not None and (not isinstance(name, str) or not name.strip()):
        refuse("name", "must be a non-empty text")
    parameters = _read_parameters(data, "parameters")
    working_dir = text_in(data, "workingDirectory", "workingDirectory")
    fail_when = read_fail_when(data["failWhen"], "failWhen") if data.get("failWhen") is not None else None
    job = map_in(data, "job", "job")
    if job is not None:
        for other in ("input", "map", "reduce", "filter"):
            if data.get(other) is not None:
                refuse("job", f"cannot be combined with '{other}'", "A pipeline is one question, or map and reduce.")
        prompt = _read_prompt(job, "job")
        single = Single(prompt, names_in(job, "output", "job.output"), _model(job, "job"), _timeout(job, "job"))
        return Definition(single=single, parameters=parameters, working_dir=working_dir, fail_when=fail_when)
    return Definition(
        _read_input(data),
        _read_map(data),
        _read_reduce(data),
        read_filter(data),
        parameters=parameters,
        working_dir=working_dir,
        fail_when=fail_when,
    )


def read_fail_when(value: object, field: str) -> FailWhen:
    """A number of items, or a percentage: `3`, `10%`."""
    if isinstance(value, str):
        percent = _PERCENT.fullmatch(value.strip())
        if percent and float(percent[1]) <= 100:
            return FailWhen(percent=float(percent[1]))
        if value.strip().isdecimal() and len(value) <= 9:
            return FailWhen(int(value))
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return FailWhen(value)
    raise DefinitionError(
        f"'{field}' is {value!r}, which is neither a number of items nor a percentage.",
        hint="Write a number, 3, or a share, 10%.",
        field=field,
    )


# --- input


def _read_input(data: Plain) -> Input:
    part = _required(data, "input")
    written = [name for name in ("items", "from", "generate") if part.get(name) is not None]
    if len(written) != 1:
        found = f"has {' and '.join(written)}" if written else "has no source of items"
        refuse("input", found, "Write exactly one of items, from, generate.")
    limit = whole_in(part, "limit", "input.limit", least=0, most=10**9)
    parameters = _read_parameters(part, "input.parameters")
    source = part["from"] if "from" in written else None
    if "items" in written:
        return Input(items=_maps(part["items"], "input.items"), limit=limit, parameters=parameters)
    if isinstance(source, list | tuple):
        return Input(items=_maps(source, "input.from"), limit=limit, parameters=parameters)
    if source is not None:
        return Input(csv=_read_csv(source), limit=limit, parameters=parameters)
    return Input(generate=_read_generate(part), limit=limit, parameters=parameters)


def _read_csv(source: object) -> CsvFile:
    if not isinstance(source, Mapping):
        refuse("input.from", "must be a map or a list of maps", "Write {type: csv, path: items.csv}.")
    if source.get("type") != "csv":
        refuse("input.from.type", f"is {source.get('type')!r}", "Only csv is supported.")
    path = text_in(source, "path", "input.from.path")
    if path is None:
        refuse("input.from", "has no path", "Write {type: csv, path: items.csv}.")
    delimiter = source.get("delimiter", ",")
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        refuse("input.from.delimiter", f"is {delimiter!r}", 'Write one character, for example ";".')
    return CsvFile(path, delimiter)


def _read_generate(part: Plain) -> Generate:
    generate = map_in(part, "generate", "input.generate")
    assert generate is not None
    prompt = text_in(generate, "prompt", "input.generate.prompt")
    if prompt is None:
        refuse("input.generate", "has no prompt")
    fields = names_in(generate, "schema", "input.generate.schema")
    if not fields:
        refuse("input.generate.schema", "names no field", "Write for example schema: [title, owner].")
    for name in fields:
        if not name.isidentifier() or not name.isascii():
            refuse("input.generate.schema", f"has {name!r}, which is not a name", "Use letters, digits and _.")
    if not boolean_in(generate, "autoApprove", "input.generate.autoApprove"):
        refuse(
            "input.generate",
            "creates items that need approval, which a scheduled run cannot get",
            "Add autoApprove: true, or write the items down.",
        )
    return Generate(prompt, fields, text_in(generate, "model", "input.generate.model"))


def _maps(value: object, field: str) -> tuple[Mapping[str, object], ...]:
    if not isinstance(value, list | tuple):
        refuse(field, "must be a list of maps", "Write one map of names and values for each item.")
    for number, item in enumerate(value, 1):
        if not isinstance(item, Mapping):
            refuse(field, f"has {_kind(item)} as item {number}; it must be a map", "Write - title: value.")
    return tuple(value)


def _read_parameters(part: Plain, field: str) -> Mapping[str, str] | None:
    """A list of names and values, or a plain map."""
    written = part.get("parameters")
    if written is None:
        return None
    if isinstance(written, Mapping):
        pairs = [(str(name), value) for name, value in written.items()]
    else:
        pairs = []
        for number, entry in enumerate(list_in(part, "parameters", field), 1):
            if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str) or not entry["name"]:
                refuse(field, f"has no name in entry {number}", "Write - {name: language, value: English}.")
            pairs.append((entry["name"], entry.get("value")))
    for name, value in pairs:
        if value is None:
            refuse(field, f"gives {name!r} no value", "Write a value, or remove it.")
    return {name: as_text(value) for name, value in pairs}


# --- map and reduce


def _read_map(data: Plain) -> Map:
    part = _required(data, "map")
    parallel = whole_in(part, "parallel", "map.parallel", least=1, most=PARALLEL_MAX)
    batch_size = whole_in(part, "batchSize", "map.batchSize", least=1, most=BATCH_MAX)
    return Map(
        _read_prompt(part, "map"),
        names_in(part, "output", "map.output"),
        5 if parallel is None else parallel,
        _model(part, "map"),
        _timeout(part, "map"),
        1 if batch_size is None else batch_size,
    )


def _read_reduce(data: Plain) -> Reduce:
    part = _required(data, "reduce")
    kind = part.get("type")
    if kind not in REDUCE_TYPES:
        refuse("reduce.type", f"is {kind!r}", f"Use one of: {', '.join(REDUCE_TYPES)}.")
    if kind != "ai":
        return Reduce(str(kind))
    return Reduce(
        "ai",
        _read_prompt(part, "reduce"),
        names_in(part, "output", "reduce.output"),
        _model(part, "reduce"),
        _timeout(part, "reduce"),
    )


def _read_prompt(part: Plain, field: str) -> Prompt:
    text, file = text_in(part, "prompt", f"{field}.prompt"), text_in(part, "promptFile", f"{field}.promptFile")
    skill = text_in(part, "skill", f"{field}.skill")
    if (text is None) == (file is None):
        found = "has no prompt" if text is None else "has both prompt and promptFile"
        refuse(field, found, "Write exactly one of prompt, promptFile.")
    if skill is not None and not re.fullmatch(r"[A-Za-z0-9][\w.-]*", skill, re.ASCII):
        refuse(f"{field}.skill", f"is {skill!r}, which is not a valid skill name", "Use letters, digits, - and _.")
    return Prompt(field, text, file, skill)


def _model(part: Plain, field: str) -> str | None:
    return text_in(part, "model", f"{field}.model")


def _timeout(part: Plain, field: str) -> int:
    timeout = whole_in(part, "timeoutMs", f"{field}.timeoutMs", least=1, most=TIMEOUT_MS_MAX)
    return TIMEOUT_MS if timeout is None else timeout


def _required(data: Plain, name: str) -> Plain:
    part = map_in(data, name, name)
    if part is None:
        refuse(name, "is missing", "A pipeline has input, map and reduce, or job.")
    return part


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
