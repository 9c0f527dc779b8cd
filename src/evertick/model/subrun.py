"""A step that is a run of another job, or an item that runs elsewhere: its request, its key, and its outcome."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from evertick.model.ids import digest
from evertick.model.lifecycle import RunState
from evertick.model.run import RunKey


class SubRunEnd(NamedTuple):
    """The outcome that a step receives of the run that it started."""

    state: RunState
    """The state in which that run ended; for a step that does not wait, `planned`: it is in the ledger."""
    detail: str = ""
    outputs: Mapping[str, str] = {}
    """The outputs of its steps, by step; one that the ledger does not have completely is left out."""
    steps: str = ""
    """Of an item: the record of its step, as `model.steps` writes them."""
    executor: str = ""
    """Of an item: where it ran."""


def sub_run_key(job_id: str, parent: RunKey, attempt: int, step: str, number: int) -> RunKey:
    """The run of another job, or of an item of this one, that one try of one step requests: always the same.

    It has the due time of its parent. Its origin is a digest: ids stay short however deep parents have parents.
    """
    return RunKey(job_id, parent.scheduled_for, f"sub-{digest(_cause(parent, attempt, step, number))}")


def old_sub_run_key(job_id: str, parent: RunKey, attempt: int, step: str, number: int) -> RunKey:
    """The key that versions up to 0.1 made: a step that was active during the upgrade waits for that run."""
    cause = _cause(parent, attempt, step, number).encode("utf-8", "surrogatepass")
    return RunKey(job_id, parent.scheduled_for, f"sub-{hashlib.sha256(cause).hexdigest()[:24]}")


def _cause(parent: RunKey, attempt: int, step: str, number: int) -> str:
    return f"{parent.run_id}\n{attempt}\n{step}\n{number}"
