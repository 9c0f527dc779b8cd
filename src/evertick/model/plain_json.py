"""Reads JSON that a job, a member or another program wrote: the result is a value or a `ValueError`."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """As `json.loads`, which raises `RecursionError` for what is nested too deeply: a few thousand brackets are."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
