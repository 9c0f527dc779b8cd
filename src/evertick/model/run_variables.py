"""Which environment variables a run has; no setting uses their prefix."""

from __future__ import annotations

from typing import Final

FAMILY: Final = "EVERTICK_RUN_"
"""Their prefix. No variable of a setting has it; a test compares the two lists."""

RUN_ID: Final = "EVERTICK_RUN_ID"
JOB: Final = "EVERTICK_RUN_JOB"
STEP: Final = "EVERTICK_RUN_STEP"
ITEM: Final = "EVERTICK_RUN_ITEM"
INDEX: Final = "EVERTICK_RUN_INDEX"
PARENT: Final = "EVERTICK_RUN_PARENT"
ATTEMPT: Final = "EVERTICK_RUN_ATTEMPT"
SCHEDULED_FOR: Final = "EVERTICK_RUN_SCHEDULED_FOR"
SCHEDULED_FOR_UNIX: Final = "EVERTICK_RUN_SCHEDULED_FOR_UNIX"
SCHEDULED_FOR_LOCAL: Final = "EVERTICK_RUN_SCHEDULED_FOR_LOCAL"
TIMEZONE: Final = "EVERTICK_RUN_TIMEZONE"
DATE: Final = "EVERTICK_RUN_DATE"
HOUR: Final = "EVERTICK_RUN_HOUR"
PREVIOUS: Final = "EVERTICK_RUN_PREVIOUS"
NEXT: Final = "EVERTICK_RUN_NEXT"
TRIGGER: Final = "EVERTICK_RUN_TRIGGER"
PREVIOUS_SUCCESS: Final = "EVERTICK_RUN_PREVIOUS_SUCCESS"
PARAMS: Final = "EVERTICK_RUN_PARAMS"
SHARD_INDEX: Final = "EVERTICK_RUN_SHARD_INDEX"
SHARD_TOTAL: Final = "EVERTICK_RUN_SHARD_TOTAL"
OUTCOME: Final = "EVERTICK_RUN_OUTCOME"
MODEL: Final = "EVERTICK_RUN_MODEL"
FENCE: Final = "EVERTICK_RUN_FENCE"
BUNDLE: Final = "EVERTICK_RUN_BUNDLE"
MEMBER: Final = "EVERTICK_RUN_MEMBER"
MEMBER_LABELS: Final = "EVERTICK_RUN_MEMBER_LABELS"
HOME: Final = "EVERTICK_RUN_HOME"
KEEPER: Final = "EVERTICK_RUN_KEEPER"

RUN_VARIABLES: Final[dict[str, str]] = {
    RUN_ID: "The id of the run. The same for all attempts: use it as an idempotency key.",
    ATTEMPT: "The number of the attempt, from 1.",
    JOB: "The id of the job.",
    STEP: "The name of the step; for an item of a step with `each`, `step[0]`.",
    ITEM: (
        "For an item of a step with `each`: its value; a map or a combination of a matrix as JSON, "
        "with each part as `EVERTICK_RUN_ITEM_<NAME>` too."
    ),
    INDEX: "The place of the item in the list, from 0.",
    PARENT: (
        "For an item of a step with `each`: the id of the run that it belongs to. An item that runs on another member "
        "has an `EVERTICK_RUN_ID` of its own; elsewhere the two are the same."
    ),
    SCHEDULED_FOR: "The time the run is due, as RFC 3339 in UTC.",
    SCHEDULED_FOR_UNIX: "The same in seconds since 1970.",
    SCHEDULED_FOR_LOCAL: "The same in the zone of the job, with its offset.",
    TIMEZONE: "The zone of the job.",
    DATE: "The date the run is for, in the zone of the job: `2026-03-02`.",
    HOUR: "Its hour in the zone of the job, `00` to `23`.",
    PREVIOUS: "The occurrence before it, as RFC 3339 in UTC, if the job has a schedule.",
    NEXT: "The occurrence after it, if there is one.",
    TRIGGER: "The [trigger](lifecycle.md#triggers): `scheduler`, `catchup`, `manual`, `retry`, …",
    PREVIOUS_SUCCESS: "The due time of the last successful run, if there is one.",
    PARAMS: "All parameters of the request as JSON, if there are any.",
    SHARD_INDEX: "In a broadcast to the fleet: the number of this shard, from 0.",
    SHARD_TOTAL: "In a broadcast to the fleet: the number of shards.",
    OUTCOME: "For handlers: the result of the steps, such as `succeeded`, `failed` or `cancelled`.",
    MODEL: "For the `invoker` of a pipeline: the requested model, if any.",
    BUNDLE: "On a fleet: the folder with the job's `bundle`.",
    MEMBER: "On a fleet: the name of the member.",
    MEMBER_LABELS: "On a fleet: the labels of the member, as JSON.",
    FENCE: "A fencing token: it grows with every launch and change of ownership. Reject writes with an older one.",
    HOME: "The state folder of the scheduler; `evertick` commands inside a run use it to find the ledger.",
    KEEPER: "Marks the processes of one state folder, so that the keeper finds them.",
}
"""Each with its content; `docs/reference/run-variables.md` is generated from it."""

_OLD_MARKS: Final = {
    b"EVERTICK_ATTEMPT": ATTEMPT.encode(),
    b"EVERTICK_KEEPER": KEEPER.encode(),
    b"EVERTICK_SHARD_INDEX": SHARD_INDEX.encode(),
}


def as_written_now(variable: bytes) -> bytes:
    """`NAME=value` under the current name: processes that started before an upgrade continue after it."""
    name, equals, value = variable.partition(b"=")
    return _OLD_MARKS.get(name, name) + equals + value
