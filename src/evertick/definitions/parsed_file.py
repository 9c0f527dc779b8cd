"""What a job file is called, how large it may be, and what parsing one results in.

A module apart from the parser, which is not loaded when the cache has the result of every file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from evertick.errors import DefinitionError
from evertick.model.job import Job

PIPELINE_NAMES: Final = ("pipeline.yaml", "pipeline.yml")
SIZE_MAX: Final = 1 << 20
"""Bytes, unless the settings say otherwise."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of one file; a job only if there is no error."""

    job: Job | None
    errors: tuple[DefinitionError, ...] = ()
    warnings: tuple[DefinitionError, ...] = ()
