"""What a job runs for one occurrence: its work with the dates in place of `{{ }}`.

Shell text is left alone: definitions refuse `{{ }}` in it. Each value is quoted for the place that it goes to.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from urllib.parse import quote

from evertick.model.template import Expression, render_template
from evertick.model.work import (
    Command,
    Condition,
    ConditionKind,
    Container,
    Env,
    Handlers,
    HttpCall,
    Kind,
    Param,
    Pod,
    PythonCall,
    SshCommand,
    Step,
    SubJob,
    Value,
    Work,
)

ValueOf = Callable[[Expression], str]
_as_part_of_a_url = partial(quote, safe="")


def render_work(work: Work, value_of: ValueOf) -> Work:
    handlers = work.handlers
    return replace(
        work,
        steps=tuple(_with_items(step, value_of) if step.each else render_step(step, value_of) for step in work.steps),
        env=_env(work.env, value_of),
        params=tuple(_param(param, value_of) for param in work.params),
        preconditions=tuple(_condition(one, value_of) for one in work.preconditions),
        pre_run_hooks=tuple(_address(one, value_of) for one in work.pre_run_hooks),
        post_run_hooks=tuple(_address(one, value_of) for one in work.post_run_hooks),
        handlers=Handlers(
            *(
                None if step is None else render_step(step, value_of)
                for step in (handlers.on_success, handlers.on_failure, handlers.on_cancel, handlers.on_exit)
            )
        ),
    )


def _with_items(step: Step, value_of: ValueOf) -> Step:
    """Its conditions are judged once; everything else is rendered for each item."""
    return replace(step, preconditions=tuple(_condition(one, value_of) for one in step.preconditions))


def render_step(step: Step, value_of: ValueOf) -> Step:
    repeat = step.repeat
    if repeat is not None and repeat.until is not None:
        repeat = replace(repeat, until=_condition(repeat.until, value_of))
    return replace(
        step,
        kind=_kind(step.kind, value_of),
        env=_env(step.env, value_of),
        repeat=repeat,
        preconditions=tuple(_condition(one, value_of) for one in step.preconditions),
    )


def _kind(kind: Kind, value_of: ValueOf) -> Kind:
    match kind:
        case Command(words, is_shell) if not is_shell:
            return Command(tuple(render_template(word, value_of) for word in words))
        case HttpCall(url, _method, headers, body):
            return replace(
                kind,
                url=render_template(url, value_of, _as_part_of_a_url),
                headers=tuple(
                    (name, render_template(value, value_of) if isinstance(value, str) else value)
                    for name, value in headers
                ),
                body=_body(body, kind.is_json, value_of),
            )
        case PythonCall(_target, arguments):
            return replace(kind, arguments={name: render_data(value, value_of) for name, value in arguments.items()})
        case SubJob(_job_id, params):
            return replace(kind, params=tuple((name, render_template(value, value_of)) for name, value in params))
        case Pod():
            words = kind.command if kind.is_shell else tuple(render_template(word, value_of) for word in kind.command)
            env = tuple((name, render_template(value, value_of, _as_env)) for name, value in kind.env)
            return replace(kind, command=words, env=env)
        case Container():
            words = kind.command if kind.is_shell else tuple(render_template(word, value_of) for word in kind.command)
            return replace(kind, command=words, args=tuple(render_template(word, value_of) for word in kind.args))
        case SshCommand() if not kind.is_shell:
            return replace(kind, command=tuple(render_template(word, value_of) for word in kind.command))
        case _:
            return kind


def _body(body: str | None, is_json: bool, value_of: ValueOf) -> str | None:
    if body is None:
        return None
    if not is_json:
        return render_template(body, value_of)
    return json.dumps(render_data(json.loads(body), value_of), ensure_ascii=False)


def render_data(value: object, value_of: ValueOf) -> object:
    """Plain data, with the texts in it rendered."""
    match value:
        case str():
            return render_template(value, value_of)
        case dict():
            return {name: render_data(part, value_of) for name, part in value.items()}
        case list() | tuple():
            return [render_data(part, value_of) for part in value]
        case _:
            return value


def _env(env: Env, value_of: ValueOf) -> Env:
    return tuple(
        (name, render_template(value, value_of, _as_env) if isinstance(value, str) else value) for name, value in env
    )


def _as_env(value: str) -> str:
    # `${NAME}` is looked up later, and must not be found in a value.
    return value.replace("$", "$$")


def _param(param: Param, value_of: ValueOf) -> Param:
    return param if param.default is None else replace(param, default=render_template(param.default, value_of))


def _address(value: Value, value_of: ValueOf) -> Value:
    return render_template(value, value_of, _as_part_of_a_url) if isinstance(value, str) else value


def _condition(condition: Condition, value_of: ValueOf) -> Condition:
    match condition.kind:
        case ConditionKind.COMMAND:
            return condition
        case ConditionKind.HTTP:
            return replace(condition, value=render_template(condition.value, value_of, _as_part_of_a_url))
        case ConditionKind.FILE_EXISTS:
            return replace(condition, value=render_template(condition.value, value_of))
