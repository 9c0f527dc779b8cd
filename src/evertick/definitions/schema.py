"""What a job file looks like, as JSON Schema 2020-12: for the completion and the checks of editors."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from evertick.definitions.catalogue import job, work
from evertick.definitions.catalogue.field import Field, Fields

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_ID: Final = "urn:evertick:job:1"


class Table(NamedTuple):
    fields: Fields
    about: str
    needs: tuple[str, ...] = ()
    """Fields that cannot be left out."""


# By the name under which other tables refer to it, in the order of the page.
TABLES: Final[dict[str, Table]] = {
    "schedule": Table(job.BLOCK, "The block form of `schedule`: one of `cron`, `every` and `at`, and rules."),
    "startStop": Table(job.START_STOP, "A `schedule` with starts, stops and restarts."),
    "scheduleEntry": Table(job.ENTRY, "One entry of a list of schedules."),
    "calendar": Table(job.CALENDAR, "The days on which the schedule of a job runs: `calendar`."),
    "window": Table(job.WINDOW, "How late an occurrence may start: `window`."),
    "retryPolicy": Table(work.RETRY, "How often and when a failed run is retried: `retryPolicy`."),
    "step": Table(work.STEP, "One part of a job: an item of `steps`.", ("name",)),
    "http": Table(work.HTTP, "An HTTP request: `http` of a step.", ("url",)),
    "kubernetes": Table(work.KUBERNETES, "A container on a cluster: `kubernetes` of a job or a step.", ("image",)),
    "clusterResources": Table(work.CLUSTER_RESOURCES, "What a container needs: `resources`."),
    "clusterSecret": Table(work.CLUSTER_SECRET, "A value in a Secret of the cluster.", ("name", "key")),
    "docker": Table(work.DOCKER, "A container on this machine: `docker` of a job or a step.", ("image",)),
    "registry": Table(work.REGISTRY, "A login of a registry: `registry` of `docker`.", ("username", "password")),
    "ssh": Table(work.SSH, "A command on another machine: `ssh` of a step.", ("host", "command")),
    "sshPlace": Table(work.SSH_PLACE, "Where the commands of a job run: `ssh` of a job.", ("host",)),
    "each": Table(work.EACH, "A step that runs for each of several values: `each`."),
    "repeat": Table(work.REPEAT, "A step that runs repeatedly: `repeat`."),
    "continueOn": Table(work.CONTINUE_ON, "After which results of a step later steps still run: `continueOn`."),
    "handlers": Table(work.HANDLERS, "Commands that run after the steps: `handlers`."),
    "handler": Table(work.HANDLER, "One handler, if a command is not enough."),
    "sandbox": Table(work.SANDBOX, "What a process can see of its machine: `sandbox`.", ("kind",)),
    "param": Table(work.PARAM, "Type and limits of a parameter: a value of `params`."),
    "secret": Table(work.SECRET, "A secret: a value that is read when a run starts."),
    "condition": Table(work.CONDITION, "A condition: an item of `preconditions`."),
    "after": Table(job.AFTER, "The jobs that must end first: `after`.", ("jobs",)),
    "notify": Table(job.NOTIFY, "Who is notified of what: `notify`. `onFailure` is the same as `on_failure`."),
    "channel": Table(job.CHANNEL, "A channel of notifications; an address is a webhook."),
    "webhook": Table(job.WEBHOOK, "An address with headers, or a secret that contains the address."),
    "constraints": Table(job.CONSTRAINTS, "What must hold around a run: `constraints`."),
    "runsLimit": Table(job.RUNS_LIMIT, "`maxConcurrentRuns` with actions.", ("value",)),
    "timeLimit": Table(job.TIME_LIMIT, "`maxExpectedRunTime` or `maxAllowedRunTime` with actions.", ("value",)),
    "hook": Table(job.HOOK, "`preRunHook` or `postRunHook` with actions."),
    "requiredJobs": Table(job.REQUIRED_JOBS, "`requirePreviousSuccess` with actions."),
    "action": Table(
        job.ACTION, "What to do if a constraint does not hold; `retry`, `kill` and `skipNext` are plain words."
    ),
}


def job_schema() -> dict[str, Any]:
    """The schema of one job file."""
    root = _object(Table(job.JOB, "A job: what to run, when, and under which rules."))
    definitions = {name: _object(table) for name, table in TABLES.items()}
    notify = TABLES["notify"]
    both = {**notify.fields, **{_camel(name): field for name, field in notify.fields.items()}}
    definitions["notify"] = _object(notify._replace(fields=both))
    return {"$schema": DIALECT, "$id": SCHEMA_ID, "title": "Evertick job", **root, "$defs": definitions}


def _object(table: Table) -> dict[str, object]:
    shape: dict[str, object] = {
        "description": table.about,
        "type": "object",
        "properties": {name: _property(field) for name, field in table.fields.items()},
        "additionalProperties": False,
    }
    return {**shape, "required": list(table.needs)} if table.needs else shape


def _property(field: Field) -> dict[str, object]:
    about = f"{field.about} Default: {field.default}." if field.default else field.about
    examples = {} if field.example is None else {"examples": [field.example]}
    return {"description": about, **field.schema, **examples}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
