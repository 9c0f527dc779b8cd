"""Creates the invoker that a pipeline or a setting names."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from evertick.kinds.pipeline.command_invoker import CommandInvoker
from evertick.kinds.pipeline.http_invoker import HttpInvoker
from evertick.kinds.pipeline.invoker import Answer, Call, Invoker
from evertick.kinds.pipeline.values import refuse
from evertick.model.work import FUNCTION

SETTING: Final = "EVERTICK_INVOKER"
DRY_RUN: Final = "dry-run"
DRY_RUN_WARNING: Final = (
    "DRY RUN: no invoker is set, so no model was called and all answers are placeholders. "
    f"Write 'invoker' in the pipeline, or set {SETTING}."
)
_SHAPES: Final = "Write {command: [program]}, {python: module:function}, {http: {url: ..., model: ...}} or dry-run."
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Chosen(NamedTuple):
    invoker: Invoker
    origin: str
    warning: str = ""


def choose(written: object, directory: Path, environ: Mapping[str, str] = os.environ, setting: object = None) -> Chosen:
    """The pipeline's, else the setting's, else the environment's, else a dry run with a warning."""
    if written is not None:
        return Chosen(invoker_of(written, "invoker", directory, environ), "pipeline")
    if setting is not None:
        return Chosen(invoker_of(setting, "setting invoker", directory, environ), "setting")
    text = environ.get(SETTING, "").strip()
    if text:
        return Chosen(invoker_of(_setting(text), SETTING, directory, environ), SETTING)
    return Chosen(dry_run, "default", DRY_RUN_WARNING)


def invoker_of(written: object, field: str, directory: Path, environ: Mapping[str, str]) -> Invoker:
    if written == DRY_RUN:
        return dry_run
    if not isinstance(written, Mapping) or len(written) != 1:
        refuse(field, "names no invoker", _SHAPES)
    ((kind, value),) = written.items()
    if kind == "command":
        return _command(value, field, environ)
    if kind == "python":
        return _python(value, field, directory)
    if kind != "http":
        refuse(field, f"has the unknown invoker {kind!r}", _SHAPES)
    return _http(value, field, environ)


def dry_run(call: Call) -> Answer:
    """Fixed answers of the requested shape."""
    question = call.question
    if not question.fields:
        first = question.prompt.strip().partition("\n")[0]
        return Answer(True, f"[dry run] {first[:80]}")
    row: dict[str, object] = {field: True if field == "include" else f"dry-run {field}" for field in question.fields}
    return Answer(True, json.dumps(row if question.count is None else [row] * question.count, ensure_ascii=False))


def _setting(text: str) -> object:
    if not text.startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        refuse(SETTING, f"is not JSON: {error}", 'Write for example {"command": ["my-model"]}.')


def _command(value: object, field: str, environ: Mapping[str, str]) -> Invoker:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(word, str) for word in value):
        refuse(f"{field}.command", "must be a list of words", "Write for example [my-model, --quiet].")
    if not value[0]:
        refuse(f"{field}.command", "has an empty program")
    return CommandInvoker(tuple(value), environ)


def _python(value: object, field: str, directory: Path) -> Invoker:
    if not isinstance(value, str) or not FUNCTION.fullmatch(value):
        refuse(f"{field}.python", f"is {value!r}, which is not a function", "Write module:function.")
    module_name, _, path = value.partition(":")
    folder = str(directory)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        function: object = importlib.import_module(module_name)
        for name in path.split("."):
            function = getattr(function, name)
    except (ImportError, AttributeError) as error:
        refuse(f"{field}.python", f"cannot be loaded: {error}", f"It is searched in {folder} and in Python's own path.")
    if not callable(function):
        refuse(f"{field}.python", f"is {value!r}, which cannot be called")
    return call_python(function)


def call_python(function: Callable[..., object]) -> Invoker:
    """A function of the prompt; it gets `model`, `fields` and `timeout_seconds` if it has such parameters."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        parameters = {}.values()
    names = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)

    def invoke(call: Call) -> Answer:
        options = {
            "model": call.question.model,
            "fields": call.question.fields,
            "timeout_seconds": call.timeout_seconds,
        }
        given = function(call.question.prompt, **{name: v for name, v in options.items() if takes_all or name in names})
        if inspect.isawaitable(given):
            import asyncio

            given = asyncio.run(_awaited(given))
        if isinstance(given, Answer):
            return given
        if isinstance(given, str):
            return Answer(True, given)
        if given is None:
            return Answer(False, error="the function returned nothing")
        return Answer(True, json.dumps(given, ensure_ascii=False))

    return invoke


async def _awaited(given: Awaitable[object]) -> object:
    return await given


def _http(value: object, field: str, environ: Mapping[str, str]) -> Invoker:
    if not isinstance(value, Mapping) or not isinstance(value.get("url"), str):
        refuse(f"{field}.http", "has no URL", "Write {url: https://host/v1/chat/completions, model: name}.")
    model, key_env = value.get("model"), value.get("keyEnv")
    if model is not None and not isinstance(model, str):
        refuse(f"{field}.http.model", "must be a text")
    key = ""
    if key_env is not None:
        if not isinstance(key_env, str) or not _NAME.fullmatch(key_env):
            refuse(f"{field}.http.keyEnv", "is not the name of a variable", "Write the name, never the key itself.")
        key = environ.get(key_env, "").strip()
        if not key:
            refuse(f"{field}.http.keyEnv", f"names {key_env}, which is not set", "Set it in the job's 'env'.")
        if not key.isprintable() or not key.isascii():
            refuse(f"{field}.http.keyEnv", f"names {key_env}, whose value contains characters that no key has")
    try:
        return HttpInvoker(value["url"], model, key)
    except ValueError as error:
        refuse(f"{field}.http.url", str(error), "Write https://host/v1/chat/completions.")
