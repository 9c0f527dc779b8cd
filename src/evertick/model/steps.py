"""The states of a run's steps, as its ledger entry stores them: a short text, however many steps there are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from evertick.model.instant import Instant
from evertick.model.plain_json import JsonObject, parse_json
from evertick.model.work import Step
from evertick.model.work_json import plain_of

DETAIL_MAX: Final = 500
OUTPUT_MAX: Final = 4_096
"""Characters of the output of one step; a longer one is cut here and complete only beside the step's log."""
ITEM_SHOWN_MAX: Final = 120
TEXT_MAX: Final = 256 * 1024
"""Characters for all steps together: beyond it outputs are dropped first, then details, then figures."""

RUNNING: Final = "running"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
LOST: Final = "lost"


class StepRecord(NamedTuple):
    """One step of one attempt; default values are not written."""

    name: str
    state: str
    """`running`, `succeeded`, `failed`, `skipped`, or `lost`: it was running when its keeper was killed."""
    attempt: int = 1
    """The attempt of the run; the attempts of the step itself are `tries`."""
    tries: int = 1
    started_at: Instant | None = None
    finished_at: Instant | None = None
    exit_code: int | None = None
    detail: str = ""
    """Why it failed, or why it was skipped; of one that did not fail by itself, why its run was ended."""
    output: str | None = None
    """Its output; None if it has none, or the output contains a secret."""
    is_output_cut: bool = False
    sub_run: str = ""
    """The run that it started, for a step that is a job."""
    reused_from: str = ""
    """The earlier run in which it succeeded; it was not repeated."""
    digest: str = ""
    """The digest of its definition, so that a later retry knows whether it is still the same step."""
    has_log: bool = False
    user_us: int = 0
    system_us: int = 0
    max_rss_bytes: int = 0
    item_of: str = ""
    """The step with `each` that it is an item of; its name is `step[0]` then."""
    item: str = ""
    """Its value, cut to `ITEM_SHOWN_MAX`; empty if that holds a secret."""
    executor: str = ""
    """Where it ran, for an item that ran elsewhere than its run."""


_DEFAULTS: Final = {**StepRecord("", "")._asdict(), "name": None, "state": None}
_TEXTS: Final = ("name", "state", "detail", "sub_run", "reused_from", "digest", "item_of", "item", "executor")
_KINDS: Final = {name: str if name in _TEXTS else int for name in _DEFAULTS} | {
    "output": str | None,
    **dict.fromkeys(("started_at", "finished_at", "exit_code"), int | None),
}
"""The type of each field: the text may come from another machine."""
_NUMBER_MAX: Final = 2**53
_FIGURES: Final = ("user_us", "system_us", "max_rss_bytes", "started_at", "finished_at")


def steps_text(records: Iterable[StepRecord]) -> str:
    """JSON that is never longer than `TEXT_MAX` by much, whatever the steps print and say."""
    plain = [step_plain(record) for record in records]
    text = _dumps(plain)
    for shorten in (_without_outputs, _without_details, _without_figures, _without_values):
        if len(text) <= TEXT_MAX:
            return text
        plain = [shorten(step) for step in plain]
        text = _dumps(plain)
    return text


def read_steps(text: str) -> tuple[StepRecord, ...]:
    """The records that `steps_text` wrote; invalid ones are ignored, and so are fields of a later version."""
    try:
        plain = parse_json(text) if text else []
    except ValueError:
        return ()
    found = plain if isinstance(plain, list) else []
    return tuple(record for step in found if (record := read_step(step)) is not None)


def read_step(plain: object) -> StepRecord | None:
    """One of these records; None: it is invalid."""
    if not isinstance(plain, dict) or not {"name", "state"} <= plain.keys():
        return None
    found = {name: value for name, value in plain.items() if name in _DEFAULTS}
    return StepRecord(**found) if all(_can_be(name, value) for name, value in found.items()) else None


def _can_be(name: str, value: object) -> bool:
    # A number outside of the ledger's range of times cannot be shown as a time.
    return isinstance(value, _KINDS[name]) and (not isinstance(value, int) or -_NUMBER_MAX <= value <= _NUMBER_MAX)


def digest_of(step: Step) -> str:
    """Changes whenever anything about the step does."""
    text = json.dumps(plain_of(step), sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def step_plain(record: StepRecord) -> JsonObject:
    plain = {name: value for name, value in record._asdict().items() if value != _DEFAULTS[name]}
    if "detail" in plain:
        plain["detail"] = cut(record.detail, DETAIL_MAX)
    if record.output is not None and len(record.output) > OUTPUT_MAX:
        plain["output"], plain["is_output_cut"] = record.output[:OUTPUT_MAX], True
    return plain


def _without_outputs(plain: JsonObject) -> JsonObject:
    return {**plain, "output": "", "is_output_cut": True} if plain.get("output") else plain


def _without_details(plain: JsonObject) -> JsonObject:
    return {**plain, "detail": cut(str(plain["detail"]), 60)} if "detail" in plain else plain


def _without_figures(plain: JsonObject) -> JsonObject:
    return {name: value for name, value in plain.items() if name not in _FIGURES}


def _without_values(plain: JsonObject) -> JsonObject:
    return {name: value for name, value in plain.items() if name != "item"}


_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode
