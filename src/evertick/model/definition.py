"""How a job reads when the ledger keeps what it was: all that decides how it runs, and no value that may be a secret.

Values of the environment and of headers are left out, and of an address who signs in there and what is behind its `?`.
So is what is as by default: the text is made for people and for telling two versions apart, not for reading a job back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

from evertick.model.duration import format_duration
from evertick.model.job import Job
from evertick.model.policy import Overlap, Policy, Retry, Scope
from evertick.model.resources import resources_text
from evertick.model.routing import Routing
from evertick.model.schedule import ScheduleSpec, rule_of, written_spec
from evertick.model.work import (
    NO_RETRY,
    NOTHING,
    STOP_ON_FAILURE,
    Command,
    Condition,
    Container,
    ContinueOn,
    Each,
    Env,
    HttpCall,
    Kind,
    Param,
    Pipeline,
    Pod,
    Pull,
    PythonCall,
    Sandbox,
    Script,
    Secret,
    SshCommand,
    Step,
    SubJob,
    Value,
    Work,
)

TEXT_MAX: Final = 64 * 1024
"""Maximum number of characters; a longer text is cut and says so. Texts that differ after the cut have two digests."""

_POLICY: Final = Policy()
_HERE: Final = Routing()
_SIGNED_IN: Final = re.compile(r"^([^/]*//)[^/]*@")


def definition_text(job: Job) -> str:
    """The job as lines of text, in the order of a job file."""
    text = _whole(job)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}\n... (cut: it has {len(text):,} characters)\n"


def definition_digest(job: Job) -> str:
    """Changes exactly when what the ledger would keep of the job does."""
    return hashlib.sha256(_whole(job).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _whole(job: Job) -> str:
    return "\n".join([*_head(job), *_policy(job.policy), *_surroundings(job), *_work(job.work), ""])


def _head(job: Job) -> Iterator[str]:
    yield f"name: {job.name or job.id}"
    if job.description:
        yield from _field("description", job.description)
    if job.tags:
        yield f"tags: {', '.join(job.tags)}"
    if not job.enabled:
        yield "enabled: false"
    yield from _specs("schedule", job.schedules)
    yield from _specs("stop", job.stops)
    yield from _specs("restart", job.restarts)
    if job.timezone != "UTC":
        yield f"timezone: {job.timezone}"
    if job.after is not None:
        yield f"after: {job.after}"
    if job.priority:
        yield f"priority: {job.priority}"


def _specs(name: str, specs: tuple[ScheduleSpec, ...]) -> Iterator[str]:
    if specs:
        yield f"{name}:"
        yield from (f"  - {written_spec(spec)}" for spec in specs)
    if rule := rule_of(specs):
        yield f"calendar: {rule}"


def _policy(policy: Policy) -> Iterator[str]:
    for one in fields(policy):
        value, name = getattr(policy, one.name), one.name.removesuffix("_us")
        if value == getattr(_POLICY, one.name):
            continue
        match value:
            case Overlap():
                yield f"{name}: {value}{'' if value.scope is Scope.CLUSTER else f' on each {value.scope}'}"
            case Retry():
                yield from _retry(value)
            case bool():
                yield f"{name}: {str(value).lower()}"
            case int() if one.name.endswith("_us"):
                yield f"{name}: {format_duration(value)}"
            case _:
                yield f"{name}: {value}"


def _retry(retry: Retry) -> Iterator[str]:
    if retry != NO_RETRY:
        jitter = f", jitter {retry.jitter:g}" if retry.jitter else ""
        delay, cap = format_duration(retry.delay_us), format_duration(retry.cap_us)
        yield f"retry: {retry.max_retries} times, {retry.backoff}, {delay}{jitter}, at most {cap}"


def _surroundings(job: Job) -> Iterator[str]:
    if job.routing != _HERE:
        labels = "".join(f" {name}={value}" for name, value in job.routing.labels)
        strategy = f" {job.routing.strategy}" if job.routing.has_members else ""
        yield f"runs_on: {job.routing.executor}{strategy}{labels}"
        if job.routing.resources:
            yield f"resources: {resources_text(job.routing.resources)}"
        if job.routing.bundle:
            yield f"bundle: {job.routing.bundle}"
    if job.queue:
        yield f"queue: {job.queue}"
    # One that was added at run time is no part of the definition.
    yield from (f"not planned in: {one}" for one in job.blackouts if not one.id)
    for one in job.constraints:
        # The work contains the address of a hook; of its actions only the kinds are stored.
        figures = [str(part) for name in ("limit", "duration_us", "jobs") if (part := getattr(one, name, None))]
        done = ", ".join(str(action.kind) for action in one.on_violation)
        yield f"constraint: {' '.join([type(one).__name__, *figures])}{f' -> {done}' if done else ''}"
    for route in job.notify:
        yield f"notify: {route.event} by {', '.join(type(one).__name__ for one in route.channels)}"
    for name, kept_us in (("history_retention", job.history_retention_us), ("log_retention", job.log_retention_us)):
        if kept_us is not None:
            yield f"{name}: {format_duration(kept_us)}"


def _work(work: Work) -> Iterator[str]:
    for param in work.params:
        yield from _param(param)
    yield from (f"dotenv: {path}" for path in work.dotenv)
    yield from _env(work.env)
    if work.working_dir is not None:
        yield f"working_dir: {work.working_dir}"
    yield from _confinement(work)
    if work.timeout_us is not None:
        yield f"timeout: {format_duration(work.timeout_us)}"
    if work.max_active_steps is not None:
        yield f"max_active_steps: {work.max_active_steps}"
    yield from map(_condition, work.preconditions)
    yield from (f"pre_run_hook: {_address(url)}" for url in work.pre_run_hooks)
    yield from (f"post_run_hook: {_address(url)}" for url in work.post_run_hooks)
    if work.log_max_bytes != NOTHING.log_max_bytes:
        yield f"log_max_bytes: {work.log_max_bytes}"
    if work.steps:
        yield "steps:"
    for step in work.steps:
        yield f"  - {step.name}:"
        yield from _indented(_step(step), "      ")
    for name, handler in work.handler_steps.items():
        yield f"{name}:"
        yield from _indented(_step(handler), "  ")


def _step(step: Step) -> Iterator[str]:
    yield from _kind(step.kind)
    if step.depends:
        yield f"depends: {', '.join(step.depends)}"
    if step.each is not None:
        yield from _each(step.each)
    yield from _env(step.env)
    if step.working_dir is not None:
        yield f"working_dir: {step.working_dir}"
    yield from _confinement(step)
    if step.timeout_us is not None:
        yield f"timeout: {format_duration(step.timeout_us)}"
    yield from _retry(step.retry)
    if step.repeat is not None:
        limit = "" if step.repeat.limit is None else f", {step.repeat.limit} times at most"
        yield f"repeat: every {format_duration(step.repeat.interval_us)}{limit}"
        if step.repeat.until is not None:
            yield f"until: {_condition(step.repeat.until)}"
    if step.continue_on != STOP_ON_FAILURE:
        yield f"continue_on: {_continues(step.continue_on)}"
    yield from map(_condition, step.preconditions)
    if step.output is not None:
        yield f"output: {step.output}"


def _each(each: Each) -> Iterator[str]:
    if each.from_step is not None:
        yield f"each: what step {each.from_step} prints"
    elif each.matrix:
        yield from (f"matrix {name}: {', '.join(values)}" for name, values in each.matrix)
    else:
        yield f"each: {', '.join(value.shown for value in each.values)}"
    yield f"max_parallel: {each.max_parallel}"
    if not each.spreads:
        yield "spread: false"
    if each.continues_on_failure:
        yield "continue_on_failure: true"


def _confinement(owner: Work | Step) -> Iterator[str]:
    if owner.user is not None:
        yield f"user: {owner.user}"
    if owner.sandbox is not None:
        yield f"sandbox: {sandbox_text(owner.sandbox)}"


def sandbox_text(sandbox: Sandbox) -> str:
    """`bwrap, network, writable: /srv/out`: its kind and what it lets through, on one line."""
    parts = [str(sandbox.kind), *(["network"] if sandbox.network else [])]
    lists = (("readable", sandbox.readable), ("writable", sandbox.writable))
    return ", ".join([*parts, *(f"{name}: {' '.join(paths)}" for name, paths in lists if paths)])


def _kind(kind: Kind) -> Iterator[str]:
    match kind:
        case Command(words, is_shell):
            yield from _field("command", words[0] if is_shell else json.dumps(words, ensure_ascii=False))
        case Script(text, interpreter):
            yield f"interpreter: {' '.join(interpreter)}"
            yield from _field("script", text)
        case PythonCall(target, arguments):
            yield f"python: {target}"
            yield from _plain("arguments", arguments)
        case HttpCall(url, method, headers, body, statuses):
            yield f"http: {method} {_address(url)}"
            yield from _env(headers, "header")
            if body is not None:
                yield from _field("body", body)
            if statuses:
                yield f"expected_statuses: {', '.join(map(str, statuses))}"
        case Pipeline(data):
            yield from _plain("pipeline", data)
        case SubJob(job_id, params, waits):
            yield f"job: {job_id}{'' if waits else ' (not waited for)'}"
            yield from (f"param {name}: {value}" for name, value in params)
        case Pod():
            yield from _pod(kind)
        case Container():
            yield from _container(kind)
        case SshCommand():
            yield from _ssh(kind)


def _container(one: Container) -> Iterator[str]:
    yield f"docker: {one.image}"
    if one.command:
        yield from _field("command", one.command[0] if one.is_shell else json.dumps(one.command, ensure_ascii=False))
    if one.args:
        yield f"args: {json.dumps(one.args, ensure_ascii=False)}"
    yield from (f"mount: {mount.source}:{mount.target}{':rw' if mount.is_writable else ''}" for mount in one.mounts)
    limits = (("memory_bytes", one.memory_bytes), ("cpus", one.cpus), ("network", one.network))
    for name, value in (("working_dir", one.working_dir), ("user", one.user), *limits):
        if value is not None:
            yield f"{name}: {value}"
    if one.pull is not Pull.MISSING:
        yield f"pull: {one.pull}"
    if one.is_read_only:
        yield "read_only: true"
    if one.registry is not None:
        yield from _env((("username", one.registry.username), ("password", one.registry.password)), "registry")


def _ssh(ssh: SshCommand) -> Iterator[str]:
    yield f"ssh: {ssh.user + '@' if ssh.user else ''}{ssh.host}{f' port {ssh.port}' if ssh.port else ''}"
    yield from _field("command", ssh.command[0] if ssh.is_shell else json.dumps(ssh.command, ensure_ascii=False))
    for name, path in (("key", ssh.key), ("known_hosts", ssh.known_hosts), ("working_dir", ssh.working_dir)):
        if path is not None:
            yield f"{name}: {path}"
    if ssh.connect_timeout_us != SshCommand("", ()).connect_timeout_us:
        yield f"connect_timeout: {format_duration(ssh.connect_timeout_us)}"


def _pod(pod: Pod) -> Iterator[str]:
    yield f"image: {pod.image}"
    if pod.command:
        yield from _field("command", pod.command[0] if pod.is_shell else json.dumps(pod.command, ensure_ascii=False))
    yield from _env(pod.env)
    yield from (f"env {name}: secret {one.secret}, key {one.key}" for name, one in pod.secrets)
    for name, amounts in (("requests", pod.requests), ("limits", pod.limits)):
        if amounts:
            yield f"{name}: {', '.join(f'{what} {amount}' for what, amount in amounts)}"
    if pod.service_account:
        yield f"service_account: {pod.service_account}"
    if pod.namespace:
        yield f"namespace: {pod.namespace}"
    if pod.pod_spec:
        # It may set variables too, anywhere in it.
        yield f"pod_spec: {', '.join(sorted(map(str, pod.pod_spec)))} (values are not kept)"


def _env(env: Env, word: str = "env") -> Iterator[str]:
    for name, value in env:
        told = f"from {value.source} {value.name}" if isinstance(value, Secret) else "(value not kept)"
        yield f"{word} {name}: {told}"


def _param(param: Param) -> Iterator[str]:
    default = "(must be given)" if param.default is None else param.default
    yield from _field(f"param {param.name}", default)
    if param.schema:
        yield f"  schema: {_dumps(param.schema)}"
    if param.description:
        yield from _indented(_field("description", param.description), "  ")


def _condition(condition: Condition) -> str:
    wanted = "" if condition.expected is None else f" is {condition.expected}"
    value = condition.value if condition.kind != "http" else _address(condition.value)
    return f"condition: {condition.kind} {' '.join(value.splitlines())}{wanted}"


def _continues(on: ContinueOn) -> str:
    words = [name for name in ("failure", "skipped", "marks_success") if getattr(on, name)]
    return ", ".join([*words, *(f"exit code {code}" for code in on.exit_codes)])


def _address(url: Value) -> str:
    """Without who signs in there, and without what is behind the `?`: both may hold a secret."""
    if isinstance(url, Secret):
        return f"from {url.source} {url.name}"
    return _SIGNED_IN.sub(r"\1", url.partition("?")[0])


def _plain(name: str, data: Mapping[str, object]) -> Iterator[str]:
    if data:
        yield f"{name}:"
        yield from _indented(iter(_dumps(data, indent=2).splitlines()), "  ")


def _field(name: str, text: str) -> Iterator[str]:
    lines = text.rstrip("\n").splitlines() or [""]
    if len(lines) == 1:
        yield f"{name}: {lines[0]}".rstrip()
        return
    yield f"{name}: |"
    yield from _indented(iter(lines), "  ")


def _indented(lines: Iterator[str], by: str) -> Iterator[str]:
    return (f"{by}{line}" if line else line for line in lines)


def _dumps(data: Mapping[str, object], indent: int | None = None) -> str:
    return json.dumps(_carried(data), indent=indent, sort_keys=True, ensure_ascii=False, default=str)


def _carried(value: object) -> object:
    """A user's own data, without read-only views."""
    if isinstance(value, Mapping):
        return {str(name): _carried(part) for name, part in value.items()}
    return [_carried(part) for part in value] if isinstance(value, list | tuple) else value
