"""Which fields say what a job runs: steps, their kinds, and what surrounds them."""

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
from evertick.definitions.catalogue.limits import REPEATS_MAX, RETRIES_MAX, STEPS_MAX
from evertick.definitions.catalogue.words import BACKOFFS, METHODS, PARAM_TYPES
from evertick.model.work import SandboxKind

VALUE: Final = one_of(TEXT, ref("secret"))
ENV: Final = one_of(map_of(VALUE), list_of(one_of({"type": "string", "pattern": "="}, map_of(VALUE))))
CONDITIONS: Final = one_of(ref("condition"), list_of(ref("condition")))
NUMBER: Final = {"type": "number"}
SCALARS: Final = {"type": "array", "items": {"type": ["string", "number", "boolean"]}}

SECRET: Final[Fields] = {
    "env": Field(NAME, "The variable of the scheduler's environment that holds the value."),
    "file": Field(TEXT, "The file that holds the value."),
}
PARAM: Final[Fields] = {
    "type": Field(choice(PARAM_TYPES), "What the value must be.", "`string`", "integer"),
    "default": Field(TEXT, "The value when none is given.", "none: it must be given", 3),
    "enum": Field(SCALARS, "The values there are."),
    "pattern": Field({"type": "string"}, "A regular expression that the whole text must match."),
    "minimum": Field(NUMBER, "The smallest number."),
    "maximum": Field(NUMBER, "The largest number."),
    "required": Field(FLAG, "Whether it must be given.", "`true` without a default"),
    "description": Field(TEXT, "What it is for, shown to whoever triggers a run."),
}
CONDITION: Final[Fields] = {
    "file_exists": Field(TEXT, "A path that must be there; relative to the working folder.", "", "input/data.csv"),
    "command": Field(TEXT, "A line for the shell that must exit with 0.", "", "test -s data.csv"),
    "http": Field(URL, "An address that must answer with 200 to 299."),
    "expected": Field(TEXT, "With `command`: what it must print, or `re:` and a pattern."),
}
HTTP: Final[Fields] = {
    "url": Field(URL, "The address."),
    "method": Field(choice(METHODS), "The method.", "`GET`", "POST"),
    "headers": Field(map_of(VALUE), "Headers by name; values may be secrets."),
    "body": Field(ANYTHING, "A text, or a map or list that is sent as JSON."),
    "expect": Field(
        one_of(whole(100, 599), list_of(whole(100, 599))), "The status, or a list of those, that is good.", "200 to 299"
    ),
}
CLUSTER_SECRET: Final[Fields] = {
    "name": Field(TEXT, "The name of the Secret."),
    "key": Field(TEXT, "The key in it."),
}
_QUANTITIES: Final = map_of(TEXT)
CLUSTER_RESOURCES: Final[Fields] = {
    "requests": Field(_QUANTITIES, "What a node must have free for it.", "", {"cpu": "500m"}),
    "limits": Field(_QUANTITIES, "What it may use at most.", "", {"memory": "1Gi"}),
}
KUBERNETES: Final[Fields] = {
    "image": Field(TEXT, "The image of the container.", "", "ghcr.io/acme/report:1.4"),
    "command": Field(WORDS, "A line for the shell of the image, or a list of words.", "the image's", "python etl.py"),
    "env": Field(ENV, "Environment variables; no secrets of the scheduler.", "", {"MODE": "full"}),
    "secrets": Field(
        map_of(one_of(TEXT, ref("clusterSecret"))),
        "Environment variables whose values are Secrets of the cluster.",
        "",
        {"PASSWORD": "database/password"},
    ),
    "resources": Field(ref("clusterResources"), "What it needs, and what it may use."),
    "serviceAccount": Field(TEXT, "Its account in the cluster.", "none: it gets no credentials", "etl"),
    "namespace": Field(TEXT, "Where its Job is made.", "the setting's", "batch"),
    "podSpec": Field(
        {"type": "object"}, "Laid over the specification of the pod.", "", {"nodeSelector": {"disk": "ssd"}}
    ),
}
RETRY: Final[Fields] = {
    "maxRetries": Field(whole(0, RETRIES_MAX), "Tries after the first.", "0; in a pipeline file 3", 3),
    "limit": Field(whole(0, RETRIES_MAX), "The same as `maxRetries`.", "", 3),
    "retryDelay": Field(DURATION, "The wait before the next try.", "`60s`", "30s"),
    "interval": Field(DURATION, "The same as `retryDelay`.", "", "30s"),
    "retryDelayMs": Field(whole(0, 31_536_000_000), "The same in milliseconds.", "", 60_000),
    "backoff": Field(
        choice(BACKOFFS), "Whether the wait stays, grows by itself, or doubles with each try.", "`linear`", "fixed"
    ),
    "maxDelay": Field(DURATION, "No wait is longer.", "`1d`", "10m"),
    "jitter": Field({"type": "number", "minimum": 0, "maximum": 1}, "Up to this share of the wait is added.", "`0`"),
}
REPEAT: Final[Fields] = {
    "interval": Field(INTERVAL, "The wait between the end of one round and the next.", "", "10s"),
    "every": Field(INTERVAL, "The same as `interval`.", "", "10s"),
    "limit": Field(whole(1, REPEATS_MAX), "Rounds at most.", "no bound", 60),
    "until": Field(ref("condition"), "It ends well as soon as this holds."),
}
CONTINUE_ON: Final[Fields] = {
    "failure": Field(FLAG, "Those behind it go on although it failed.", "`false`", True),
    "skipped": Field(FLAG, "They go on although it was skipped.", "`false`"),
    "exitCodes": Field(one_of(whole(0, 255), list_of(whole(0, 255))), "They go on after these exit codes.", "", [3]),
    "markSuccess": Field(FLAG, "It then counts as succeeded.", "`false`"),
}

COMMAND: Final = Field(WORDS, "A line for the shell, or a list: a program with its arguments.", "", "python a.py")
# What a step can be: exactly one of the first six, and what goes with it.
KINDS: Final[Fields] = {
    "command": COMMAND,
    "script": Field(TEXT, "Several lines for an interpreter.", "", "set -u\necho one\necho two\n"),
    "python": Field(
        {"type": "string", "pattern": "^[^:]+:[^:]+$"}, "A function, called in a process of its own.", "", "etl:load"
    ),
    "http": Field(one_of(URL, ref("http")), "A call of an address.", "", "https://example.org/refresh"),
    "job": Field(TEXT, "A run of another job; the step ends as that run does.", "", "data-fetch"),
    "kubernetes": Field(ref("kubernetes"), "A container on a cluster; the step ends as it does."),
}
EXTRAS: Final[Fields] = {
    "shell": Field(WORDS, "With `script`: the shell that reads it.", "`/bin/sh -e`"),
    "interpreter": Field(WORDS, "With `script`: the program that reads it.", "`/bin/sh -e`"),
    "with": Field({"type": "object"}, "With `python`: keyword arguments."),
    "params": Field(map_of(TEXT), "With `job`: the parameters of its run; `$NAME` is a variable of the step."),
    "wait": Field(FLAG, "With `job`: whether the step waits for the end of that run.", "`true`", False),
}
SANDBOX: Final[Fields] = {
    "kind": Field(choice(SandboxKind), "The program that makes it; without that program the run fails.", "", "bwrap"),
    "readable": Field(
        WORDS, "Files and folders that it sees beside programs and its working folder.", "none", "/srv/in"
    ),
    "writable": Field(WORDS, "Those that it may change; relative ones lie in the working folder.", "none", ["."]),
    "network": Field(FLAG, "Whether it reaches the network, this machine's own addresses included.", "`false`", True),
}
SURROUNDINGS: Final[Fields] = {
    "env": Field(ENV, "Environment variables; a value may be a secret.", "", {"MODE": "full"}),
    "workingDir": Field(
        TEXT,
        "The folder it runs in. A relative one lies in the home folder; that of a step, in the job's.",
        "a step: the job's; the home folder",
        "/srv/etl",
    ),
    "user": Field(
        TEXT,
        "The account that it runs as; needs a scheduler or member that runs as root.",
        "a step: the job's; the scheduler's",
        "nobody",
    ),
    "sandbox": Field(
        one_of(choice(SandboxKind), ref("sandbox")),
        "Hides the machine from it: files, processes and the network.",
        "a step: the job's; none",
        "bwrap",
    ),
    "timeout": Field(DURATION, "Ended when it takes longer.", "no bound", "10m"),
    "retryPolicy": Field(ref("retryPolicy"), "Tries after a failure.", "none"),
}
STEP: Final[Fields] = {
    "name": Field(TEXT, "Its name, once in a job.", "", "fetch"),
    **KINDS,
    **EXTRAS,
    "depends": Field(WORDS, "The steps that must end first.", "none: it starts at once"),
    **SURROUNDINGS,
    "repeat": Field(ref("repeat"), "Run it again and again."),
    "continueOn": Field(ref("continueOn"), "Which ends let those behind it go on.", "success"),
    "continueOnFailure": Field(FLAG, "The same as `continueOn: {failure: true}`.", "`false`"),
    "preconditions": Field(CONDITIONS, "What must hold, or the step is skipped."),
    "output": Field(NAME, "The variable that hands what it prints to later steps.", "", "TOTAL"),
}
_PARAM: Final = one_of(TEXT, {"type": "null"}, ref("param"))
HANDLER: Final[Fields] = {**KINDS, **EXTRAS, **SURROUNDINGS}
_HANDLER: Final = one_of(WORDS, ref("handler"))
HANDLERS: Final[Fields] = {
    "onSuccess": Field(_HANDLER, "Runs after the steps when all went well.", "", "echo done"),
    "onFailure": Field(_HANDLER, "Runs after the steps when one failed.", "", "echo failed"),
    "onCancel": Field(_HANDLER, "Runs when the run was cancelled.", "", "echo cancelled"),
    "onExit": Field(_HANDLER, "Runs last, whatever happened.", "", "rm -rf tmp"),
}
WORK: Final[Fields] = {
    "command": COMMAND,
    "steps": Field({**list_of(ref("step")), "minItems": 1}, "Several steps and their order."),
    "kubernetes": Field(ref("kubernetes"), "The container that the whole job is; it runs on the cluster."),
    "env": SURROUNDINGS["env"],
    "params": Field(
        one_of(map_of(_PARAM), list_of(one_of({"type": "string", "pattern": "="}, map_of(_PARAM)))),
        "Values that whoever triggers a run may give; they arrive as environment variables.",
        "",
        {"DATE": "today"},
    ),
    "workingDir": SURROUNDINGS["workingDir"],
    "user": SURROUNDINGS["user"],
    "sandbox": SURROUNDINGS["sandbox"],
    "timeout": Field(DURATION, "A run that takes longer is ended.", "no bound", "2h"),
    "maxActiveSteps": Field(whole(1, STEPS_MAX), "Steps that may run side by side.", "no bound", 4),
    "preconditions": Field(CONDITIONS, "What must hold when a run starts; else it is skipped, reason `condition`."),
    "condition": Field(CONDITIONS, "The same; at the job or in the block.", "", {"file_exists": "data.csv"}),
    "handlers": Field(ref("handlers"), "Steps that run after the others."),
    **HANDLERS,
}
