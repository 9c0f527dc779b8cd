"""Finds where a failed run can be resumed: which steps can be kept, and when resuming is refused."""

from __future__ import annotations

import json

from evertick.errors import Conflict
from evertick.model.job import Job
from evertick.model.lifecycle import SUCCEEDED, Trigger
from evertick.model.plain_json import parse_json
from evertick.model.run import LedgerRow
from evertick.model.steps import SUCCEEDED as STEP_SUCCEEDED
from evertick.model.steps import StepRecord, digest_of, read_steps, steps_text

RESUME = "resume_from"
"""The parameter that only Evertick sets: the earlier run, its attempt, and its successful steps."""
NAMED_MAX = 5


def given_params(row: LedgerRow) -> str:
    """The parameters that a person gave: not those that resume the run, or are of a backfill's rule or an item."""
    if row.trigger in (Trigger.BACKFILL, Trigger.ITEM):
        return ""
    if RESUME not in row.params:
        return row.params
    given = read_params(row.params)
    given.pop(RESUME, None)
    return json.dumps(given) if given else ""


def resumed_from(row: LedgerRow) -> str | None:
    """The run that this one continues."""
    earlier = read_params(row.params).get(RESUME) if RESUME in row.params else None
    return str(earlier["run"]) if isinstance(earlier, dict) and "run" in earlier else None


def resume_params(row: LedgerRow, job: Job | None) -> str:
    """The parameters of a run that begins at the failed step; `Conflict` says why it cannot."""
    run_id = row.key.run_id
    whole = "Next: retry the whole run"
    if row.state is SUCCEEDED:
        raise Conflict(f"no step of {run_id} failed: the run succeeded. {whole}.")
    if job is None:
        raise Conflict(f"the job '{row.key.job_id}' no longer has a definition, so its steps cannot be resumed.")
    done = [step for step in read_steps(row.steps) if step.state == STEP_SUCCEEDED]
    done = [step for step in done if step.digest]  # handlers have none
    if not done:
        raise Conflict(f"no step of {run_id} has succeeded, so there is nothing to keep. {whole}.")
    current = {step.name: digest_of(step) for step in job.steps}
    # The digest of an item is that of its step, and of its value.
    changed = [one.name for one in done if current.get(one.item_of or one.name) != one.digest.partition(".")[0]]
    if changed:
        names = ", ".join(f"'{name}'" for name in changed[:NAMED_MAX]) + (", ..." if len(changed) > NAMED_MAX else "")
        what, have = ("step", "has") if len(changed) == 1 else ("steps", "have")
        raise Conflict(f"{what} {names} succeeded in {run_id} and {have} been changed or removed since. {whole}.")
    whole_steps = {step.name for step in done}
    done = [step for step in done if step.item_of not in whole_steps]  # its items are not asked for
    earlier = {"run": run_id, "attempt": row.attempt, "steps": json.loads(steps_text(map(_kept, done)))}
    given = read_params(given_params(row))
    return json.dumps({**given, RESUME: earlier})


def read_params(text: str) -> dict[str, object]:
    try:
        given = parse_json(text) if text else {}
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def _kept(step: StepRecord) -> StepRecord:
    """What the next run needs to know about a step."""
    return StepRecord(
        step.name,
        step.state,
        started_at=step.started_at,
        finished_at=step.finished_at,
        exit_code=step.exit_code,
        output=step.output,
        is_output_cut=step.is_output_cut,
        digest=step.digest,
        item_of=step.item_of,
    )
