"""The options of a job in code: the fields of a job file, with the values that Python has for them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Final, TypeAlias, TypedDict

Duration: TypeAlias = str | timedelta
"""`2d12h`, or a `timedelta`."""


class JobFields(TypedDict, total=False):
    """What a job file could say too; an option that is None counts as not given."""

    cron: str | Sequence[str] | None
    every: Duration | Sequence[Duration] | None
    at: datetime | str | Sequence[datetime | str] | None
    timezone: str | None
    calendar: Mapping[str, str | Sequence[str]] | None
    name: str | None
    catchup_window: Duration | None
    missed: str | None
    overlap: str | None
    overlap_policy: str | None
    misfire: str | None
    retries: int | None
    retry_delay: Duration | None
    backoff: str | None
    timeout: Duration | None
    max_delay: Duration | int | None
    grace: Duration | None
    jitter: Duration | None
    skip_if_successful: bool | None
    expect_by: str | time | None
    expect_within: Duration | None
    on_executor_lost: str | None
    after: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None
    executor: str | None
    runs_on: Mapping[str, str | bool | int] | Sequence[str] | str | None
    routing: str | None
    resources: Mapping[str, str | int | float] | None
    bundle: str | Path | None
    queue: str | None
    priority: int | None
    tags: Collection[str] | None
    enabled: bool | None
    description: str | None


class JobOptions(JobFields, total=False):
    """The options of `Scheduler.job`, `add` and `modify`."""

    isolation: str | None
    """Where a function runs: `thread`, `process` or `loop`. Only code has it."""


FIELD_NAMES: Final = tuple(JobFields.__annotations__)
