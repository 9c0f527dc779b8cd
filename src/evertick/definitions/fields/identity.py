"""By which id a job is known for ever, and by which name it is shown."""

from __future__ import annotations

import re
from typing import Final

ID_MAX = 64
NAME_MAX = 200

_OUTSIDE: Final = re.compile(r"[^a-z0-9_.-]+")


def job_id_of(name: str) -> str:
    """Lower case; every run of characters outside a-z 0-9 _ . - is one '-'; no '-._' at the ends; may be empty."""
    return _OUTSIDE.sub("-", name.lower()).strip("-._")[:ID_MAX].strip("-._")
