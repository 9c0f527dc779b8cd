"""How a keeper tells the shards of a broadcast apart: each is a run of its own there, named after the whole."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from evertick.model.run import RunKey

_SUFFIX: Final = re.compile(r"\^(\d{1,6})\.(\d{1,6})\Z")
_SUFFIX_OF_ID: Final = re.compile(r"~?\^(\d{1,6})\.(\d{1,6})\Z")


class ShardOf(NamedTuple):
    number: int
    total: int


def shard_key(key: RunKey, number: int, total: int) -> RunKey:
    """By which a keeper knows a shard of a run."""
    return key._replace(origin=f"{key.origin}^{number}.{total}")


def split_key(key: RunKey) -> tuple[RunKey, ShardOf | None]:
    """The run, and which shard of it is meant; None: the whole."""
    found = _SUFFIX.search(key.origin)
    if found is None:
        return key, None
    return key._replace(origin=key.origin[: found.start()]), ShardOf(int(found[1]), int(found[2]))


def split_run_id(run_id: str) -> tuple[str, ShardOf | None]:
    found = _SUFFIX_OF_ID.search(run_id)
    return (run_id, None) if found is None else (run_id[: found.start()], ShardOf(int(found[1]), int(found[2])))
