"""How a job's work travels to a keeper, and which secrets must travel with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import NamedTuple

from evertick.model.steps import digest_of
from evertick.model.work import Pod, Secret, Work
from evertick.model.work_json import from_plain, to_plain


def encode_work(work: Work) -> str:
    return json.dumps(to_plain(work), separators=(",", ":"))


class Decoded(NamedTuple):
    work: Work
    secrets: tuple[Secret, ...]
    digests: dict[str, str]
    """Of each step, by its name."""


@lru_cache(maxsize=1_024)
def decode_work(text: str) -> Decoded:
    """Kept, because a job's work arrives again with each of its runs."""
    work = from_plain(json.loads(text))
    return Decoded(work, tuple(secrets_of(work)), {step.name: digest_of(step) for step in work.steps})


def variables_of(work: Work) -> tuple[str, ...]:
    """The variables of the scheduler that a keeper needs for this work, and is not given otherwise."""
    names = {secret.name for secret in secrets_of(work) if secret.source == "env"}
    if any(isinstance(step.kind, Pod) for step in work.all_steps):
        from evertick.kinds.kubernetes.program import ACCESS

        names |= set(ACCESS)
    return tuple(sorted(names))


def secrets_of(value: object) -> Iterator[Secret]:
    """Every secret that the work names, wherever it stands."""
    if isinstance(value, Secret):
        yield value
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from secrets_of(getattr(value, field.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from secrets_of(part)
