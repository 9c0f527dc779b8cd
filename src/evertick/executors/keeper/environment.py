"""The environment variables of an attempt's processes, its parameters, and its secrets."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from evertick.errors import DefinitionError
from evertick.executors.protocol import LaunchMessage, split_run_id
from evertick.kinds import StepError, expand, safe_params
from evertick.kinds.command import DEFAULT_PATH
from evertick.kinds.docker import ACCESS as DOCKER_ACCESS
from evertick.model import run_variables as variables
from evertick.model.dotenv import parse_dotenv
from evertick.model.instant import SECOND, to_text
from evertick.model.params import problem_with
from evertick.model.plain_json import parse_json
from evertick.model.template import OPEN
from evertick.model.work import Env, Item, Param, Secret, Value

ALLOWED: Final = frozenset(
    {"PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR", "EVERTICK_INVOKER", "EVERTICK_FAIL_WHEN"}
)
"""What a job inherits from the scheduler beside `LC_*`; any other variable could hold a credential."""
MEMBER_FILE: Final = "member.json"
SECRET_MAX: Final = 1024 * 1024
DOTENV_MASKED: Final = 8
"""Characters; shorter values of a dotenv file, such as `true`, occur in ordinary output and are not masked."""
RESUME: Final = "resume_from"
"""The parameter that carries the run to resume: its id, its attempt and its steps."""
ITEM_OF: Final = "item_of"
"""The parameter that carries an item of a step, and what it needs of the run that it belongs to."""
VALUE_MAX: Final = 128 * 1024 - 1
"""Bytes of `NAME=value` with its NUL: the limit of the kernel."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that jobs may inherit."""
    allowed = ALLOWED.union(DOCKER_ACCESS)
    kept = {name: value for name, value in environ.items() if name in allowed or name.startswith("LC_")}
    kept.setdefault("PATH", DEFAULT_PATH)
    return kept


def run_variables(launch: LaunchMessage, run_id: str, keeper: str = "", home: str = "") -> dict[str, str]:
    """The variables that describe the run to its processes, for idempotent work and tracing.

    `keeper` and `home` belong to this machine: a container gets neither.
    """
    run_id, shard = split_run_id(run_id)
    found = {
        variables.JOB: launch.key.job_id,
        variables.RUN_ID: run_id,
        variables.ATTEMPT: str(launch.attempt),
        variables.SCHEDULED_FOR: to_text(launch.key.scheduled_for),
        variables.SCHEDULED_FOR_UNIX: _unix(launch.key.scheduled_for),
        variables.TRIGGER: launch.trigger,
        variables.FENCE: str(launch.fence),
    }
    if keeper:
        found[variables.KEEPER] = keeper
    if home:
        found[variables.HOME] = home
    if shard is not None:
        found[variables.SHARD_INDEX], found[variables.SHARD_TOTAL] = str(shard.number), str(shard.total)
    if launch.previous_success_at is not None:
        found[variables.PREVIOUS_SUCCESS] = to_text(launch.previous_success_at)
    if launch.params:
        found[variables.PARAMS] = without_resume(launch.params)
    return found


def write_member_file(folder: Path, name: str, labels: Mapping[str, str]) -> None:
    """Tell the keeper of a folder which member it belongs to."""
    scratch = folder / f"{MEMBER_FILE}.new"
    scratch.write_text(json.dumps({"name": name, "labels": dict(labels)}))
    os.replace(scratch, folder / MEMBER_FILE)


def member_variables(path: Path | None) -> dict[str, str]:
    """The variables that name the fleet member; none on a scheduler's own machine."""
    try:
        plain = json.loads(path.read_bytes()) if path is not None else {}
        return {variables.MEMBER: str(plain["name"]), variables.MEMBER_LABELS: json.dumps(plain["labels"])}
    except (OSError, ValueError, KeyError):
        return {}


def without_resume(params: str) -> str:
    """Without the parameter that only the keeper reads, which may be long."""
    if RESUME not in params:
        return params
    given = parse_params(params)
    given.pop(RESUME, None)
    return json.dumps(given)


def step_variables(run_id: str, attempt: int, step: str) -> dict[str, str]:
    trace = hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    span = hashlib.sha256(f"{run_id}/{attempt}/{step}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return {variables.STEP: step, "TRACEPARENT": f"00-{trace}-{span}-01"}


def item_variables(item: Item | None, parent: str) -> dict[str, str]:
    """`parent` is the run that the item belongs to, by its id."""
    if item is None:
        return {}
    parts = {f"{variables.ITEM}_{name.upper()}": text for name, text in item.value.fields}
    named = {variables.INDEX: str(item.number), variables.PARENT: split_run_id(parent)[0]}
    return {variables.ITEM: item.value.shown, **named, **parts}


def marks_of_attempt(run_id: str, attempt: int, keeper: str) -> frozenset[bytes]:
    """The variables by which the processes of an attempt are found, whatever their parent is by then.

    They include the keeper's: another scheduler on this machine may have a run of the same name.
    """
    run_id, shard = split_run_id(run_id)
    named = [(variables.RUN_ID, run_id), (variables.ATTEMPT, attempt), (variables.KEEPER, keeper)]
    if shard is not None:
        named.append((variables.SHARD_INDEX, shard.number))
    return frozenset(f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in named)


def parse_params(text: str) -> dict[str, object]:
    if not text:
        return {}
    try:
        given = parse_json(text)
    except ValueError:
        raise StepError("the parameters of the run are not valid JSON. Give an object of names and values.") from None
    return given if isinstance(given, dict) else {}


def without_defaults(given: Mapping[str, object], written: Sequence[Param]) -> dict[str, object]:
    """Without the values that repeat a default that is a template, as a form does that shows it."""
    templates = {param.name: param.default for param in written if param.default and OPEN in param.default}
    return {name: value for name, value in given.items() if name not in templates or value != templates[name]}


def resolve_params(declared: Sequence[Param], given: Mapping[str, object]) -> dict[str, str]:
    """The declared parameters with their values.

    Only declared ones become variables, so that a person who may trigger a job cannot set its PATH or LD_PRELOAD. All
    given parameters are in EVERTICK_RUN_PARAMS.
    """
    values: dict[str, object] = {}
    for param in declared:
        if param.name in given:
            values[param.name] = given[param.name]
        elif param.default is not None:
            values[param.name] = param.default
        else:
            raise StepError(
                f"the parameter {param.name!r} was not given and has no default. Give it, or set a default."
            )
    texts = safe_params(values)
    for param in declared:
        problem = problem_with(param, texts[param.name])
        if problem is not None:
            raise StepError(f"the parameter {param.name!r} {problem}.")
    return texts


class Secrets:
    """Resolves secrets, and remembers which values have to be masked."""

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

    def add_environment(self, env: Env, known: dict[str, str]) -> None:
        """Set variables in order; each may refer to those that are known by then. A secret is taken as it is."""
        for name, value in env:
            known[name] = expand(name, value, known) if isinstance(value, str) else self.value_of(value)

    def read_dotenv(self, path: str) -> dict[str, str]:
        """The variables of a dotenv file, whose longer values are masked as secrets are."""
        try:
            text = _read(path, "dotenv file").decode("utf-8")
            found = {one.name: one.value for one in parse_dotenv(text, path)}
        except UnicodeDecodeError as error:
            raise StepError(f"the dotenv file {path!r} is not UTF-8 at byte {error.start + 1:,}.") from None
        except DefinitionError as error:
            raise StepError(str(error)) from None
        self.values.update(value for value in found.values() if len(value) >= DOTENV_MASKED)
        return found

    def _look_up(self, secret: Secret) -> str:
        if secret.source == "env":
            if secret.name not in self._from_scheduler:
                raise StepError(
                    f"the secret {secret.name!r} is not set in the scheduler's environment. "
                    "Set it, and restart the scheduler."
                )
            return self._from_scheduler[secret.name]
        if secret.source == "file":
            text = _read(os.path.join(self._folder, secret.name), "secret file")
            return text.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")
        raise StepError(f"unknown source {secret.source!r} of a secret. Use 'env' or 'file'.")


def _read(path: str, what: str) -> bytes:
    try:
        # Non-blocking: a pipe of that name must not block the keeper.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise StepError(f"the {what} {path!r} cannot be read: {error.strerror}.") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise StepError(f"the {what} {path!r} is not a file.")
        text = os.read(fd, SECRET_MAX + 1)
    finally:
        os.close(fd)
    if len(text) > SECRET_MAX:
        raise StepError(f"the {what} {path!r} is longer than {SECRET_MAX:,} bytes.")
    return text


def add_plain_environment(env: Env, known: dict[str, str]) -> None:
    """The same without secrets, for an environment that others can read."""
    for name, value in env:
        if isinstance(value, str):
            known[name] = expand(name, value, known)


def check_environment(env: dict[str, str]) -> dict[str, str]:
    """The environment; `StepError` if the kernel would reject it."""
    for name, value in env.items():
        if "\0" in value or "=" in name or "\0" in name or not name:
            raise StepError(f"the variable {name!r} cannot be passed to a process: it contains a NUL byte or '='.")
        if len(value) * 4 + len(name) > VALUE_MAX and len(os.fsencode(value)) + len(name) + 1 > VALUE_MAX:
            raise StepError(f"the variable {name!r} is longer than {VALUE_MAX:,} bytes. Put its value into a file.")
    return env


def is_variable(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _unix(instant: int) -> str:
    whole, rest = divmod(instant, SECOND)
    return str(whole) if not rest else f"{whole}.{rest:06}".rstrip("0")
