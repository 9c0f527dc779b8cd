"""The earlier attempts of a run and their outcomes: a short text in its ledger entry."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from evertick.model.instant import Instant
from evertick.model.plain_json import JsonObject, parse_json
from evertick.model.steps import StepRecord, cut, read_step, step_plain

ATTEMPTS_MAX: Final = 20
"""Of more, the newest are kept."""
TEXT_MAX: Final = 64 * 1024
"""Characters for all of them; beyond it the oldest are dropped first."""
DETAIL_MAX: Final = 200


class AttemptRecord(NamedTuple):
    attempt: int
    state: str
    """`failed`, `timed_out` or `lost`."""
    started_at: Instant | None = None
    finished_at: Instant | None = None
    exit_code: int | None = None
    detail: str = ""
    executor: str = ""
    definition: str = ""
    """The digest under which the ledger has the definition of its job."""
    steps: tuple[StepRecord, ...] = ()
    """Without their outputs."""
    loss: str = ""
    """For a lost attempt: why, a word of `LossReason`."""


def with_attempt(text: str, ended: AttemptRecord) -> str:
    """The earlier attempts and one more; repeated, it is there once."""
    kept = [one for one in read_attempts(text) if one.attempt != ended.attempt]
    plain = [_plain(one) for one in (*kept, ended)][-ATTEMPTS_MAX:]
    written = _dumps(plain)
    while len(written) > TEXT_MAX and len(plain) > 1:
        del plain[0]
        written = _dumps(plain)
    # One attempt of very many steps: its times are worth more than nothing.
    return written if len(written) <= TEXT_MAX else _dumps([{**plain[0], "steps": []}])


def read_attempts(text: str) -> tuple[AttemptRecord, ...]:
    """The records that `with_attempt` wrote, oldest first; invalid ones are ignored."""
    try:
        plain = parse_json(text) if text else []
    except ValueError:
        return ()
    found = plain if isinstance(plain, list) else []
    return tuple(record for one in found if (record := _record(one)) is not None)


_DEFAULTS: Final = AttemptRecord(0, "")._asdict()


def _plain(record: AttemptRecord) -> JsonObject:
    plain = {name: value for name, value in record._asdict().items() if value != _DEFAULTS[name]}
    if "detail" in plain:
        plain["detail"] = cut(record.detail, DETAIL_MAX)
    if record.steps:
        plain["steps"] = [step_plain(_brief(step)) for step in record.steps]
    return plain


def _brief(step: StepRecord) -> StepRecord:
    return step._replace(output=None, is_output_cut=False, detail=cut(step.detail, DETAIL_MAX), digest="")


def _record(plain: object) -> AttemptRecord | None:
    if not isinstance(plain, dict) or not {"attempt", "state"} <= plain.keys():
        return None
    known = {name: value for name, value in plain.items() if name in _DEFAULTS and name != "steps"}
    steps = tuple(step for one in plain.get("steps", ()) if (step := read_step(one)) is not None)
    return AttemptRecord(**known, steps=steps)


_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode
