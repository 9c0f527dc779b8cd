"""Validates what a member sends before it reaches the loop and the ledger.

A certificate lets a member in; its messages are checked all the same. A number in place of a text would be noticed only
by the store, which could then write nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.fleet.messages import Heartbeat
from evertick.executors.protocol import Message
from evertick.model.instant import DAY
from evertick.model.member import SLOTS_MAX, is_member_name
from evertick.model.plain_json import parse_json
from evertick.model.run import RunKey
from evertick.model.steps import TEXT_MAX

NUMBER_MAX: Final = 2**53
INSTANT_MAX: Final = 200 * 366 * DAY
"""The range of the ledger's times."""
WORDS_MAX: Final = 64 * 1024
STEPS_MAX: Final = 4 * TEXT_MAX


def attempt_id_of(words: Message) -> tuple[str, AttemptId, Message]:
    """The verb, the attempt and the other fields; `ValueError` if they are invalid."""
    verb, job_id, scheduled_for, origin, attempt, *rest = words
    key = RunKey(text_of(job_id), instant_of(scheduled_for), text_of(origin))
    return verb, AttemptId(key, _number(attempt, 0, NUMBER_MAX)), rest


def fence_of(words: Message) -> int | None:
    """The fence of a refused launch, or below which launches are refused; None from older members."""
    return _number(words[0], -1, NUMBER_MAX) if words else None


def finished_of(words: Message) -> protocol.Finished:
    """The end of an attempt; `ValueError` if it is invalid."""
    said = protocol.Finished(*words)
    instant_of(said.at)
    _number(said.serial, 0, NUMBER_MAX)
    if said.exit_code is not None:
        _number(said.exit_code, -(2**31), 2**31)
    for text in (said.state, said.detail, said.cause):
        text_of(text)
    if said.steps is not None:
        steps_of(said.steps)
    return said


def instant_of(at: object) -> int:
    return _number(at, 0, INSTANT_MAX)


def offset_of(offset: object) -> int:
    return _number(offset, 0, NUMBER_MAX)


def steps_of(text: object) -> str:
    return text_of(text, STEPS_MAX)


def sub_run_wanted_of(words: Message) -> tuple[str, int, str, str, bool]:
    """The sub-run that a step requests."""
    step, number, job_id, params, waits = words
    if not isinstance(waits, bool):
        raise ValueError("whether the step waits must be true or false")
    return text_of(step), _number(number, 1, NUMBER_MAX), text_of(job_id), params_of(params), waits


def params_of(text: object) -> str:
    """Names and plain values as JSON, or empty."""
    found = parse_json(text_of(text, STEPS_MAX)) if text else {}
    if not isinstance(found, dict) or any(isinstance(value, dict | list) for value in found.values()):
        raise ValueError("parameters must be names with plain values")
    return text_of(text, STEPS_MAX)


def sub_run_unwanted_of(words: Message) -> tuple[str, int, str]:
    step, number, job_id = words
    return text_of(step), _number(number, 1, NUMBER_MAX), text_of(job_id)


def text_of(text: object, longest: int = WORDS_MAX) -> str:
    # A store keeps UTF-8 only.
    if not isinstance(text, str) or len(text) > longest or "\0" in text:
        raise ValueError("not a text, or too long")
    text.encode()
    return text


def heartbeat_of(plain: Mapping[str, object]) -> Heartbeat:
    """A member's heartbeat; `ValueError` if it is invalid."""
    try:
        heartbeat = Heartbeat.from_plain(plain)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"not a heartbeat: {error}") from None
    if not isinstance(heartbeat.name, str) or not is_member_name(heartbeat.name):
        raise ValueError("a member must have a name")
    for name, value in heartbeat.labels:
        text_of(name, 1_000), text_of(value, 1_000)
    _number(heartbeat.slots, 0, SLOTS_MAX)
    _number(heartbeat.running, 0, NUMBER_MAX)
    _number(heartbeat.waiting, 0, heartbeat.running)
    _number(heartbeat.memory_bytes, 0, NUMBER_MAX)
    _number(heartbeat.clock, 0, NUMBER_MAX)
    _number(heartbeat.stamp, 0, NUMBER_MAX)
    _number(heartbeat.lease_us, 0, NUMBER_MAX)
    for name, amount in (*heartbeat.offers, *heartbeat.used):
        text_of(name, 1_000)
        _number(amount, 0, NUMBER_MAX)
    text_of(heartbeat.version, 1_000), text_of(heartbeat.incarnation, 1_000)
    if not all(isinstance(one, bool) for one in (heartbeat.is_leaving, heartbeat.answers_logs, heartbeat.runs_items)):
        raise ValueError("whether a member leaves and answers must be true or false")
    if not isinstance(heartbeat.is_open, bool) or not isinstance(heartbeat.cpu_percent, float | int):
        raise ValueError("a heartbeat must say whether the member is open, and how busy it is")
    return heartbeat


def _number(value: object, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"not a number from {least} to {most}")
    return value
