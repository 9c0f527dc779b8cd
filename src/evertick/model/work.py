"""What a job runs: its steps, their kinds, and what surrounds them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from evertick.model.instant import SECOND
from evertick.model.policy import Retry

# --- values that are looked up when a run starts, never before


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is stored in the scheduler's environment, or in a file. Masked wherever it would be shown."""

    source: str
    """`env` or `file`."""
    name: str


Value: TypeAlias = str | Secret
Env: TypeAlias = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Param:
    """A value that a request can set. It arrives as an environment variable, never inside shell text."""

    name: str
    default: str | None = None
    """None: it must be given."""
    schema: Mapping[str, object] = field(default_factory=dict, hash=False)
    """JSON Schema of the value; empty: any text."""
    description: str = ""


# --- kinds: what a step can be


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, or one line for the shell."""

    words: tuple[str, ...]
    """The argument vector; with `is_shell` a single text."""
    is_shell: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """Several lines for an interpreter, which reads them from a file."""

    text: str
    interpreter: tuple[str, ...] = ("/bin/sh", "-e")


FUNCTION: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""How a function is named: `module:function`."""


@dataclass(frozen=True, slots=True)
class PythonCall:
    """A function, called in a process of its own."""

    target: str
    arguments: Mapping[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class HttpCall:
    url: str
    method: str = "GET"
    headers: Env = ()
    body: str | None = None
    expected_statuses: tuple[int, ...] = ()
    """Empty: any from 200 to 299."""
    is_json: bool = False
    """The body was written as a map or a list."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Items in, a prompt for each, one result out; `data` is what its file says, as plain data."""

    data: Mapping[str, object] = field(hash=False)


@dataclass(frozen=True, slots=True)
class SubJob:
    """A run of another job; the step ends as that run does."""

    job_id: str
    params: tuple[tuple[str, str], ...] = ()
    """A value that is `$NAME` is that variable of the step; any other is used as it is."""
    waits: bool = True
    """Without it the step succeeds when that run is in the ledger."""


@dataclass(frozen=True, slots=True)
class SecretKey:
    """One value of a Secret of the cluster; it never passes through the scheduler."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class Pod:
    """A container on a Kubernetes cluster; the step ends as it does."""

    image: str
    command: tuple[str, ...] = ()
    """Empty: what the image says."""
    is_shell: bool = False
    """`command` is a single line for the shell of the image."""
    env: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, SecretKey], ...] = ()
    """Environment variables whose values are Secrets of the cluster."""
    requests: tuple[tuple[str, str], ...] = ()
    limits: tuple[tuple[str, str], ...] = ()
    service_account: str | None = None
    """None: the pod gets no credentials of the cluster."""
    namespace: str | None = None
    """None: as the settings say."""
    pod_spec: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Merged over the pod's specification; these values take precedence."""


@dataclass(frozen=True, slots=True)
class SshCommand:
    """A command on another machine, by way of OpenSSH; the step ends as it does."""

    host: str
    command: tuple[str, ...]
    is_shell: bool = False
    """`command` is a single line for the shell of that machine."""
    user: str | None = None
    """None: as the OpenSSH configuration says, or the name of the local account."""
    port: int | None = None
    key: str | None = None
    """The file of the private key; None: the usual ones of the account."""
    known_hosts: str | None = None
    """The file of the keys of hosts; None: the usual ones."""
    working_dir: str | None = None
    """On that machine; None: the home folder there."""
    connect_timeout_us: int = 30 * SECOND


class Pull(StrEnum):
    """When the image of a container is fetched."""

    MISSING = "missing"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the machine, or a named volume of its engine, inside of a container."""

    source: str
    target: str
    is_writable: bool = False

    @property
    def is_path(self) -> bool:
        """Whether it is a path of the machine, and not the name of a volume."""
        return self.source.startswith(("/", "./", "../", "~/")) or self.source in (".", "..", "~")


@dataclass(frozen=True, slots=True)
class RegistryLogin:
    """The account with which an image is fetched."""

    username: Value
    password: Secret


@dataclass(frozen=True, slots=True)
class Container:
    """A container on the machine that runs the job, by way of Docker or Podman; the step ends as it does."""

    image: str
    command: tuple[str, ...] = ()
    """Replaces the image's entrypoint; empty: what the image says."""
    is_shell: bool = False
    """`command` is a single line for the shell of the image."""
    args: tuple[str, ...] = ()
    """For the entrypoint; empty: what the image says."""
    mounts: tuple[Mount, ...] = ()
    working_dir: str | None = None
    """In the container; None: as the image says."""
    user: str | None = None
    """In the container; None: as the image says."""
    memory_bytes: int | None = None
    cpus: float | None = None
    network: str | None = None
    """None: the engine's default."""
    pull: Pull = Pull.MISSING
    is_read_only: bool = False
    """Whether its own files cannot be written."""
    registry: RegistryLogin | None = None
    """None: as the operator of the machine or the engine has it."""


Kind: TypeAlias = Command | Script | PythonCall | HttpCall | Pipeline | SubJob | Pod | SshCommand | Container


# --- conditions


class ConditionKind(StrEnum):
    FILE_EXISTS = "file_exists"
    COMMAND = "command"
    HTTP = "http"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: a file exists, a command exits with 0, an address answers with 200 to 299."""

    kind: ConditionKind
    value: str
    expected: str | None = None
    """For a command: what its output must be, or match when it begins with `re:`; None: its exit code decides."""


# --- as whom, and what it sees


class SandboxKind(StrEnum):
    BWRAP = "bwrap"
    SYSTEMD_RUN = "systemd-run"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a process sees of its machine: programs and libraries, its working folder, and what is named here."""

    kind: SandboxKind
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    network: bool = False


# --- steps

# Defaults are shared: most steps of most jobs set none of these.
NO_RETRY = Retry()


@dataclass(frozen=True, slots=True)
class ContinueOn:
    """After which results of a step the later steps still run."""

    failure: bool = False
    skipped: bool = False
    exit_codes: tuple[int, ...] = ()
    marks_success: bool = False
    """Count the step as succeeded then."""


STOP_ON_FAILURE = ContinueOn()


@dataclass(frozen=True, slots=True)
class Repeat:
    """Repeat a step: at an interval, until a condition holds, up to a limit."""

    interval_us: int
    limit: int | None = None
    until: Condition | None = None


PARALLEL_ITEMS: Final = 8
"""Items of a step that run at once, unless the step sets another number."""


@dataclass(frozen=True, slots=True)
class ItemValue:
    """A text, or several texts by name."""

    text: str = ""
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        """The text; of several, a JSON object."""
        return json.dumps(dict(self.fields), ensure_ascii=False) if self.fields else self.text


@dataclass(frozen=True, slots=True)
class Each:
    """The values that a step runs for, each as an item of its own: listed, printed by a step, or a product."""

    values: tuple[ItemValue, ...] = ()
    from_step: str | None = None
    """The earlier step whose output is the list."""
    matrix: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names and their values; an item for each combination."""
    max_parallel: int = PARALLEL_ITEMS
    continues_on_failure: bool = False
    """Whether further items start after one has failed."""
    spreads: bool = True
    """Whether its items may run on other members of the fleet than the run itself."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a step with `each`, when it runs."""

    step: str
    number: int
    """Its place in the list, from 0."""
    value: ItemValue


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a job; `depends` names the steps that must end first."""

    name: str
    kind: Kind
    depends: tuple[str, ...] = ()
    env: Env = ()
    working_dir: str | None = None
    user: str | None = None
    """None: the job's."""
    sandbox: Sandbox | None = None
    """None: the job's."""
    timeout_us: int | None = None
    retry: Retry = NO_RETRY
    repeat: Repeat | None = None
    continue_on: ContinueOn = STOP_ON_FAILURE
    preconditions: tuple[Condition, ...] = ()
    output: str | None = None
    """The variable that passes the standard output of the step, without the last line feed, to later steps."""
    each: Each | None = None
    """None: it runs once."""
    item: Item | None = None
    """Set where one item of it runs; no definition has it."""


def spreads_items(step: Step) -> bool:
    """Whether items of the step may run on other members; those that are runs of another job are placed by that job."""
    return step.each is not None and step.each.spreads and not isinstance(step.kind, SubJob)


@dataclass(frozen=True, slots=True)
class Handlers:
    """Steps that run after the others, by how those ended; `on_exit` always and last."""

    on_success: Step | None = None
    on_failure: Step | None = None
    on_cancel: Step | None = None
    on_exit: Step | None = None


NO_HANDLERS = Handlers()
HANDLERS: Final = ("on_success", "on_failure", "on_cancel", "on_exit")
"""Their names, in the order in which they run."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """What the dates of a run are computed from."""

    timezone: str = "UTC"
    schedules: str = "[]"
    """As `specs_to_text` writes them: calendars are long, and their days need no names here."""


NO_TIMETABLE = Timetable()


@dataclass(frozen=True, slots=True)
class Work:
    """Everything that happens between the start of a run and its end."""

    steps: tuple[Step, ...] = ()
    dotenv: tuple[str, ...] = ()
    """Files of variables that are set before `env`; read when a run starts."""
    env: Env = ()
    """A value may refer to variables that are already set: `${NAME}`."""
    params: tuple[Param, ...] = ()
    working_dir: str | None = None
    """Absolute, or below `~`, for a job file of this machine; None: the home folder."""
    user: str | None = None
    """The account that its processes run as; None: the scheduler's."""
    sandbox: Sandbox | None = None
    """None: its processes see what their account may see."""
    timeout_us: int | None = None
    max_active_steps: int | None = None
    preconditions: tuple[Condition, ...] = ()
    """When one does not hold, the run is skipped with reason `condition`."""
    pre_run_hooks: tuple[Value, ...] = ()
    """Addresses that must answer with 200, or the run is skipped with reason `condition`."""
    post_run_hooks: tuple[Value, ...] = ()
    """Addresses that must answer with 200 for the run to be a success."""
    handlers: Handlers = NO_HANDLERS
    log_max_bytes: int = 64 * 1024 * 1024
    """Per step; of a longer log the head and the tail are kept."""
    timetable: Timetable = NO_TIMETABLE
    """Set where the work is handed to a keeper; a job has its own schedules and zone."""

    @property
    def handler_steps(self) -> Mapping[str, Step]:
        """The existing handlers, by their names."""
        return {name: step for name in HANDLERS if (step := getattr(self.handlers, name)) is not None}

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """The steps and the handlers."""
        if self.handlers == NO_HANDLERS:
            return self.steps  # as of most jobs: a list asks for ten thousand
        return (*self.steps, *self.handler_steps.values())


NOTHING = Work()
