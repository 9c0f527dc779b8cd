"""How answers about job files look."""

from __future__ import annotations

from evertick.api.models_base import Shape
from evertick.api.models_jobs import DefinitionProblem


class DefinitionFile(Shape):
    job: str
    file: str
    text: str


class DefinitionFiles(Shape):
    items: list[DefinitionFile]


class Validated(Shape):
    job: str | None
    errors: list[DefinitionProblem]
    warnings: list[DefinitionProblem]


class WrittenDefinition(Shape):
    job: str
    file: str


class ImportNote(Shape):
    line: int | None
    text: str


class ImportFile(Shape):
    name: str
    text: str


class ImportedFiles(Shape):
    files: list[ImportFile]
    notes: list[ImportNote]
