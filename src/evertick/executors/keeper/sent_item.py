"""An item that runs on another member than its run: what is sent with it, and what its result may be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from evertick.executors.keeper.attempt_state import StepEnd
from evertick.executors.keeper.environment import ITEM_OF, parse_params
from evertick.executors.protocol import LaunchMessage
from evertick.kinds import StepError
from evertick.model.instant import Instant
from evertick.model.lifecycle import SUCCEEDED, Trigger
from evertick.model.plain_json import parse_json
from evertick.model.steps import OUTPUT_MAX, StepRecord, read_steps
from evertick.model.subrun import SubRunEnd
from evertick.model.work import Item, ItemValue, Step
from evertick.planning.workflow import StepOutcome

SENT_MAX: Final = 32 * 1024
"""Characters that are sent with one item: the ledger keeps them for each."""


class SentItem(NamedTuple):
    """One item, and what its member needs of the run that it belongs to."""

    item: Item
    parent: str
    """The id of the run."""
    trigger: str
    params: str
    previous_success_at: Instant | None
    outputs: Mapping[str, str]
    """What earlier steps handed on, by variable."""
    work: str
    """A digest of the work: with another definition, another member would run another step."""

    def to_params(self) -> str:
        """The parameters of the item's run; the values are plain, as those of every run."""
        item = self.item
        plain = {
            **self._asdict(),
            "item": [item.step, item.number, item.value.text, [list(part) for part in item.value.fields]],
            "outputs": dict(self.outputs),
        }
        return json.dumps({ITEM_OF: json.dumps(plain, separators=(",", ":"), ensure_ascii=False)}, ensure_ascii=False)

    def launch_of(self, launch: LaunchMessage) -> LaunchMessage:
        """The launch as its processes see it: with the trigger and the parameters of the parent."""
        told = {"trigger": self.trigger, "params": self.params, "previous_success_at": self.previous_success_at}
        return replace(launch, **told)  # type: ignore[arg-type]


def digest_of_work(launch: LaunchMessage) -> str:
    return hashlib.sha256(launch.work.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def sent_item_of(launch: LaunchMessage) -> SentItem | None:
    """The item that an attempt is about; None: it is about a whole run. `StepError` if it cannot be read."""
    if launch.trigger != Trigger.ITEM:
        return None
    try:
        plain = parse_json(str(parse_params(launch.params)[ITEM_OF]))
        assert isinstance(plain, dict)
        step, number, text, fields = plain.pop("item")
        item = Item(str(step), int(number), ItemValue(str(text), tuple((str(one), str(two)) for one, two in fields)))
        return SentItem(item, **plain)
    except (KeyError, ValueError, TypeError, AssertionError):
        raise StepError("the item that its run sent cannot be read.") from None


def why_not_whole(step: Step, record: StepRecord | StepEnd) -> str | None:
    """Why the output of an item that ran elsewhere does not arrive; None: it does."""
    if step.output is None or (record.output is not None and not record.is_output_cut):
        return None
    keep = "Keep the items together with 'each: {spread: false}'"
    if record.output is None:
        return f"its output holds a secret, which cannot leave its member. {keep}."
    reason = f"its output has more than {OUTPUT_MAX:,} characters, and the run of an item hands on no more."
    return f"{reason} {keep}, or print the name of a file."


def end_of(step: Step, run_id: str, end: SubRunEnd, started_at: Instant, now: Instant) -> tuple[StepEnd, str | None]:
    """How an item ended whose run has ended, and its output."""
    found = next((record for record in read_steps(end.steps) if record.name == step.name), None)
    is_good = end.state is SUCCEEDED and found is not None and found.state == StepOutcome.SUCCEEDED
    record = found or StepRecord(step.name, StepOutcome.FAILED)
    reason = record.detail if found is not None and found.state == StepOutcome.FAILED else ""
    detail = "" if is_good else reason or f"run {run_id} ended as {end.state}{f': {end.detail}' if end.detail else ''}"
    problem = why_not_whole(step, record) if is_good else None
    outcome = StepOutcome.SUCCEEDED if is_good and problem is None else StepOutcome.FAILED
    told = StepEnd(
        step.name,
        outcome,
        record.started_at or started_at,
        record.finished_at or now,
        record.exit_code,
        record.tries,
        record.user_us,
        record.system_us,
        record.max_rss_bytes,
        problem or detail,
        has_log=record.has_log,
        executor=end.executor,
    )
    return told, None if record.is_output_cut else record.output
