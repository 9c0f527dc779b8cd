"""Which share of the jobs a node may own: jobs hash into buckets, and nodes lease buckets."""

from __future__ import annotations

from typing import Final
from zlib import crc32

BUCKETS: Final = 64
"""Enough for dozens of nodes, few enough to lease all of them in one statement. Never changed: it is in the ledger."""


def bucket_of(job_id: str) -> int:
    """The bucket of a job: the same on every node, in every version."""
    return crc32(job_id.encode()) % BUCKETS
