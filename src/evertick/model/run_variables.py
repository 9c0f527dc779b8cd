"""Which variables a run finds in its environment: a family of names that no setting shares."""

from __future__ import annotations

from typing import Final

FAMILY: Final = "EVERTICK_RUN_"
"""What each of them begins with. No setting's variable does; a test compares the two catalogues."""

RUN_ID: Final = "EVERTICK_RUN_ID"
JOB: Final = "EVERTICK_RUN_JOB"
STEP: Final = "EVERTICK_RUN_STEP"
ATTEMPT: Final = "EVERTICK_RUN_ATTEMPT"
SCHEDULED_FOR: Final = "EVERTICK_RUN_SCHEDULED_FOR"
SCHEDULED_FOR_UNIX: Final = "EVERTICK_RUN_SCHEDULED_FOR_UNIX"
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
    RUN_ID: "The id of the run. With the attempt it is a key for doing things once.",
    ATTEMPT: "The number of the attempt, from 1.",
    JOB: "The id of the job.",
    STEP: "The name of the step.",
    SCHEDULED_FOR: "The instant that the run was due, as RFC 3339 in UTC.",
    SCHEDULED_FOR_UNIX: "The same in seconds since 1970.",
    TRIGGER: "Why the run exists: `scheduler`, `catchup`, `manual`, `retry` and so on.",
    PREVIOUS_SUCCESS: "The instant for which the last successful run was due, if there was one.",
    PARAMS: "Everything that was given with the request, as JSON, if anything was.",
    SHARD_INDEX: "In a broadcast to the fleet: the number of this part, from 0.",
    SHARD_TOTAL: "In a broadcast to the fleet: the number of parts.",
    OUTCOME: "For handlers: how the steps ended, such as `succeeded`, `failed` or `cancelled`.",
    MODEL: "For a program that answers the questions of a pipeline: the model that is asked for, if one is.",
    BUNDLE: "On a fleet: the folder with the job's `bundle`.",
    MEMBER: "On a fleet: the name of the member that runs it.",
    MEMBER_LABELS: "On a fleet: the labels of that member, as JSON.",
    FENCE: "Grows with every change of the owner: refuse what comes with an older one.",
    HOME: "The state folder of the scheduler on this machine: `evertick` commands of a run find its ledger by it.",
    KEEPER: "Marks the processes of one state folder, by which they are found again.",
}
"""Each with what it holds; `docs/reference/run-variables.md` is made from it."""

_OLD_MARKS: Final = {
    b"EVERTICK_ATTEMPT": ATTEMPT.encode(),
    b"EVERTICK_KEEPER": KEEPER.encode(),
    b"EVERTICK_SHARD_INDEX": SHARD_INDEX.encode(),
}


def as_written_now(variable: bytes) -> bytes:
    """`NAME=value` under the name of today: processes that were started before an upgrade go on through it."""
    name, equals, value = variable.partition(b"=")
    return _OLD_MARKS.get(name, name) + equals + value
