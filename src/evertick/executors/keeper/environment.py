"""What the processes of an attempt find in their environment, and which of it is secret."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from evertick.executors.protocol import LaunchMessage, split_run_id
from evertick.kinds import Unready, safe_params
from evertick.kinds.command import DEFAULT_PATH
from evertick.model import run_variables as variables
from evertick.model.instant import SECOND, to_text
from evertick.model.params import problem_with
from evertick.model.plain_json import parse_json
from evertick.model.work import Env, Param, Secret, Value

ALLOWED: Final = frozenset(
    {"PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR", "EVERTICK_INVOKER", "EVERTICK_FAIL_WHEN"}
)
"""What a job inherits from the scheduler beside `LC_*`; anything else could be a credential of the scheduler's."""
MEMBER_FILE: Final = "member.json"
SECRET_MAX: Final = 1024 * 1024
RESUME: Final = "resume_from"
"""The parameter that carries how the steps of an earlier run ended: its id, its attempt, and they."""
VALUE_MAX: Final = 128 * 1024 - 1
"""Bytes of `NAME=value`, its end included: what the kernel takes."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that jobs may have."""
    kept = {name: value for name, value in environ.items() if name in ALLOWED or name.startswith("LC_")}
    kept.setdefault("PATH", DEFAULT_PATH)
    return kept


def facts_of(order: LaunchMessage, run_id: str, keeper: str = "", home: str = "") -> dict[str, str]:
    """What every process is told about its run: enough to be idempotent and to be traced.

    `keeper` and `home` are of this machine: a container is told neither.
    """
    run_id, shard = split_run_id(run_id)
    facts = {
        variables.JOB: order.key.job_id,
        variables.RUN_ID: run_id,
        variables.ATTEMPT: str(order.attempt),
        variables.SCHEDULED_FOR: to_text(order.key.scheduled_for),
        variables.SCHEDULED_FOR_UNIX: _unix(order.key.scheduled_for),
        variables.TRIGGER: order.trigger,
        variables.FENCE: str(order.fence),
    }
    if keeper:
        facts[variables.KEEPER] = keeper
    if home:
        facts[variables.HOME] = home
    if shard is not None:
        facts[variables.SHARD_INDEX], facts[variables.SHARD_TOTAL] = str(shard.number), str(shard.total)
    if order.previous_success_at is not None:
        facts[variables.PREVIOUS_SUCCESS] = to_text(order.previous_success_at)
    if order.params:
        facts[variables.PARAMS] = _given_by_people(order.params)
    return facts


def write_member_file(folder: Path, name: str, labels: Mapping[str, str]) -> None:
    """Say to the keeper of a folder which member's it is."""
    scratch = folder / f"{MEMBER_FILE}.new"
    scratch.write_text(json.dumps({"name": name, "labels": dict(labels)}))
    os.replace(scratch, folder / MEMBER_FILE)


def member_facts(path: Path | None) -> dict[str, str]:
    """Which member of a fleet a run is on; nothing on a scheduler's own machine."""
    try:
        plain = json.loads(path.read_bytes()) if path is not None else {}
        return {variables.MEMBER: str(plain["name"]), variables.MEMBER_LABELS: json.dumps(plain["labels"])}
    except (OSError, ValueError, KeyError):
        return {}


def _given_by_people(params: str) -> str:
    """Without what only we read, which may be long."""
    if RESUME not in params:
        return params
    given = given_params(params)
    given.pop(RESUME, None)
    return json.dumps(given)


def step_facts(run_id: str, attempt: int, step: str) -> dict[str, str]:
    trace = hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    span = hashlib.sha256(f"{run_id}/{attempt}/{step}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return {variables.STEP: step, "TRACEPARENT": f"00-{trace}-{span}-01"}


def marks_of_attempt(run_id: str, attempt: int, keeper: str) -> frozenset[bytes]:
    """By which variables the processes of an attempt are known, wherever they have gone.

    The keeper's is one of them: another scheduler on this machine may have a run of the same name.
    """
    run_id, shard = split_run_id(run_id)
    named = [(variables.RUN_ID, run_id), (variables.ATTEMPT, attempt), (variables.KEEPER, keeper)]
    if shard is not None:
        named.append((variables.SHARD_INDEX, shard.number))
    return frozenset(f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in named)


def given_params(text: str) -> dict[str, object]:
    if not text:
        return {}
    try:
        given = parse_json(text)
    except ValueError:
        raise Unready("the parameters of the run are not JSON. Give them as an object of names and values.") from None
    return given if isinstance(given, dict) else {}


def params_of(declared: Sequence[Param], given: Mapping[str, object]) -> dict[str, str]:
    """The declared parameters with their values.

    Only declared ones become variables: whoever may trigger a job must not be able to set its PATH or LD_PRELOAD. All
    that was given is in EVERTICK_RUN_PARAMS.
    """
    values: dict[str, object] = {}
    for param in declared:
        if param.name in given:
            values[param.name] = given[param.name]
        elif param.default is not None:
            values[param.name] = param.default
        else:
            raise Unready(f"the parameter {param.name!r} was not given and has no default. Give it, or set a default.")
    texts = safe_params(values)
    for param in declared:
        problem = problem_with(param, texts[param.name])
        if problem is not None:
            raise Unready(f"the parameter {param.name!r} {problem}.")
    return texts


class Secrets:
    """Looks secrets up, and remembers which values have to be masked."""

    def __init__(self, from_scheduler: Mapping[str, str], folder: str) -> None:
        self._from_scheduler = from_scheduler
        self._folder = folder
        self.values: set[str] = set()

    def value_of(self, value: Value) -> str:
        if isinstance(value, str):
            return value
        found = self._look_up(value)
        self.values.add(found)
        return found

    def environment(self, env: Env) -> dict[str, str]:
        return {name: self.value_of(value) for name, value in env}

    def _look_up(self, secret: Secret) -> str:
        if secret.source == "env":
            if secret.name not in self._from_scheduler:
                raise Unready(
                    f"the secret {secret.name!r} is not in the scheduler's environment. Set it there, and restart it."
                )
            return self._from_scheduler[secret.name]
        if secret.source == "file":
            return self._read(os.path.join(self._folder, secret.name))
        raise Unready(f"secrets come from 'env' or 'file', not from {secret.source!r}.")

    def _read(self, path: str) -> str:
        try:
            # Without waiting: a pipe of that name must not hold the keeper up.
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise Unready(f"the secret file {path!r} cannot be read: {error.strerror}.") from None
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Unready(f"the secret file {path!r} is not a file.")
            text = os.read(fd, SECRET_MAX + 1)
        finally:
            os.close(fd)
        if len(text) > SECRET_MAX:
            raise Unready(f"the secret file {path!r} is longer than {SECRET_MAX:,} bytes.")
        return text.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")


def checked(env: dict[str, str]) -> dict[str, str]:
    """The environment, unless the kernel would not take it."""
    for name, value in env.items():
        if "\0" in value or "=" in name or "\0" in name or not name:
            raise Unready(f"the variable {name!r} cannot be handed to a process: it holds a NUL byte or '='.")
        if len(value) * 4 + len(name) > VALUE_MAX and len(os.fsencode(value)) + len(name) + 1 > VALUE_MAX:
            raise Unready(f"the variable {name!r} is longer than {VALUE_MAX:,} bytes. Put its value into a file.")
    return env


def is_variable(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _unix(instant: int) -> str:
    whole, rest = divmod(instant, SECOND)
    return str(whole) if not rest else f"{whole}.{rest:06}".rstrip("0")
