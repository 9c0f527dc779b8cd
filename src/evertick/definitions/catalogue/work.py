"""Which fields say what a job runs: steps, their kinds, and their environment."""

from __future__ import annotations

from typing import Final

from evertick.definitions.catalogue.field import (
    ANYTHING,
    DURATION,
    FLAG,
    INTERVAL,
    NAME,
    TEXT,
    URL,
    WORDS,
    Field,
    Fields,
    choice,
    list_of,
    map_of,
    one_of,
    ref,
    whole,
)
from evertick.definitions.catalogue.limits import ITEMS_PARALLEL_MAX, REPEATS_MAX, RETRIES_MAX, STEPS_MAX
from evertick.definitions.catalogue.words import BACKOFFS, METHODS, PARAM_TYPES, PULLS
from evertick.model.work import SandboxKind

VALUE: Final = one_of(TEXT, ref("secret"))
ENV: Final = one_of(map_of(VALUE), list_of(one_of({"type": "string", "pattern": "="}, map_of(VALUE))))
CONDITIONS: Final = one_of(ref("condition"), list_of(ref("condition")))
NUMBER: Final = {"type": "number"}
SCALARS: Final = {"type": "array", "items": {"type": ["string", "number", "boolean"]}}

SECRET: Final[Fields] = {
    "env": Field(NAME, "The variable of the scheduler's environment with the value."),
    "file": Field(TEXT, "The file with the value."),
}
PARAM: Final[Fields] = {
    "type": Field(choice(PARAM_TYPES), "The type of the value.", "`string`", "integer"),
    "default": Field(TEXT, "The value if none is given.", "none: a value is required", 3),
    "enum": Field(SCALARS, "The allowed values."),
    "pattern": Field({"type": "string"}, "A regular expression that the whole text must match."),
    "minimum": Field(NUMBER, "The smallest number."),
    "maximum": Field(NUMBER, "The largest number."),
    "required": Field(FLAG, "Whether a value is required.", "`true` without a default"),
    "description": Field(TEXT, "What the parameter is for."),
}
CONDITION: Final[Fields] = {
    "file_exists": Field(TEXT, "A path that must exist; relative to the working folder.", "", "input/data.csv"),
    "command": Field(TEXT, "A shell command that must exit with 0.", "", "test -s data.csv"),
    "http": Field(URL, "An address that must answer with a status of 200 to 299."),
    "expected": Field(TEXT, "With `command`: the expected output, or `re:` and a pattern."),
}
HTTP: Final[Fields] = {
    "url": Field(URL, "The address."),
    "method": Field(choice(METHODS), "The method.", "`GET`", "POST"),
    "headers": Field(map_of(VALUE), "Headers by name; values may be secrets."),
    "body": Field(ANYTHING, "A text, or a map or list that is sent as JSON."),
    "expect": Field(
        one_of(whole(100, 599), list_of(whole(100, 599))),
        "The status, or a list of them, that means success.",
        "200 to 299",
    ),
}
CLUSTER_SECRET: Final[Fields] = {
    "name": Field(TEXT, "The name of the Secret."),
    "key": Field(TEXT, "The key inside the Secret."),
}
_QUANTITIES: Final = map_of(TEXT)
CLUSTER_RESOURCES: Final[Fields] = {
    "requests": Field(_QUANTITIES, "What a node must have free.", "", {"cpu": "500m"}),
    "limits": Field(_QUANTITIES, "The maximum it may use.", "", {"memory": "1Gi"}),
}
KUBERNETES: Final[Fields] = {
    "image": Field(TEXT, "The image of the container.", "", "ghcr.io/acme/report:1.4"),
    "command": Field(
        WORDS, "A command for the shell of the image, or a list of arguments.", "the image's", "python etl.py"
    ),
    "env": Field(ENV, "Environment variables; no secrets of the scheduler.", "", {"MODE": "full"}),
    "secrets": Field(
        map_of(one_of(TEXT, ref("clusterSecret"))),
        "Environment variables whose values are Secrets of the cluster.",
        "",
        {"PASSWORD": "database/password"},
    ),
    "resources": Field(ref("clusterResources"), "Requests and limits."),
    "serviceAccount": Field(TEXT, "The service account of the pod.", "none: the pod has no credentials", "etl"),
    "namespace": Field(TEXT, "The namespace of the Job.", "the setting", "batch"),
    "podSpec": Field(
        {"type": "object"}, "Merged over the specification of the pod.", "", {"nodeSelector": {"disk": "ssd"}}
    ),
}
DOCKER: Final[Fields] = {
    "image": Field(TEXT, "The image of the container.", "", "ghcr.io/acme/report:1.4"),
    "command": Field(
        WORDS,
        "A command for the shell of the image, or a list of arguments; replaces the image's entrypoint.",
        "the image's",
        "python etl.py",
    ),
    "args": Field(WORDS, "Arguments for the entrypoint of the image.", "the image's", ["--full"]),
    "mounts": Field(
        WORDS,
        "What the container sees of its machine: `source:target`, or `source:target:rw` to write. A source is a path, "
        "relative ones begin with `./`, or the name of a volume.",
        "none",
        ["./input:/input", "cache:/cache:rw"],
    ),
    "workingDir": Field(TEXT, "The folder in the container.", "the image's", "/srv"),
    "user": Field(TEXT, "The account in the container: a name or a number, and a group.", "the image's", "1000:1000"),
    "memory": Field(TEXT, "Maximum memory; a container that needs more is killed.", "no limit", "512m"),
    "cpus": Field({"type": "number", "exclusiveMinimum": 0, "maximum": 1_024}, "The most CPUs.", "no limit", 1.5),
    "network": Field(TEXT, "`none`, `host`, `bridge` or a network of the engine.", "the engine's default", "none"),
    "pull": Field(choice(PULLS), "When the image is fetched.", "`missing`", "never"),
    "readOnly": Field(FLAG, "Whether its own files cannot be written; mounts are not affected.", "`false`", True),
    "registry": Field(
        ref("registry"),
        "The account with which the image is fetched.",
        "as in `docker.auth_file`",
        {"username": "robot", "password": {"env": "REGISTRY_PASSWORD"}},
    ),
}
REGISTRY: Final[Fields] = {
    "username": Field(VALUE, "The name of the account.", "", "robot"),
    "password": Field(ref("secret"), "Its password or token: a secret.", "", {"env": "REGISTRY_PASSWORD"}),
}
SSH: Final[Fields] = {
    "host": Field(TEXT, "The name or address of the machine, or a `Host` of the OpenSSH configuration.", "", "db1"),
    "command": Field(WORDS, "A command for the shell of that machine, or a list of arguments.", "", "backup --full"),
    "user": Field(TEXT, "The account there.", "the OpenSSH configuration's, or the local name", "backup"),
    "port": Field(whole(1, 65_535), "The port.", "the OpenSSH configuration's, or 22", 2222),
    "key": Field(
        TEXT,
        "The file of the private key; relative to the working folder of the job.",
        "the usual ones of the account",
        "~/.ssh/id_backup",
    ),
    "knownHosts": Field(
        TEXT,
        "The file with the key of the host; relative to the working folder of the job.",
        "`~/.ssh/known_hosts` and the system's",
        "known_hosts",
    ),
    "workingDir": Field(TEXT, "The folder there.", "the home folder there", "/srv/backup"),
    "connectTimeout": Field(DURATION, "Fail if there is no connection within this time.", "`30s`", "10s"),
}
SSH_PLACE: Final[Fields] = {name: field for name, field in SSH.items() if name != "command"}
RETRY: Final[Fields] = {
    "maxRetries": Field(whole(0, RETRIES_MAX), "Attempts after the first.", "0; in a pipeline file 3", 3),
    "limit": Field(whole(0, RETRIES_MAX), "Another name for `maxRetries`.", "", 3, is_synonym=True),
    "retryDelay": Field(DURATION, "The wait before the next attempt.", "`60s`", "30s"),
    "interval": Field(DURATION, "Another name for `retryDelay`.", "", "30s", is_synonym=True),
    "retryDelayMs": Field(whole(0, 31_536_000_000), "`retryDelay` in milliseconds.", "", 60_000, is_synonym=True),
    "backoff": Field(
        choice(BACKOFFS),
        "Whether the wait stays the same, grows by `retryDelay`, or doubles with each attempt.",
        "`linear`",
        "fixed",
    ),
    "maxDelay": Field(DURATION, "The longest wait.", "`1d`", "10m"),
    "jitter": Field(
        {"type": "number", "minimum": 0, "maximum": 1}, "Adds up to this share of the wait, at random.", "`0`"
    ),
}
REPEAT: Final[Fields] = {
    "interval": Field(INTERVAL, "The wait between two repetitions.", "", "10s"),
    "every": Field(INTERVAL, "Another name for `interval`.", "", "10s", is_synonym=True),
    "limit": Field(whole(1, REPEATS_MAX), "The maximum number of repetitions.", "no limit", 60),
    "until": Field(ref("condition"), "The step succeeds as soon as this holds."),
}
_ITEM_VALUE: Final = one_of(TEXT, map_of(TEXT))
_MATRIX: Final = map_of(list_of(TEXT))
EACH: Final[Fields] = {
    "values": Field(list_of(_ITEM_VALUE), "The values; a map is one value with several parts.", "", ["eu", "us"]),
    "from": Field(TEXT, "The earlier step whose `output` is the list: JSON, or a value on each line.", "", "list"),
    "matrix": Field(
        _MATRIX, "Names and their values; an item for each combination.", "", {"region": ["eu", "us"], "size": ["s"]}
    ),
    "maxParallel": Field(whole(1, ITEMS_PARALLEL_MAX), "The maximum number of items that run at once.", "8", 4),
    "continueOnFailure": Field(FLAG, "The other items still start after one has failed.", "`false`", True),
    "spread": Field(FLAG, "On a fleet, items may run on other members than the run itself.", "`true`", False),
}
CONTINUE_ON: Final[Fields] = {
    "failure": Field(FLAG, "Later steps run although this step failed.", "`false`", True),
    "skipped": Field(FLAG, "Later steps run although this step was skipped.", "`false`"),
    "exitCodes": Field(
        one_of(whole(0, 255), list_of(whole(0, 255))), "Later steps run after these exit codes.", "", [3]
    ),
    "markSuccess": Field(FLAG, "The step then counts as succeeded.", "`false`"),
}

COMMAND: Final = Field(WORDS, "A shell command, or a list: a program with its arguments.", "", "python a.py")
# What a step can be: exactly one of these, and what goes with it.
KINDS: Final[Fields] = {
    "command": COMMAND,
    "script": Field(TEXT, "Several lines for an interpreter.", "", "set -u\necho one\necho two\n"),
    "python": Field(
        {"type": "string", "pattern": "^[^:]+:[^:]+$"}, "A function, called in its own process.", "", "etl:load"
    ),
    "http": Field(one_of(URL, ref("http")), "An HTTP request.", "", "https://example.org/refresh"),
    "job": Field(TEXT, "A run of another job; the step has its result.", "", "data-fetch"),
    "kubernetes": Field(ref("kubernetes"), "A container on a cluster; the step has its result."),
    "docker": Field(ref("docker"), "A container on this machine, by way of Docker or Podman."),
    "ssh": Field(ref("ssh"), "A command on another machine, by way of OpenSSH."),
}
EXTRAS: Final[Fields] = {
    "shell": Field(WORDS, "With `script`: the shell.", "`/bin/sh -e`"),
    "interpreter": Field(WORDS, "With `script`: the interpreter.", "`/bin/sh -e`"),
    "with": Field({"type": "object"}, "With `python`: keyword arguments."),
    "params": Field(map_of(TEXT), "With `job`: the parameters of its run; `$NAME` is a variable of the step."),
    "wait": Field(FLAG, "With `job`: whether the step waits until that run has ended.", "`true`", False),
}
SANDBOX: Final[Fields] = {
    "kind": Field(choice(SandboxKind), "The sandbox program; the run fails without it.", "", "bwrap"),
    "readable": Field(
        WORDS, "Files and folders it can read, besides programs and the working folder.", "none", "/srv/in"
    ),
    "writable": Field(WORDS, "Files and folders it can write; relative to the working folder.", "none", ["."]),
    "network": Field(FLAG, "Whether it can use the network, including the addresses of this machine.", "`false`", True),
}
SURROUNDINGS: Final[Fields] = {
    "env": Field(
        ENV,
        "Environment variables; `${NAME}` is a variable that is already set, `$$` a dollar sign, and a value may be a "
        "secret.",
        "",
        {"MODE": "full"},
    ),
    "workingDir": Field(
        TEXT,
        "The folder it runs in; relative to the folder of the job file, for a step relative to the job's folder.",
        "for a step the job's; otherwise the folder of the job file",
        "/srv/etl",
    ),
    "user": Field(
        TEXT,
        "The account it runs as; needs a scheduler or member that runs as root.",
        "for a step the job's; otherwise the scheduler's",
        "nobody",
    ),
    "sandbox": Field(
        one_of(choice(SandboxKind), ref("sandbox")),
        "Hides files, processes and the network from it.",
        "for a step the job's; otherwise none",
        "bwrap",
    ),
    "timeout": Field(DURATION, "End it if it takes longer.", "no limit", "10m"),
    "retryPolicy": Field(ref("retryPolicy"), "Retries after a failure.", "none"),
}
STEP: Final[Fields] = {
    "name": Field(TEXT, "The name, unique within the job.", "", "fetch"),
    **KINDS,
    **EXTRAS,
    "depends": Field(WORDS, "The steps that must succeed first.", "none: it starts at once"),
    "each": Field(
        one_of(list_of(_ITEM_VALUE), ref("each")),
        "Runs the step for each of these values; `{from: STEP}` takes the list that a step printed.",
        "it runs once",
        ["eu", "us"],
    ),
    "matrix": Field(
        _MATRIX, "Short for `each: {matrix: ...}`: an item for each combination.", "", {"size": ["s", "l"]}
    ),
    **SURROUNDINGS,
    "repeat": Field(ref("repeat"), "Run the step repeatedly."),
    "continueOn": Field(ref("continueOn"), "After which results later steps still run.", "success"),
    "continueOnFailure": Field(FLAG, "Short for `continueOn: {failure: true}`.", "`false`"),
    "preconditions": Field(CONDITIONS, "What must hold; otherwise the step is skipped."),
    "output": Field(NAME, "The variable in which later steps find its output.", "", "TOTAL"),
}
_PARAM: Final = one_of(TEXT, {"type": "null"}, ref("param"))
HANDLER: Final[Fields] = {**KINDS, **EXTRAS, **SURROUNDINGS}
_HANDLER: Final = one_of(WORDS, ref("handler"))
HANDLERS: Final[Fields] = {
    "onSuccess": Field(_HANDLER, "Runs after the steps if all succeeded.", "", "echo done"),
    "onFailure": Field(_HANDLER, "Runs after the steps if one failed.", "", "echo failed"),
    "onCancel": Field(_HANDLER, "Runs if the run was cancelled.", "", "echo cancelled"),
    "onExit": Field(_HANDLER, "Always runs, last.", "", "rm -rf tmp"),
}
WORK: Final[Fields] = {
    "command": COMMAND,
    "steps": Field({**list_of(ref("step")), "minItems": 1}, "The steps and their dependencies."),
    "kubernetes": Field(ref("kubernetes"), "Runs the job as a container on a cluster."),
    "docker": Field(
        ref("docker"),
        "Runs the `command` of the job, and of each step and handler, in a container of its own; without `command` and "
        "`steps`, the container is the job.",
        "they run on the machine",
        {"image": "alpine:3.20"},
    ),
    "ssh": Field(
        ref("sshPlace"),
        "Runs the `command` of the job, and of each step and handler, on another machine.",
        "they run on this machine",
        {"host": "db1"},
    ),
    "dotenv": Field(
        WORDS,
        "Files of variables that are set before `env`, masked in logs; relative to the folder of the job file.",
        "none",
        [".env"],
    ),
    "env": SURROUNDINGS["env"],
    "params": Field(
        one_of(map_of(_PARAM), list_of(one_of({"type": "string", "pattern": "="}, map_of(_PARAM)))),
        "Values that can be set for a run; they become environment variables.",
        "",
        {"DATE": "today"},
    ),
    "workingDir": SURROUNDINGS["workingDir"],
    "user": SURROUNDINGS["user"],
    "sandbox": SURROUNDINGS["sandbox"],
    "timeout": Field(DURATION, "End a run that takes longer.", "no limit", "2h"),
    "maxActiveSteps": Field(whole(1, STEPS_MAX), "The maximum number of steps that run at once.", "no limit", 4),
    "preconditions": Field(
        CONDITIONS, "What must hold when a run starts; otherwise the run is skipped, reason `condition`."
    ),
    "condition": Field(
        CONDITIONS,
        "Another name for `preconditions`; in the job or in the schedule block.",
        "",
        {"file_exists": "data.csv"},
        is_synonym=True,
    ),
    "handlers": Field(ref("handlers"), "Commands that run after the steps."),
    **HANDLERS,
}
